"""Questions of an MCP server to the person (elicitation), asked as input requests of the run.

What the server asked and how its call goes on is kept with each input request, so any worker can go
on after the person has answered.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agents import schema
from agents.schema import hash_json
from agents.tools import ToolContext, ToolFailed
from connectors.content import clean_untrusted_text
from connectors.exceptions import build_tool_failure
from connectors.mcp.exceptions import InputRequired
from connectors.mcp.messages import get_url_host
from connectors.models import Connection

# How long a question to the person stays open.
ANSWER_S = 24 * 3600.0
# Questions in a row that one call may ask.
MAX_ROUNDS = 10
MAX_QUESTIONS = 10
LONGEST = 4000
PRIMITIVE = frozenset(["string", "number", "integer", "boolean", "array"])
NO_FIELDS = {"type": "object", "properties": {}, "additionalProperties": False}
JSON = Any
Answering = Callable[[dict[str, JSON]], dict[str, JSON] | None]


@dataclass(frozen=True, slots=True)
class Round:
    """The questions that a server asked at one time: `asked` by key, and the `state` that continues the call."""

    number: int
    asked: dict[str, JSON]
    state: dict[str, JSON] | None

    def as_json(self) -> dict[str, JSON]:
        return {"number": self.number, "asked": self.asked, "state": self.state}


def list_earlier_rounds(context: ToolContext) -> list[Round]:
    """The earlier rounds of this call; none for a call that starts."""
    if context.asked is None:
        return []
    # Each question of a round is kept with the whole round.
    rounds = {row["number"]: Round(**row) for row in context.asked()}
    return [rounds[number] for number in sorted(rounds)]


def next_round(error: InputRequired, before: list[Round]) -> Round:
    """What the server asks now. Raises ToolFailed for what is not answered, and for endless questions."""
    if len(before) >= MAX_ROUNDS or len(error.requests) > MAX_QUESTIONS:
        raise build_tool_failure(
            "too_many_questions", f"The server asks more than {MAX_ROUNDS} times, or too much at once."
        )
    requests: dict[str, JSON] = {}
    for key, request in error.requests.items():
        if not isinstance(request, dict):
            raise build_tool_failure("bad_answer", "The server's question cannot be read.")
        requests[str(key)[:100]] = parse_server_request(request)
    number = before[-1].number + 1 if before else 0
    return Round(number, requests, error.state)


def parse_server_request(request: dict[str, JSON]) -> dict[str, JSON]:
    """A request that Muster answers, with what is needed of it. Raises ToolFailed."""
    method = request.get("method")
    params = request.get("params")
    if method == "roots/list":
        return {"method": method}
    if method != "elicitation/create":
        raise build_tool_failure(
            "input_refused", "The server asks for a model's answer (sampling), which Muster does not give it."
        )
    if not isinstance(params, dict):
        raise build_tool_failure("bad_answer", "The server's question cannot be read.")
    if why := find_question_refusal(params):
        raise build_tool_failure("input_refused", f"The server's question to the person was refused: {why}.")
    kept = {name: params[name] for name in ("message", "requestedSchema", "url") if name in params}
    return {"method": method, "params": kept}


def find_question_refusal(params: dict[str, JSON]) -> str:
    """Why a person cannot be asked this, or ""."""
    if params.get("mode", "form") == "url":
        url = params.get("url")
        if isinstance(url, str) and is_web_address(url):
            return ""
        return "its address is not a web address"
    form = params.get("requestedSchema")
    if not isinstance(form, dict) or form.get("type") != "object" or not isinstance(form.get("properties"), dict):
        return "its form is not an object with fields"
    for rule in form["properties"].values():
        if not isinstance(rule, dict) or rule.get("type") not in PRIMITIVE:
            return "its fields are not simple values"
    problems = schema.check_schema(form)
    if problems:
        return f"its form cannot be used ({problems[0]['message']})"
    return ""


def is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and len(url) <= LONGEST


def build_round_results(request_round: Round, connection: Connection, context: ToolContext) -> dict[str, JSON]:
    """The result for each request of a round. Raises CallPending while the person has not answered."""
    results: dict[str, JSON] = {}
    for key, request in request_round.asked.items():
        if request["method"] == "roots/list":
            # Muster shows servers no folders.
            results[key] = {"roots": []}
        else:
            results[key] = build_question_result(key, request, request_round, connection, context)
    return results


def build_question_result(
    key: str, request: dict[str, JSON], request_round: Round, connection: Connection, context: ToolContext
) -> dict[str, JSON]:
    params = request["params"]
    is_visit = "url" in params
    if context.ask is None:
        return {"action": "cancel"}
    try:
        answer = context.ask(
            key=f"{request_round.number}:{key}",
            kind="form",
            prompt=render_question_prompt(params, connection),
            schema=params.get("requestedSchema", NO_FIELDS),
            arguments={"url": params["url"]} if is_visit else {},
            timeout_s=ANSWER_S,
            state=request_round.as_json(),
        )
    except ToolFailed as error:
        # The words of MCP: the person said no, or said nothing.
        action = "cancel" if error.code == "input_expired" else "decline"
        return {"action": action}
    if not answer.ok:
        return {"action": "decline"}
    if is_visit:
        return {"action": "accept"}
    return {"action": "accept", "content": answer.value}


def render_question_prompt(params: dict[str, JSON], connection: Connection) -> str:
    """Who asks, then the server's own words, so that they cannot pass for ours."""
    place = get_url_host(connection.base_url) or "a program on the server"
    message = clean_untrusted_text(str(params.get("message", "")))[:LONGEST]
    start = f"The MCP server “{connection.name}” ({place}) asks, and gets your answer:\n\n{message}"
    if "url" in params:
        start += f"\n\nOpen this page of {get_url_host(params['url'])}, then confirm: {params['url']}"
    return start


def fresh(context: ToolContext) -> Answering:
    """Every question is new: the person must be asked (None), unless that cannot be."""

    def answer(params: dict[str, JSON]) -> dict[str, JSON] | None:
        if context.ask is None or find_question_refusal(params):
            return {"action": "cancel"}
        return None

    return answer


def replay(rounds: list[Round], result_sets: list[dict[str, JSON]], context: ToolContext) -> Answering:
    """For a call that is made again from the start: each answer is used once, for the same question."""
    answers: dict[str, list[JSON]] = defaultdict(list)
    for request_round, results in zip(rounds, result_sets, strict=True):
        for key, result in results.items():
            params = request_round.asked[key].get("params", {})
            answers[build_question_hash(params)].append(result)
    answer_new_question = fresh(context)

    def answer(params: dict[str, JSON]) -> dict[str, JSON] | None:
        remaining = answers.get(build_question_hash(params))
        if not remaining:
            return answer_new_question(params)
        return remaining.pop(0)

    return answer


def build_question_hash(params: dict[str, JSON]) -> str:
    return hash_json([params.get("message"), params.get("requestedSchema"), params.get("url")])
