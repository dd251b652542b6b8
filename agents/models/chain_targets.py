"""What the steps of a chain point at: agents, tools and other chains, and the problems with them."""

from typing import Any

from agents.graph import Problem
from agents.spec import ChainSpec, StepSpec, ToolPolicy

from .agent import Agent
from .tool import Tool


class Targets:
    """What the steps of one chain point at, found for the chain's owner: own, then the site's, then a team's."""

    def __init__(self, chain: Any, steps: list[Any]) -> None:
        self.chain = chain
        names: dict[str, set[str]] = {"agent": set(), "tool": set(), "chain": set()}
        for step in steps:
            # A router has no target of its own.
            if step.target_kind in names:
                names[step.target_kind].add(step.target)
        chains = type(chain).objects.select_related("published")
        self.rows: dict[str, dict[str, Any]] = {
            "agent": self.named(Agent.objects.select_related("published"), names["agent"]),
            "tool": self.named(Tool.objects.all(), names["tool"]),
            "chain": self.named(chains, names["chain"]),
        }

    def named(self, rows: Any, names: set[str]) -> dict[str, Any]:
        owner = self.chain.owner
        if owner is None:
            return {row.name: row for row in rows.filter(name__in=names, owner=None, team=None)}
        return rows.usable_by(owner).meant(owner, names)

    def find(self, step: Any) -> int | None:
        row = self.rows.get(step.target_kind, {}).get(step.target)
        return row.pk if row else None

    def problems(self, spec: ChainSpec) -> list[Problem]:
        granted = {grant.tool_id for grant in spec.grants}
        problems: list[Problem] = []
        for step in spec.steps:
            problem = self.problem_of(step, granted)
            if problem is not None:
                problems.append(problem)
        return problems + self.policy_problems(spec) + self.depth_problems(spec)

    def problem_of(self, step: StepSpec, granted: set[int]) -> Problem | None:
        if step.target_kind == "router":
            return None
        key = step.key
        target = step.target
        row = self.rows[step.target_kind].get(target)
        if row is None:
            message = f"Step “{key}” names the {step.target_kind} “{target}”, which does not exist."
            return Problem(key, "unknown_target", message, "Check the name; the chain's owner must be able to use it.")
        if step.target_kind == "tool":
            if row.pk in granted:
                return None
            message = f"Step “{key}” calls “{target}”, which is not granted to this chain."
            hint = f'Add {{"tool": "{target}", "mode": "allow"}} to the chain\'s grants.'
            return Problem(key, "no_grant", message, hint)
        if step.target_version:
            if row.versions.filter(number=step.target_version).exists():
                return None
            return Problem(key, "unknown_version", f"“{target}” has no version {step.target_version}.")
        # A chain that runs itself is reported as a circle.
        if row.published_id is None and row.pk != self.chain.pk:
            message = f"Step “{key}”: {step.target_kind} “{target}” has no published version."
            return Problem(key, "not_published", message, "Publish it first.")
        return None

    def policy_problems(self, spec: ChainSpec) -> list[Problem]:
        """A policy with an unknown tool name is an error: it would block or allow another tool than
        intended.
        """
        # `complete` is the runner's own.
        names_by_step = {step.key: named_tools(step.policy) - {"complete"} for step in spec.steps}
        all_names = set().union(*names_by_step.values())
        if not all_names:
            return []
        tools = self.named(Tool.objects.all(), all_names)
        hint = "Check the name; the chain's owner must be able to use it."
        problems = []
        for key, names in names_by_step.items():
            for name in sorted(names - tools.keys()):
                message = f"The policy of step “{key}” names the tool “{name}”, which does not exist."
                problems.append(Problem(key, "unknown_tool", message, hint))
        return problems

    def depth_problems(self, spec: ChainSpec) -> list[Problem]:
        """Nested chains must not form a circle or exceed the chain's depth."""
        problems = []
        for step in spec.steps:
            row = self.rows["chain"].get(step.target) if step.target_kind == "chain" else None
            if row is None:
                continue
            depth = measure_depth(row, step.target_version, {self.chain.pk})
            if depth is None:
                message = f"Step “{step.key}” runs “{step.target}”, which runs this chain again."
                problems.append(Problem(step.key, "cycle", message))
            elif depth > spec.max_chain_depth:
                message = f"Step “{step.key}” nests chains {depth} deep; this chain allows {spec.max_chain_depth}."
                problems.append(
                    Problem(step.key, "too_deep", message, "Raise max_chain_depth (10 at most), or flatten.")
                )
        return problems


def named_tools(policy: ToolPolicy) -> set[str]:
    return {*(policy.allowed or ()), *policy.blocked, *policy.ask}


def measure_depth(chain: Any, number: int | None, above: set[int]) -> int | None:
    """How deep chains nest from here, 1 for a chain without nested ones; None for a circle."""
    if chain.pk in above:
        return None
    version = chain.versions.filter(number=number).first() if number else chain.published
    deepest = 0
    for step in version.read_spec().steps if version else []:
        below = type(chain).objects.select_related("published").filter(pk=step.target_id).first()
        if step.target_kind != "chain" or below is None:
            continue
        depth = measure_depth(below, step.target_version, above | {chain.pk})
        if depth is None:
            return None
        deepest = max(deepest, depth)
    return deepest + 1
