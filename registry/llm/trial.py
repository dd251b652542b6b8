"""Four short requests to a model, and in words what it can do. Each costs a few tokens of the provider's account."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from agents.models import Provider
from agents.spec import ModelParams
from agents.tools import ToolSpec
from plumbing import clock, json_values
from registry.exceptions import AttemptFailed, CannotBuild, ModelFailed

from .chat import Answer, ChatModel, Question
from .llms import chat_model
from .watch import Watch

JSON = Any
PATIENCE_S = 20.0  # for each request
SHOWN = 300  # characters of a reason
PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
ADD = ToolSpec(0, "add", "function", "Add two integers.", PAIR, None, "read", {}, "")
SUM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


def try_model(provider: Provider, model_name: str) -> list[dict[str, JSON]]:
    """[{"name", "ok", "message"}] of the requests plain, stream, tools and schema; only the first if it fails."""
    try:
        model = chat_model(provider, ModelParams())
    except CannotBuild as error:
        return [{"name": "plain", "ok": False, "message": str(error)}]
    results: list[dict[str, JSON]] = []
    for name, request, words in REQUESTS:
        try:
            problem = request(model, model_name)
        except (AttemptFailed, ModelFailed) as error:
            problem = error.message[:SHOWN]
        message = f"{words[1]}: {problem}" if problem else words[0]
        results.append({"name": name, "ok": not problem, "message": message})
        if name == "plain" and problem:
            break  # so would the others
    return results


def ask(model: ChatModel, model_name: str, text: str, **more: Any) -> Answer:
    """Once, without retries."""
    options: dict[str, Any] = {"tools": (), "output_schema": None, "on_delta": None, **more}
    watch = Watch(deadline=clock.near() + timedelta(seconds=PATIENCE_S))
    return model.ask(Question(model_name, [{"role": "user", "content": text}], watch=watch, **options))


def try_plain(model: ChatModel, model_name: str) -> str:
    """What is wrong, or ""."""
    answer = ask(model, model_name, "Answer with one word: yes.")
    return "" if answer.text.strip() else f"the answer has no text (finish reason “{answer.finish}”)"


def try_stream(model: ChatModel, model_name: str) -> str:
    heard: list[str] = []
    ask(model, model_name, "Count from one to five, in words.", on_delta=heard.append)
    return "" if heard else "no text arrived"


def try_tools(model: ChatModel, model_name: str) -> str:
    answer = ask(model, model_name, "Call the tool “add” with a = 17 and b = 25.", tools=(ADD,))
    if not answer.calls:
        return "the model answered with a text"
    call = answer.calls[0]
    if call.problem:
        return call.problem
    is_right = call.name == ADD.name and call.arguments == {"a": 17, "b": 25}
    return "" if is_right else f"the model called {call.name} with {json_values.write(call.arguments).decode()}"


def try_schema(model: ChatModel, model_name: str) -> str:
    answer = ask(model, model_name, "What is the sum of 17 and 25?", output_schema=SUM)
    try:
        value = json_values.read(answer.text.strip())
    except ValueError:
        value = None
    is_right = isinstance(value, dict) and isinstance(value.get("sum"), int)
    return "" if is_right else f"the model answered “{answer.text[:80]}”"


REQUESTS: list[tuple[str, Callable[[ChatModel, str], str], tuple[str, str]]] = [
    ("plain", try_plain, ("It answers.", "It does not answer")),
    ("stream", try_stream, ("It streams its answers.", "It does not stream")),
    ("tools", try_tools, ("It calls tools.", "It does not call tools")),
    ("schema", try_schema, ("It answers by a JSON Schema.", "It does not answer by a JSON Schema")),
]
