"""The offline provider: it uses no language model and says so. It is deterministic, so the whole
path can be tried.

It chooses a granted tool by matching words (it knows no tool or agent by name), fills its arguments
from the message by the tool's schema, and quotes the result. With an output schema it answers with
JSON of that shape.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents.http.parsers import find_fault
from agents.tools import ToolSpec
from knowledge.words import list_word_stems

from . import offline_script
from .arguments import Finder
from .chat import ANY, Answer, ModelToolCall, Question, get_content_text

JSON = Any
# Points needed to choose a tool: one word of its name, or two of its description.
ENOUGH = 2.0
SAYS_SO = "(offline provider: no language model)"


class OfflineModel:
    """Implements ChatModel without a model. `script` is a file of prepared answers
    (offline_script.py).
    """

    def __init__(self, script: str = "") -> None:
        self.script = script

    def warm(self, model_name: str, tools: Sequence[ToolSpec] = ()) -> None:
        pass

    def ask(self, question: Question) -> Answer:
        question.watch.check()
        text, results = last_exchange(question.messages)
        answer = self._recite(question, len(results)) or self._reply(question, text, results)
        if question.on_delta:
            for piece in re.findall(r"\S+\s*", answer.text):
                question.on_delta(piece)
        characters = 0
        for message in question.messages:
            characters += len(get_content_text(message.get("content") or ""))
        # Four characters count as a token.
        input_tokens = characters // 4
        output_tokens = max(1, len(answer.text) // 4)
        return replace(answer, input_tokens=input_tokens, output_tokens=output_tokens, finish="stop")

    def _recite(self, question: Question, answered: int) -> Answer | None:
        if not self.script:
            return None
        tool_names = {tool.name for tool in question.tools}
        line = offline_script.find_script_line(self.script, question.messages, answered, tool_names)
        if line is None:
            return None
        calls = []
        for number, call in enumerate(line.call):
            id = f"offline_{len(question.messages)}_{number}"
            calls.append(ModelToolCall(id, call["tool"], call.get("arguments", {})))
        return Answer(line.say, tuple(calls))

    def _reply(self, question: Question, text: str, results: list[tuple[str, JSON]]) -> Answer:
        salt = len(question.messages)
        tools = [tool for tool in question.tools if question.must_call in ("", ANY, tool.name)]
        if not results:
            calls = wanted_calls(text, tools, salt)
            if calls:
                return Answer("", calls)
        if question.must_call and tools:
            # Those of the caller stand last.
            tool = tools[-1]
            arguments = shape_answer(tool.input_schema or {"type": "object"}, text, results)
            call = ModelToolCall(f"offline_{salt}_0", tool.name, arguments)
            return Answer("", (call,))
        if question.output_schema is not None:
            value = shape_answer(question.output_schema, text, results)
            return Answer(json.dumps(value, ensure_ascii=False))
        if results:
            return Answer(f"{describe_results(results)} {SAYS_SO}")
        return Answer(f"{nothing_to_call(text, question.tools)} {SAYS_SO}")


def last_exchange(messages: Sequence[dict[str, JSON]]) -> tuple[str, list[tuple[str, JSON]]]:
    """The last message of the user, and the (tool, result) pairs since then."""
    text = ""
    names: dict[str, str] = {}
    results: list[tuple[str, JSON]] = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["name"]
        role = message["role"]
        if role not in ("user", "tool"):
            continue
        content = get_content_text(message.get("content") or "")
        if role == "user":
            text = content
            results = []
        else:
            name = names.get(message.get("tool_call_id") or "", "the tool")
            results.append((name, read_value(content)))
    return text, results


def read_value(text: str) -> JSON:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def wanted_calls(text: str, tools: Sequence[ToolSpec], salt: int) -> tuple[ModelToolCall, ...]:
    """The tools that the message names, else the best match whose required arguments can be found
    in the message.
    """
    named = [tool for tool in tools if re.search(name_pattern(tool.name), text)]
    if named:
        fitting = named
    else:
        scored = [(points(text, tool), tool) for tool in tools]
        scored.sort(key=lambda pair: (-pair[0], pair[1].name))
        fitting = [tool for score, tool in scored if score >= ENOUGH]
    calls: list[ModelToolCall] = []
    for tool in fitting:
        finder = Finder(remove_tool_name(text, tool.name))
        arguments = finder.fill(tool.input_schema)
        if finder.missing(tool.input_schema, arguments):
            continue
        id = f"offline_{salt}_{len(calls)}"
        fault = find_fault(arguments)
        if fault:
            arguments = {}
        calls.append(ModelToolCall(id, tool.name, arguments, fault))
        if not named:
            break
    return tuple(calls)


def name_pattern(name: str) -> str:
    """The name as a word of its own."""
    return rf"(?<![\w-]){re.escape(name)}(?![\w-])"


def points(text: str, tool: ToolSpec) -> float:
    """Words of the name count double; words of the description and the parameters count once."""
    words = set(list_word_stems(text))
    name = set(list_word_stems(tool.name.replace("-", " ")))
    about = set(list_word_stems(tool.description)) - name
    parameter_names = " ".join(tool.input_schema.get("properties", {}))
    parameters = set(list_word_stems(parameter_names)) - name - about
    score = 2.0 * len(words & name)
    score += len(words & about)
    score += 0.5 * len(words & parameters)
    return score


def remove_tool_name(text: str, name: str) -> str:
    """The message without the tool's own name when it is used as a command."""
    rest = re.sub(name_pattern(name), "", text, count=1)
    return rest.strip()


def shape_answer(schema: dict[str, JSON], message: str, results: list[tuple[str, JSON]]) -> JSON:
    """JSON of the schema: results by property name, then values from the message, then a plain
    value of the type.
    """
    values: dict[str, JSON] = {}
    for name, value in results:
        values["result"] = value
        values[name] = value
        if isinstance(value, dict):
            values |= value
    text = describe_results(results) or message
    arguments = Finder(text, values).fill(schema)
    return fill_required(schema, arguments, text)


def describe_results(results: list[tuple[str, JSON]]) -> str:
    return " ".join(sentence(name, value) for name, value in results)


def fill_required(schema: dict[str, JSON], value: dict[str, JSON], text: str) -> JSON:
    """Fill required properties that are still absent with the plainest value the schema allows."""
    if schema.get("type", "object") != "object":
        return plainest(schema, text)
    for name in schema.get("required", []):
        rule = schema.get("properties", {}).get(name, {})
        if name not in value:
            value[name] = plainest(rule, text)
        elif isinstance(value[name], dict):
            value[name] = fill_required(rule, value[name], text)
    return value


def plainest(rule: dict[str, JSON], text: str) -> JSON:
    if "default" in rule:
        return rule["default"]
    if rule.get("enum"):
        return rule["enum"][0]
    kind = rule.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind in ("integer", "number"):
        return rule.get("minimum", 0)
    if kind == "string":
        return text[: rule.get("maxLength", 2000)]
    if kind == "object":
        return fill_required(rule, {}, text)
    return {"boolean": False, "array": [], "null": None}.get(kind)


def sentence(name: str, value: JSON) -> str:
    if isinstance(value, dict):
        error = value.get("error")
        if isinstance(error, dict):
            error = error.get("message", "")
            return f"{name} failed: {error}"
        if isinstance(error, str):
            return f"{name} failed: {error}"
        if set(value) == {"result"}:
            value = value["result"]
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    return f"{name} returned {value}."


def nothing_to_call(text: str, tools: Sequence[ToolSpec]) -> str:
    if not tools:
        return f"You said: {text[:500]}"
    names = ", ".join(tool.name for tool in tools[:12])
    return f"No tool matches “{text[:200]}”. Available tools: {names}."
