"""The tools `remember`, `forget` and `recall`, in the name of the person of the run."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.utils.dateparse import parse_datetime

from agents.exceptions import MusterError
from agents.models import Agent
from agents.models.team import others_among
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult
from knowledge.models import Memory
from knowledge.models.memory import may_use_own_notes

from . import recall, storage
from .storage import Author, Place

JSON = Any
WAITS = "It waits for the person's approval."


def run_memory_call(verb: str, call: ToolCall, context: ToolContext, similar: recall.Similar | None) -> ToolResult:
    """One call. Raises RetryTool, ToolFailed."""
    action = ACTIONS.get(verb)
    if action is None:
        raise ToolFailed(f"There is no memory tool “{verb[:80]}”.", code="unknown_tool")
    try:
        return action(call, context, similar)
    except MusterError as error:
        raise ToolFailed(" ".join(filter(None, [str(error), error.hint])), code=error.code)


def answer_remember_call(call: ToolCall, context: ToolContext, similar: recall.Similar | None) -> ToolResult:
    arguments = call.arguments
    by = build_call_author(call, context)
    at_once = holds_at_once(context)
    content = {"text": arguments["text"]}
    for name in ("kind", "subject"):
        if name in arguments:
            content[name] = arguments[name]
    if "valid_until" in arguments:
        content["valid_until"] = parse_valid_until(arguments["valid_until"])
    if "replaces" in arguments:
        target = find_own_memory(arguments["replaces"], context)
        row = storage.store_agent_change(target, content, by, at_once=at_once)
        return build_memory_result(row, "changed")
    place = choose_memory_place(arguments, context)
    row, is_new = storage.store_new_memory(place, content, by, at_once=at_once)
    return build_memory_result(row, "created" if is_new else "")


def answer_forget_call(call: ToolCall, context: ToolContext, similar: recall.Similar | None) -> ToolResult:
    target = find_own_memory(call.arguments["id"], context)
    by = build_call_author(call, context)
    at_once = holds_at_once(context)
    row = storage.store_agent_change(target, storage.build_forgotten_content(), by, at_once=at_once)
    return build_memory_result(row, "changed")


def answer_memory_search(call: ToolCall, context: ToolContext, similar: recall.Similar | None) -> ToolResult:
    """What is approved. The result is untrusted as soon as one of the memories is."""
    query = call.arguments["query"]
    limit = call.arguments.get("limit", 10)
    active = build_known_memories_query(context).active()
    rows = recall.load_recall_candidates(active, query, similar)
    memories = recall.search_memories(rows, query, user_id=context.user_id, similar=similar, limit=limit)
    answer = list(map(serialize_recalled_memory, memories))
    is_untrusted = any(one.row.untrusted for one in memories)
    return ToolResult(ok=True, value={"memories": answer}, untrusted=is_untrusted)


def serialize_recalled_memory(one: recall.Found) -> dict[str, JSON]:
    row = one.row
    return {
        "id": str(row.pk),
        "text": row.text,
        "kind": row.kind,
        "subject": row.subject,
        "since": row.created_at.date().isoformat(),
        "because": one.because,
    }


ACTIONS: dict[str, Callable[..., ToolResult]] = {
    "remember": answer_remember_call,
    "forget": answer_forget_call,
    "recall": answer_memory_search,
}


def build_memory_result(row: Memory, done: str) -> ToolResult:
    value = {"id": str(row.pk), "status": row.status, "version": row.version}
    if row.is_suggested:
        value["note"] = WAITS
    counts = {"created": int(done == "created"), "updated": int(done == "changed")}
    return ToolResult(ok=True, value=value, counts=counts)


def build_known_memories_query(context: ToolContext) -> Any:
    return Memory.objects.for_run(context.user_id, context.agent_id, authors=context.authors())


def find_own_memory(id: str, context: ToolContext) -> Memory:
    """The person's own memory that this agent may know."""
    own = build_known_memories_query(context).filter(owner_id=context.user_id)
    try:
        return own.get(pk=UUID(id))
    except (Memory.DoesNotExist, ValueError):
        raise RetryTool("There is no memory with this id.", code="not_found")


def choose_memory_place(arguments: dict[str, JSON], context: ToolContext) -> Place:
    """An agent of somebody else writes only what it alone knows; an agent that somebody else's has called, nothing."""
    authors = context.authors()
    is_own = not others_among(authors, context.user_id)
    if is_own and arguments.get("scope") != Memory.Scope.PERSON_AGENT:
        return Place(context.user_id)
    if context.agent_id is None and is_own:
        raise RetryTool("Only an agent can have memories of its own; use the scope person.")
    if context.agent_id is None:
        raise ToolFailed("A chain of somebody else writes nothing to the person's memory.", code="not_yours")
    if not may_use_own_notes(authors, context.user_id):
        raise ToolFailed(
            "A run that somebody else's agent or chain has started writes nothing to the person's memory.",
            code="not_yours",
        )
    return Place(context.user_id, Memory.Scope.PERSON_AGENT, context.agent_id)


def build_call_author(call: ToolCall, context: ToolContext) -> Author:
    return Author(
        context.agent or context.chain or "an agent",
        run_id=context.run_id,
        root_id=context.root_id,
        call_id=call.id,
        is_untrusted=context.is_untrusted,
    )


def holds_at_once(context: ToolContext) -> bool:
    """Only if the agent's setting says so now, and nothing in the run came from strangers."""
    if context.is_untrusted or context.agent_id is None:
        return False
    rows = Agent.objects.filter(pk=context.agent_id, memory=Agent.Memory.AUTO)
    return rows.exists()


def parse_valid_until(text: str) -> Any:
    try:
        time = parse_datetime(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise RetryTool("valid_until must be a date and time with a time zone, such as 2026-12-31T00:00:00Z.")
    return time
