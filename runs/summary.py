"""A running summary of a long session, written by the agent's own model when older messages no longer fit."""

from registry.agents import LiveAgent
from registry.exceptions import ModelCancelled, ModelFailed

from . import budgets, events
from .leases import Lease
from .models import Message, Run, Session

ASK = (
    "Summarise the conversation below for your own later use: facts, decisions, names, numbers, open questions. "
    "At most 200 words. Keep what the earlier summary says unless it was corrected."
)


def keep_up(run: Run, live: LiveAgent, lease: Lease) -> None:
    """Put messages that fall out of the context into the summary. A model that fails leaves things as they are."""
    session, spec = run.session, live.spec
    if session is None or spec.session_context != "summary":
        return
    older = falling_out(session, keep=spec.context_messages, run=run)
    if len(older) < max(spec.context_messages // 2, 1):  # in portions, not at every message
        return
    budgets.Watch(run).require()
    text = "\n".join(f"{message.role}: {message.text}" for message in older)
    earlier = f"Earlier summary:\n{session.summary}\n\n" if session.summary else ""
    asked = [{"role": "system", "content": ASK}, {"role": "user", "content": f"{earlier}Conversation:\n{text}"}]
    try:
        reply = live.reply(asked, tool_names=(), is_cancelled=lease.is_cancelled, deadline=run.deadline)
    except (ModelFailed, ModelCancelled):
        return
    run.input_tokens += reply.input_tokens
    run.output_tokens += reply.output_tokens
    run.cost += live.cost(reply.model_name, reply.input_tokens, reply.output_tokens)
    session.summary, session.summarised_to = reply.text, older[-1].seq
    session.save(update_fields=["summary", "summarised_to"])
    events.record(run, "session.summarised", {"to": session.summarised_to})


def falling_out(session: Session, *, keep: int, run: Run) -> list[Message]:
    """Messages before this run that are neither summarised nor among the last `keep`."""
    before = Message.objects.filter(session=session, seq__gt=session.summarised_to).exclude(run=run).order_by("seq")
    rows = list(before)
    return rows[:-keep] if len(rows) > keep else []
