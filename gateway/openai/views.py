"""What OpenAI's APIs share: models, errors in OpenAI's form, streams."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from agents.exceptions import NotFound
from agents.http.viewsets import APIView
from agents.models import Agent
from gateway.turns import ROUTER, parse_pinned_agent

KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class OpenAIView(APIView):
    """Errors are {"error": {"message", "type", "param", "code"}}, as in OpenAI's API."""

    scope = "messages"

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        handle = super().get_exception_handler()

        def in_their_form(error: Exception, context: dict[str, Any]) -> Response:
            response = handle(error, context)
            response.status_code = convert_openai_status(response.status_code)
            response.data = {"error": convert_openai_error(response.data["error"], response.status_code)}
            return response

        return in_their_form


def get_body_fields(request: Any) -> dict[str, Any]:
    """The fields of the body; a body that is no object has none, so that what is required is missing."""
    return request.data if isinstance(request.data, dict) else {}


def convert_openai_status(status: int) -> int:
    return 400 if status == 422 else status


def convert_openai_error(error: dict[str, Any], status: int) -> dict[str, Any]:
    """An error of Muster in OpenAI's form."""
    message = error["message"]
    details = error.get("details") or [{}]
    first = details[0]
    # OpenAI's parameters of the model stand at the top of the body, ours in an object.
    param = str(first.get("field")).removeprefix("model_params.") if first else None
    sentences = [message, describe_first_problem(first, message), error.get("hint")]
    text = " ".join(filter(None, sentences))
    return error_json(text, error["code"], status, param)


def describe_first_problem(detail: dict[str, Any], message: str) -> str:
    """The first problem in words, unless the message says it."""
    problem = str(detail.get("message", ""))
    if not problem or problem in message:
        return ""
    return f"{detail.get('field')}: {problem}."


def error_json(message: str, code: str, status: int = 500, param: str | None = None) -> dict[str, Any]:
    other_kind = "server_error" if status >= 500 else "invalid_request_error"
    kind = KINDS.get(status, other_kind)
    return {"message": message, "type": kind, "param": param, "code": code}


def status_of_failure(code: str) -> int:
    """Of a run that ended with this error."""
    if code == "budget_exhausted":
        return 429
    return 502 if code.startswith("model") else 500


def of_started_run(error: dict[str, Any], status: int) -> Response:
    """An error after a run was started. OpenAI's clients repeat a request that gets 429 or 5xx unless this header says
    otherwise, and would start the run again.
    """
    return Response({"error": error}, status=status, headers={"x-should-retry": "false"})


@extend_schema(exclude=True)
class ModelsView(OpenAIView):
    """The agents that this person can use; `router` lets the router choose."""

    def get(self, request: Any) -> Response:
        agents = Agent.objects.usable_by(request.user).published().select_related("owner").order_by("name")
        by_name: dict[str, Agent] = {}
        # Of several agents with one name, a request means the nearest to its person.
        for agent in agents.nearest_first(request.user):
            by_name.setdefault(agent.name, agent)
        models = [model_json(name, by_name[name]) for name in sorted(by_name)]
        if ROUTER not in by_name:
            models.append(model_json(ROUTER, None))
        return Response({"object": "list", "data": models})


@extend_schema(exclude=True)
class ModelView(OpenAIView):
    def get(self, request: Any, name: str) -> Response:
        agents = Agent.objects.usable_by(request.user).published().select_related("owner")
        model_name, version = parse_pinned_agent(name)
        agent = None
        # PostgreSQL refuses to compare a text with this character.
        if "\0" not in model_name:
            agent = agents.filter(name=model_name).nearest_first(request.user).first()
        if agent:
            is_there = agent.versions.filter(number=version or 1).exists()
        else:
            is_there = name == ROUTER
        if not is_there:
            message = f"There is no model “{name[:80]}”."
            raise NotFound(message, code="model_not_found", hint="GET /v1/models lists them.")
        return Response(model_json(name, agent))


def model_json(name: str, agent: Agent | None) -> dict[str, Any]:
    created = 0
    owner_name = "site"
    if agent:
        created = int(agent.created_at.timestamp())
        if agent.owner:
            owner_name = agent.owner.get_username()
    return {"id": name, "object": "model", "created": created, "owned_by": owner_name}
