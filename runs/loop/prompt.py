"""What a model is shown beside the messages of a run: a summary of a long session, memories of the person, and less of
all that if its model cannot read it.

- The summary is written by the agent's own model when older messages no longer fit.
- Memories are chosen once for each run, recorded in it, and the same after a wait.
- If a conversation is too long, first less of the session's earlier messages is shown, by the agent's own rule
  (`session_context`): the oldest are summarised or left out. Then long results of this run are cut. The rows stay as
  they are.
"""

from typing import Any

from django.db import transaction

from agents.models import AgentSpec
from knowledge.memory import recall
from registry.agents import LiveAgent
from registry.exceptions import ModelCancelled, ModelFailed
from registry.routing.embeddings import find_similarities
from runs.calls import model_messages
from runs.events import record as events
from runs.exceptions import LeaseLost
from runs.intake import authors
from runs.models import Message, Run, Session
from runs.models.session import MOST_AT_ONCE
from runs.queue import budgets
from runs.queue.leases import Lease

JSON = Any
MOST_TOKENS = 2_000_000  # of a conversation that is sent whole
CHARS_PER_TOKEN = 5  # a token has rarely more
MAX_SHORTENINGS = 4  # of one run
SHARE = 4  # of the tokens for earlier messages, one in so many remains
RESULT_LIMITS = (8_000, 1_000)  # characters of a result, the first time and later
CHOSEN = "memory"  # in the run's policy: [[id, version], …]
ASK_FOR_SUMMARY = (
    "Summarise the conversation below for your own later use: facts, decisions, names, numbers, open questions. "
    "At most 200 words. Keep the content of the earlier summary unless it was corrected."
)


def all_context(spec: AgentSpec) -> AgentSpec:
    """The spec for a conversation whose caller sends all of it each time: nothing that fits the model is left out."""
    if spec.session_context == "none":
        return spec
    most = {"context_messages": MOST_AT_ONCE, "context_tokens": MOST_TOKENS}
    return spec.model_copy(update={"session_context": "last_n", **most})


def less_context(spec: AgentSpec, times: int) -> AgentSpec:
    """The spec with room for fewer earlier messages: a quarter of it, then a sixteenth, then none."""
    if times >= 3:
        return spec.model_copy(update={"session_context": "none"})
    tokens = max(spec.context_tokens // SHARE**times, 1)
    return spec.model_copy(update={"context_tokens": tokens})


def cut_results(messages: list[dict[str, JSON]], times: int) -> list[dict[str, JSON]]:
    place = min(times, len(RESULT_LIMITS)) - 1
    limit = RESULT_LIMITS[place]
    return [cut_result(message, limit) for message in messages]


def cut_result(message: dict[str, JSON], limit: int) -> dict[str, JSON]:
    text = message["content"]
    if message["role"] != "tool" or not isinstance(text, str) or len(text) <= limit:
        return message
    cut_text = f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"
    return {**message, "content": cut_text}


def is_too_long(messages: list[dict[str, JSON]], window: int | None) -> bool:
    """Whether this is certainly more than a model with this window can read. Only its server knows exactly how much is
    too much.
    """
    if window is None:
        return False
    characters = sum(count_characters(message) for message in messages)
    return characters > window * CHARS_PER_TOKEN


def count_characters(message: dict[str, JSON]) -> int:
    """The characters of its text and its calls. Images are not counted: their tokens do not depend on their bytes."""
    content = message.get("content") or ""
    if isinstance(content, str):
        count = len(content)
    else:
        count = sum(len(part.get("text") or "") for part in content)
    calls = message.get("tool_calls")
    if calls:
        count += len(str(calls))
    return count


def measure_messages(messages: list[dict[str, JSON]]) -> int:
    return sum(len(str(message)) for message in messages)


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
    messages = ask_for_summary(session, spec, older)
    watch = budgets.Watch(run)
    longest = watch.hold(lambda: live.bid(messages, tool_names=()))
    try:
        reply = live.reply(
            messages, tool_names=(), is_cancelled=lease.is_cancelled, deadline=run.deadline, max_tokens=longest
        )
    except (ModelFailed, ModelCancelled):
        watch.release()
        return
    cost = live.cost(reply.model_name, reply.input_tokens, reply.output_tokens)
    run.input_tokens += reply.input_tokens
    run.output_tokens += reply.output_tokens
    run.cost += cost
    watch.settle(reply.input_tokens + reply.output_tokens, cost)
    if not reply.text.strip():
        return  # an empty summary would lose everything
    session.summary = reply.text
    session.summarised_to = older[-1].seq
    entry = ("session.summarised", {"to": session.summarised_to})
    with transaction.atomic():
        if events.record_events_and_change(run, [entry], where=lease.conditions()) is None:
            raise LeaseLost(str(run.pk))
        session.save(update_fields=["summary", "summarised_to"])


def ask_for_summary(session: Session, spec: AgentSpec, older: list[Message]) -> list[dict[str, JSON]]:
    """The request to the model: the earlier summary, and these messages."""
    text = "\n".join(f"{message.role}: {message.words}" for message in older)
    # What a model cannot read it cannot summarise.
    most = 2 * spec.context_tokens * model_messages.CHARS_PER_TOKEN
    text = text[-most:]
    earlier = f"Earlier summary:\n{session.summary}\n\n" if session.summary else ""
    return [
        {"role": "system", "content": ASK_FOR_SUMMARY},
        {"role": "user", "content": f"{earlier}Conversation:\n{text}"},
    ]


def falling_out(session: Session, spec: AgentSpec, run: Run) -> list[Message]:
    """The messages before this run to be summarised, oldest first: none while all are still shown.

    Done in portions, not for every message: the remaining messages take at most half of the tokens.
    """
    own = model_messages.own_messages(run)
    # Messages that wait for their turn are not answered yet.
    until = own[0].seq if own else session.last_seq + 1
    before = Message.objects.filter(session=session, seq__gt=session.summarised_to, seq__lt=until)
    rows = list(before.exclude(run=run).order_by("-seq"))
    budget = spec.context_tokens * model_messages.CHARS_PER_TOKEN

    def count_fitting(messages: list[Message], characters: int) -> int:
        fitting = model_messages.iterate_fitting_messages(messages, characters, run.principal_id)
        return len(list(fitting))

    are_few = len(rows) <= model_messages.most_messages(spec)
    if are_few and count_fitting(rows, budget) == len(rows):
        return []
    kept = count_fitting(rows[: spec.context_messages], budget // 2)
    newest_first = rows[kept:]
    return newest_first[::-1]


def render_memories(run: Run, lease: Lease) -> str:
    """The text about memories in the agent's instructions; empty, without a query, if the agent's memory
    is off. A visitor's run never contains memories of the owner's agents.
    """
    if run.agent is None or run.agent.memory == run.agent.Memory.OFF or run.embed is not None:
        return ""
    chosen = run.policy.get(CHOSEN)
    if chosen is not None:
        return recall.render_seen_memories(chosen)
    return choose_memories(run, lease)


def choose_memories(run: Run, lease: Lease) -> str:
    texts = [message.text for message in model_messages.own_messages(run)]
    recalled = recall.for_prompt(
        run.principal_id,
        run.agent_id,
        "\n".join(texts),
        authors=authors.find_run_owners(run),
        tokens=run.agent.memory_tokens,
        similar=find_similarities,
    )
    chosen = [[str(memory.row.pk), memory.row.version] for memory in recalled.memories]
    run.policy = {**run.policy, CHOSEN: chosen}
    lease.write(policy=run.policy)
    if recalled.memories or recalled.left_out:
        events.record_event(run, "memory.recalled", recalled.as_json())
    return recall.block(recalled.memories)
