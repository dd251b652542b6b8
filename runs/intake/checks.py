"""Decides whether something may be started: the one place for messages, chains, child runs,
retries, schedules and triggers.

Budgets are checked when the run begins and before each model call: `runs/queue/budgets.py`.
"""

from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.utils.translation import gettext_noop as _

from agents import roles, schema
from agents.exceptions import Conflict, Invalid
from agents.models import Agent, AgentSpec, AgentVersion, Chain, ChainVersion, Provider
from agents.models.team import is_open
from agents.spec import ChainSpec
from plumbing import clock
from runs.exceptions import BrokenInput, NotPublished, ProviderDisabled, RunEmptied, RunEnded
from runs.models import Run
from runs.models.run import EMPTIED

Target = TypeVar("Target", Agent, Chain)


def check_usable(target: Target, user: Any) -> Target:
    """Raises Invalid if the person may start nothing any more, or can no longer use the target.

    Since it was chosen, the target may have been unshared or deleted.
    """
    if not roles.allows(user, roles.ACT):
        raise Invalid(
            _("The role of %(user)s on this site does not allow starting runs.") % {"user": user}, code="role_forbids"
        )
    if not type(target)._default_manager.usable_by(user).filter(pk=target.pk).exists():  # type: ignore[attr-defined]
        raise Invalid(
            _("“%(target)s” can no longer be used by %(user)s.") % {"target": target, "user": user},
            code="target_not_visible",
        )
    return target


def require_shared(run: Run, *rows: Agent | Chain | Provider | None) -> None:
    """Raises RunEnded(not_shared) unless the run's person may still use these rows.

    What is the person's own, or the site's, costs no query; what a team shares is read anew.
    """
    for row in rows:
        if row is None or row.owner_id == run.principal_id:
            continue
        is_of_site = row.owner_id is None and row.team_id is None
        if is_of_site:
            continue
        rows_of_kind: Any = type(row)._default_manager
        place = rows_of_kind.filter(pk=row.pk).values_list("owner_id", "team_id").first()
        if place is None or not is_open(place[0], place[1], run.principal_id):
            kind = row._meta.verbose_name_raw
            raise RunEnded(Run.Status.FAILED, "not_shared", f"the {kind} “{row}” is not shared with the run's person")


def version_of_agent(agent: Agent, version: AgentVersion | int | None = None) -> AgentVersion:
    """The version of an agent that will run; by default the published one.

    Raises NotPublished, ProviderDisabled, Invalid.
    """
    requested_version = find_requested_version(agent, version)
    if not agent.provider.enabled:
        raise ProviderDisabled(
            _("The provider “%(provider)s” is switched off.") % {"provider": agent.provider.name},
            hint=_("Switch it on, or choose another provider."),
        )
    return requested_version


def version_of_chain(chain: Chain, version: ChainVersion | int | None = None) -> ChainVersion:
    """The version of a chain that will run; by default the published one. Raises NotPublished, Invalid."""
    return find_requested_version(chain, version)


def find_requested_version(target: Agent | Chain, version: Any) -> Any:
    """The version with this number, or this version, or the published one (None). Raises NotPublished, Invalid."""
    if isinstance(version, int):
        number = version
        version = target.versions.filter(number=number).first()
        if version is None:
            raise Invalid(
                _("“%(name)s” has no version %(number)s.") % {"name": target.name, "number": number},
                code="unknown_version",
            )
    version = version or target.published
    if version is not None:  # so that the version does not load its agent or chain again
        setattr(version, target._meta.model_name, target)
    if version is None or not target.enabled:
        kind = type(target).__name__
        raise NotPublished(
            _("%(kind)s “%(target)s” has no published version, or is switched off.")
            % {"kind": _(kind), "target": target.name},
            hint=_("Publish it with POST %(path)s.") % {"path": f"/api/v1/{kind.lower()}s/{target.name}/publish"},
        )
    return version


def check_input(spec: AgentSpec | ChainSpec | None, input: Any) -> None:
    """Raises BrokenInput if the input does not match the agent's or chain's schema."""
    if spec is None or not spec.input_schema:
        return
    problems = schema.validate(spec.input_schema, {} if input is None else input)
    if problems:
        kind = "chains" if isinstance(spec, ChainSpec) else "agents"
        details = [
            {"field": f"input{problem['path']}", "code": "schema", "message": problem["message"]}
            for problem in problems
        ]
        raise BrokenInput(
            _("The input of “%(spec)s” does not match its schema: %(message)s")
            % {"spec": spec.name, "message": problems[0]["message"]},
            hint=_("GET %(path)s shows input_schema.") % {"path": f"/api/v1/{kind}/{spec.name}"},
            details=details,
        )


def deadline(
    spec: AgentSpec | ChainSpec | None, timeout: float | None = None, *, parent: Run | None = None
) -> datetime:
    """The run's deadline: the shortest of all limits, and never after its parent's."""
    limits = [settings.MAX_RUN_S, spec.timeout_s if spec else None, timeout]
    shortest_s = min(limit for limit in limits if limit)
    until = clock.near() + timedelta(seconds=shortest_s)
    if parent and parent.deadline:
        return min(until, parent.deadline)
    return until


def check_depth(parent: Run, agent: Agent) -> None:
    """Raises Conflict if this run may not call this agent: nested too deeply, or already at work above the run."""
    limit = depth_limit(parent)
    if parent.depth + 1 > limit:
        raise Conflict(
            _("Agents can be nested %(limit)s deep here.") % {"limit": limit},
            code="too_deep",
            hint=_("Raise max_agent_depth of the first agent, or let one agent do more of the work."),
        )
    if agent.pk in {run.agent_id for run in lineage(parent)}:
        raise Conflict(
            _("Agent “%(agent)s” is already working above this call.") % {"agent": agent.name},
            code="cycle",
            hint=_("An agent cannot call itself, nor one that called it. Give the work to another agent."),
        )


def depth_limit(run: Run) -> int:
    """How deep agents may be nested: the root agent's limit, which a variable of the run's session can only lower."""
    root = run
    if run.root_id:
        root = Run.objects.select_related("version").get(pk=run.root_pk)
    limit = settings.MAX_AGENT_DEPTH
    if root.version:
        limit = root.version.read_spec().max_agent_depth
    if run.session is not None and "max_agent_depth" in run.session.variables:
        limit = min(limit, int(run.session.variables["max_agent_depth"]))
    return limit


def check_nesting(parent: Run, chain: Chain) -> None:
    """Raises Conflict if this run may not start this chain.

    It may within `max_chain_depth` of every agent and chain above, and not below a run of the same chain.
    """
    below = 1  # how many chains are nested below `run` in the loop, with the new one
    for run in lineage(parent):
        version = run.chain_version or run.version
        spec = version.read_spec() if version else None
        if spec is not None and below > spec.max_chain_depth:
            raise Conflict(
                _("Chain “%(chain)s” would be nested %(depth)s deep below “%(above)s”, which allows %(most)s.")
                % {"chain": chain.name, "depth": below, "above": spec.name, "most": spec.max_chain_depth},
                code="too_deep",
                hint=_("Raise its max_chain_depth (10 at most), or flatten."),
            )
        if run.chain_version_id:
            if run.chain_version.chain_id == chain.pk:
                raise Conflict(
                    _("Chain “%(chain)s” is already working above this call.") % {"chain": chain.name},
                    code="cycle",
                    hint=_("A chain cannot start itself, directly or through others. Take the step out of the circle."),
                )
            below += 1


def lineage(run: Run | None) -> list[Run]:
    """This run and its ancestors, nearest first."""
    runs: list[Run] = []
    while run is not None:
        runs.append(run)
        run = run.parent
    return runs


def check_ended(run: Run) -> None:
    """Raises Conflict unless the run has ended and holds what it did: only then can it be started again."""
    if not run.is_done:
        raise Conflict(_("This run has not ended."), hint=_("Cancel it first, or wait."))
    if run.metadata.get(EMPTIED):
        raise RunEmptied(hint=_("Start another one."))
