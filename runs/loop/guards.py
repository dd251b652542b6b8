"""Hooks on a message's way to an agent and on its way out."""

from dataclasses import replace
from typing import Any

from django.db import transaction

from registry.agents import ModelReply
from runs.calls import model_messages
from runs.calls.hooks import Hooks
from runs.events import record as events
from runs.exceptions import LeaseLost, RunEnded
from runs.models import Message, Run, Session
from runs.queue.leases import Lease
from runs.rules.verdicts import DENY, REPLACE

DENIED = "message_denied"
CHECKED = "message_in"  # in the run's policy: its message was checked


def check_message(run: Run, lease: Lease, hooks: Hooks) -> None:
    """Before the first model call. A refused message ends the run; it and a replaced one are not kept.

    Raises RunEnded(message_denied), LeaseLost.
    """
    if not hooks.at("message_in") or run.policy.get(CHECKED):
        return
    own = model_messages.own_messages(run)
    for message in own:
        about = {"parts": [part.get("type") for part in message.content], "input": run.input}
        outcome = hooks.ask("message_in", message.text, name="text", untrusted=message.untrusted, **about)
        if outcome.kind == DENY:
            rewrite_message(run, lease, message, f"[refused: {outcome.reason}]", outcome.events, keeps_parts=False)
            raise RunEnded(Run.Status.FAILED, DENIED, outcome.reason)
        if outcome.kind == REPLACE:
            rewrite_message(run, lease, message, outcome.value, outcome.events)
    lease.write(policy={**run.policy, CHECKED: True})
    run.policy = {**run.policy, CHECKED: True}


@transaction.atomic
def rewrite_message(
    run: Run, lease: Lease, message: Message, text: str, entries: list[events.Entry], *, keeps_parts: bool = True
) -> None:
    """Replace the text of a message, and the title that was made of it, with its event."""
    if events.record_events_and_change(run, entries, where=lease.conditions()) is None:
        raise LeaseLost(str(run.pk))
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if keeps_parts:
        parts += [part for part in message.content if part.get("type") != "text"]
    Message.objects.filter(pk=message.pk).update(content=parts)
    if message.seq == 1:
        Session.objects.filter(pk=message.session_id, parent=None).update(title=text[:80].strip())


def checked_reply(conversation: Any, reply: ModelReply) -> ModelReply:
    """The model's text as the hooks leave it. The original is not stored. Raises RunEnded(message_denied)."""
    if not conversation.hooks.at("message_out") or not reply.text.strip():
        return reply
    outcome = conversation.hooks.ask(
        "message_out", reply.text, name="text", untrusted=conversation.run.has_untrusted, calls=bool(reply.tool_calls)
    )
    if outcome.kind == DENY:
        end_denied(conversation, reply, outcome.events)
        raise RunEnded(Run.Status.FAILED, DENIED, outcome.reason)
    if outcome.kind != REPLACE:
        return reply
    conversation.executor.tell(*outcome.events)
    return replace(reply, text=outcome.value, response={}, reasoning="", kept={})


@transaction.atomic
def end_denied(conversation: Any, reply: ModelReply, entries: list[events.Entry]) -> None:
    """The model call counts, without its text."""
    answered = conversation.write_answer(replace(reply, text="", response={}, reasoning="", kept={}), [])
    conversation.write([answered, *entries])
    conversation.settle(reply)
