"""Responses, by the Open Responses specification. A response is a turn of a run; see gateway/turns.py.

`previous_response_id` continues its session. Results of calls (`function_call_output`) and decisions
(`mcp_approval_response`) continue the run that waits for them.
"""

import re
from collections.abc import AsyncIterator, Collection, Iterator
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from agents.exceptions import Conflict, NotFound
from agents.http.authentication import find_key, require_scope
from agents.http.later import later
from agents.http.pagination import read_page
from agents.models.key import DECIDE
from gateway import turns
from gateway.histories import SentMessage
from gateway.parts import refused
from gateway.reading import Reading
from gateway.sse import DONE, HEARTBEAT, bound, sse, streamed
from gateway.turns import LONGEST_WAIT_S, Turn
from plumbing.threads import in_thread
from runs.events.places import WAITS, stream_for
from runs.events.waiting import ENDS
from runs.exceptions import RunFinished
from runs.models import Approval, Message, Run
from runs.queue import endings

from . import summaries
from .items import Items, usage_json
from .requests import (
    CALL,
    SAMPLING,
    Prompt,
    call_id,
    check_fields,
    flag_in,
    json_or_text,
    metadata_in,
    params_in,
    parts_in,
    require_results,
    schema_in,
    split,
    text_in,
    tools_in,
)
from .views import OpenAIView, body_of

JSON = Any
FIELDS = (
    "model", "input", "instructions", "previous_response_id", "stream", "background", "store", "tools", "tool_choice",
    "text", "metadata",
)  # fmt: skip
MOST_ITEMS = 100  # of one page
ECHO = "openai"  # where a run's metadata keeps what the response repeats of its request
PREFIX = "resp_"
TEXT_DELTA = "response.output_text.delta"
NUMBER = re.compile("-1|[0-9]{1,12}")


@extend_schema(exclude=True)
class ResponsesView(OpenAIView):
    """POST /v1/responses"""

    def post(self, request: Any) -> Any:
        body = body_of(request)
        prompt = read(body)
        is_streamed, in_background = flag_in(body, "stream"), flag_in(body, "background")
        if is_streamed:
            with stream_for(request.user) as respond:
                turn = started(request, body, prompt, is_watched=True)
                source = stream_of(turn)
                return respond(streamed(request, source if in_background else bound(turn.run, source, request.user)))
        if in_background:
            return Response(response_json(started(request, body, prompt, is_watched=False)))
        with WAITS.take(request.user.pk) as place:
            ENDS.listen()
            turn = started(request, body, prompt, is_watched=False)
            end = turns.end_of(turn, LONGEST_WAIT_S, place, lambda: Reading().pause)
            return later(self, end, lambda ended: Response(response_json(turn)))


def started(
    request: Any, body: dict[str, JSON], prompt: Prompt, *, is_watched: bool, own: Collection[str] = ()
) -> Turn:
    """`own`: ids of responses of this connection, which may be continued though they are not stored."""
    if prompt.approvals:
        return decided(request, prompt)
    previous = previous_of(request.user, body, own)
    more = prompt.more(request.user)
    if prompt.results and (previous or not prompt.earlier):
        calls = {call_id(id, "input"): value for id, value in prompt.results.items()}
        return turns.answer(request.user, calls)
    if turn := turns.continued(request.user, prompt.results, prompt.earlier, prompt.model, more):
        return turn
    return turns.begin(
        user=request.user,
        key=find_key(request),
        agent=prompt.model,
        parts=prompt.parts,
        earlier=prompt.earlier,
        session=previous.run.session if previous else None,
        continues=prompt.continues,
        is_watched=is_watched,
        is_resent=True,
        metadata={**metadata_in(body), ECHO: echo_of(body)},
        **more,
    )


def previous_of(user: Any, body: dict[str, JSON], own: Collection[str] = ()) -> Turn | None:
    if body.get("previous_response_id") is None:
        return None
    turn = found(user, str(body["previous_response_id"]), own)
    if turn.run.session is None:
        raise Conflict(
            "The conversation of the previous response was deleted.",
            code="session_deleted",
            hint="Leave out previous_response_id to begin another one.",
        )
    return turn


def found(user: Any, id: str, own: Collection[str] = ()) -> Turn:
    """Raises NotFound; also for a response with `store: false`, unless it is one of `own`."""
    turn = turns.parsed(user, id.removeprefix(PREFIX)) if id.startswith(PREFIX) else None
    if turn is None or (id not in own and echoed(turn.run).get("store") is False):
        raise NotFound(f"There is no response “{id[:80]}”.", code="response_not_found")
    return turn


def decided(request: Any, prompt: Prompt) -> Turn:
    """Decide approvals by their ids; all of one run. Raises NotFound, Forbidden, AlreadyDecided."""
    require_scope(request, DECIDE)
    rows = Approval.objects.filter(run__principal_id=request.user.pk).select_related("run")
    open_ones = {row.pk: row for row in rows.filter(pk__in=prompt.approvals)}
    if len(open_ones) < len(prompt.approvals):
        raise NotFound("There is no such approval request.", code="approval_not_found")
    decisions = [
        (open_ones[pk], {"decision": "approve" if is_approved else "deny"})
        for pk, is_approved in prompt.approvals.items()
    ]
    return turns.answer(request.user, {}, decisions=decisions, source="openai")


@extend_schema(exclude=True)
class ResponseView(OpenAIView):
    """GET /v1/responses/{id}: the response so far; `?stream=true` follows it, after an event if
    `starting_after` names one.
    """

    parameters = {"get": ("stream", "starting_after", "include")}

    def get(self, request: Any, id: str) -> Any:
        turn = found(request.user, id)
        after = request.query_params.get("starting_after", "-1")
        if request.query_params.get("stream") == "true":
            if not NUMBER.fullmatch(after):
                raise refused("starting_after", "“starting_after” is the sequence_number of an event.")
            with stream_for(request.user) as respond:
                return respond(streamed(request, stream_of(turn, int(after))))
        return Response(response_json(turn))


@extend_schema(exclude=True)
class CancelView(OpenAIView):
    """POST /v1/responses/{id}/cancel"""

    def post(self, request: Any, id: str) -> Response:
        turn = found(request.user, id)
        try:
            endings.cancel(turn.run, by=request.user, reason="cancelled by the caller")
        except RunFinished:
            pass  # cancelling twice is no error in this API
        return Response(response_json(turn))


@extend_schema(exclude=True)
class InputItemsView(OpenAIView):
    """GET /v1/responses/{id}/input_items: the user's message of this run."""

    parameters = {"get": ("limit", "order", "after", "include")}

    def get(self, request: Any, id: str) -> Response:
        turn = found(request.user, id)
        size, is_newest_first, after = item_page_in(request.query_params)
        rows = Message.objects.filter(run=turn.run, role=Message.Role.USER)
        rows = rows.order_by("-seq" if is_newest_first else "seq")
        if after:
            last = rows.filter(pk=after).first()
            if last is None:
                raise refused("after", "“after” must be the id of an item of this response.")
            rows = rows.filter(seq__lt=last.seq) if is_newest_first else rows.filter(seq__gt=last.seq)
        page, has_more = read_page(rows, size)
        items = [item_json(row) for row in page]
        ids = [item["id"] for item in items]
        ends = {"first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
        return Response({"object": "list", "data": items, **ends, "has_more": has_more})


def item_json(row: Message) -> dict[str, JSON]:
    content = [{"type": "input_text", "text": row.words}]
    return {"id": f"msg_{row.pk.hex}", "type": "message", "role": "user", "status": "completed", "content": content}


def item_page_in(query: Any) -> tuple[int, bool, UUID | None]:
    """The size of the page, whether the newest come first, and behind which item it begins. Raises Invalid."""
    limit, order, after = query.get("limit", "20"), query.get("order", "desc"), query.get("after", "")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:6]) <= MOST_ITEMS):
        raise refused("limit", f"“limit” must be a number from 1 to {MOST_ITEMS}.")
    if order not in ("asc", "desc"):
        raise refused("order", "“order” can be asc or desc.")
    try:
        return int(limit), order == "desc", UUID(after.removeprefix("msg_")) if after else None
    except ValueError:
        raise refused("after", "“after” must be the id of an item.")


# -- the request ----------------------------------------------------------------------------------------------------


def read(body: dict[str, JSON]) -> Prompt:
    """Raises Invalid."""
    check_fields(body, FIELDS)
    prompt = Prompt(text_in(body, "model"), params=params_in(body))
    prompt.tools = tools_in(body, lambda entry: entry)
    text = body.get("text") or {}
    prompt.output_schema = schema_in(text.get("format") if isinstance(text, dict) else text, "text.format", None)
    if isinstance(body.get("instructions"), str):
        prompt.instructions.append(body["instructions"])
    items = items_in(body)
    kind = items[-1].get("type")
    if kind == "function_call_output":
        prompt.results = dict(results_in(items))
        is_whole = len(items) > len(prompt.results)  # the conversation stands before the results
        prompt.earlier = list(conversation(items, prompt)) if is_whole else []
        prompt.continues = is_whole
    elif kind == "mcp_approval_response":
        prompt.approvals = dict(decisions_in(items))
    else:
        split(prompt, list(conversation(items, prompt)))
    return prompt


def items_in(body: dict[str, JSON]) -> list[dict[str, JSON]]:
    value = body.get("input")
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise refused("input", "“input” must be text or a list of items.")
    return items


def results_in(items: list[dict[str, JSON]]) -> Iterator[tuple[Any, JSON]]:
    """The results at the end of the input; what stands before them is known to the run."""
    for place in range(len(items) - 1, -1, -1):
        if items[place].get("type") != "function_call_output":
            return
        param = f"input.{place}"
        id = str(items[place].get("call_id")).removeprefix(CALL)
        yield id, json_or_text(output_text(items[place], param))


def decisions_in(items: list[dict[str, JSON]]) -> Iterator[tuple[Any, bool]]:
    for place, item in enumerate(items):
        if item.get("type") == "mcp_approval_response":
            param = f"input.{place}"
            approval_id = str(item.get("approval_request_id")).removeprefix("mcpr_")
            yield call_id(approval_id, f"{param}.approval_request_id"), flag_in(item, "approve")


def output_text(item: dict[str, JSON], param: str) -> str:
    parts = parts_in(item.get("output") or "", f"{param}.output")
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def conversation(items: list[dict[str, JSON]], prompt: Prompt) -> Iterator[SentMessage]:
    """The messages. Calls and their results belong to the assistant's message after them."""
    results = {
        item.get("call_id"): output_text(item, f"input.{place}")
        for place, item in enumerate(items)
        if item.get("type") == "function_call_output"
    }
    calls: list[dict[str, JSON]] = []
    for place, item in enumerate(items):
        kind, role, param = item.get("type", "message"), item.get("role"), f"input.{place}"
        if kind == "message" and role in ("system", "developer"):
            parts = parts_in(item.get("content"), f"{param}.content")
            prompt.instructions.append("\n".join(part["text"] for part in parts if part["type"] == "text"))
        elif kind == "message" and role in ("user", "assistant"):
            if calls and role == "user":
                yield SentMessage("assistant", [{"type": "text", "text": ""}], calls)
                calls = []
            yield SentMessage(role, parts_in(item.get("content"), f"{param}.content"), calls)
            calls = []
        elif kind == "function_call":
            require_results([item.get("call_id")], results, param)
            arguments = json_or_text(str(item.get("arguments") or "{}"))
            calls.append(
                {"id": str(item.get("call_id"))[:128], "name": str(item.get("name"))[:64],
                 "arguments": arguments if isinstance(arguments, dict) else {},
                 "result": results.get(item.get("call_id"), "")}
            )  # fmt: skip
        elif kind == "compaction":
            prompt.summaries.append(summaries.opened(item.get("encrypted_content"), f"{param}.encrypted_content"))
            text = summaries.INTRODUCTION + prompt.summaries[-1]["text"]
            yield SentMessage("assistant", [{"type": "text", "text": text}], is_sealed=True)
        elif kind not in ("function_call_output", "reasoning", "mcp_approval_request", "mcp_approval_response"):
            raise refused(f"{param}.type", f"An item of type “{str(kind)[:40]}” cannot be sent.", "unsupported_item")
    if calls:
        yield SentMessage("assistant", [{"type": "text", "text": ""}], calls)


# -- the answer -----------------------------------------------------------------------------------------------------


def echo_of(body: dict[str, JSON]) -> dict[str, JSON]:
    """What a response repeats of its request."""
    kept = ("instructions", "previous_response_id", "tools", "tool_choice", "text", "store", "background", "model",
            "metadata", "user", "safety_identifier", "prompt_cache_key", *SAMPLING)  # fmt: skip
    return {name: body[name] for name in kept if body.get(name) is not None}


def echoed(run: Run) -> dict[str, JSON]:
    echo = run.metadata.get(ECHO) if isinstance(run.metadata, dict) else None
    return echo if isinstance(echo, dict) else {}


def response_json(turn: Turn) -> dict[str, JSON]:
    """The response as its rows say now."""
    refresh(turn.run)
    items = Items(turn.id)
    for frame in turns.replayed(turn, items.reading.pause):
        for _ in items.take(frame):
            pass
    return described(turn, items, turn.run.status)


def refresh(run: Run) -> None:
    run.refresh_from_db(from_queryset=Run.objects.select_related("agent", "session"))


def described(turn: Turn, items: Items, of_run: str) -> dict[str, JSON]:
    run, echo = turn.run, echoed(turn.run)
    end, status = items.reading.end or {}, items.status(of_run)
    error = end.get("error") if status == "failed" else None
    used = end.get("usage") or endings.usage_of(run)
    return {
        "id": PREFIX + turn.id,
        "object": "response",
        "created_at": int(run.created_at.timestamp()),
        "completed_at": int(run.finished_at.timestamp()) if run.finished_at and status == "completed" else None,
        "status": status,
        "incomplete_details": {"reason": items.incomplete_reason()} if status == "incomplete" else None,
        "error": {"code": error["code"], "message": error["message"]} if error else None,
        "model": echo.get("model") or (run.agent.name if run.agent else turns.ROUTER),
        "output": items.output,
        "usage": usage_json(used) if status in ("completed", "incomplete", "failed") else None,
        "previous_response_id": echo.get("previous_response_id"),
        "instructions": echo.get("instructions"),
        "tools": [tool_json(tool) for tool in echo.get("tools", ())],
        "tool_choice": echo.get("tool_choice", "auto"),
        "text": {"format": {"type": "text"}, **echo.get("text", {})},
        "metadata": echo.get("metadata", {}),
        "store": echo.get("store", True),
        "background": echo.get("background", False),
        "user": echo.get("user"),
        "safety_identifier": echo.get("safety_identifier"),
        "prompt_cache_key": echo.get("prompt_cache_key"),
        **FIXED,
        **{name: echo[name] for name in SAMPLING if name in echo},
    }


FIXED: dict[str, JSON] = {
    "truncation": "disabled", "parallel_tool_calls": True, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
    "top_logprobs": 0, "temperature": 1, "reasoning": None, "max_output_tokens": None, "max_tool_calls": None,
    "service_tier": "default",
}  # fmt: skip


def tool_json(tool: dict[str, JSON]) -> dict[str, JSON]:
    return {"description": None, "parameters": None, "strict": False, **tool}


class Numbers:
    """Numbers the events of a stream and leaves out those up to `after`.

    A piece of text counts as many as it has characters, so the numbers do not depend on how the text
    is cut: a stored text comes in one piece, and a reader that was cut off continues inside it.
    """

    def __init__(self, after: int) -> None:
        self.after = after
        self.last = -1

    def take(self, event: dict[str, JSON]) -> Iterator[dict[str, JSON]]:
        before = self.last
        self.last += len(event["delta"]) if event["type"] == TEXT_DELTA else 1
        if self.last <= self.after:
            return
        if event["type"] == TEXT_DELTA and before < self.after:
            event = {**event, "delta": event["delta"][self.after - before :]}
        yield {**event, "sequence_number": self.last}


async def stream_of(turn: Turn, after: int = -1) -> AsyncIterator[bytes]:
    async for event in events_of(turn, after):
        yield sse(event, event["type"]) if event else HEARTBEAT
    yield DONE


async def events_of(turn: Turn, after: int = -1) -> AsyncIterator[dict[str, JSON]]:
    """An empty one says that the turn goes on."""
    items, numbers = Items(turn.id), Numbers(after)
    begun = described(turn, items, "running")
    for name in ("created", "in_progress"):
        for piece in numbers.take({"type": f"response.{name}", "response": begun}):
            yield piece
    async for frame in turns.follow(turn, items.reading.pause):
        if frame.type == "heartbeat":
            yield {}
        for event in items.take(frame):
            for piece in numbers.take(event):
                yield piece
    await in_thread(refresh, turn.run)
    ended = described(turn, items, turn.run.status)
    name = {"failed": "failed", "cancelled": "failed", "incomplete": "incomplete"}.get(ended["status"], "completed")
    for piece in numbers.take({"type": f"response.{name}", "response": ended}):
        yield piece
