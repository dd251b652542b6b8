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
from agents.http.deferred_response import answer_later
from agents.http.pagination import read_page
from agents.models.key import DECIDE
from gateway import branches, turns
from gateway.histories import SentMessage
from gateway.parts import refuse_content_part
from gateway.reading import Reading, render_result_value
from gateway.sse import DONE, HEARTBEAT, bound, build_sse_response, sse
from gateway.turns import LONGEST_WAIT_S, Turn
from plumbing.threads import in_thread
from runs.events.connection_limits import WAITS, count_user_stream
from runs.events.waiting import ENDS
from runs.exceptions import RunFinished
from runs.models import Approval, Message, Run, ToolCallRecord
from runs.queue import endings

from . import references, summaries
from .files import store_sent_files
from .items import Items, usage_json
from .requests import (
    SAMPLING,
    Prompt,
    Result,
    build_sent_call,
    check_results,
    has_content,
    iterate_result_pictures,
    iterate_turn_messages,
    parse_answer_schema,
    parse_call_id,
    parse_flag_field,
    parse_metadata_field,
    parse_openai_parts,
    set_results,
    split_last_message,
    start_prompt,
)
from .views import OpenAIView, get_body_fields

JSON = Any
FIELDS = (
    "model", "input", "instructions", "previous_response_id", "stream", "background", "store", "tools", "tool_choice",
    "text", "metadata",
)  # fmt: skip
# Items of one page.
MOST_ITEMS = 100
# Where a run's metadata keeps what the response repeats of its request.
ECHO = "openai"
# What a response says of its request where the request does not say it.
DEFAULTS: dict[str, JSON] = {
    "previous_response_id": None, "instructions": None, "tool_choice": "auto", "metadata": {}, "store": True,
    "background": False, "user": None, "safety_identifier": None, "prompt_cache_key": None, "truncation": "disabled",
    "parallel_tool_calls": True, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0, "top_logprobs": 0,
    "temperature": 1, "reasoning": None, "max_output_tokens": None, "max_tool_calls": None, "service_tier": "default",
}  # fmt: skip
PREFIX = "resp_"
CALLS = ("function_call", "custom_tool_call", "mcp_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
REFERENCE = "item_reference"
DECISION = "mcp_approval_response"
# Items of OpenAI's own servers: what came of them is in the messages after them.
LEFT_OUT = (
    "reasoning", "mcp_approval_request", DECISION, "mcp_list_tools", "web_search_call",
    "file_search_call", "code_interpreter_call", "image_generation_call",
)  # fmt: skip
NUMBER = re.compile("-1|[0-9]{1,12}")
# The last event of a stream by the status of its response; there is none of its own for a cancelled one.
LAST_EVENTS = {"failed": "failed", "cancelled": "failed", "incomplete": "incomplete"}


@extend_schema(exclude=True)
class ResponsesView(OpenAIView):
    """POST /v1/responses"""

    def post(self, request: Any) -> Any:
        body = get_body_fields(request)
        prompt = parse_response_request(body, request.user)
        is_streamed = parse_flag_field(body, "stream")
        in_background = parse_flag_field(body, "background")
        if is_streamed:
            with count_user_stream(request.user) as respond:
                turn = start_response_turn(request, body, prompt, is_watched=True)
                source = stream_response_bytes(turn)
                # A run in the background goes on when its reader leaves.
                if not in_background:
                    source = bound(turn.run, source, request.user)
                return respond(build_sse_response(request, source))
        # Nobody waits: the client asks for the response when it likes.
        if in_background:
            turn = start_response_turn(request, body, prompt, is_watched=False)
            return Response(response_json(turn))
        with WAITS.take(request.user.pk) as place:
            # Listens before the run starts: it could end before somebody listened otherwise.
            ENDS.listen()
            turn = start_response_turn(request, body, prompt, is_watched=False)
            end = turns.build_turn_end(turn, LONGEST_WAIT_S, place, lambda: Reading().pause)
            return answer_later(self, end, lambda ended: Response(response_json(turn)))


def start_response_turn(
    request: Any, body: dict[str, JSON], prompt: Prompt, *, is_watched: bool, own: Collection[str] = ()
) -> Turn:
    """`own`: ids of responses of this connection, which may be continued though they are not stored."""
    store_sent_files(request.user, prompt)
    if prompt.approvals:
        return decide_response_approvals(request, prompt)
    previous = find_previous_turn(request.user, body, own)
    more = prompt.more(request.user)
    metadata = {**parse_metadata_field(body), ECHO: build_request_echo(body, prompt)}
    start: dict[str, Any] = {
        "user": request.user,
        "key": find_key(request),
        "is_watched": is_watched,
        "metadata": metadata,
    }
    if previous is None and prompt.has_results_alone:
        calls = [parse_call_id(id, "input") for id in prompt.results]
        previous = branches.find_asking_turn(request.user, calls)
        if previous is None:
            # No run waits for them: the refusal says why that cannot be.
            return turns.answer_waiting_run(request.user, dict.fromkeys(calls))
    if previous:
        results = {parse_call_id(id, "input"): value for id, value in prompt.results.items()}
        return branches.continue_turn(
            previous,
            results=results,
            earlier=prompt.earlier,
            parts=prompt.parts,
            has_pictures=prompt.has_pictures,
            model=prompt.model,
            more=more,
            **start,
        )
    # A client that sends the whole conversation again may answer a run that waits.
    resumed = turns.resume_matching_run(
        request.user, prompt.results, prompt.earlier, prompt.model, more, has_pictures=prompt.has_pictures
    )
    if resumed:
        return resumed
    return turns.start_turn(
        **start,
        agent=prompt.model,
        parts=prompt.parts,
        earlier=prompt.earlier,
        continues=prompt.continues,
        is_resent=True,
        **more,
    )


def find_previous_turn(user: Any, body: dict[str, JSON], own: Collection[str] = ()) -> Turn | None:
    """The turn that `previous_response_id` names; None if nothing is named. Raises Invalid, Conflict."""
    if body.get("previous_response_id") is None:
        return None
    id = str(body["previous_response_id"])
    try:
        turn = load_response_turn(user, id, own)
    except NotFound:
        message = f"Previous response with id “{id[:80]}” not found."
        raise refuse_content_part("previous_response_id", message, "previous_response_not_found")
    if turn.run.session is None:
        raise Conflict(
            "The conversation of the previous response was deleted.",
            code="session_deleted",
            hint="Leave out previous_response_id to begin another one.",
        )
    return turn


def load_response_turn(user: Any, id: str, own: Collection[str] = ()) -> Turn:
    """Raises NotFound; also for a response with `store: false`, unless it is one of `own`."""
    turn = None
    if id.startswith(PREFIX):
        turn = turns.find_turn(user, id.removeprefix(PREFIX))
    if turn is not None:
        is_stored = get_request_echo(turn.run).get("store") is not False
        if is_stored or id in own:
            return turn
    raise NotFound(f"There is no response “{id[:80]}”.", code="response_not_found")


def decide_response_approvals(request: Any, prompt: Prompt) -> Turn:
    """Decide approvals by their ids, and answer calls; all of one run. Raises NotFound, Forbidden, AlreadyDecided."""
    require_scope(request, DECIDE)
    rows = Approval.objects.filter(run__principal_id=request.user.pk).select_related("run")
    open_ones = {row.pk: row for row in rows.filter(pk__in=prompt.approvals)}
    if len(open_ones) < len(prompt.approvals):
        raise NotFound("There is no such approval request.", code="approval_not_found")
    decisions = []
    for pk, is_approved in prompt.approvals.items():
        decision = "approve" if is_approved else "deny"
        decisions.append((open_ones[pk], {"decision": decision}))
    results = {parse_call_id(id, "input"): value for id, value in prompt.results.items()}
    return turns.answer_waiting_run(request.user, results, decisions=decisions, source="openai")


@extend_schema(exclude=True)
class ResponseView(OpenAIView):
    """GET /v1/responses/{id}: the response so far; `?stream=true` follows it, after an event if
    `starting_after` names one.
    """

    parameters = {"get": ("stream", "starting_after", "include")}

    def get(self, request: Any, id: str) -> Any:
        turn = load_response_turn(request.user, id)
        after = request.query_params.get("starting_after", "-1")
        if request.query_params.get("stream") != "true":
            return Response(response_json(turn))
        if not NUMBER.fullmatch(after):
            raise refuse_content_part("starting_after", "“starting_after” is the sequence_number of an event.")
        with count_user_stream(request.user) as respond:
            source = stream_response_bytes(turn, int(after))
            return respond(build_sse_response(request, source))


@extend_schema(exclude=True)
class CancelView(OpenAIView):
    """POST /v1/responses/{id}/cancel"""

    def post(self, request: Any, id: str) -> Response:
        turn = load_response_turn(request.user, id)
        try:
            endings.cancel_run(turn.run, by=request.user, reason="cancelled by the caller")
        except RunFinished:
            pass  # cancelling twice is no error in this API
        return Response(response_json(turn))


@extend_schema(exclude=True)
class InputItemsView(OpenAIView):
    """GET /v1/responses/{id}/input_items: the user's message of this run."""

    parameters = {"get": ("limit", "order", "after", "include")}

    def get(self, request: Any, id: str) -> Response:
        turn = load_response_turn(request.user, id)
        size, is_newest_first, after = parse_item_page(request.query_params)
        rows = Message.objects.filter(run=turn.run, role=Message.Role.USER)
        rows = rows.order_by("-seq" if is_newest_first else "seq")
        if after:
            last = rows.filter(pk=after).first()
            if last is None:
                raise refuse_content_part("after", "“after” must be the id of an item of this response.")
            if is_newest_first:
                rows = rows.filter(seq__lt=last.seq)
            else:
                rows = rows.filter(seq__gt=last.seq)
        page, has_more = read_page(rows, size)
        items = [item_json(row) for row in page]
        return Response(
            {
                "object": "list",
                "data": items,
                "first_id": items[0]["id"] if items else None,
                "last_id": items[-1]["id"] if items else None,
                "has_more": has_more,
            }
        )


def item_json(row: Message) -> dict[str, JSON]:
    content = [{"type": "input_text", "text": row.words}]
    return {"id": f"msg_{row.pk.hex}", "type": "message", "role": "user", "status": "completed", "content": content}


def parse_item_page(query: Any) -> tuple[int, bool, UUID | None]:
    """The size of the page, whether the newest come first, and behind which item it begins. Raises Invalid."""
    limit = query.get("limit", "20")
    order = query.get("order", "desc")
    after = query.get("after", "")
    is_number = limit.isascii() and limit.isdigit() and len(limit) < 6
    if not is_number or not 1 <= int(limit) <= MOST_ITEMS:
        raise refuse_content_part("limit", f"“limit” must be a number from 1 to {MOST_ITEMS}.")
    if order not in ("asc", "desc"):
        raise refuse_content_part("order", "“order” can be asc or desc.")
    is_newest_first = order == "desc"
    if not after:
        return int(limit), is_newest_first, None
    try:
        item_id = UUID(after.removeprefix("msg_"))
    except ValueError:
        raise refuse_content_part("after", "“after” must be the id of an item.")
    return int(limit), is_newest_first, item_id


# -- the request ----------------------------------------------------------------------------------------------------


def parse_response_request(body: dict[str, JSON], user: Any = None) -> Prompt:
    """`user`: whose earlier items the input may refer to. Raises Invalid."""
    prompt = start_prompt(body, FIELDS, lambda entry: entry)
    answer_format = body.get("text") or {}
    if isinstance(answer_format, dict):
        answer_format = answer_format.get("format")
    prompt.output_schema = parse_answer_schema(answer_format, "text.format", None)
    instructions = body.get("instructions")
    if isinstance(instructions, str):
        prompt.instructions.append(instructions)
    items = parse_input_items(body, user)
    read_last_answers(prompt, items)
    if prompt.approvals:
        return prompt
    read_items(prompt, items, continues_another=body.get("previous_response_id") is not None)
    return prompt


def read_items(prompt: Prompt, items: list[dict[str, JSON]], *, continues_another: bool) -> None:
    """The conversation in the items, and the results for calls that are not in it: the response before made them."""
    results = iterate_output_results(items)
    calls = {str(item.get("call_id")) for item in items if item.get("type") in CALLS}
    others = {id: result for id, result in results.items() if id not in calls}
    last = last_results(items, results)
    prompt.has_results_alone = not continues_another and len(last) == len(items)
    # The calls of these results are in rows of the server, not in the input.
    is_elsewhere = continues_another or prompt.has_results_alone
    if others and not is_elsewhere:
        raise refuse_content_part("input", f"There is no call “{min(others)[:80]}” in the input.", "unknown_call")
    set_results(prompt, others if is_elsewhere else last)
    messages = list(iterate_response_messages(items, results, prompt))
    sent: list[SentMessage] = []
    if is_elsewhere:
        for id, result in others.items():
            sent.extend(iterate_result_pictures(id, result))
    sent += messages
    prompt.continues = bool(last)
    if last or (continues_another and not sent):
        prompt.earlier = sent
    else:
        split_last_message(prompt, sent)


def parse_input_items(body: dict[str, JSON], user: Any = None) -> list[dict[str, JSON]]:
    """The items of the request; a reference is replaced by the item that it names. Raises Invalid."""
    value = body.get("input")
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    is_list = isinstance(value, list) and len(value) > 0
    if not is_list or not all(isinstance(item, dict) for item in value):
        raise refuse_content_part("input", "“input” must be text or a list of items.")
    items = []
    for place, item in enumerate(value):
        if item.get("type") == REFERENCE:
            item = references.find_item(user, str(item.get("id")), f"input.{place}")
        items.append(item)
    return items


def iterate_output_results(items: list[dict[str, JSON]]) -> dict[str, Result]:
    """The results of calls, by the ids of the calls."""
    results = {}
    for place, item in enumerate(items):
        if item.get("type") in OUTPUTS:
            id = str(item.get("call_id"))
            results[id] = Result.of(item.get("output"), f"input.{place}.output")
    return results


def last_results(items: list[dict[str, JSON]], results: dict[str, Result]) -> dict[str, Result]:
    """Those at the end of the input."""
    ids = []
    for item in reversed(items):
        if item.get("type") not in OUTPUTS:
            break
        ids.append(str(item.get("call_id")))
    return {id: results[id] for id in ids}


def read_last_answers(prompt: Prompt, items: list[dict[str, JSON]]) -> None:
    """The decisions that the input ends in, and the results of calls beside them. Earlier ones were read when they were
    sent: a client that is stateless repeats them.
    """
    first = len(items)
    while first > 0 and items[first - 1].get("type") in (DECISION, *OUTPUTS):
        first -= 1
    for place in range(first, len(items)):
        item = items[place]
        if item["type"] == DECISION:
            request_id = str(item.get("approval_request_id")).removeprefix("mcpr_")
            approval_id = parse_call_id(request_id, f"input.{place}.approval_request_id")
            prompt.approvals[approval_id] = parse_flag_field(item, "approve")
    set_results(prompt, iterate_output_results(items[first:]))


def iterate_response_messages(
    items: list[dict[str, JSON]], results: dict[str, Result], prompt: Prompt
) -> Iterator[SentMessage]:
    """The messages. Calls that were made together are one message of the assistant."""
    calls: list[dict[str, JSON]] = []
    # A call after a result was made in another turn of the model.
    is_answered = False
    has_begun = False
    for place, item in enumerate(items):
        kind = item.get("type", "message")
        param = f"input.{place}"
        if kind in CALLS and not is_answered:
            calls.append(made_call(item, results, param))
            continue
        # Results were read before: they are put into the calls that they answer.
        if kind in OUTPUTS:
            is_answered = True
            continue
        if calls and kind not in LEFT_OUT:
            yield from iterate_turn_messages([], calls, results)
            calls = []
            is_answered = False
        if kind in CALLS:
            calls = [made_call(item, results, param)]
        elif kind == "message":
            is_instruction = item.get("role") in ("system", "developer")
            if is_instruction and has_begun:
                prompt.has_late_instructions = True
            if not is_instruction:
                has_begun = True
            yield from parse_message_item(item, prompt, param)
        elif kind == "compaction":
            yield open_compaction_item(item, prompt, param)
        elif kind not in LEFT_OUT:
            message = f"An item of type “{str(kind)[:40]}” cannot be sent."
            raise refuse_content_part(f"{param}.type", message, "unsupported_item")
    yield from iterate_turn_messages([], calls, results)


def open_compaction_item(item: dict[str, JSON], prompt: Prompt, param: str) -> SentMessage:
    """The summary in an item that the compact endpoint made, as a message of the assistant."""
    summary = summaries.open_sealed_summary(item.get("encrypted_content"), f"{param}.encrypted_content")
    prompt.summaries.append(summary)
    text = summaries.INTRODUCTION + summary["text"]
    return SentMessage("assistant", [{"type": "text", "text": text}], is_sealed=True)


def parse_message_item(item: dict[str, JSON], prompt: Prompt, param: str) -> Iterator[SentMessage]:
    """A message; those of the system become instructions of this run."""
    role = item.get("role")
    content = item.get("content")
    param = f"{param}.content"
    if role in ("system", "developer"):
        prompt.instructions.append(Result.of(content, param).text)
        return
    if role not in ("user", "assistant"):
        raise refuse_content_part(param, "A role must be system, developer, user or assistant.")
    parts = parse_openai_parts(content, param)
    if role == "user" or has_content(parts):
        yield SentMessage(role, parts)


def made_call(item: dict[str, JSON], results: dict[str, Result], param: str) -> dict[str, JSON]:
    """A call in the form of Message.tool_calls. Raises Invalid if it has no result."""
    name = item.get("name")
    if item["type"] == "mcp_call":
        result = item["error"] if item.get("error") is not None else item.get("output")
        return build_sent_call(item.get("id"), name, item.get("arguments"), render_result_value(result or ""))
    id = str(item.get("call_id"))
    check_results([id], results, param)
    result_text = results[id].text
    if item["type"] == "custom_tool_call":
        call = build_sent_call(id, name, "", result_text)
        call["arguments"] = {"input": item.get("input")}
        return call
    return build_sent_call(id, name, item.get("arguments"), result_text)


# -- the answer -----------------------------------------------------------------------------------------------------


def build_request_echo(body: dict[str, JSON], prompt: Prompt) -> dict[str, JSON]:
    """What a response repeats of its request, without tools that were left out."""
    kept = ("instructions", "previous_response_id", "tools", "tool_choice", "text", "store", "background", "model",
            "metadata", "user", "safety_identifier", "prompt_cache_key", *SAMPLING)  # fmt: skip
    echo = {name: body[name] for name in kept if body.get(name) is not None}
    if prompt.is_one_call:
        echo["parallel_tool_calls"] = False
    # The response must not claim that the model could call the others.
    if "tools" in echo:
        echo["tools"] = [tool for tool in body["tools"] if tool["type"] == "function"]
    return echo


def get_request_echo(run: Run) -> dict[str, JSON]:
    """What was stored by `build_request_echo`; empty for a run that began elsewhere."""
    if not isinstance(run.metadata, dict):
        return {}
    echo = run.metadata.get(ECHO)
    return echo if isinstance(echo, dict) else {}


def response_json(turn: Turn) -> dict[str, JSON]:
    """The response as its rows say now."""
    # The run may have gone on since the turn was loaded.
    refresh(turn.run)
    items = load_turn_items(turn)
    items.take_stored(turn)
    return serialize_openai_response(turn, items, status_of_run(turn.run))


def load_turn_items(turn: Turn) -> Items:
    """For a turn that begins after an approval: the call that it was about was made before."""
    if not turn.after:
        return Items(turn.id)
    rows = ToolCallRecord.objects.filter(run=turn.run, parent_call=None)
    calls = {}
    for row in rows.only("id", "name", "arguments"):
        id = row.pk.hex
        calls[id] = {"id": id, "name": row.name, "arguments": render_result_value(row.arguments)}
    return Items(turn.id, calls)


def status_of_run(run: Run) -> str:
    """A run that its caller left behind still waits, as far as its responses are concerned."""
    if run.cancel_reason == turns.GONE_ON:
        return Run.Status.WAITING
    return run.status


def refresh(run: Run) -> None:
    run.refresh_from_db(from_queryset=Run.objects.select_related("agent", "session"))


def serialize_openai_response(turn: Turn, items: Items, of_run: str) -> dict[str, JSON]:
    response = {
        "id": PREFIX + turn.id,
        "object": "response",
        "output": items.output,
    }
    response.update(serialize_response_state(turn, items, items.status(of_run)))
    response.update(serialize_request_echo(turn.run))
    return response


def serialize_response_state(turn: Turn, items: Items, status: str) -> dict[str, JSON]:
    """How far the response is, and how it ended."""
    run = turn.run
    end = items.reading.end or {}
    state: dict[str, JSON] = {
        "created_at": int(run.created_at.timestamp()),
        "completed_at": None,
        "status": status,
        "incomplete_details": None,
        "error": None,
        "usage": None,
    }
    if status == "completed" and run.finished_at:
        state["completed_at"] = int(run.finished_at.timestamp())
    if status == "incomplete":
        state["incomplete_details"] = {"reason": items.incomplete_reason()}
    error = end.get("error")
    if status == "failed" and error:
        state["error"] = {"code": error["code"], "message": error["message"]}
    if status in ("completed", "incomplete", "failed"):
        state["usage"] = usage_json(items.reading.spent(turn))
    return state


def serialize_request_echo(run: Run) -> dict[str, JSON]:
    """The fields of a response that repeat its request."""
    echo = get_request_echo(run)
    fields = dict(DEFAULTS)
    for name in (*DEFAULTS, *SAMPLING):
        if name in echo:
            fields[name] = echo[name]
    agent_name = run.agent.name if run.agent else turns.ROUTER
    fields["model"] = echo.get("model") or agent_name
    fields["tools"] = [tool_json(tool) for tool in echo.get("tools", ())]
    fields["text"] = {"format": {"type": "text"}, **echo.get("text", {})}
    return fields


def tool_json(tool: dict[str, JSON]) -> dict[str, JSON]:
    return {"description": None, "parameters": None, "strict": False, **tool}


class Numbers:
    """Numbers the events of a stream and leaves out those up to `after`."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.last = -1

    def take(self, event: dict[str, JSON]) -> Iterator[dict[str, JSON]]:
        self.last += 1
        if self.last > self.after:
            yield {**event, "sequence_number": self.last}


async def stream_response_bytes(turn: Turn, after: int = -1) -> AsyncIterator[bytes]:
    async for event in stream_response_events(turn, after):
        yield sse(event, event["type"]) if event else HEARTBEAT
    yield DONE


async def stream_response_events(turn: Turn, after: int = -1) -> AsyncIterator[dict[str, JSON]]:
    """An empty one says that the turn goes on."""
    items = await in_thread(load_turn_items, turn)
    numbers = Numbers(after)
    begun = serialize_openai_response(turn, items, "running")
    for name in ("created", "in_progress"):
        for piece in numbers.take({"type": f"response.{name}", "response": begun}):
            yield piece
    async for frame in turns.stream_turn_frames(turn, items.reading.pause):
        if frame.type == "heartbeat":
            yield {}
        for event in items.take(frame):
            for piece in numbers.take(event):
                yield piece
    await in_thread(refresh, turn.run)
    ended = serialize_openai_response(turn, items, status_of_run(turn.run))
    name = LAST_EVENTS.get(ended["status"], "completed")
    for piece in numbers.take({"type": f"response.{name}", "response": ended}):
        yield piece
