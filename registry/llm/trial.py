"""Four short requests to a model, and in words what it can do. Each costs a few tokens of the provider's account."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext_noop as known

from agents.models import Provider
from agents.spec import ModelParams
from agents.tools import ToolSpec
from plumbing import clock, json_values
from registry.exceptions import AttemptFailed, CannotBuild, ModelFailed

from .chat import Answer, ChatModel, Question
from .llms import chat_model
from .watch import Watch

JSON = Any
# Seconds for each request.
PATIENCE_S = 20.0
# Characters of a reason.
SHOWN = 300
PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
ADD = ToolSpec(0, "add", "function", "Add two integers.", PAIR, None, "read", {}, "")
SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


class CannotDo(Exception):
    """What the model cannot do, in a sentence."""


class Unexpected(Exception):
    """The model's answer is not what was asked for."""


def try_model(provider: Provider, model_name: str) -> list[dict[str, JSON]]:
    """[{"name", "ok", "message"}] of the requests plain, stream, tools and schema; only the first if it fails."""
    try:
        model = chat_model(provider, ModelParams())
    except CannotBuild as error:
        return [{"name": "plain", "ok": False, "message": str(error)}]
    results: list[dict[str, JSON]] = []
    for name, request, can in REQUESTS:
        try:
            try_request(name, request, model, model_name)
        except CannotDo as error:
            results.append({"name": name, "ok": False, "message": str(error)})
            if name == "plain":
                # The others would fail too.
                break
        else:
            results.append({"name": name, "ok": True, "message": can})
    return results


def try_request(name: str, request: Callable[[ChatModel, str], None], model: ChatModel, model_name: str) -> None:
    """Raises CannotDo: what the model cannot do, and why."""
    try:
        request(model, model_name)
    except (AttemptFailed, ModelFailed) as error:
        problem = error.message[:SHOWN]
    except Unexpected as error:
        problem = str(error)
    else:
        return
    if name == "stream":
        raise CannotDo(f"It does not stream: {problem}")
    if name == "tools":
        raise CannotDo(f"It does not call tools: {problem}")
    if name == "schema":
        raise CannotDo(f"It does not answer by a JSON Schema: {problem}")
    raise CannotDo(f"It does not answer: {problem}")


def ask_once(
    model: ChatModel,
    model_name: str,
    text: str,
    *,
    tools: tuple[ToolSpec, ...] = (),
    output_schema: dict[str, JSON] | None = None,
    on_delta: Callable[[str], None] | None = None,
) -> Answer:
    """The model's answer to this text, without retries. Raises AttemptFailed."""
    deadline = clock.near() + timedelta(seconds=PATIENCE_S)
    question = Question(
        model_name,
        messages=[{"role": "user", "content": text}],
        tools=tools,
        output_schema=output_schema,
        on_delta=on_delta,
        watch=Watch(deadline=deadline),
    )
    return model.ask(question)


def try_plain(model: ChatModel, model_name: str) -> None:
    answer = ask_once(model, model_name, "Answer with one word: yes.")
    if not answer.text.strip():
        raise Unexpected(f"the answer has no text (finish reason “{answer.finish}”)")


def try_stream(model: ChatModel, model_name: str) -> None:
    heard: list[str] = []
    ask_once(model, model_name, "Count from one to five, in words.", on_delta=heard.append)
    if not heard:
        raise Unexpected("no text arrived")


def try_tools(model: ChatModel, model_name: str) -> None:
    answer = ask_once(model, model_name, "Call the tool “add” with a = 17 and b = 25.", tools=(ADD,))
    if not answer.calls:
        raise Unexpected("the model answered with a text")
    call = answer.calls[0]
    if call.problem:
        raise Unexpected(call.problem)
    if call.name != ADD.name or call.arguments != {"a": 17, "b": 25}:
        arguments = json_values.dump_json(call.arguments).decode()
        raise Unexpected(f"the model called {call.name} with {arguments}")


def try_schema(model: ChatModel, model_name: str) -> None:
    answer = ask_once(model, model_name, "What is the sum of 17 and 25?", output_schema=SUM)
    try:
        value = json_values.load_json(answer.text.strip())
    except ValueError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("sum"), int):
        beginning = answer.text[:80]
        raise Unexpected(f"the model answered “{beginning}”")


# The name of each request, what sends it, and what is said if it succeeds.
REQUESTS: list[tuple[str, Callable[[ChatModel, str], None], str]] = [
    ("plain", try_plain, known("It answers.")),
    ("stream", try_stream, known("It streams its answers.")),
    ("tools", try_tools, known("It calls tools.")),
    ("schema", try_schema, known("It answers by a JSON Schema.")),
]
