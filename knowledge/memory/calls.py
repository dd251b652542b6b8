"""The tools `remember`, `forget` and `recall`, in the name of the person of the run."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.utils.dateparse import parse_datetime

from agents.exceptions import MusterError
from agents.models import Agent
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult
from knowledge.models import Memory, memory

from . import recall, storage
from .storage import Author, Place

JSON = Any
WAITS = "It waits for the person's approval."


def run(verb: str, call: ToolCall, context: ToolContext, similar: recall.Similar | None) -> ToolResult:
    """One call. Raises RetryTool, ToolFailed."""
    action = ACTIONS.get(verb)
    if action is None:
        raise ToolFailed(f"There is no memory tool “{verb[:80]}”.", code="unknown_tool")
    try:
        return action(call, context, similar)
    except MusterError as error:
        raise ToolFailed(" ".join(filter(None, [str(error), error.hint])), code=error.code)


def remember(call: ToolCall, context: ToolContext, similar: recall.Similar | None) -> ToolResult:
    asked, by, at_once = call.arguments, author_of(call, context), holds_at_once(context)
    content = {"text": asked["text"], **{name: asked[name] for name in ("kind", "subject") if name in asked}}
    if "valid_until" in asked:
        content["valid_until"] = moment(asked["valid_until"])
    if "replaces" in asked:
        return answer(storage.agents_change(find(asked["replaces"], context), content, by, at_once=at_once), "changed")
    row, is_new = storage.add(place_of(asked, context), content, by, at_once=at_once)
    return answer(row, "created" if is_new else "")


def forget(call: ToolCall, context: ToolContext, similar: recall.Similar | None) -> ToolResult:
    row = find(call.arguments["id"], context)
    by, at_once = author_of(call, context), holds_at_once(context)
    return answer(storage.agents_change(row, storage.forgotten(), by, at_once=at_once), "changed")


def search(call: ToolCall, context: ToolContext, similar: recall.Similar | None) -> ToolResult:
    """What is approved. The result is untrusted as soon as one of the memories is."""
    query, limit = call.arguments["query"], call.arguments.get("limit", 10)
    rows = recall.candidates(known_to(context).active(), query, similar)
    found = recall.search(rows, query, user_id=context.user_id, similar=similar, limit=limit)
    shown = [
        {"id": str(one.row.pk), "text": one.row.text, "kind": one.row.kind, "subject": one.row.subject,
         "since": one.row.created_at.date().isoformat(), "because": one.because}
        for one in found
    ]  # fmt: skip
    is_untrusted = any(one.row.untrusted for one in found)
    return ToolResult(ok=True, value={"memories": shown}, untrusted=is_untrusted)


ACTIONS: dict[str, Callable[..., ToolResult]] = {"remember": remember, "forget": forget, "recall": search}


def answer(row: Memory, done: str) -> ToolResult:
    waits = {"note": WAITS} if row.is_suggested else {}
    counts = {"created": int(done == "created"), "updated": int(done == "changed")}
    value = {"id": str(row.pk), "status": row.status, "version": row.version, **waits}
    return ToolResult(ok=True, value=value, counts=counts)


def known_to(context: ToolContext) -> Any:
    return Memory.objects.for_run(context.user_id, context.agent_id, author_id=author_id(context))


def author_id(context: ToolContext) -> int | None:
    """The owner of the agent or chain that calls; None if it is the site's. Of an agent that is gone: nobody, 0."""
    if context.agent_id is not None:
        found = Agent.objects.filter(pk=context.agent_id).values_list("owner_id").first()
        return found[0] if found else 0
    return context.author() if context.author else context.user_id


def find(id: str, context: ToolContext) -> Memory:
    """The person's own memory that this agent may know."""
    try:
        return known_to(context).filter(owner_id=context.user_id).get(pk=UUID(id))
    except (Memory.DoesNotExist, ValueError):
        raise RetryTool("There is no memory with this id.", code="not_found")


def place_of(asked: dict[str, JSON], context: ToolContext) -> Place:
    """An agent of somebody else writes only what it alone knows."""
    is_own = memory.is_own(author_id(context), context.user_id)
    if is_own and asked.get("scope") != Memory.Scope.PERSON_AGENT:
        return Place(context.user_id)
    if context.agent_id is None and is_own:
        raise RetryTool("Only an agent can have memories of its own; use the scope person.")
    if context.agent_id is None:
        raise ToolFailed("A chain of somebody else writes nothing to the person's memory.", code="not_yours")
    return Place(context.user_id, Memory.Scope.PERSON_AGENT, context.agent_id)


def author_of(call: ToolCall, context: ToolContext) -> Author:
    name = context.agent or context.chain or "an agent"
    return Author(
        name, run_id=context.run_id, root_id=context.root_id, call_id=call.id, is_untrusted=context.is_untrusted
    )


def holds_at_once(context: ToolContext) -> bool:
    """Only if the agent's setting says so now, and nothing in the run came from strangers."""
    if context.is_untrusted or context.agent_id is None:
        return False
    return Agent.objects.filter(pk=context.agent_id, memory=Agent.Memory.AUTO).exists()


def moment(text: str) -> Any:
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise RetryTool("valid_until must be a date and time with a time zone, such as 2026-12-31T00:00:00Z.")
    return found
