"""This app's side of the tool bargain: cloud connectors, MCP servers, HTTP operations."""

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q

from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec
from connectors.accounts.base import Connector
from connectors.accounts.catalog import CONNECTORS, get_connector_operation
from connectors.accounts.http import Api
from connectors.logins.providers import get_cloud_service
from connectors.toolsets.a2a import A2aToolset
from connectors.toolsets.mcp import McpToolset
from connectors.toolsets.openapi import HttpToolset
from plumbing.http import outbound
from plumbing.waits import run_blocking

from .exceptions import ReconnectNeeded, Throttled, build_throttled_wait
from .models import Connection
from .timing import seconds_left

__all__ = ["A2aToolset", "ConnectorToolset", "HttpToolset", "McpToolset"]


class ConnectorToolset:
    """Executes tools of kind connector with the user's own account."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        provider = tool.source["connector"]
        method = tool.source["method"]
        try:
            operation = get_connector_operation(provider, method)
        except LookupError:
            raise ToolFailed(f"{provider} has no operation “{method}”.", code="unknown_tool")
        arguments = dict(call.arguments)
        account = arguments.pop("account", "")
        connection = choose_user_connection(context.user_id, provider, account)
        connector_class = CONNECTORS[provider]
        with outbound.until(seconds_left(tool, context)), open_api(connection) as api:
            connector = connector_class(connection, api, is_cancelled=context.is_cancelled)
            connector.require(operation.access)
            try:
                # Some operations read many things on threads.
                value = run_blocking(run_connector_method, connector, method, arguments, call.id)
            except Throttled as error:
                raise build_throttled_wait(error, context)
        counts = count_processed_messages(method, value)
        # Strangers write what an account holds.
        return ToolResult(ok=True, value=value, untrusted=operation.access == "read", counts=counts)


def run_connector_method(connector: Connector, method: str, arguments: dict[str, Any], call_id: str) -> Any:
    if method == "fetch_new":
        arguments["call_id"] = call_id
    return getattr(connector, method)(**arguments)


def count_processed_messages(method: str, value: Any) -> dict[str, int]:
    if method != "fetch_new":
        return {}
    return {"processed": len(value["messages"])}


def open_api(connection: Connection) -> Api:
    service = get_cloud_service(connection.provider)
    return Api(connection, service.base_url, service.title)


def choose_user_connection(user_id: int, provider: str, account: str) -> Connection:
    """The user's connection: the one with that name or address, else the nearest, but none of
    several that teams share. Raises ToolFailed, RetryTool.
    """
    user = get_user_model().objects.get(pk=user_id)
    rows = Connection.objects.of_provider(user, provider)
    named = rows
    if account:
        named = rows.filter(Q(name=account) | Q(account__iexact=account))
    connections = list(named[:2])
    if not connections and account:
        raise RetryTool(
            f"There is no account “{account[:100]}”. Connected: {', '.join(row.name for row in rows) or '–'}."
        )
    if not connections:
        title = get_cloud_service(provider).title
        raise ToolFailed(f"No {title} account is connected; the user must connect one.", code="connection_missing")
    connection = connections[0]
    # The person's own account and the site's come first; between those of teams nobody has decided.
    is_of_team = connection.owner_id != user_id and connection.team_id is not None
    if len(connections) > 1 and is_of_team:
        raise RetryTool(
            f"Several accounts are shared with this user: name one of {', '.join(row.name for row in rows)}."
        )
    if not connection.is_linked:
        raise ReconnectNeeded(connection, "This account is not linked.")
    return connection
