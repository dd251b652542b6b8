"""Bodies of OpenAI's APIs as messages of Muster. A field that Muster does not have is refused."""

from base64 import b64decode
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from gateway.histories import SentMessage
from gateway.parts import parse_image_url, refuse_content_part
from gateway.turns import parse_result_text
from registry.llm.chat import ANY

JSON = Any
CALL = "call_"
# A part with the content of a file; gateway/openai/files.py stores it.
SENT_FILE = "sent_file"
OF_TOOLS = ("parallel_tool_calls", "stop")
# What a parameter may be, where another value would change the answer and the client would rely on it.
NEUTRAL: dict[str, tuple[JSON, ...]] = {
    "n": (None, 1), "logprobs": (None, False), "top_logprobs": (None, 0), "logit_bias": (None, {}),
    "modalities": (None, ["text"]), "max_tool_calls": (None,), "conversation": (None,),
    "prompt": (None,), "audio": (None,), "web_search_options": (None,), "truncation": (None, "disabled", "auto"),
}  # fmt: skip
# Parameters of the model, by their names here.
SAMPLING = {
    "temperature": "temperature", "top_p": "top_p", "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty", "max_tokens": "max_tokens", "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
}  # fmt: skip
# Accepted and not used: no client can be deceived by that. These are
# - hints for caches and against abuse, and what a client says about itself: Muster knows the key's owner;
# - wishes that no server has to follow: how much a model thinks and writes is decided by the agent's definition, a seed
#   promises nothing, and what `include` asks for may be missing from any answer.
IGNORED = frozenset(
    [
        "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "stream_options", "service_tier",
        "reasoning", "reasoning_effort", "verbosity", "seed", "include", "prediction", "client_metadata",
    ]
)  # fmt: skip


@dataclass(slots=True)
class Prompt:
    """What a request asks for: a message with what came before it, or results of calls."""

    model: str
    parts: list[dict[str, JSON]] = field(default_factory=list)
    earlier: list[SentMessage] = field(default_factory=list)
    # Results of the caller's tools, by the ids of the calls.
    results: dict[str, JSON] = field(default_factory=dict)
    # Whether the results have pictures, which reach the model as a message after them.
    has_pictures: bool = False
    # Whether the conversation ends in results: the person writes nothing.
    continues: bool = False
    # Whether the results are for calls of a response that is not named.
    has_results_alone: bool = False
    approvals: dict[UUID, bool] = field(default_factory=dict)
    instructions: list[str] = field(default_factory=list)
    # Instructions after other messages are a part of the history, which anybody may have written.
    has_late_instructions: bool = False
    tools: list[dict[str, JSON]] = field(default_factory=list)
    # “required”, or the name of the tool that has to be called.
    tool_choice: str = ""
    is_one_call: bool = False
    stop: list[str] = field(default_factory=list)
    output_schema: dict[str, JSON] | None = None
    params: dict[str, JSON] = field(default_factory=dict)
    # Summaries that POST /v1/responses/compact made.
    summaries: list[dict[str, JSON]] = field(default_factory=list)

    def more(self, user: Any) -> dict[str, Any]:
        """Further arguments for the intake. Raises Invalid for a summary that is not this person's."""
        if any(summary["user"] != user.pk for summary in self.summaries):
            message = "This is not a summary of a conversation of yours."
            raise refuse_content_part("input", message, "invalid_encrypted_content")
        options: dict[str, JSON] = {}
        if self.output_schema:
            options["output_schema"] = self.output_schema
        if self.params:
            options["model_params"] = self.params
        if self.tool_choice:
            options["tool_choice"] = self.tool_choice
        if self.is_one_call:
            options["parallel_tool_calls"] = False
        if self.stop:
            options["stop"] = self.stop
        if self.instructions:
            options["instructions"] = "\n\n".join(self.instructions)
        return {
            "asked": options or None,
            "tools": self.tools or None,
            "untrusted_input": self.describe_untrusted_origin(),
        }

    def describe_untrusted_origin(self) -> str:
        """Where instructions of unknown origin came from, or empty if there are none."""
        if any(summary["untrusted"] for summary in self.summaries):
            return "openai.compaction"
        if self.has_late_instructions:
            return "instructions in the conversation that was sent along"
        return ""


def start_prompt(body: Mapping[str, JSON], fields: Iterable[str], function_of: Callable[[JSON], JSON]) -> Prompt:
    """What both APIs say in the same way: the model, its parameters and the caller's tools. `fields`: all that the API
    has; `function_of` as for read_tools. Raises Invalid.
    """
    check_fields(body, fields)
    model = parse_text_field(body, "model")
    prompt = Prompt(model, params=parse_sampling_params(body), stop=parse_stop(body))
    read_tools(prompt, body, function_of)
    return prompt


def check_fields(body: Mapping[str, JSON], names: Iterable[str]) -> None:
    """Raises Invalid (unsupported_parameter) for the first field that would change something and is not here."""
    for name, value in body.items():
        if name in IGNORED or name in names or name in SAMPLING or name in OF_TOOLS:
            continue
        # A parameter that is silently ignored would deceive the client.
        if name not in NEUTRAL:
            raise refuse_content_part(name[:80], f"There is no parameter “{name[:80]}”.", "unknown_parameter")
        if value not in NEUTRAL[name]:
            message = f"“{name}” cannot be set for a message: the agent's definition decides."
            raise refuse_content_part(name, message, "unsupported_parameter")


def parse_sampling_params(body: Mapping[str, JSON]) -> dict[str, JSON]:
    """The parameters of the model that the request sets, by their names here."""
    params = {}
    for name, our_name in SAMPLING.items():
        value = body.get(name)
        if value is not None:
            params[our_name] = value
    return params


def parse_text_field(body: Mapping[str, JSON], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise refuse_content_part(name, f"“{name}” must be text.")
    return value


def parse_flag_field(body: Mapping[str, JSON], name: str, default: bool = False) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise refuse_content_part(name, f"“{name}” must be true or false.")
    return value


def parse_metadata_field(body: Mapping[str, JSON]) -> dict[str, str]:
    value = body.get("metadata") or {}
    if not isinstance(value, dict) or len(value) > 16:
        raise refuse_content_part("metadata", "“metadata” must be an object with at most 16 keys.")
    if not all(isinstance(text, str) and len(text) <= 512 for text in value.values()):
        raise refuse_content_part("metadata", "The values of “metadata” must be texts of at most 512 characters.")
    return value


def read_tools(prompt: Prompt, body: Mapping[str, JSON], function_of: Callable[[JSON], JSON]) -> None:
    """The tools that the caller executes, and how they are to be used; `function_of` finds the function in an entry.

    Tools of other types are executed by OpenAI, or are no functions. They are left out: a model never has to call a
    tool, and no answer claims that it could. A choice that names one is refused.
    """
    entries = body.get("tools") or []
    if not isinstance(entries, list):
        raise refuse_content_part("tools", "“tools” must be a list.")
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
            raise refuse_content_part(f"tools.{place}.type", "A tool must have a type, such as “function”.")
        if entry["type"] == "function":
            tool = parse_function_tool(entry, f"tools.{place}", function_of)
            prompt.tools.append(tool)
    apply_tool_choice(prompt, body.get("tool_choice"))
    # Without tools the wish has no object, and the field is not even checked.
    if prompt.tools:
        may_call_several = parse_flag_field(body, "parallel_tool_calls", default=True)
        prompt.is_one_call = not may_call_several


def apply_tool_choice(prompt: Prompt, choice: JSON) -> None:
    """Narrow the tools to those that `tool_choice` leaves, and note a demanded call. Raises Invalid."""
    is_object = isinstance(choice, dict)
    kind = choice.get("type") if is_object else choice
    if kind in (None, "auto"):
        return
    if kind == "none":
        prompt.tools = []
    elif kind == "required":
        require_call(prompt, ANY)
    elif kind == "function" and is_object:
        require_call(prompt, get_function_name(choice))
    elif kind == "allowed_tools" and is_object:
        allow_tools(prompt, choice.get("allowed_tools", choice))
    else:
        message = "“tool_choice” can be auto, none, required, a function, or allowed_tools."
        raise refuse_content_part("tool_choice", message, "unsupported_parameter")


def require_call(prompt: Prompt, name: str) -> None:
    """The model has to call this tool; ANY: one of the caller's. Raises Invalid if it cannot."""
    names = [tool["name"] for tool in prompt.tools]
    if not names or name not in (ANY, *names):
        raise refuse_content_part("tool_choice", "“tool_choice” demands a function that is not in “tools”.")
    prompt.tool_choice = name


def allow_tools(prompt: Prompt, allowed: JSON) -> None:
    """Keep the tools that the client names, in the form {"mode": …, "tools": […]}. Raises Invalid."""
    mode = allowed.get("mode", "auto") if isinstance(allowed, dict) else None
    if mode not in ("auto", "required"):
        raise refuse_content_part("tool_choice", "The mode of allowed_tools can be auto or required.")
    entries = allowed.get("tools") or ()
    names = {get_function_name(entry) for entry in entries if isinstance(entry, dict)}
    prompt.tools = [tool for tool in prompt.tools if tool["name"] in names]
    if mode == "required":
        require_call(prompt, ANY)


def get_function_name(entry: dict[str, JSON]) -> str:
    """The name of a function, in either API's form."""
    function = entry.get("function")
    if isinstance(function, dict):
        return str(function.get("name"))
    return str(entry.get("name"))


def parse_stop(body: Mapping[str, JSON]) -> list[str]:
    """The texts at which the model is to stop, without empty ones."""
    texts = body.get("stop") or []
    if isinstance(texts, str):
        return [texts]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise refuse_content_part("stop", "“stop” must be text or a list of texts.")
    return [text for text in texts if text]


def parse_function_tool(entry: dict[str, JSON], place: str, function_of: Callable[[JSON], JSON]) -> dict[str, JSON]:
    function = function_of(entry)
    if not isinstance(function, dict):
        raise refuse_content_part(place, "A function tool must describe its function.")
    schema = function.get("parameters") or {"type": "object"}
    tool = {"name": function.get("name"), "input_schema": schema}
    if function.get("description"):
        tool["description"] = function["description"]
    return tool


def parse_answer_schema(format: JSON, param: str, inner: str | None) -> dict[str, JSON] | None:
    """The schema of a structured answer, or None for text. `inner`: the field in which this API puts the schema."""
    kind = format.get("type") if isinstance(format, dict) else None
    if format is None or kind == "text":
        return None
    # The AI SDK's client of Open Responses asks for JSON without a schema in the second form.
    if kind == "json_object" or format == {"type": "json_schema"}:
        return {"type": "object"}
    json_schema = None
    if kind == "json_schema":
        json_schema = format.get(inner) if inner else format
    if not isinstance(json_schema, dict) or not isinstance(json_schema.get("schema"), dict):
        raise refuse_content_part(param, "The format must be text, json_object or json_schema with a schema.")
    return json_schema["schema"]


def parse_openai_parts(content: JSON, param: str) -> list[dict[str, JSON]]:
    """Content of a message, in either API's form, as parts."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise refuse_content_part(param, "The content must be text or a list of parts.")
    return [parse_openai_part(part, f"{param}.{place}") for place, part in enumerate(content)]


def parse_openai_part(part: JSON, param: str) -> dict[str, JSON]:
    """One part of a message, in either API's form."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    # A refusal of the model is a text to the next one.
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "text", "text": part["refusal"]}
    if kind in ("image_url", "input_image"):
        url = part.get("image_url")
        if isinstance(url, dict):
            url = url.get("url")
        return parse_image_url(url, param)
    if kind in ("file", "input_file"):
        # Chat completions put the file one level deeper than responses.
        file = part.get("file") if kind == "file" else part
        return parse_file_fields(file if isinstance(file, dict) else {}, param)
    raise refuse_content_part(param, f"A part of type “{str(kind)[:40]}” cannot be sent.", "unsupported_parameter")


def parse_file_fields(file: dict[str, JSON], param: str) -> dict[str, JSON]:
    """A file by its id, or one that is sent along, which becomes a file of the person before the run starts."""
    if isinstance(file.get("file_id"), str):
        return {"type": "file", "file": file["file_id"].removeprefix("file-")}
    data = file.get("file_data")
    if not isinstance(data, str):
        raise refuse_content_part(param, "Send the file as “file_data” or its “file_id”.", "unsupported_parameter")
    # A data URL, or base64 alone.
    head, comma, encoded = data.rpartition(",")
    try:
        content = b64decode(encoded, validate=True)
    except ValueError:
        raise refuse_content_part(param, "“file_data” must be base64, or a data URL of it.")
    media_type = head.removeprefix("data:").partition(";")[0] if comma else ""
    name = str(file.get("filename") or "file")
    return {"type": SENT_FILE, "name": name, "media_type": media_type, "content": content}


def parse_call_id(value: JSON, param: str) -> UUID:
    """The id of one of our calls."""
    text = str(value)
    try:
        return UUID(hex=text.removeprefix(CALL))
    except ValueError:
        raise refuse_content_part(param, f"There is no call “{text[:80]}” that waits for you.", "unknown_call")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call: its text, and its pictures and files, which stand after it as a message."""

    text: str
    parts: list[dict[str, JSON]]

    @classmethod
    def of(cls, content: JSON, param: str) -> "Result":
        if content is None:
            content = ""
        parts = parse_openai_parts(content, param)
        texts = [part["text"] for part in parts if part["type"] == "text"]
        others = [part for part in parts if part["type"] != "text"]
        return cls("\n".join(texts), others)


def set_results(prompt: Prompt, results: Mapping[str, Result]) -> None:
    """Results that the request ends in, by the ids of the calls."""
    prompt.results = {}
    prompt.has_pictures = False
    for id, result in results.items():
        prompt.results[id.removeprefix(CALL)] = parse_result_text(result.text)
        if result.parts:
            prompt.has_pictures = True


def iterate_turn_messages(
    words: list[dict[str, JSON]], calls: list[dict[str, JSON]], results: Mapping[Any, Result]
) -> Iterator[SentMessage]:
    """The assistant's words, its calls with their results, and the pictures in these."""
    if has_content(words):
        yield SentMessage("assistant", words)
    if not calls:
        return
    yield SentMessage("assistant", [{"type": "text", "text": ""}], calls)
    for call in calls:
        result = results.get(call["id"])
        if result is not None:
            yield from iterate_result_pictures(call["name"], result)


def iterate_result_pictures(name: str, result: Result) -> Iterator[SentMessage]:
    """The pictures and files of a result: models take them in messages of the user alone."""
    if not result.parts:
        return
    heading = {"type": "text", "text": f"What the result of {name} shows:"}
    yield SentMessage("user", [heading, *result.parts])


def has_content(parts: list[dict[str, JSON]]) -> bool:
    """Whether there is more than empty texts, which some clients send beside a call."""
    return any(part.get("text") or part["type"] != "text" for part in parts)


def build_sent_call(id: JSON, name: JSON, arguments: JSON, result: str) -> dict[str, JSON]:
    """A call in the form of Message.tool_calls."""
    parsed = parse_result_text(str(arguments or "{}"))
    return {
        "id": str(id)[:128],
        "name": str(name)[:64],
        "arguments": parsed if isinstance(parsed, dict) else {},
        "result": result,
    }


def check_results(calls: Iterable[JSON], results: Container[Any], param: str) -> None:
    """As OpenAI's servers: each call of the assistant has its result in the conversation. Raises Invalid."""
    missing = [str(id)[:80] for id in calls if id not in results]
    if missing:
        message = f"Each call of the assistant needs its result; it is missing for {', '.join(missing[:5])}."
        raise refuse_content_part(param, message, "missing_result")


def split_last_message(prompt: Prompt, sent: list[SentMessage]) -> None:
    """The last message of the user is the message, and those before it open the session. A conversation that ends with
    the assistant's words goes on.
    """
    if not sent:
        raise refuse_content_part("input", "The last message must be the user's, or results of calls.")
    last = sent[-1]
    if last.role == "user":
        prompt.earlier = sent[:-1]
        prompt.parts = last.parts
    else:
        prompt.earlier = sent
        prompt.continues = True
