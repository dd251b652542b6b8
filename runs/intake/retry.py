"""Retries: a chain from its failed step, a message with the version it ran with or the live one."""

from typing import Any

from django.db import IntegrityError

from agents import schema
from agents.exceptions import Conflict, Invalid
from agents.models import Agent
from runs.models import Message, Run, Session

from . import chains, checks
from . import messages as intake
from .parts import parse_run_ids


def retry_run(
    run: Run,
    *,
    user: Any,
    step: str | None = None,
    input: Any = None,
    live: bool = False,
    key: Any = None,
    idempotency_key: str | None = None,
) -> Run:
    """A new run, linked by metadata.retry_of. Raises Conflict, Invalid and the refusals of intake.

    The same idempotency key returns the run it started before; another request with that key is a
    mismatch.
    """
    request_hash = ""
    if idempotency_key:
        request_hash = schema.hash_json(["retry", str(run.pk), step, input, live])
        earlier = intake.earlier_run(user, idempotency_key, request_hash)
        if earlier is not None:
            return earlier
    under = {"idempotency_key": idempotency_key, "request_hash": request_hash}
    if not run.chain_version_id:
        return retry_message(run, user=user, step=step, input=input, live=live, key=key, **under)
    try:
        return chains.retry_chain(run, user=user, step=step, input=input, key=key, **under)
    except IntegrityError:
        if not idempotency_key:
            raise
        earlier = intake.earlier_run(user, idempotency_key, request_hash)
        if earlier is None:
            raise
        return earlier  # the same request arrived twice at once; the other one was first


def retry_message(run: Run, *, user: Any, step: str | None, input: Any, live: bool, **more: Any) -> Run:
    if step is not None:
        raise Invalid("Only runs of chains have steps.", code="unknown_step", hint="Leave “step” out.")
    refuse_retry(run)
    message = run.messages.filter(role=Message.Role.USER).order_by("seq").first()
    if message is None:
        raise Conflict("The message of this run was deleted.", code="message_gone", hint="Send it again.")
    # The mark belongs to the earlier input: another one is the person's.
    untrusted_input = ""
    if input is None:
        input = run.input
        untrusted_input = run.metadata.get("untrusted_input", "")
    session = choose_retry_session(run, message)
    acceptance = intake.accept_message(
        user=user,
        parts=message.content,
        agent=find_retry_agent(run, user),
        session=session,
        input=input,
        version=None if live else run.version,
        trigger=Run.Trigger.MANUAL,
        metadata=build_retry_metadata(run),
        asked=run.options.get("asked"),
        embed=run.embed,
        untrusted_input=untrusted_input,
        **more,
    )
    if acceptance.session.pk != session.pk:
        session.delete()  # an unused fork: the same request arrived twice at once
    return acceptance.run


def refuse_retry(run: Run) -> None:
    checks.check_ended(run)
    if run.parent_id:
        raise Conflict("This run is part of another.", code="is_child", hint=f"Retry run {run.root_pk}.")
    if run.trigger == Run.Trigger.EXTERNAL:
        raise Conflict(
            "This run was executed by an external executor.",
            code="is_external",
            hint="Prepare another one with POST /api/v1/runs/.",
        )
    if run.trigger == Run.Trigger.MEMORY:
        raise Conflict(
            "This run noted facts of a conversation; no person sent it.", code="is_summary",
            hint="Continue the conversation, or write the memory on the page Memory.",
        )  # fmt: skip


def build_retry_metadata(run: Run) -> dict[str, Any]:
    """Its metadata, and the runs that the new one replaces: the model does not see them."""
    replaced = [*parse_run_ids(run.metadata.get("instead_of")), run.pk]
    kept = {name: value for name, value in run.metadata.items() if name != "untrusted_input"}
    return {**kept, "retry_of": str(run.pk), "instead_of": [str(pk) for pk in replaced]}


def find_retry_agent(run: Run, user: Any) -> Agent | None:
    """None if no agent had been found: the router is asked again."""
    if run.agent_id is None:
        return None
    agents = Agent.objects.usable_by(user).select_related("published", "provider")
    agent = agents.filter(pk=run.agent_id).first()
    if agent is None:
        raise Conflict(
            "You can no longer use the agent of this run.",
            code="target_not_visible",
            hint="Ask its owner to share it with you again, or send the message to another agent.",
        )
    return agent


def choose_retry_session(run: Run, message: Message) -> Session:
    """The run's own session if nothing was added since; else a new one that starts with the earlier
    messages.
    """
    assert run.session is not None  # it contains the run's message
    runs = Run.objects.filter(session=run.session_id, parent=None).order_by("-id")
    last = runs.values_list("pk", flat=True).first()
    if last == run.pk:
        return run.session
    return run.session.fork(before=message.seq)
