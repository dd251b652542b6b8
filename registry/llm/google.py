"""Google's own API (`generateContent`): what is written, and how its answers are read."""

from typing import Any
from urllib.parse import quote

from agents.tools import ToolSpec
from plumbing import json_values

from .answer_builder import AnswerBuilder, CallPiece
from .chat import ANY
from .completions import NO_SIGNATURE, count_tokens
from .history import describe_part
from .wire import Endpoint
from .wire_model import Request, declare_parameters

JSON = Any
VERSION = "v1beta"
LIMIT_NAMES = {"temperature": "temperature", "top_p": "topP", "max_tokens": "maxOutputTokens"}


class Google:
    """The dialect of one account."""

    bridges = False
    forces_calls = True

    def __init__(self, base_url: str, key: str, params: dict[str, JSON]) -> None:
        self._base_url = base_url
        self._headers = {"x-goog-api-key": key}
        self._params = {}
        for name, value in params.items():
            if name in LIMIT_NAMES:
                self._params[LIMIT_NAMES[name]] = value

    def endpoint(self, request: Request) -> Endpoint:
        model = quote(request.model_name.removeprefix("models/"), safe="")
        verb = "generateContent"
        if request.is_streamed:
            verb = "streamGenerateContent?alt=sse"
        url = f"{self._base_url}/{VERSION}/models/{model}:{verb}"
        return Endpoint(url, self._headers)

    def write(self, request: Request) -> dict[str, JSON]:
        messages = list(request.messages)
        body: dict[str, JSON] = {}
        if messages and messages[0]["role"] == "system":
            body["systemInstruction"] = {"parts": [{"text": messages.pop(0)["content"]}]}
        body["contents"] = write_contents(messages)
        options = dict(self._params)
        if request.output_schema is not None:
            options |= {"responseMimeType": "application/json", "responseJsonSchema": request.output_schema}
        if request.stop:
            options["stopSequences"] = list(request.stop)
        if options:
            body["generationConfig"] = options
        if request.tools:
            body["tools"] = [{"functionDeclarations": [declare_function(tool) for tool in request.tools]}]
        if request.forced:
            names = {} if request.forced == ANY else {"allowedFunctionNames": [request.forced]}
            body["toolConfig"] = {"functionCallingConfig": {"mode": "ANY", **names}}
        return body

    def read(self, builder: AnswerBuilder, event: dict[str, JSON]) -> None:
        read_google_usage(builder, event)
        feedback = event.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            builder.add_refusal(f"The prompt was blocked: {feedback['blockReason']}.")
            builder.end("safety")
        candidates = event.get("candidates")
        candidate = candidates[0] if isinstance(candidates, list) and candidates else None
        if not isinstance(candidate, dict):
            return
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                read_google_part(builder, part)
        if candidate.get("finishReason"):
            builder.end(candidate["finishReason"])

    def greetings(self) -> list[dict[str, JSON]]:
        call = {"functionCall": {"name": "hello", "args": {}}}
        content = {"role": "model", "parts": [{"text": "Hello"}, call]}
        candidate = {"content": content, "finishReason": "STOP"}
        return [{"candidates": [candidate], "usageMetadata": {}}]


def write_contents(messages: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """Results are the person's turn here, all of one answer in one turn."""
    contents: list[dict[str, JSON]] = []
    for message in messages:
        role = "model" if message["role"] == "assistant" else "user"
        parts = write_google_parts(message)
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": role, "parts": parts})
    return contents


def write_google_parts(message: dict[str, JSON]) -> list[dict[str, JSON]]:
    content = message["content"]
    if message["role"] == "tool":
        response = {"name": message["name"], "response": write_result(content)}
        return [{"functionResponse": response}]
    parts = write_google_content(content)
    for place, call in enumerate(message.get("tool_calls") or ()):
        function_call = {"name": call["name"], "args": call["arguments"]}
        part: dict[str, JSON] = {"functionCall": function_call, **call["fields"]}
        # Of several calls side by side only the first has a signature.
        if place == 0:
            part.setdefault("thoughtSignature", NO_SIGNATURE)
        parts.append(part)
    return parts


def write_result(text: str) -> dict[str, JSON]:
    """A result must be an object."""
    try:
        value = json_values.load_json(text)
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {"result": value}


def write_google_content(content: JSON) -> list[dict[str, JSON]]:
    if not isinstance(content, str):
        return [write_google_part(part) for part in content]
    # The server refuses an empty text.
    if not content:
        return []
    return [{"text": content}]


def write_google_part(part: dict[str, JSON]) -> dict[str, JSON]:
    if part["type"] == "text":
        return {"text": part["text"]}
    media = part.get("media_type", "image/png")
    if part["type"] == "image" and part.get("data"):
        return {"inlineData": {"mimeType": media, "data": part["data"]}}
    if part["type"] == "image" and part.get("url"):
        return {"fileData": {"mimeType": media, "fileUri": part["url"]}}
    return {"text": describe_part(part)}


def declare_function(tool: ToolSpec) -> dict[str, JSON]:
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": declare_parameters(tool)}


def read_google_part(builder: AnswerBuilder, part: dict[str, JSON]) -> None:
    call = part.get("functionCall")
    text = part.get("text")
    if isinstance(call, dict):
        fields = {}
        signature = part.get("thoughtSignature")
        if isinstance(signature, str):
            fields["thoughtSignature"] = signature
        arguments = call.get("args") or {}
        piece = CallPiece.of(None, call.get("id"), call.get("name"), arguments, fields)
        builder.add_call(piece)
    elif isinstance(text, str):
        if part.get("thought") is True:
            builder.add_reasoning(text)
        else:
            builder.add_text(text)


def read_google_usage(builder: AnswerBuilder, event: dict[str, JSON]) -> None:
    usage = event.get("usageMetadata")
    if not isinstance(usage, dict):
        return
    builder.input_tokens = count_tokens(usage.get("promptTokenCount"))
    # The server counts what its model thought apart from its answer; both are paid for.
    thought = count_tokens(usage.get("thoughtsTokenCount"))
    answered = count_tokens(usage.get("candidatesTokenCount"))
    builder.output_tokens = answered + thought
