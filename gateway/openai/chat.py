"""Chat completions: the caller keeps the conversation and sends all of it each time.

The agent's own tools are executed here and do not appear: this API has no place for them. A call of
a tool that the caller sent ends the completion, and its result continues the same run.
"""

from collections.abc import AsyncIterator, Iterator
from time import time
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from agents.http.authentication import find_key
from agents.http.deferred_response import answer_later
from gateway import turns
from gateway.histories import SentMessage
from gateway.parts import refuse_content_part
from gateway.reading import QUESTION, TEXT, Reading, bare, render_result_value
from gateway.sse import DONE, HEARTBEAT, bound, build_sse_response, sse
from gateway.turns import LONGEST_WAIT_S, Turn
from runs.events.connection_limits import WAITS, count_user_stream
from runs.events.frames import Frame
from runs.events.waiting import ENDS

from .requests import (
    CALL,
    Prompt,
    Result,
    build_sent_call,
    iterate_turn_messages,
    parse_answer_schema,
    parse_flag_field,
    parse_metadata_field,
    parse_openai_parts,
    require_results,
    set_results,
    split_last_message,
    start_prompt,
)
from .views import OpenAIView, error_json, get_body_fields, of_started_run, status_of_failure

JSON = Any
FIELDS = ("model", "messages", "stream", "tools", "tool_choice", "response_format", "metadata", "store")


@extend_schema(exclude=True)
class ChatView(OpenAIView):
    """POST /v1/chat/completions"""

    def post(self, request: Any) -> Any:
        body = get_body_fields(request)
        prompt = parse_chat_request(body)
        metadata = parse_metadata_field(body)
        if parse_flag_field(body, "stream"):
            options = body.get("stream_options") or {}
            with_usage = isinstance(options, dict) and options.get("include_usage") is True
            with count_user_stream(request.user) as respond:
                turn = start_chat_turn(request, prompt, metadata, is_watched=True)
                source = chunks(turn, prompt.model, with_usage)
                return respond(build_sse_response(request, bound(turn.run, source, request.user)))
        with WAITS.take(request.user.pk) as place:
            ENDS.listen()
            turn = start_chat_turn(request, prompt, metadata, is_watched=False)
            end = turns.build_turn_end(turn, LONGEST_WAIT_S, place)
            return answer_later(self, end, lambda ended: answer_chat_completion(turn, prompt.model))


def start_chat_turn(request: Any, prompt: Prompt, metadata: dict[str, str], *, is_watched: bool) -> Turn:
    more = prompt.more(request.user)
    if turn := turns.resume_matching_run(
        request.user, prompt.results, prompt.earlier, prompt.model, more, has_pictures=prompt.has_pictures
    ):
        return turn
    return turns.start_turn(
        user=request.user,
        key=find_key(request),
        agent=prompt.model,
        parts=prompt.parts,
        earlier=prompt.earlier,
        continues=prompt.continues,
        is_watched=is_watched,
        is_resent=True,
        metadata=metadata,
        **more,
    )


# -- the request ----------------------------------------------------------------------------------------------------


def parse_chat_request(body: dict[str, JSON]) -> Prompt:
    """Raises Invalid."""
    prompt = start_prompt(body, FIELDS, lambda entry: entry.get("function"))
    prompt.output_schema = parse_answer_schema(body.get("response_format"), "response_format", "json_schema")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise refuse_content_part("messages", "“messages” must be a list of messages.")
    results = parse_chat_results(messages)
    sent = list(iterate_chat_messages(messages, results, prompt))
    if messages[-1].get("role") == "tool":
        set_results(prompt, last_results(messages, results))
        prompt.earlier, prompt.continues = sent, True
    else:
        split_last_message(prompt, sent)
    return prompt


def parse_chat_results(messages: list[dict[str, JSON]]) -> dict[str, Result]:
    """The results of the caller's tools, by the ids of the calls."""
    return {
        str(message.get("tool_call_id"))[:128]: Result.of(message.get("content"), f"messages.{place}.content")
        for place, message in enumerate(messages)
        if message.get("role") == "tool"
    }


def last_results(messages: list[dict[str, JSON]], results: dict[str, Result]) -> dict[str, Result]:
    """Those at the end of the list."""
    ids = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        ids.append(str(message.get("tool_call_id"))[:128])
    return {id: results[id] for id in ids}


def iterate_chat_messages(
    messages: list[dict[str, JSON]], results: dict[str, Result], prompt: Prompt
) -> Iterator[SentMessage]:
    """The messages; system messages become instructions of this run."""
    has_begun = False
    for place, message in enumerate(messages):
        role, param = message.get("role"), f"messages.{place}.content"
        has_begun = has_begun or role not in ("system", "developer")
        if role in ("system", "developer"):
            prompt.has_late_instructions = prompt.has_late_instructions or has_begun
            prompt.instructions.append(Result.of(message.get("content"), param).text)
        elif role == "user":
            yield SentMessage("user", parse_openai_parts(message.get("content"), param))
        elif role == "assistant":
            calls = list(iterate_chat_calls(message, results))
            require_results([call["id"] for call in calls], results, f"messages.{place}.tool_calls")
            yield from iterate_turn_messages(parse_openai_parts(message.get("content") or "", param), calls, results)
        elif role != "tool":
            raise refuse_content_part(
                f"messages.{place}.role", "A role must be system, developer, user, assistant or tool."
            )


def iterate_chat_calls(message: dict[str, JSON], results: dict[str, Result]) -> Iterator[dict[str, JSON]]:
    calls = message.get("tool_calls") or []
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            id = str(call.get("id"))[:128]
            result = results[id].text if id in results else ""
            yield build_sent_call(id, function.get("name"), function.get("arguments"), result)


# -- the answer -----------------------------------------------------------------------------------------------------


class Completion:
    """Reads a turn's events: pieces of text, calls for the caller, how it ended."""

    def __init__(self) -> None:
        self.reading = Reading(for_approvals=False)
        self.text = ""
        self.calls: list[dict[str, JSON]] = []

    def take(self, frame: Frame) -> str:
        """The new text in this event."""
        before = len(self.text)
        for step in self.reading.take(frame):
            if step.kind == TEXT:
                self.text += step.data["text"]
            elif step.kind == QUESTION:
                self.calls.append(call_json(step.data))
                self.calls.sort(key=lambda call: call["id"])  # in the model's order: they were asked side by side
        return self.text[before:]

    @property
    def end(self) -> dict[str, JSON] | None:
        return self.reading.end

    @property
    def finish_reason(self) -> str:
        if self.end is None:
            return "tool_calls" if self.calls else "stop"
        return self.reading.cut or ("length" if self.end["status"] == "partial" else "stop")

    def failure(self) -> dict[str, JSON] | None:
        if self.end is None or self.end["status"] in ("succeeded", "partial"):
            return None
        error = self.end.get("error") or {}
        code = error.get("code", self.end["status"])
        return error_json(error.get("message", self.end["status"]), code, status_of_failure(code))

    def usage(self, turn: Turn) -> dict[str, int]:
        used = self.reading.spent(turn)
        prompt, completion = used["input_tokens"], used["output_tokens"]
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def call_json(data: dict[str, JSON]) -> dict[str, JSON]:
    """A call of the caller's tool, or a question to the person."""
    arguments = data["arguments"] if data["kind"] == "tool" else {"question": data["prompt"]}
    return {
        "id": CALL + bare(data["call"]), "type": "function",
        "function": {"name": data["name"], "arguments": render_result_value(arguments)},
    }  # fmt: skip


def answer_chat_completion(turn: Turn, model: str) -> Response:
    completion = Completion()
    for frame in turns.iterate_replayed_frames(turn, completion.reading.pause):
        completion.take(frame)
    if failure := completion.failure():
        return of_started_run(failure, status_of_failure(failure["code"]))
    if completion.end is None and not completion.calls:
        waits = f"The run {turn.run.pk} goes on: it waits, for example for an approval."
        return of_started_run(error_json(waits, "run_waits", 504), 504)
    message: dict[str, JSON] = {"role": "assistant", "content": completion.text or None, "refusal": None}
    if completion.calls and completion.end is None:
        message["tool_calls"] = completion.calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": completion.finish_reason}
    head = build_chat_head(turn, model, "chat.completion")
    return Response({**head, "choices": [choice], "usage": completion.usage(turn)})


def build_chat_head(turn: Turn, model: str, kind: str) -> dict[str, JSON]:
    return {"id": f"chatcmpl-{turn.id}", "object": kind, "created": int(time()), "model": model}


async def chunks(turn: Turn, model: str, with_usage: bool) -> AsyncIterator[bytes]:
    head = build_chat_head(turn, model, "chat.completion.chunk") | ({"usage": None} if with_usage else {})

    def chunk(delta: dict[str, JSON], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return sse({**head, "choices": [choice]})

    completion = Completion()
    yield chunk({"role": "assistant", "content": ""})
    async for frame in turns.stream_turn_frames(turn, completion.reading.pause):
        if frame.type == "heartbeat":
            yield HEARTBEAT
        elif piece := completion.take(frame):
            yield chunk({"content": piece})
    if failure := completion.failure():
        yield sse({"error": failure})
        return
    if completion.end is None and completion.calls:
        yield chunk({"tool_calls": [{"index": place, **call} for place, call in enumerate(completion.calls)]})
    yield chunk({}, completion.finish_reason)
    if with_usage:
        yield sse({**head, "choices": [], "usage": completion.usage(turn)})
    yield DONE
