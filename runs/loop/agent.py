"""The live agent of a run, with the options of its message. If the message named no agent, the router chooses one."""

from django.conf import settings
from django.db import transaction

from agents.exceptions import Invalid
from registry import factory
from registry.agents import LiveAgent
from registry.exceptions import CannotBuild
from registry.routing.router import Route
from runs.calls import model_messages, routing
from runs.exceptions import RunDone, RunEnded
from runs.intake import caller_tools, options
from runs.models import Run
from runs.queue import endings
from runs.queue.leases import Lease

Status = Run.Status


def load_run_agent(run: Run, lease: Lease) -> LiveAgent:
    """The agent of the run's version, changed by the run's options.

    Raises RunEnded if no agent fits or it cannot be built, RunDone if its pool is another worker's, LeaseLost.
    """
    if run.agent is None:
        choose_agent(run, lease)
    try:
        is_published = run.version_id == run.agent.published_id
        live = factory.live_agent(run.agent, None if is_published else run.version)
        return live.changed(options.apply_options(run, live.spec)) if run.options else live
    except CannotBuild as error:
        raise RunEnded(Status.FAILED, error.code, str(error))


def choose_agent(run: Run, lease: Lease) -> None:
    """Ask the router, and store its choice in the run and in a session that had no agent."""
    message = model_messages.own_messages(run)[0]
    session_agent = run.session.agent if run.session else None
    route = routing.choose_route(run.principal, message.text, run=run, session_agent=session_agent)
    try:
        take_route(run, route)
    finally:
        store_route(run, route, lease)
    if run.pool not in settings.WORKER_POOLS:
        endings.requeue_run(run, lease)
        raise RunDone


def take_route(run: Run, route: Route) -> None:
    """Raises RunEnded if no agent fits, or not with the options of the message."""
    if route.agent is None:
        raise RunEnded(Status.FAILED, "nobody_fits", route.reason or "no agent fits this message")
    run.agent, run.version = route.agent, route.agent.published
    run.pool = run.agent.pool or run.pool
    settle_options(run)


@transaction.atomic
def store_route(run: Run, route: Route, lease: Lease) -> None:
    """The decision and what follows from it, as long as this worker holds the run. Raises LeaseLost."""
    lease.write(agent=run.agent, version=run.version, options=run.options, policy=run.policy, pool=run.pool)
    routing.record_route(run, route)
    if run.agent is not None and run.session is not None and run.session.agent_id is None:
        run.session.agent = run.agent
        run.session.save(update_fields=["agent"])


def settle_options(run: Run) -> None:
    """Merge the options of the message with the definition of the agent, now that it is known."""
    names = [tool["name"] for tool in run.policy.get(caller_tools.POLICY, ())]
    try:
        options.settle_options(run, run.version.read_spec() if run.version else None, reserved=names)
    except Invalid as error:
        raise RunEnded(Status.FAILED, error.code, str(error))
