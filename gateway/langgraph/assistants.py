"""Assistants are the agents that this person may use. They are edited in Muster, not here."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from django.db import models, transaction
from django.db.models import Q, QuerySet
from rest_framework.response import Response

from agents.exceptions import Conflict, Forbidden, Invalid, NotFound
from agents.http.filters import match_word
from agents.http.viewsets import Audited
from agents.models import Agent, AgentSpec, AgentVersion
from agents.names import normal_name
from gateway.turns import ROUTER
from plumbing.statements import Select

from .views import (
    LangGraphView,
    filter_row_fields,
    parse_choice_field,
    parse_langgraph_fields,
    parse_page_slice,
    parse_sort_order,
    parse_typed_field,
    read_rows,
    refuse_langgraph_field,
)

JSON = Any
# The beginning of a UUID (version 8) that holds the agent's number.
PREFIX = "00000000-0000-8000-8000-"
COLUMNS = {"assistant_id": "pk", "graph_id": "name", "name": "name", "created_at": "created_at",
           "updated_at": "updated_at"}  # fmt: skip
SELECTABLE = ("assistant_id", "graph_id", "name", "description", "config", "context", "created_at", "updated_at",
              "metadata", "version")  # fmt: skip
MESSAGES = {"type": "array", "items": {"type": "object"}, "title": "Messages"}
STATE = {"type": "object", "properties": {"messages": MESSAGES}, "required": ["messages"]}
EDITED_IN_MUSTER = "Assistants are Muster's agents: create and change them there."


def build_assistants_query(user: Any) -> QuerySet[Agent]:
    return Agent.objects.usable_by(user).published().select_related("published", "owner")


def find_agent(user: Any, name: JSON) -> Agent | None:
    """The agent with this assistant id or name; None if the router is to choose. Raises Invalid, NotFound."""
    if not isinstance(name, str) or not name:
        raise refuse_langgraph_field("assistant_id", "“assistant_id” must be the id or the name of an assistant.")
    number = parse_assistant_number(name)
    agent = None
    if number is not None:
        agent = BY_NUMBER.first(user=user.pk, number=number)
    elif "\0" not in name:  # PostgreSQL refuses to compare it
        agent = BY_NAME.first(user=user.pk, name=name)
    if agent is None and name != ROUTER:
        raise NotFound(f"There is no assistant “{name[:80]}” that you can use.", hint="POST /assistants/search.")
    return agent


def build_assistant_lookup(user: Any, **named: Any) -> Any:
    """Every run looks for its assistant: compiled once, with the provider, which a start asks about."""
    person = SimpleNamespace(pk=user, is_authenticated=True)
    rows = build_assistants_query(person).select_related("published", "owner", "provider").defer("provider__api_key")
    return rows.filter(**named).nearest_first(person)[:1]  # type: ignore[attr-defined]


PERSON = models.IntegerField()
BY_NUMBER = Select(
    lambda at: build_assistant_lookup(at.user, pk=at.number), user=PERSON, number=models.BigIntegerField()
)
BY_NAME = Select(lambda at: build_assistant_lookup(at.user, name=at.name), user=PERSON, name=models.CharField())


def existing(user: Any, identifier: str) -> Agent:
    """The same without the router, which is no agent."""
    agent = find_agent(user, identifier)
    if agent is None:
        raise NotFound(f"“{ROUTER}” lets the router choose an agent: it has no definition of its own.")
    return agent


def build_assistant_id(agent_pk: int) -> str:
    return f"{PREFIX}{agent_pk:012x}"


def parse_assistant_number(id: str) -> int | None:
    """The agent's number in the id of an assistant: 0, which no agent has, for another UUID, None for a name."""
    try:
        text = str(UUID(id))
    except ValueError:
        return None
    if not text.startswith(PREFIX):
        return 0
    return int(text.removeprefix(PREFIX), 16)


def assistant_json(agent: Agent, version: AgentVersion | None = None) -> dict[str, JSON]:
    """The assistant as it is published, or as a version of it was; a version has no time of a last change."""
    described = version or agent.published
    # Only published agents are listed.
    assert described is not None
    spec = described.spec
    owner_name = agent.owner.get_username() if agent.owner else "site"
    assistant = {
        "assistant_id": build_assistant_id(agent.pk),
        "graph_id": agent.name,
        "name": agent.name,
        "description": spec.get("description") or agent.description or None,
        "config": {},
        "context": list_variable_defaults(spec),
        "metadata": {"owner": owner_name},
        "version": described.number,
    }
    if version:
        assistant["created_at"] = version.created_at
    else:
        assistant["created_at"] = agent.created_at
        assistant["updated_at"] = agent.updated_at
    return assistant


def list_variable_defaults(spec: dict[str, JSON]) -> dict[str, JSON]:
    """The values of the variables that a message need not give."""
    variables = spec.get("variables") or {}
    return {name: rule["default"] for name, rule in variables.items() if "default" in rule}


class AssistantsView(LangGraphView):
    """POST /assistants: finds the agent that a client wants to have made for itself."""

    scopes = {"post": "agents:read"}

    def post(self, request: Any) -> Response:
        names = ("graph_id", "assistant_id", "if_exists", "config", "context", "metadata", "name", "description")
        body = parse_langgraph_fields(request.data, names)
        agent = existing(request.user, body.get("graph_id"))
        if body.get("assistant_id") not in (None, build_assistant_id(agent.pk)):
            message = "The id of an assistant is given by Muster."
            raise refuse_langgraph_field("assistant_id", message, "unsupported_field")
        if_exists = parse_choice_field(body, "if_exists", ("raise", "do_nothing"), "raise")
        # Clients that make themselves an assistant get the agent of this name.
        if if_exists == "raise":
            raise Conflict(f"The assistant “{agent.name}” exists.", hint=f"{EDITED_IN_MUSTER} `do_nothing` returns it.")
        return Response(assistant_json(agent))


class SearchView(LangGraphView):
    """POST /assistants/search and /assistants/count"""

    scopes = {"post": "agents:read"}
    is_count = False

    def post(self, request: Any) -> Response:
        names = ("graph_id", "name", "metadata", "limit", "offset", "sort_by", "sort_order", "order_by", "select")
        body = parse_langgraph_fields(request.data, names)
        rows = filter_assistants(request.user, body)
        if self.is_count:
            return Response(rows.count())
        rows = rows.order_by(*parse_sort_order(body, COLUMNS, "created_at"))
        page = parse_page_slice(body)
        size = page.stop - page.start
        # One more than the page holds says whether another one follows.
        agents = list(rows[page.start : page.stop + 1])
        headers = {"X-Pagination-Total": str(page.start + len(agents))}
        if len(agents) > size:
            headers["X-Pagination-Next"] = str(page.stop)
        listed = [assistant_json(agent) for agent in agents[:size]]
        return Response(filter_row_fields(listed, body, SELECTABLE), headers=headers)


def filter_assistants(user: Any, body: dict[str, JSON]) -> QuerySet[Agent]:
    """The assistants that a search asks for. Of metadata they have only their owner."""
    # PostgreSQL refuses to compare a text with a NUL character.
    rows = build_assistants_query(user)
    graph = parse_typed_field(body, "graph_id", str)
    if graph:
        rows = rows.filter(name=graph.replace("\0", ""))
    name = parse_typed_field(body, "name", str)
    if name:
        rows = rows.filter(match_word(name.replace("\0", ""), "name"))
    metadata = parse_typed_field(body, "metadata", dict) or {}
    for key, value in metadata.items():
        rows = rows.filter(build_owner_condition(value)) if key == "owner" else rows.none()
    return rows


def build_owner_condition(owner_name: JSON) -> Q:
    """Agents of this person; those without an owner belong to the site."""
    if owner_name == "site":
        return Q(owner=None)
    return Q(owner__normal_name=normal_name(str(owner_name).replace("\0", "")))


class AssistantView(LangGraphView):
    """GET /assistants/{id}. It cannot be changed or deleted here."""

    scope = "agents"
    parameters = {"delete": ("delete_threads",)}

    def get(self, request: Any, id: str) -> Response:
        agent = existing(request.user, id)
        return Response(assistant_json(agent))

    def patch(self, request: Any, id: str) -> Response:
        existing(request.user, id)
        raise Invalid(EDITED_IN_MUSTER, code="unsupported", hint="PATCH /api/v1/agents/{name} and publish it.")

    def delete(self, request: Any, id: str) -> Response:
        existing(request.user, id)
        raise Invalid(EDITED_IN_MUSTER, code="unsupported", hint="DELETE /api/v1/agents/{name}.")


class VersionsView(LangGraphView):
    """POST /assistants/{id}/versions: newest first."""

    scopes = {"post": "agents:read"}

    def post(self, request: Any, id: str) -> Response:
        body = parse_langgraph_fields(request.data, ("limit", "offset", "metadata"))
        agent = existing(request.user, id)
        rows = agent.versions.order_by("-number")
        # Versions have no metadata that could match.
        if body.get("metadata"):
            rows = agent.versions.none()
        page, headers = read_rows(rows, body)
        versions = [assistant_json(agent, version) for version in page]
        return Response(versions, headers=headers)


class LatestView(Audited, LangGraphView):
    """POST /assistants/{id}/latest: makes an earlier version live again."""

    scope = "agents"

    def post(self, request: Any, id: str) -> Response:
        body = parse_langgraph_fields(request.data, ("version",))
        agent = existing(request.user, id)
        number = parse_typed_field(body, "version", int)
        if not Agent.objects.editable_by(request.user).filter(pk=agent.pk).exists():
            hint = "Ask its owner, or create an assistant of your own."
            raise Forbidden("Only its owner may change this agent.", hint=hint)
        if number is None:
            # No version has this number, so it is refused.
            number = -1
        with transaction.atomic():
            version = agent.rollback(number)
            self.audit("rolled_back", agent, version=version.number)
        return Response(assistant_json(agent))


class GraphView(LangGraphView):
    """GET /assistants/{id}/graph: an agent is a model that calls tools until it answers."""

    scope = "agents"
    parameters = {"get": ("xray",)}

    def get(self, request: Any, id: str) -> Response:
        spec = get_assistant_spec(existing(request.user, id))
        names = ["__start__", "model", "__end__"]
        edges: list[dict[str, JSON]] = [{"source": "__start__", "target": "model"}]
        last_edge: dict[str, JSON] = {"source": "model", "target": "__end__"}
        if spec.grants:
            names.insert(2, "tools")
            edges.append({"source": "model", "target": "tools", "conditional": True})
            edges.append({"source": "tools", "target": "model"})
            last_edge["conditional"] = True
        edges.append(last_edge)
        nodes = [node_json(name) for name in names]
        return Response({"nodes": nodes, "edges": edges})


def node_json(name: str) -> dict[str, JSON]:
    if name.startswith("__"):
        return {"id": name, "type": "schema", "data": name}
    return {"id": name, "type": "runnable", "data": {"id": ["muster", name], "name": name}}


def get_assistant_spec(agent: Agent) -> AgentSpec:
    assert agent.published is not None
    return agent.published.read_spec()


class SchemasView(LangGraphView):
    """GET /assistants/{id}/schemas"""

    scope = "agents"

    def get(self, request: Any, id: str) -> Response:
        agent = existing(request.user, id)
        spec = get_assistant_spec(agent)
        variables = {name: {**rule} for name, rule in spec.variables.items()}
        return Response(
            {
                "graph_id": agent.name,
                "input_schema": input_schema(spec),
                "output_schema": STATE,
                "state_schema": STATE,
                "config_schema": {"type": "object", "properties": {}},
                "context_schema": {"type": "object", "properties": variables},
            }
        )


def input_schema(spec: AgentSpec) -> dict[str, JSON]:
    """The messages, beside the fields of an agent with an input schema of its own."""
    own = spec.input_schema or {}
    properties = {**own.get("properties", {}), "messages": MESSAGES}
    return {**own, "type": "object", "properties": properties}


class SubgraphsView(LangGraphView):
    """GET /assistants/{id}/subgraphs: an agent has none."""

    scope = "agents"
    parameters = {"get": ("recurse",)}

    def get(self, request: Any, id: str, namespace: str = "") -> Response:
        existing(request.user, id)
        if namespace:
            raise NotFound(f"There is no subgraph “{namespace[:80]}”.")
        return Response({})
