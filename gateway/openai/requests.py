"""Bodies of OpenAI's APIs as messages of Muster. A field that Muster does not have is refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agents.http import parsers
from gateway.histories import SentMessage
from gateway.parts import image_in, refused

JSON = Any
CALL = "call_"
# What a parameter may be, where another value would change the answer and the client would rely on it.
NEUTRAL: dict[str, tuple[JSON, ...]] = {
    "n": (None, 1), "logprobs": (None, False), "top_logprobs": (None, 0), "logit_bias": (None, {}),
    "stop": (None, [], ""), "modalities": (None, ["text"]), "max_tool_calls": (None,), "conversation": (None,),
    "prompt": (None,), "audio": (None,), "web_search_options": (None,), "truncation": (None, "disabled", "auto"),
}  # fmt: skip
# Parameters of the model, by their names here.
SAMPLING = {
    "temperature": "temperature", "top_p": "top_p", "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty", "max_tokens": "max_tokens", "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
}  # fmt: skip
# Accepted and not used, since no client can be deceived by that. Hints for caches and abuse detection: Muster has the
# key's owner, and needs neither. Wishes that a server may not follow: how much a model thinks and writes is decided by
# the agent's definition, a seed promises nothing, and what `include` asks for is absent also where there is none.
IGNORED = frozenset(
    [
        "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "stream_options", "service_tier",
        "reasoning", "reasoning_effort", "verbosity", "seed", "include", "prediction",
    ]
)  # fmt: skip


@dataclass(slots=True)
class Prompt:
    """What a request asks for: a message with what came before it, or results of calls."""

    model: str
    parts: list[dict[str, JSON]] = field(default_factory=list)
    earlier: list[SentMessage] = field(default_factory=list)
    results: dict[str, JSON] = field(default_factory=dict)  # of the caller's tools, by the ids of the calls
    continues: bool = False  # the conversation ends in results: the person writes nothing
    approvals: dict[UUID, bool] = field(default_factory=dict)
    instructions: list[str] = field(default_factory=list)
    tools: list[dict[str, JSON]] = field(default_factory=list)
    output_schema: dict[str, JSON] | None = None
    params: dict[str, JSON] = field(default_factory=dict)
    summaries: list[dict[str, JSON]] = field(default_factory=list)  # made by POST /v1/responses/compact

    def more(self, user: Any) -> dict[str, Any]:
        """Further arguments for the intake. Raises Invalid for a summary that is not this person's."""
        if any(summary["user"] != user.pk for summary in self.summaries):
            raise refused("input", "This is not a summary of a conversation of yours.", "invalid_encrypted_content")
        options: dict[str, JSON] = {"output_schema": self.output_schema} if self.output_schema else {}
        if self.params:
            options["model_params"] = self.params
        if self.instructions:
            options["instructions"] = "\n\n".join(self.instructions)
        origin = "openai.compaction" if any(summary["untrusted"] for summary in self.summaries) else ""
        return {"asked": options or None, "tools": self.tools or None, "untrusted_input": origin}


def check_fields(body: Mapping[str, JSON], names: Iterable[str]) -> None:
    """Raises Invalid (unsupported_parameter) for the first field that would change something and is not here."""
    for name, value in body.items():
        if name in IGNORED or name in names or name in SAMPLING or name == "parallel_tool_calls":
            continue
        if name not in NEUTRAL:
            raise refused(name[:80], f"There is no parameter “{name[:80]}”.", "unknown_parameter")
        if value not in NEUTRAL[name]:
            message = f"“{name}” cannot be set for a message: the agent's definition decides."
            raise refused(name, message, "unsupported_parameter")


def params_in(body: Mapping[str, JSON]) -> dict[str, JSON]:
    return {ours: body[name] for name, ours in SAMPLING.items() if body.get(name) is not None}


def text_in(body: Mapping[str, JSON], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise refused(name, f"“{name}” must be text.")
    return value


def flag_in(body: Mapping[str, JSON], name: str, default: bool = False) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise refused(name, f"“{name}” must be true or false.")
    return default if value is None else value


def metadata_in(body: Mapping[str, JSON]) -> dict[str, str]:
    value = body.get("metadata") or {}
    if not isinstance(value, dict) or len(value) > 16:
        raise refused("metadata", "“metadata” must be an object with at most 16 keys.")
    if not all(isinstance(text, str) and len(text) <= 512 for text in value.values()):
        raise refused("metadata", "The values of “metadata” must be texts of at most 512 characters.")
    return value


def tools_in(body: Mapping[str, JSON], function_of: Any) -> list[dict[str, JSON]]:
    """Function tools as tools that the caller executes; `function_of` finds the function in an entry."""
    entries = body.get("tools") or []
    if not isinstance(entries, list):
        raise refused("tools", "“tools” must be a list.")
    tools = [tool_in(entry, f"tools.{place}", function_of) for place, entry in enumerate(entries)]
    if tools and body.get("parallel_tool_calls") is False:
        message = "“parallel_tool_calls” cannot be switched off: the model may ask for several calls at once."
        raise refused("parallel_tool_calls", message, "unsupported_parameter")
    return chosen_tools(tools, body.get("tool_choice"))


def chosen_tools(tools: list[dict[str, JSON]], choice: JSON) -> list[dict[str, JSON]]:
    """Those that `tool_choice` leaves: all, none, or the allowed ones. Raises Invalid if it forces a call."""
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind in (None, "auto"):
        return tools
    if kind == "none":
        return []
    allowed = choice.get("allowed_tools", choice) if isinstance(choice, dict) else {}
    if kind == "allowed_tools" and isinstance(allowed, dict) and allowed.get("mode", "auto") == "auto":
        names = allowed_names(allowed.get("tools"))
        return [tool for tool in tools if tool["name"] in names]
    message = "“tool_choice” can be auto, none, or allowed_tools with the mode auto; a call cannot be forced."
    raise refused("tool_choice", message, "unsupported_parameter")


def allowed_names(entries: JSON) -> set[str]:
    names: set[str] = set()
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            function = entry.get("function")
            names.add(str(function.get("name") if isinstance(function, dict) else entry.get("name")))
    return names


def tool_in(entry: JSON, place: str, function_of: Any) -> dict[str, JSON]:
    if not isinstance(entry, dict) or entry.get("type") != "function":
        message = "Only tools of type “function” can be sent; others are granted to the agent in Muster."
        raise refused(f"{place}.type", message, "unsupported_parameter")
    function = function_of(entry)
    if not isinstance(function, dict):
        raise refused(place, "A function tool must describe its function.")
    tool = {"name": function.get("name"), "input_schema": function.get("parameters") or {"type": "object"}}
    return {**tool, "description": function["description"]} if function.get("description") else tool


def schema_in(format: JSON, param: str, inner: str | None) -> dict[str, JSON] | None:
    """The schema of a structured answer, or None for text."""
    kind = format.get("type") if isinstance(format, dict) else None
    if format is None or kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    json_schema = (format.get(inner) if inner else format) if kind == "json_schema" else None
    if not isinstance(json_schema, dict) or not isinstance(json_schema.get("schema"), dict):
        raise refused(param, "The format must be text, json_object or json_schema with a schema.")
    return json_schema["schema"]


def parts_in(content: JSON, param: str) -> list[dict[str, JSON]]:
    """Content of a message, in either API's form, as parts."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise refused(param, "The content must be text or a list of parts.")
    return [part_in(part, f"{param}.{place}") for place, part in enumerate(content)]


def part_in(part: JSON, param: str) -> dict[str, JSON]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "text", "text": part["refusal"]}
    if kind in ("image_url", "input_image"):
        image = part.get("image_url")
        return image_in(image.get("url") if isinstance(image, dict) else image, param)
    if kind in ("file", "input_file"):
        file = part.get("file") if kind == "file" else part
        if isinstance(file, dict) and isinstance(file.get("file_id"), str):
            return {"type": "file", "file": file["file_id"].removeprefix("file-")}
        raise refused(param, "Upload the file first and send its “file_id”.", "unsupported_parameter")
    raise refused(param, f"A part of type “{str(kind)[:40]}” cannot be sent.", "unsupported_parameter")


def call_id(value: JSON, param: str) -> UUID:
    """The id of one of our calls."""
    try:
        return UUID(hex=str(value).removeprefix(CALL))
    except ValueError:
        raise refused(param, f"There is no call “{str(value)[:80]}” that waits for you.", "unknown_call")


def json_or_text(text: str) -> JSON:
    """A result as JSON, if it is JSON that can be stored."""
    try:
        return parsers.read(text.encode()) if text else text
    except ValueError:
        return text


def require_results(calls: Iterable[JSON], results: Mapping[Any, JSON], param: str) -> None:
    """As OpenAI's servers: each call of the assistant has its result in the conversation. Raises Invalid."""
    missing = [str(id)[:80] for id in calls if id not in results]
    if missing:
        message = f"Each call of the assistant needs its result; it is missing for {', '.join(missing[:5])}."
        raise refused(param, message, "missing_result")


def split(prompt: Prompt, sent: list[SentMessage]) -> None:
    """The last message of the user is the message, and those before it open the session."""
    if not sent or sent[-1].role != "user":
        raise refused("input", "The last message must be the user's, or results of calls.")
    prompt.earlier, prompt.parts = sent[:-1], sent[-1].parts
