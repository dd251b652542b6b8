# Generated from _async/client.py by client/generate.py: change that file, then run `make reference`.
"""The client: one object with a part for each kind of row."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

import httpx

from ..config import settings
from ..requests import Request, drop_unset
from ..retries import Retries
from .agents import Agent, Agents, Conversation, Message
from .collections import Collection, Deletable, Readable, Replaceable
from .definitions import Definitions
from .files import Files
from .functions import Chains, Functions
from .questions import Approvals, InputRequests
from .records import Records
from .runs import Runs
from .transport import Transport

if TYPE_CHECKING:
    from .. import types


class Muster:
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
        http: httpx.Client | None = None,
    ) -> None:
        server = settings(url, api_key)
        retries = Retries(limit=max_retries)
        self._transport = Transport(server, timeout=timeout, retries=retries, http=http)

    @property
    def url(self) -> str:
        return self._transport.settings.url

    @property
    def api_key(self) -> str:
        return self._transport.settings.api_key

    def __enter__(self) -> Muster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # Messages

    def agent(self, name: str) -> Agent:
        return Agent(self._transport, name)

    def message(self, message: str | list[dict[str, Any]], *, session: str | None = None, **more: Any) -> Message:
        """A message for which the router chooses the agent."""
        return self.conversation(session).message(message, **more)

    def conversation(self, session: str | None = None) -> Conversation:
        """Messages in one session, whose agent the router chooses."""
        return Conversation(self._transport, "messages", session)

    def route(self, message: str, *, session: str | None = None) -> types.Route:
        """Which agent would get this message, and why."""
        request = Request("POST", "messages/route", json=drop_unset(message=message, session=session))
        route: types.Route = self._transport.json(request)
        return route

    # Rows

    @property
    def agents(self) -> Agents:
        return Agents(self._transport, "agents")

    @property
    def functions(self) -> Functions:
        return Functions(self._transport, "functions")

    @property
    def chains(self) -> Chains:
        return Chains(self._transport, "chains")

    @property
    def runs(self) -> Runs:
        return Runs(self._transport)

    @property
    def approvals(self) -> Approvals:
        return Approvals(self._transport)

    @property
    def definitions(self) -> Definitions:
        return Definitions(self._transport)

    @property
    def inputs(self) -> InputRequests:
        return InputRequests(self._transport)

    @property
    def records(self) -> Records:
        return Records(self._transport)

    @property
    def tools(self) -> Readable[types.Tool]:
        return Readable(self._transport, "tools")

    @property
    def sessions(self) -> Deletable[types.Session]:
        return Deletable(self._transport, "sessions")

    @property
    def files(self) -> Files:
        return Files(self._transport, "files")

    @property
    def devices(self) -> Readable[types.Device]:
        return Readable(self._transport, "devices")

    @property
    def schedules(
        self,
    ) -> Replaceable[types.Schedule, types.ScheduleRequest, types.PatchedScheduleRequest]:
        return Replaceable(self._transport, "schedules")

    @property
    def triggers(self) -> Replaceable[types.Trigger, types.TriggerRequest, types.PatchedTriggerRequest]:
        return Replaceable(self._transport, "triggers")

    @property
    def webhooks(self) -> Collection[types.Webhook, types.WebhookRequest, types.PatchedWebhookRequest]:
        return Collection(self._transport, "webhooks")

    @property
    def providers(self) -> Replaceable[types.Provider, types.ProviderRequest, types.PatchedProviderRequest]:
        return Replaceable(self._transport, "providers")

    @property
    def secrets(self) -> Replaceable[types.Secret, types.SecretRequest, types.PatchedSecretRequest]:
        return Replaceable(self._transport, "secrets")

    @property
    def budgets(self) -> Collection[types.Budget, types.BudgetRequest, types.PatchedBudgetRequest]:
        return Collection(self._transport, "budgets")

    @property
    def teams(self) -> Replaceable[types.Team, types.TeamRequest, types.PatchedTeamRequest]:
        return Replaceable(self._transport, "teams")

    def me(self) -> types.Me:
        """Who the key belongs to, and its scopes."""
        me: types.Me = self._transport.json(Request("GET", "me"))
        return me

    def usage(self, **filters: Any) -> types.UsageTable:
        """Tokens and cost of your runs."""
        request = Request("GET", "usage/", params=filters)
        usage: types.UsageTable = self._transport.json(request)
        return usage

    def request(self, method: str, path: str, *, json: Any = None, **params: Any) -> Any:
        """Any endpoint: `path` is relative to `/api/v1/`. Retries and errors are as everywhere."""
        request = Request(method.upper(), path.lstrip("/"), params=params, json=json)
        return self._transport.json(request)
