"""Tool calls for small local models without native support: the answer is constrained by a JSON
Schema (`tool_calling: schema`).

The model writes {"tool": name, "arguments": {…}} or {"tool": "answer", "text": …}. Servers that
support `response_format` can write nothing else. From other servers the common deviations are
accepted: prose around the JSON, a code fence, several calls, OpenAI's own format.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from agents.tools import ToolSpec
from registry.exceptions import AttemptFailed

from .answer_builder import COMPLETE, read_call
from .chat import ANY, Answer, ChatModel, ModelToolCall, Question, get_content_text
from .offline import plainest

JSON = Any
ANSWER = "answer"
NAMES = ("tool", "name", "function")
ARGUMENTS = ("arguments", "parameters", "args", "input")


class SchemaModel:
    """Implements ChatModel on top of a model that only writes text."""

    def __init__(self, inner: ChatModel) -> None:
        self._inner = inner

    def warm(self, model_name: str, tools: Sequence[ToolSpec] = ()) -> None:
        self._inner.warm(model_name)

    def ask(self, question: Question) -> Answer:
        if not question.tools and not has_calls(question.messages):
            return self._inner.ask(question)
        output_schema = None
        if question.tools:
            output_schema = choice_schema(question)
        schema_question = replace(
            question,
            messages=spelled_out(question),
            tools=(),
            output_schema=output_schema,
            must_call="",
            is_one_call=False,
            # It may be in the JSON that the answer is made of.
            stop=(),
            # The raw output is JSON; the listener receives the text once it is known.
            on_delta=None,
        )
        raw_answer = self._ask_constrained(schema_question)
        answer = read_choice(raw_answer, question)
        if question.on_delta and answer.text:
            question.on_delta(answer.text)
        return answer

    def _ask_constrained(self, question: Question) -> Answer:
        """If the server refuses the schema, ask again without it; the instruction says the same."""
        try:
            return self._inner.ask(question)
        except AttemptFailed as error:
            if error.status not in (400, 422) or question.output_schema is None:
                raise
            return self._inner.ask(replace(question, output_schema=None))


def has_calls(messages: Sequence[dict[str, JSON]]) -> bool:
    return any(message.get("tool_calls") or message["role"] == "tool" for message in messages)


def choice_schema(question: Question) -> dict[str, JSON]:
    """Schema of the answer: one of the tools with its arguments, or a text unless a tool has to be called."""
    options = []
    for tool in list_allowed_tools(question):
        arguments = tool.input_schema or {"type": "object"}
        options.append(option({"tool": {"const": tool.name}, "arguments": arguments}))
    if not question.must_call:
        text = question.output_schema or {"type": "string"}
        options.append(option({"tool": {"const": ANSWER}, "text": text}))
    return {"anyOf": options}


def list_allowed_tools(question: Question) -> list[ToolSpec]:
    """The offered tools, or the one that has to be called."""
    return [tool for tool in question.tools if question.must_call in ("", ANY, tool.name)]


def option(properties: dict[str, JSON]) -> dict[str, JSON]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def spelled_out(question: Question) -> list[dict[str, JSON]]:
    """The conversation as plain messages: calls as the JSON the model wrote, results as user
    messages.
    """
    names: dict[str, str] = {}
    messages: list[dict[str, JSON]] = []
    for message in question.messages:
        role = message["role"]
        content = message.get("content") or ""
        calls = message.get("tool_calls")
        if calls:
            lines = []
            for call in calls:
                names[call["id"]] = call["name"]
                lines.append(written_call(call["name"], call["arguments"]))
            role = "assistant"
            content = "\n".join(lines)
        elif role == "tool":
            name = names.get(message.get("tool_call_id") or "", "the tool")
            result = get_content_text(content)
            role = "user"
            content = f"Result of {name}: {result}"
        messages.append({"role": role, "content": content})
    return add_instruction(merge_results(messages), question)


def merge_results(messages: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """Joins consecutive results into one message: many chat templates refuse two messages of one
    role in a row.
    """
    turns: list[dict[str, JSON]] = []
    for message in messages:
        if turns and are_user_texts(turns[-1], message):
            content = f"{turns[-1]['content']}\n{message['content']}"
            turns[-1] = {"role": "user", "content": content}
        else:
            turns.append(message)
    return turns


def are_user_texts(*messages: dict[str, JSON]) -> bool:
    return all(message["role"] == "user" and isinstance(message["content"], str) for message in messages)


def add_instruction(messages: list[dict[str, JSON]], question: Question) -> list[dict[str, JSON]]:
    if not question.tools:
        return messages
    text = instruction(question)
    if messages and messages[0]["role"] == "system":
        first, *messages = messages
        text = f"{first['content']}\n\n{text}"
    return [{"role": "system", "content": text}, *messages]


def instruction(question: Question) -> str:
    """Describes the tools, with an example of each."""
    lines = []
    for tool in list_allowed_tools(question):
        parameters = json.dumps(tool.input_schema.get("properties", {}))
        lines.append(f"- {tool.name}: {tool.description} Arguments: {parameters}")
        lines.append(f"  Example: {written_call(tool.name, example(tool))}")
    described = "\n".join(lines)
    if question.must_call:
        return f"Call a tool. Write one JSON object and nothing else:\n{described}"
    answer = json.dumps({"tool": ANSWER, "text": "your answer to the user"})
    return (
        "You can use tools. Write one JSON object and nothing else: either a tool call or your answer.\n"
        f"{described}\n- To answer: {answer}\nWhen a tool's result contains what is needed, answer; do not "
        "call the tool again."
    )


def example(tool: ToolSpec) -> JSON:
    """The first example of the tool's schema, else plain values by type."""
    examples = tool.input_schema.get("examples")
    if isinstance(examples, list) and examples and isinstance(examples[0], dict):
        return examples[0]
    properties = tool.input_schema.get("properties", {})
    names = tool.input_schema.get("required", list(properties))
    return {name: sample(rule) for name, rule in properties.items() if name in names}


def sample(rule: JSON) -> JSON:
    if not isinstance(rule, dict):
        return "…"
    if isinstance(rule.get("examples"), list) and rule["examples"]:
        return rule["examples"][0]
    return plainest(rule, "…")


def written_call(name: str, arguments: JSON) -> str:
    return json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False)


def read_choice(answer: Answer, question: Question) -> Answer:
    """The model's choice. Prose counts as its answer; a call of an unknown tool reports that the
    tool is unknown.
    """
    names = {tool.name for tool in question.tools}
    calls: list[ModelToolCall] = []
    for number, value in enumerate(find_json_objects(answer.text)):
        name = find_chosen_name(value)
        is_text = name == ANSWER or (not name and "text" in value)
        # An answer behind calls was written before their results are known.
        if is_text and not calls:
            return replace(answer, text=serialize_to_text(value.get("text", "")))
        if name and not is_text:
            id = f"schema_{len(question.messages)}_{number}"
            calls.append(read_chosen_call(id, name, value, names, answer.finish))
    if calls:
        return replace(answer, text="", calls=tuple(calls))
    return replace(answer, text=remove_code_fence(answer.text))


def find_chosen_name(value: dict[str, JSON]) -> str:
    """The tool that an object names, in any of the words that models use for it; empty if it names none."""
    for key in NAMES:
        if isinstance(value.get(key), str):
            return value[key]
    return ""


def read_chosen_call(id: str, name: str, value: dict[str, JSON], names: set[str], finish: str) -> ModelToolCall:
    arguments: JSON = next((value[key] for key in ARGUMENTS if key in value), None)
    may_be_empty = finish in COMPLETE
    call = read_call(id, name, arguments, finish, may_be_empty=may_be_empty)
    if call.problem or name in names:
        return call
    available = ", ".join(sorted(names)) or "none"
    return replace(call, problem=f"There is no tool “{name}”. Available tools: {available}.")


def find_json_objects(text: str) -> Iterator[dict[str, JSON]]:
    """Every JSON object in the text, including those in lists and in OpenAI's `tool_calls`. One that has no end, and
    what is in it, is left out.
    """
    decoder, place = json.JSONDecoder(), 0
    while (start := next((at for at in range(place, len(text)) if text[at] in "{["), -1)) >= 0:
        try:
            value, place = decoder.raw_decode(text, start)
        except ValueError as error:
            if is_open_at_the_end(text, error):
                # What stands in there is not a call of its own.
                return
            place = start + 1
            continue
        except RecursionError:  # each of its brackets would be tried, and none leads further
            return
        yield from open_tool_calls(value)


def is_open_at_the_end(text: str, error: ValueError) -> bool:
    """Whether the text ends inside of the value that cannot be read."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")


def open_tool_calls(value: JSON) -> Iterator[dict[str, JSON]]:
    if isinstance(value, list):
        for item in value:
            yield from open_tool_calls(item)
    elif isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        yield from open_tool_calls(value["tool_calls"])
    elif isinstance(value, dict) and isinstance(value.get("function"), dict):
        yield value["function"]
    elif isinstance(value, dict):
        yield value


def serialize_to_text(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def remove_code_fence(text: str) -> str:
    """The text without a code fence around it."""
    block = text.strip()
    if block.startswith("```") and block.endswith("```") and "\n" in block:
        return block[block.index("\n") + 1 : -3].strip()
    return text
