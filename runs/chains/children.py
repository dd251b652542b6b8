"""Steps with runs of their own: an agent, an agent chosen by the router, another chain."""

from typing import Any

from agents import schema
from agents.exceptions import MusterError, NewerFormat
from agents.models import Agent, Chain
from agents.spec import ChainSpec, StepSpec
from agents.tools import ToolFailed
from registry.routing import router
from runs.calls import bindings, routing
from runs.intake import chains, checks, children
from runs.intake.children import own_input
from runs.intake.parts import parse_run_ids
from runs.models import Run, StepRun
from runs.queue.locks import hold_run

from . import steps
from .coverage import find_coverage_error
from .steps import StepFailed

KINDS = frozenset(["agent", "chain", "router"])


def start_child(
    run: Run, spec: ChainSpec, step: StepSpec, row: StepRun, input: dict[str, Any], scope: dict[str, Any]
) -> bool:
    """Create the agent's or chain's run and the row that waits for it in one transaction. False:
    another worker was first.
    """
    require_approved(run, step)
    try:
        if step.target_kind == "chain":
            start = chain_starter(run, step, input)
        else:
            step_options = steps.map_step_options(step, row, scope)
            sources = steps.map_step_context(run, step, row, scope)
            session = choose_step_session(run, spec, step)
            start = agent_starter(run, spec, step, input, asked=step_options, sources=sources, **session)
        with hold_run(run.pk):
            if not steps.claim_step(row, StepRun.Status.WAITING):
                return False
            row.child = start()
            StepRun.objects.filter(pk=row.pk).update(child=row.child, input=input)
            steps.record_step_event(run, "step.started", row, child=str(row.child.pk))
    except NewerFormat:
        # The run is left to a worker that can read the definition.
        raise
    except (ToolFailed, MusterError) as error:
        # The transaction was rolled back: the row in memory must not say that it was claimed.
        row.refresh_from_db(fields=["status", "attempt", "lease_owner", "lease_expires_at", "wake_at"])
        raise StepFailed(error.code, str(error), error.details)
    return True


def bind_step_target(step: StepSpec) -> dict[str, Any]:
    """What an approval before this step is for. Whom a router chooses is decided by the input that was approved."""
    if step.target_kind not in bindings.TARGETS:
        return {}
    return bindings.of_target(step.target_kind, step.target_id or 0, step.target_version)


def require_approved(run: Run, step: StepSpec) -> None:
    """Raises StepFailed: the items of a step begin long after it was approved."""
    if not step.approval:
        return
    approval = steps.find_step_approval(run, step)
    if approval is not None and approval.definition != bind_step_target(step):
        raise StepFailed("definition_changed", f"“{step.target}” was changed after this step was approved")


def choose_step_session(run: Run, spec: ChainSpec, step: StepSpec) -> dict[str, Any]:
    """The session of the step's run: one of its own, or the whole run's. There it does not see earlier
    attempts that failed. Raises StepFailed.
    """
    if spec.session != "run" or run.session is None:
        return {}
    here = Run.objects.filter(parent=run, session=run.session_id)
    if here.live().exists():
        raise StepFailed("session_busy", "another step is still talking in the session of this run")
    failed = here.filter(policy__step=step.key).exclude(status__in=[Run.Status.SUCCEEDED, Run.Status.PARTIAL])
    # A retry of the whole chain stands in the place of other runs itself.
    replaced = [str(pk) for pk in parse_run_ids(run.metadata.get("instead_of"))]
    replaced += [str(pk) for pk in failed.values_list("pk", flat=True)]
    metadata = {"instead_of": replaced} if replaced else {}
    return {"session": run.session, "metadata": metadata}


def agent_starter(run: Run, spec: ChainSpec, step: StepSpec, input: dict[str, Any], **more: Any) -> Any:
    """`more` as in intake's start_child."""
    agent, version, route = choose_step_agent(run, step, input)
    allowed = narrow_allowed_tools(step.policy.allowed, input.get("allowed_tools"))
    policy = {
        "step": step.key,
        "chain": spec.name,
        **step.policy.model_dump(),
        "allowed": allowed,
        "max_turns": step.max_turns,
        "output_schema": step.output_schema,
    }

    def start() -> Run:
        child = children.start_child(
            run,
            agent,
            text=read_step_message(input),
            input=own_input(input),
            version=version,
            policy=policy,
            timeout_s=step.timeout_s,
            trigger=Run.Trigger.CHAIN,
            **more,
        )
        if route:
            routing.record_route(child, route)
        return child

    return start


def narrow_allowed_tools(allowed: list[str] | None, values: Any) -> list[str] | None:
    """An input `allowed_tools` narrows the step's tools, chosen when the chain is started."""
    if values is None:
        return allowed
    if not isinstance(values, list):
        return []
    names = [name for name in values if isinstance(name, str)]
    if allowed is None:
        return names
    return [name for name in names if name in allowed]


def read_step_message(input: dict[str, Any]) -> str:
    message = input.get("message", "")
    if isinstance(message, str):
        return message
    return schema.canonical_json(message)


def choose_step_agent(run: Run, step: StepSpec, input: dict[str, Any]) -> tuple[Agent, Any, router.Route | None]:
    """The agent of this step, the version to run, and the router's reasons; the principal must be able to use it."""
    if step.target_kind == "router":
        route = routing.choose_route(run.principal, read_step_message(input), run=run)
        if route.agent is None:
            raise StepFailed("nobody_fits", route.reason, {"candidates": route.as_json()["candidates"]})
        return route.agent, route.agent.published, route
    agents = Agent.objects.select_related("published", "provider").usable_by(run.principal)
    agent = agents.filter(pk=step.target_id).first()
    if agent is None:
        raise StepFailed("target_not_visible", f"There is no agent “{step.target}” that the run's user can use.")
    version = checks.version_of_agent(agent, step.target_version)
    return agent, version, None


def chain_starter(run: Run, step: StepSpec, input: dict[str, Any]) -> Any:
    usable = Chain.objects.select_related("published").usable_by(run.principal)
    chain = usable.filter(pk=step.target_id).first()
    if chain is None:
        raise StepFailed("target_not_visible", f"There is no chain “{step.target}” that the run's user can use.")
    version = checks.version_of_chain(chain, step.target_version)
    checks.check_nesting(run, chain)
    return lambda: chains.create_child(run, version, input, timeout_s=step.timeout_s)


def child_result(child: Run) -> tuple[Any, dict[str, Any] | None]:
    """(output, error) of an ended child: its output, else the text of its reply. A partial child has both."""
    if child.status not in (Run.Status.SUCCEEDED, Run.Status.PARTIAL):
        return None, describe_child_error(child)
    output = child.output
    if output is None and child.agent_id:
        output = children.reply_text(child)
    error = describe_child_error(child) if child.status == Run.Status.PARTIAL else None
    return output, error


def describe_child_error(child: Run) -> dict[str, Any]:
    """Why a child did not do all of its work, as the error of its step."""
    error = child.error or {}
    code = error.get("code") or f"child_{child.status}"
    # As the step itself would time out.
    if child.status == Run.Status.EXPIRED:
        code = "timeout"
    message = error.get("message") or f"the run ended with status {child.status}"
    return {"code": code, "message": message, "run": str(child.pk)}


def settle_child(run: Run, step: StepSpec, row: StepRun) -> bool:
    """A partial run makes a partial step."""
    child = row.child
    assert child is not None
    output, error = child_result(child)
    if child.has_untrusted and not run.has_untrusted:
        run.has_untrusted = True
        Run.objects.filter(pk=run.pk).update(has_untrusted=True)
    if child.status not in (Run.Status.SUCCEEDED, Run.Status.PARTIAL):
        return steps.settle_step(run, step, row, error=error)
    shortfall = error or find_coverage_error(step, row, child, output)
    return steps.settle_step(run, step, row, output=output, shortfall=shortfall)
