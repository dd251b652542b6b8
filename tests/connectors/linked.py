"""Fixtures: the fakes, linked accounts, and calls as the runner makes them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from uuid_utils.compat import uuid7

from agents.tools import ToolCall, ToolContext, ToolResult, ToolSpec
from connectors.accounts import catalog
from connectors.logins.providers import SERVICES
from connectors.models import Connection
from connectors.tools import ConnectorToolset, HttpToolset, McpToolset
from connectors.toolsets import sessions

from .fake_gmail import FakeGmail
from .fake_graph import FakeGraph

TOOLSETS = {"connector": ConnectorToolset(), "mcp": McpToolset(), "http": HttpToolset()}


@pytest.fixture
def gmail(settings: Any) -> Iterator[FakeGmail]:
    with FakeGmail() as fake:
        settings.GMAIL_URL = settings.GOOGLE_OAUTH_URL = fake.url
        settings.GOOGLE_AUTHORIZE_URL = f"{fake.url}/auth"
        settings.GOOGLE_CLIENT_ID, settings.GOOGLE_CLIENT_SECRET = "client", "hush"
        fake.live.add("access-0")
        yield fake


@pytest.fixture
def graph(settings: Any) -> Iterator[FakeGraph]:
    with FakeGraph() as fake:
        settings.GRAPH_URL = settings.MICROSOFT_LOGIN_URL = fake.url
        settings.MICROSOFT_CLIENT_ID = "client"
        fake.live.add("access-0")
        yield fake


@pytest.fixture
def connect(db: None) -> Callable[..., Connection]:
    """`connect(alice, "gmail")` is a linked account of hers, with every scope and a token that lives for an hour."""

    def make(user: Any, provider: str, **more: Any) -> Connection:
        fields = {
            "name": provider,
            "access_token": "access-0",
            "refresh_token": "refresh-0",
            "token_expires_at": timezone.now() + timedelta(hours=1),
            "scopes": [one.scope for one in SERVICES[provider].scopes],
            **more,
        }
        return Connection.objects.create(owner=user, provider=provider, **fields)

    return make


@pytest.fixture
def use() -> Callable[..., ToolResult]:
    """`use(alice, "gmail", "read", id="m1")` makes a call as the runner does."""

    def call(
        user: Any, provider: str, method: str, *, call_id: str = "", seconds: float = 30.0, **arguments: Any
    ) -> Any:
        operation = catalog.get_connector_operation(provider, method)
        spec = ToolSpec(
            id=1, name=f"{provider}_{method}", kind="connector", description="", input_schema=operation.input_schema,
            output_schema=None, effect=operation.effect, source={"connector": provider, "method": method},
            definition_hash="", deadline_s=seconds,
        )  # fmt: skip
        return call_tool(spec, user, arguments, call_id)

    return call


def call_tool(spec: ToolSpec, user: Any, arguments: dict[str, Any], call_id: str = "") -> ToolResult:
    request = ToolCall(id=call_id or str(uuid7()), name=spec.name, arguments=arguments)
    toolset = TOOLSETS[spec.kind]
    return toolset.call(spec, request, ToolContext(user_id=user.pk))


def spec_of(tool: Any, **more: Any) -> ToolSpec:
    """A catalogue row as a live agent holds it."""
    names = ("id", "name", "kind", "description", "input_schema", "output_schema", "effect", "source",
             "definition_hash", "untrusted", "deadline_s")  # fmt: skip
    fields = {name: getattr(tool, name) for name in names}
    return ToolSpec(**{**fields, **more})


@pytest.fixture
def closed_sessions() -> Iterator[None]:
    yield
    sessions.close_all()
