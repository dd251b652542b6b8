"""A running summary of a long session, written by the agent's own model when older messages no
longer fit.
"""

from django.db import transaction

from agents.models import AgentSpec
from registry.agents import LiveAgent
from registry.exceptions import ModelCancelled, ModelFailed
from runs.calls import model_messages
from runs.events import record as events
from runs.exceptions import LeaseLost
from runs.models import Message, Run, Session
from runs.queue import budgets
from runs.queue.leases import Lease

ASK = (
    "Summarise the conversation below for your own later use: facts, decisions, names, numbers, open questions. "
    "At most 200 words. Keep the content of the earlier summary unless it was corrected."
)


def keep_up(run: Run, live: LiveAgent, lease: Lease) -> None:
    """Add messages that no longer fit the context to the summary. If the model fails, nothing
    changes.
    """
    session, spec = run.session, live.spec
    if session is None or spec.session_context != "summary":
        return
    older = falling_out(session, spec, run)
    if not older:
        return
    text = "\n".join(f"{message.role}: {message.words}" for message in older)
    # What a model cannot read it cannot summarise.
    most = 2 * spec.context_tokens * model_messages.CHARS_PER_TOKEN
    text = text[-most:]
    earlier = f"Earlier summary:\n{session.summary}\n\n" if session.summary else ""
    messages = [{"role": "system", "content": ASK}, {"role": "user", "content": f"{earlier}Conversation:\n{text}"}]
    watch = budgets.Watch(run)
    longest = watch.hold(lambda: live.bid(messages, tool_names=()))
    try:
        reply = live.reply(
            messages, tool_names=(), is_cancelled=lease.is_cancelled, deadline=run.deadline, max_tokens=longest
        )
    except (ModelFailed, ModelCancelled):
        watch.release()
        return
    run.input_tokens += reply.input_tokens
    run.output_tokens += reply.output_tokens
    cost = live.cost(reply.model_name, reply.input_tokens, reply.output_tokens)
    run.cost += cost
    watch.settle(reply.input_tokens + reply.output_tokens, cost)
    if not reply.text.strip():
        return  # an empty summary would lose everything
    session.summary, session.summarised_to = reply.text, older[-1].seq
    entry = ("session.summarised", {"to": session.summarised_to})
    with transaction.atomic():
        if events.record_events_and_change(run, [entry], where=lease.conditions()) is None:
            raise LeaseLost(str(run.pk))
        session.save(update_fields=["summary", "summarised_to"])


def falling_out(session: Session, spec: AgentSpec, run: Run) -> list[Message]:
    """The messages before this run to be summarised, oldest first: none while all are still shown.

    Done in portions, not for every message: the remaining messages take at most half of the tokens.
    """
    own = model_messages.own_messages(run)
    until = own[0].seq if own else session.last_seq + 1  # messages waiting for their turn are not answered yet
    before = Message.objects.filter(session=session, seq__gt=session.summarised_to, seq__lt=until)
    rows = list(before.exclude(run=run).order_by("-seq"))
    budget = spec.context_tokens * model_messages.CHARS_PER_TOKEN

    def count_fitting(messages: list[Message], characters: int) -> int:
        return len(list(model_messages.iterate_fitting_messages(messages, characters, run.principal_id)))

    are_few = len(rows) <= model_messages.most_messages(spec)
    if are_few and count_fitting(rows, budget) == len(rows):
        return []
    keep = count_fitting(rows[: spec.context_messages], budget // 2)
    return rows[keep:][::-1]
