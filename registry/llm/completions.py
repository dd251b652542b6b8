"""Chat completions, the API of OpenAI that most servers follow: what is written, and how their answers are read."""

from typing import Any

from plumbing import json_values
from registry.exceptions import AttemptFailed

from .answer_builder import AnswerBuilder, CallPiece
from .chat import ANY
from .errors import find_fault
from .history import describe_part
from .wire import Endpoint
from .wire_model import Request, declare_parameters

JSON = Any
# What servers send beside the text of an answer and want back with it: DeepSeek, Kimi and others; OpenRouter and
# MiniMax; LiteLLM's proxy for Anthropic. Fields that only repeat these (`reasoning`) are not sent: some servers refuse
# them.
KEPT_FIELDS = ("reasoning_content", "reasoning_details", "thinking_blocks")
# What goes back with a call: Gemini's thought signature is in them.
KEPT_OF_CALLS = ("extra_content", "provider_specific_fields")
# Google's own word for a call that none of its models made.
NO_SIGNATURE = "skip_thought_signature_validator"
# In place of reasoning that another model did: Kimi refuses an empty text.
NOTHING_THOUGHT = " "
FEATURES = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


class Completions:
    """The dialect of one endpoint. `bridges`: its models may have templates that want roles to alternate.
    `limit_name` is its name for the longest answer.
    """

    def __init__(self, endpoint: Endpoint, params: dict[str, JSON], *, is_openai: bool = False) -> None:
        self._endpoint = endpoint
        self._params = params
        self._limit_name = "max_completion_tokens" if is_openai else "max_tokens"
        self.bridges = not is_openai
        self.forces_calls = True

    def endpoint(self, request: Request) -> Endpoint:
        return self._endpoint

    def write(self, request: Request) -> dict[str, JSON]:
        body: dict[str, JSON] = {"model": request.model_name}
        body["messages"] = [write_message(message, request.refused) for message in request.messages]
        for name, value in self._params.items():
            body[self._name_of_limit(request) if name == "max_tokens" else name] = value
        if request.tools:
            body["tools"] = [declare_tool(tool) for tool in request.tools]
        if request.forced:
            choice = {"type": "function", "function": {"name": request.forced}}
            body["tool_choice"] = ANY if request.forced == ANY else choice
        if request.has_no_parallel_calls:
            body["parallel_tool_calls"] = False
        if request.stop and "stop" not in request.refused:
            body["stop"] = list(request.stop)
        if request.output_schema is not None:
            body["response_format"] = response_format(request.output_schema)
        if request.is_streamed:
            body["stream"] = True
            if "stream_options" not in request.refused:
                body["stream_options"] = {"include_usage": True}
        return body

    def _name_of_limit(self, request: Request) -> str:
        if "max_tokens" not in request.refused:
            return self._limit_name
        # The server refused one of the two names, so it knows the other.
        if self._limit_name == "max_completion_tokens":
            return "max_tokens"
        return "max_completion_tokens"

    def read(self, builder: AnswerBuilder, event: dict[str, JSON]) -> None:
        read_completion(builder, event)

    def greetings(self) -> list[dict[str, JSON]]:
        return GREETINGS


# -- the request ------------------------------------------------------------------------------------------------------


def write_message(message: dict[str, JSON], refused: frozenset[str]) -> dict[str, JSON]:
    role = message["role"]
    if role == "tool":
        return {"role": "tool", "tool_call_id": message["tool_call_id"], "content": message["content"]}
    content = write_completion_content(message["content"])
    if role != "assistant":
        return {"role": role, "content": content}
    written: dict[str, JSON] = {"role": "assistant", "content": content or None}
    calls = message.get("tool_calls")
    if not calls:
        return written
    # Only a message with calls: what was thought before an earlier reply is refused by some, and wanted by none.
    fields = message["fields"]
    for name in KEPT_FIELDS:
        if name in fields:
            written[name] = fields[name]
    if "absent_reasoning" in refused and not written.get("reasoning_content"):
        written["reasoning_content"] = NOTHING_THOUGHT
    written["tool_calls"] = [write_call(call) for call in calls]
    if "absent_signature" in refused:
        signature = {"google": {"thought_signature": NO_SIGNATURE}}
        written["tool_calls"][0].setdefault("extra_content", signature)
    return written


def write_call(call: dict[str, JSON]) -> dict[str, JSON]:
    arguments = json_values.dump_json(call["arguments"]).decode()
    function = {"name": call["name"], "arguments": arguments}
    return {"id": call["id"], "type": "function", "function": function, **call["fields"]}


def write_completion_content(content: JSON) -> JSON:
    if isinstance(content, str):
        return content
    if all(part.get("type") == "text" for part in content):
        return "\n".join(part["text"] for part in content)
    return [write_completion_part(part) for part in content]


def write_completion_part(part: dict[str, JSON]) -> dict[str, JSON]:
    kind = part["type"]
    if kind == "text":
        return {"type": "text", "text": part["text"]}
    if kind == "image" and (part.get("data") or part.get("url")):
        url = part.get("url")
        if not url:
            media = part.get("media_type", "image/png")
            url = f"data:{media};base64,{part['data']}"
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": describe_part(part)}


def declare_tool(tool: Any) -> dict[str, JSON]:
    parameters = declare_parameters(tool)
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def response_format(schema: dict[str, JSON]) -> dict[str, JSON]:
    json_schema = {"name": "answer", "schema": schema, "strict": False}
    return {"type": "json_schema", "json_schema": json_schema}


# -- the answer -------------------------------------------------------------------------------------------------------


def read_completion(builder: AnswerBuilder, body: dict[str, JSON]) -> None:
    """Add a whole completion (with a message), or a chunk of one (with a delta). Raises AttemptFailed."""
    read_completion_usage(builder, body)
    choice = find_choice(body)
    if choice is None:
        if body.get("object") == "chat.completion":
            raise AttemptFailed("bad_answer", "The model server's answer has no message.", is_retryable=True)
        return
    if choice.get("error") and (fault := find_fault({"error": choice["error"]}, json_values.dump_json(choice))):
        raise fault
    finish = choice.get("finish_reason")
    is_whole = "delta" not in choice
    message = choice.get("message") if is_whole else choice.get("delta")
    if isinstance(message, dict):
        read_completion_message(builder, message, is_whole=is_whole)
    elif is_whole:
        raise AttemptFailed("bad_answer", "The model server's answer has no message.", is_retryable=True)
    if finish or is_whole:
        builder.end(finish)


def read_completion_message(builder: AnswerBuilder, message: dict[str, JSON], *, is_whole: bool) -> None:
    """A message, or what a chunk adds to one."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str):
        builder.add_reasoning(reasoning)
    for name in KEPT_FIELDS:
        if message.get(name):
            builder.add_field(name, message[name])
    read_completion_content(builder, message.get("content"))
    builder.add_refusal(read_refusal(message))
    pieces = read_pieces(message)
    if is_whole:
        for piece in pieces:
            builder.add_call(piece)
    elif pieces:
        builder.add_pieces(pieces)


def read_refusal(message: dict[str, JSON]) -> str:
    """The reason of a model that declines, which LiteLLM's proxy puts among other fields; or ""."""
    refusal = message.get("refusal")
    others = message.get("provider_specific_fields")
    if not refusal and isinstance(others, dict):
        refusal = others.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def read_completion_content(builder: AnswerBuilder, content: JSON) -> None:
    """A text, null, or a list of parts."""
    if isinstance(content, str):
        builder.add_text(content)
        return
    if not isinstance(content, list):
        return
    for part in content:
        if isinstance(part, str):
            builder.add_text(part)
        elif isinstance(part, dict):
            read_content_part(builder, part)


def read_content_part(builder: AnswerBuilder, part: dict[str, JSON]) -> None:
    text = part.get("text")
    refusal = part.get("refusal")
    if isinstance(text, str):
        builder.add_text(text)
    elif part.get("type") == "thinking":
        # Mistral's word.
        builder.add_reasoning(read_thinking(part.get("thinking")))
    elif isinstance(refusal, str):
        builder.add_refusal(refusal)


def read_thinking(thinking: JSON) -> str:
    if isinstance(thinking, str):
        return thinking
    if not isinstance(thinking, list):
        return ""
    texts = [part.get("text") for part in thinking if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def find_choice(body: dict[str, JSON]) -> dict[str, JSON] | None:
    """The first choice; we never ask for more than one."""
    choices = body.get("choices")
    if not isinstance(choices, list):
        return None
    for choice in choices:
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return None


def read_pieces(message: dict[str, JSON]) -> list[CallPiece]:
    """The tool calls of a message, or the pieces of calls in a delta."""
    calls = message.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    if isinstance(calls, list) and calls:
        return [read_call_piece(call) for call in calls if isinstance(call, dict)]
    # The form before `tool_calls`.
    function = message.get("function_call")
    if isinstance(function, dict):
        return [read_call_piece({"index": 0, "function": function})]
    return []


def read_call_piece(call: dict[str, JSON]) -> CallPiece:
    function = call.get("function")
    if not isinstance(function, dict):
        # Some servers leave the level out.
        function = call if "name" in call else {}
    fields = {name: call[name] for name in KEPT_OF_CALLS if call.get(name)}
    name = function.get("name")
    arguments = function.get("arguments")
    return CallPiece.of(call.get("index"), call.get("id"), name, arguments, fields)


def read_completion_usage(builder: AnswerBuilder, body: dict[str, JSON]) -> None:
    """The tokens used so far: servers that send them more than once send totals."""
    usage = body.get("usage")
    if isinstance(usage, dict):
        builder.input_tokens = count_tokens(usage.get("prompt_tokens"))
        builder.output_tokens = count_tokens(usage.get("completion_tokens"))


def count_tokens(number: JSON) -> int:
    if isinstance(number, int) and number > 0:
        return number
    return 0


# An answer that says hello and asks for a call, for the rehearsal of a worker that has just started.
GREETING_CALL = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "hello", "arguments": "{}"}}
GREETING = {"role": "assistant", "content": "Hello", "tool_calls": [GREETING_CALL]}
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
GREETINGS: list[dict[str, JSON]] = [
    {"choices": [{"index": 0, "delta": GREETING, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": USAGE},
]
