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

from .files import store_sent_files
from .requests import (
    CALL,
    Prompt,
    Result,
    build_sent_call,
    check_results,
    iterate_turn_messages,
    parse_answer_schema,
    parse_flag_field,
    parse_metadata_field,
    parse_openai_parts,
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
                source = bound(turn.run, chunks(turn, prompt.model, with_usage), request.user)
                return respond(build_sse_response(request, source))
        with WAITS.take(request.user.pk) as place:
            # Listens before the run starts: it could end before somebody listened otherwise.
            ENDS.listen()
            turn = start_chat_turn(request, prompt, metadata, is_watched=False)
            end = turns.build_turn_end(turn, LONGEST_WAIT_S, place)
            return answer_later(self, end, lambda ended: answer_chat_completion(turn, prompt.model))


def start_chat_turn(request: Any, prompt: Prompt, metadata: dict[str, str], *, is_watched: bool) -> Turn:
    """The turn that answers the request: of the run that waits for its results, or of a new run."""
    user = request.user
    store_sent_files(user, prompt)
    more = prompt.more(user)
    # A client that sends the result of a call continues the run that waits for it.
    resumed = turns.resume_matching_run(
        user, prompt.results, prompt.earlier, prompt.model, more, has_pictures=prompt.has_pictures
    )
    if resumed:
        return resumed
    return turns.start_turn(
        user=user,
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
        prompt.earlier = sent
        prompt.continues = True
    else:
        split_last_message(prompt, sent)
    return prompt


def parse_chat_results(messages: list[dict[str, JSON]]) -> dict[str, Result]:
    """The results of the caller's tools, by the ids of the calls."""
    results = {}
    for place, message in enumerate(messages):
        if message.get("role") == "tool":
            id = get_answered_call(message)
            results[id] = Result.of(message.get("content"), f"messages.{place}.content")
    return results


def get_answered_call(message: dict[str, JSON]) -> str:
    """The id of the call whose result this message of the role “tool” is."""
    return str(message.get("tool_call_id"))[:128]


def last_results(messages: list[dict[str, JSON]], results: dict[str, Result]) -> dict[str, Result]:
    """Those at the end of the list."""
    last = {}
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        id = get_answered_call(message)
        last[id] = results[id]
    return last


def iterate_chat_messages(
    messages: list[dict[str, JSON]], results: dict[str, Result], prompt: Prompt
) -> Iterator[SentMessage]:
    """The messages; system messages become instructions of this run."""
    has_begun = False
    for place, message in enumerate(messages):
        role = message.get("role")
        content = message.get("content")
        param = f"messages.{place}.content"
        if role in ("system", "developer"):
            # Behind other messages it may be anybody's text, which was put into the history.
            if has_begun:
                prompt.has_late_instructions = True
            prompt.instructions.append(Result.of(content, param).text)
            continue
        has_begun = True
        if role == "user":
            yield SentMessage("user", parse_openai_parts(content, param))
        elif role == "assistant":
            calls = list(iterate_chat_calls(message, results))
            check_results([call["id"] for call in calls], results, f"messages.{place}.tool_calls")
            words = parse_openai_parts(content or "", param)
            yield from iterate_turn_messages(words, calls, results)
        elif role != "tool":
            refusal = "A role must be system, developer, user, assistant or tool."
            raise refuse_content_part(f"messages.{place}.role", refusal)


def iterate_chat_calls(message: dict[str, JSON], results: dict[str, Result]) -> Iterator[dict[str, JSON]]:
    """The calls of functions in a message of the assistant; entries of other forms are left out."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
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
                # In the model's order: they were asked side by side.
                self.calls.sort(key=lambda call: call["id"])
        return self.text[before:]

    @property
    def end(self) -> dict[str, JSON] | None:
        return self.reading.end

    @property
    def finish_reason(self) -> str:
        if self.end is None:
            return "tool_calls" if self.calls else "stop"
        if self.reading.cut:
            return self.reading.cut
        return "length" if self.end["status"] == "partial" else "stop"

    def failure(self) -> dict[str, JSON] | None:
        """The error of a run that failed, as the API writes errors; None for any other."""
        if self.end is None:
            return None
        status = self.end["status"]
        if status in ("succeeded", "partial"):
            return None
        error = self.end.get("error") or {}
        code = error.get("code", status)
        return error_json(error.get("message", status), code, status_of_failure(code))

    def usage(self, turn: Turn) -> dict[str, int]:
        used = self.reading.spent(turn)
        prompt = used["input_tokens"]
        completion = used["output_tokens"]
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def call_json(data: dict[str, JSON]) -> dict[str, JSON]:
    """A call of the caller's tool, or a question to the person."""
    is_tool_call = data["kind"] == "tool"
    arguments = data["arguments"] if is_tool_call else {"question": data["prompt"]}
    function = {"name": data["name"], "arguments": render_result_value(arguments)}
    return {"id": CALL + bare(data["call"]), "type": "function", "function": function}


def answer_chat_completion(turn: Turn, model: str) -> Response:
    """The completion of a turn that is over, read from its stored events."""
    completion = Completion()
    for frame in turns.iterate_replayed_frames(turn, completion.reading.pause):
        completion.take(frame)
    failure = completion.failure()
    if failure:
        return of_started_run(failure, status_of_failure(failure["code"]))
    # The API has no answer for a run that waits for something else than its caller.
    if completion.end is None and not completion.calls:
        waits = f"The run {turn.run.pk} goes on: it waits, for example for an approval."
        return of_started_run(error_json(waits, "run_waits", 504), 504)
    message: dict[str, JSON] = {"role": "assistant", "content": completion.text or None, "refusal": None}
    if completion.calls and completion.end is None:
        message["tool_calls"] = completion.calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": completion.finish_reason}
    answer = build_chat_head(turn, model, "chat.completion")
    answer["choices"] = [choice]
    answer["usage"] = completion.usage(turn)
    return Response(answer)


def build_chat_head(turn: Turn, model: str, kind: str) -> dict[str, JSON]:
    """What each answer and each chunk begins with."""
    created = int(time())
    return {"id": f"chatcmpl-{turn.id}", "object": kind, "created": created, "model": model}


async def chunks(turn: Turn, model: str, with_usage: bool) -> AsyncIterator[bytes]:
    """The events of a streamed completion. `with_usage`: each chunk has the field, and the last one a value."""
    head = build_chat_head(turn, model, "chat.completion.chunk")
    if with_usage:
        head["usage"] = None

    def chunk(delta: dict[str, JSON], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return sse({**head, "choices": [choice]})

    completion = Completion()
    yield chunk({"role": "assistant", "content": ""})
    async for frame in turns.stream_turn_frames(turn, completion.reading.pause):
        if frame.type == "heartbeat":
            yield HEARTBEAT
            continue
        piece = completion.take(frame)
        if piece:
            yield chunk({"content": piece})
    # A stream has begun with status 200, so an error is its last event.
    failure = completion.failure()
    if failure:
        yield sse({"error": failure})
        return
    if completion.end is None and completion.calls:
        calls = [{"index": place, **call} for place, call in enumerate(completion.calls)]
        yield chunk({"tool_calls": calls})
    yield chunk({}, completion.finish_reason)
    if with_usage:
        yield sse({**head, "choices": [], "usage": completion.usage(turn)})
    yield DONE
