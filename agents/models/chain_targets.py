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
        named = {
            kind: {step.target for step in steps if step.target_kind == kind} for kind in ("agent", "tool", "chain")
        }
        self.rows: dict[str, dict[str, Any]] = {
            "agent": self.named(Agent.objects.select_related("published"), named["agent"]),
            "tool": self.named(Tool.objects.all(), named["tool"]),
            "chain": self.named(type(chain).objects.select_related("published"), named["chain"]),
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
        problems = [self.problem_of(step, granted) for step in spec.steps]
        return [problem for problem in problems if problem] + self.policy_problems(spec) + self.depth_problems(spec)

    def problem_of(self, step: StepSpec, granted: set[int]) -> Problem | None:
        if step.target_kind == "router":
            return None
        row = self.rows[step.target_kind].get(step.target)
        if row is None:
            return Problem(
                step.key, "unknown_target",
                f"Step “{step.key}” names the {step.target_kind} “{step.target}”, which does not exist.",
                "Check the name; the chain's owner must be able to use it.",
            )  # fmt: skip
        if step.target_kind == "tool":
            return None if row.pk in granted else Problem(
                step.key, "no_grant", f"Step “{step.key}” calls “{step.target}”, which is not granted to this chain.",
                f'Add {{"tool": "{step.target}", "mode": "allow"}} to the chain\'s grants.',
            )  # fmt: skip
        if step.target_version and not row.versions.filter(number=step.target_version).exists():
            return Problem(step.key, "unknown_version", f"“{step.target}” has no version {step.target_version}.")
        if not step.target_version and row.published_id is None and row.pk != self.chain.pk:
            return Problem(
                step.key, "not_published",
                f"Step “{step.key}”: {step.target_kind} “{step.target}” has no published version.",
                "Publish it first.",
            )  # fmt: skip
        return None

    def policy_problems(self, spec: ChainSpec) -> list[Problem]:
        """A policy with an unknown tool name is an error: it would block or allow another tool than
        intended.
        """
        named = {step.key: named_tools(step.policy) - {"complete"} for step in spec.steps}
        tool_names = set().union(*named.values())
        tools = self.named(Tool.objects.all(), tool_names) if tool_names else {}
        return [
            Problem(
                key, "unknown_tool", f"The policy of step “{key}” names the tool “{name}”, which does not exist.",
                "Check the name; the chain's owner must be able to use it.",
            )
            for key, names in named.items() for name in sorted(names - tools.keys())
        ]  # fmt: skip

    def depth_problems(self, spec: ChainSpec) -> list[Problem]:
        """Nested chains must not form a circle or exceed the chain's depth."""
        problems = []
        for step in spec.steps:
            row = self.rows["chain"].get(step.target) if step.target_kind == "chain" else None
            if row is None:
                continue
            depth = measure_depth(row, step.target_version, {self.chain.pk})
            if depth is None:
                problems.append(
                    Problem(step.key, "cycle", f"Step “{step.key}” runs “{step.target}”, which runs this chain again.")
                )
            elif depth > spec.max_chain_depth:
                problems.append(
                    Problem(
                        step.key,
                        "too_deep",
                        f"Step “{step.key}” nests chains {depth} deep; this chain allows {spec.max_chain_depth}.",
                        "Raise max_chain_depth (10 at most), or flatten.",
                    )  # fmt: skip
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
