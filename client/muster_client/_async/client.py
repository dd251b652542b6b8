"""The client: one object with a part for each kind of row."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from ..config import settings
from ..requests import Request, drop_unset
from ..retries import Retries
from .agents import AsyncAgent, AsyncAgents, AsyncConversation, AsyncMessage
from .collections import AsyncCollection, AsyncDeletable, AsyncReadable, AsyncReplaceable
from .definitions import AsyncDefinitions
from .files import AsyncFiles
from .functions import AsyncChains, AsyncFunctions
from .questions import AsyncApprovals, AsyncInputRequests
from .records import AsyncRecords
from .runs import AsyncRuns
from .transport import AsyncTransport

if TYPE_CHECKING:
    from .. import types


class AsyncMuster:
    """A client of one server.

    Without arguments it reads `MUSTER_URL` and `MUSTER_API_KEY`, or what `muster login` stored.
    `timeout` is for one answer, in seconds; `max_retries` counts repetitions of a request that may
    be repeated. `http` replaces the connection pool, for example to set a proxy or certificates.
    Raises ConfigurationError.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        max_retries: int = 3,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        server = settings(url, api_key)
        retries = Retries(limit=max_retries)
        self._transport = AsyncTransport(server, timeout=timeout, retries=retries, http=http)

    @property
    def url(self) -> str:
        return self._transport.settings.url

    @property
    def api_key(self) -> str:
        return self._transport.settings.api_key

    async def __aenter__(self) -> AsyncMuster:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    # Messages

    def agent(self, name: str) -> AsyncAgent:
        return AsyncAgent(self._transport, name)

    def message(self, message: str | list[dict[str, Any]], *, session: str | None = None, **more: Any) -> AsyncMessage:
        """A message for which the router chooses the agent."""
        return self.conversation(session).message(message, **more)

    def conversation(self, session: str | None = None) -> AsyncConversation:
        """Messages in one session, whose agent the router chooses."""
        return AsyncConversation(self._transport, "messages", session)

    async def route(self, message: str, *, session: str | None = None) -> types.Route:
        """Which agent would get this message, and why."""
        request = Request("POST", "messages/route", json=drop_unset(message=message, session=session))
        route: types.Route = await self._transport.json(request)
        return route

    # Rows

    @property
    def agents(self) -> AsyncAgents:
        return AsyncAgents(self._transport, "agents")

    @property
    def functions(self) -> AsyncFunctions:
        return AsyncFunctions(self._transport, "functions")

    @property
    def chains(self) -> AsyncChains:
        return AsyncChains(self._transport, "chains")

    @property
    def runs(self) -> AsyncRuns:
        return AsyncRuns(self._transport)

    @property
    def approvals(self) -> AsyncApprovals:
        return AsyncApprovals(self._transport)

    @property
    def definitions(self) -> AsyncDefinitions:
        return AsyncDefinitions(self._transport)

    @property
    def inputs(self) -> AsyncInputRequests:
        return AsyncInputRequests(self._transport)

    @property
    def records(self) -> AsyncRecords:
        return AsyncRecords(self._transport)

    @property
    def tools(self) -> AsyncReadable[types.Tool]:
        return AsyncReadable(self._transport, "tools")

    @property
    def sessions(self) -> AsyncDeletable[types.Session]:
        return AsyncDeletable(self._transport, "sessions")

    @property
    def files(self) -> AsyncFiles:
        return AsyncFiles(self._transport, "files")

    @property
    def devices(self) -> AsyncReadable[types.Device]:
        return AsyncReadable(self._transport, "devices")

    @property
    def schedules(
        self,
    ) -> AsyncReplaceable[types.Schedule, types.ScheduleRequest, types.PatchedScheduleRequest]:
        return AsyncReplaceable(self._transport, "schedules")

    @property
    def triggers(self) -> AsyncReplaceable[types.Trigger, types.TriggerRequest, types.PatchedTriggerRequest]:
        return AsyncReplaceable(self._transport, "triggers")

    @property
    def webhooks(self) -> AsyncCollection[types.Webhook, types.WebhookRequest, types.PatchedWebhookRequest]:
        return AsyncCollection(self._transport, "webhooks")

    @property
    def providers(self) -> AsyncReplaceable[types.Provider, types.ProviderRequest, types.PatchedProviderRequest]:
        return AsyncReplaceable(self._transport, "providers")

    @property
    def secrets(self) -> AsyncReplaceable[types.Secret, types.SecretRequest, types.PatchedSecretRequest]:
        return AsyncReplaceable(self._transport, "secrets")

    @property
    def budgets(self) -> AsyncCollection[types.Budget, types.BudgetRequest, types.PatchedBudgetRequest]:
        return AsyncCollection(self._transport, "budgets")

    @property
    def teams(self) -> AsyncReplaceable[types.Team, types.TeamRequest, types.PatchedTeamRequest]:
        return AsyncReplaceable(self._transport, "teams")

    async def me(self) -> types.Me:
        """Who the key belongs to, and its scopes."""
        me: types.Me = await self._transport.json(Request("GET", "me"))
        return me

    async def usage(self, **filters: Any) -> types.UsageTable:
        """Tokens and cost of your runs."""
        request = Request("GET", "usage/", params=filters)
        usage: types.UsageTable = await self._transport.json(request)
        return usage

    async def request(self, method: str, path: str, *, json: Any = None, **params: Any) -> Any:
        """Any endpoint: `path` is relative to `/api/v1/`. Retries and errors are as everywhere."""
        request = Request(method.upper(), path.lstrip("/"), params=params, json=json)
        return await self._transport.json(request)
