"""connections/…: the user's cloud accounts and servers, their logins, health and tools."""

import json
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound, Unavailable
from agents.http import viewsets
from agents.http.resources import Tagged
from agents.http.unknown_parameters import ANYTHING
from agents.http.viewsets import APIView, Audited, lock_row, refusals
from agents.sharing import remove_unshared_uses
from agents.tools import ToolError
from connectors.accounts.catalog import CONNECTORS
from connectors.logins.providers import SERVICES, get_cloud_service
from connectors.toolsets.a2a import read_agent
from connectors.toolsets.mcp import drop_all, fetch_server_tools
from plumbing.http import outbound

from . import remote
from .exceptions import reconnect_link
from .logins import device_code, oauth
from .models import Connection, RemoteTool
from .serializers import (
    ApproveSerializer,
    AuthorizationSerializer,
    AuthorizeSerializer,
    CallbackSerializer,
    ConnectionSerializer,
    DeviceLoginSerializer,
    DevicePollSerializer,
    HealthSerializer,
    ImportPreviewSerializer,
    ImportSerializer,
    ListingSerializer,
    PendingSerializer,
    RemoteToolSerializer,
    RevokedSerializer,
    ServicesSerializer,
)
from .tools import open_api
from .toolsets import openapi

CHECK_S = 15.0
# Argument of an import → field of the request.
IMPORT_ARGUMENTS = {"url": "url", "base_url": "base_url", "only": "operations", "effects": "effects"}
READERS: dict[str, Callable[[Connection, int | None], remote.Listing]] = {
    Connection.Provider.MCP: fetch_server_tools,
    Connection.Provider.A2A: read_agent,
}


class ConnectionViewSet(
    Tagged,
    Audited,
    mixins.CreateModelMixin,
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    mixins.UpdateModelMixin,
    mixins.DestroyModelMixin,
    viewsets.GenericViewSet,
):
    """Linked accounts, MCP servers and HTTP services. Connections of others answer 404."""

    scope = "connections"
    scopes = {"health": "connections:read"}
    bodiless = ("revoke", "refresh")
    queryset = Connection.objects.none()
    serializer_class = ConnectionSerializer
    filterset_fields = ["provider", "health", "enabled", "name"]
    search_fields = ("name", "account")
    orderings = ("name", "created_at", "updated_at")

    def get_queryset(self) -> QuerySet:
        visible = Connection.objects.visible_to(self.request.user)
        return visible.select_related("owner", "team")

    def get_object(self) -> Connection:
        row = self.get_queryset().filter(pk=self.kwargs["pk"]).first()
        if row is None:
            raise NotFound("There is no such connection that you can see.")
        if self.request.method not in ("GET", "HEAD", "OPTIONS"):
            row.require_edit(self.request.user)
        return self.matched(row)

    def perform_create(self, serializer: Any) -> None:
        with refusals("connection", self.request.user):
            row = serializer.save()
            self.audit("created", row)

    def perform_update(self, serializer: Any) -> None:
        row = serializer.instance
        with refusals("connection", self.request.user):
            lock_row(row)
            place = get_server_place(row)
            identity = get_server_identity(row)
            row = serializer.save()
            has_moved = get_server_place(row) != place
            has_other_identity = get_server_identity(row) != identity
            if has_moved:
                save_moved_connection(row, keeps_secret="secret_name" in serializer.validated_data)
            if row.login and (has_moved or has_other_identity):
                row.forget_login()
            self.audit("changed", row, fields=sorted(serializer.validated_data))
        transaction.on_commit(lambda: drop_all(row))

    def perform_destroy(self, row: Connection) -> None:
        """Delete the connection and its tools; 409 while an agent is granted one."""
        with refusals("connection", self.request.user, is_deletion=True):
            tools = [remote_tool.tool for remote_tool in row.remote_tools.select_related("tool") if remote_tool.tool]
            self.audit("deleted", row)
            remove_unshared_uses(row)
            if row.uses_oauth and row.is_linked:
                transaction.on_commit(lambda: oauth.tell_revoked(row))
            row.delete()
            for tool in tools:
                tool.delete()
        transaction.on_commit(lambda: drop_all(row))

    @extend_schema(responses=HealthSerializer)
    @action(detail=True, pagination_class=None, filterset_fields=None)
    def health(self, request: Any, pk: int) -> Response:
        """Check now whether this connection works. Others than its owner get the result of the last check."""
        row = self.get_object()
        if row.may_edit(request.user):
            check_connection(row, request.user)
            row.refresh_from_db()
        link = reconnect_link(row) if row.uses_oauth else None
        answer = {**vars(row), "reconnect": link}
        return Response(HealthSerializer(answer).data)

    @extend_schema(request=None, responses={200: RevokedSerializer})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def revoke(self, request: Any, pk: int) -> Response:
        """Forget the login, and revoke it at the service where that is possible."""
        row = self.get_object()
        if not row.uses_oauth:
            raise Invalid("This connection has no login to revoke.", hint="Delete it.")
        is_confirmed = oauth.revoke(row)
        self.audit("revoked", row, told_service=is_confirmed)
        return Response(RevokedSerializer({"told_service": is_confirmed}).data)

    @extend_schema(responses=RemoteToolSerializer(many=True), operation_id="connections_tools_list")
    @action(detail=True, filterset_fields=None)
    def tools(self, request: Any, pk: int) -> Response:
        """The tools that the server offers, which of them are approved, and the results of their
        calls.
        """
        rows = self.get_object().remote_tools.select_related("tool")
        self.page_ordering = ("remote_name", "pk")
        page = self.paginate_queryset(rows)
        serializer = RemoteToolSerializer(page, many=True)
        return self.get_paginated_response(serializer.data)

    @extend_schema(request=None, responses={200: ListingSerializer})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def refresh(self, request: Any, pk: int) -> Response:
        """Read an MCP server's tools, or the card of a remote agent, and update the catalogue."""
        row = self.get_object()
        if row.provider not in READERS:
            raise Invalid(
                "Only the tools of an MCP server or a remote agent can be read.",
                hint="Import an OpenAPI document instead.",
            )
        try:
            listing = READERS[row.provider](row, request.user.pk)
        except ToolError as error:
            raise Unavailable(str(error), code=error.code, hint="Check the server, then try again.")
        self.audit("listed", row, new=listing.new, changed=listing.changed, gone=listing.gone)
        return Response(ListingSerializer(listing).data)

    @extend_schema(request=ApproveSerializer, responses={200: RemoteToolSerializer})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def approve(self, request: Any, pk: int, name: str) -> Response:
        """Approve a tool as it is offered now, identified by the hash you looked at."""
        body = parse_posted_data(ApproveSerializer, request)
        connection = self.get_object()
        # PostgreSQL refuses a text with this character.
        row = connection.remote_tools.filter(remote_name=name.replace("\0", "")).first()
        if row is None:
            raise NotFound("This connection has no such tool.")
        remote.approve_definition(row, request.user, sha256=body["sha256"], effect=body.get("effect", ""))
        fresh = RemoteTool.objects.select_related("tool").get(pk=row.pk)
        return Response(RemoteToolSerializer(fresh).data)

    @extend_schema(request=ImportSerializer, responses={200: ListingSerializer})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def import_document(self, request: Any, pk: int) -> Response:
        """Create tools from the operations of an OpenAPI document. Tools that change later are
        switched off until approved.
        """
        row, document = self.document_of(request)
        effects = document.pop("effects", None)
        listing = openapi.import_document(row, by=request.user, effects=effects, **document)
        changes = {"new": listing.new, "changed": listing.changed, "gone": listing.gone}
        if effects:
            changes["effects"] = effects
        self.audit("imported", row, **changes)
        return Response(ListingSerializer(listing).data)

    @extend_schema(request=ImportSerializer, responses={200: ImportPreviewSerializer})
    @action(detail=True, methods=["post"], pagination_class=None, filterset_fields=None)
    def preview(self, request: Any, pk: int) -> Response:
        """The operations that an import would bring, with the effect of each. Stores nothing."""
        row, document = self.document_of(request)
        document.pop("effects", None)
        preview = openapi.preview_document(row, **document)
        return Response(ImportPreviewSerializer(preview).data)

    def document_of(self, request: Any) -> tuple[Connection, dict[str, Any]]:
        """The connection, and the arguments of the import."""
        body = parse_posted_data(ImportSerializer, request)
        row = self.get_object()
        if row.provider != Connection.Provider.OPENAPI:
            raise Invalid("Documents can only be imported into a connection of the provider “openapi”.")
        text = body.get("text") or ""
        if not text and body.get("document"):
            text = json.dumps(body["document"])
        arguments = {"text": text}
        for name, key in IMPORT_ARGUMENTS.items():
            if key in body:
                arguments[name] = body[key]
        return row, arguments


def get_server_place(row: Connection) -> tuple[str, Any]:
    return row.base_url, row.config.get("command")


def get_server_identity(row: Connection) -> tuple[str, Any]:
    """The identity used at the server: the name of a secret, or the id of a client."""
    return row.secret_name, row.config.get("client_id")


def save_moved_connection(row: Connection, *, keeps_secret: bool) -> None:
    """The address changed: approvals and secrets of the old server are not kept."""
    if not keeps_secret:
        row.secret_name = ""
    row.health, row.last_error = Connection.Health.UNKNOWN, ""
    row.save()
    remote.forget_approvals(row)


def check_connection(row: Connection, user: Any) -> None:
    """Make the cheapest request there is; the result is stored in the connection's health."""
    try:
        if row.provider in READERS:
            READERS[row.provider](row, user.pk)
        elif row.provider == Connection.Provider.OPENAPI:
            openapi.check_service(row)
        elif row.uses_oauth:
            check_account(row)
    except ToolError as error:
        if row.health != Connection.Health.BROKEN:
            row.mark_broken(str(error))


def check_account(row: Connection) -> None:
    connector_class = CONNECTORS[row.provider]
    with outbound.until(CHECK_S), open_api(row) as api:
        account = connector_class(row, api).check()
    Connection.objects.filter(pk=row.pk).update(account=account[:254])
    row.mark_ok()


def parse_posted_data(serializer_class: Any, request: Any) -> dict[str, Any]:
    data = request.data
    if data is None:
        data = {}
    serializer = serializer_class(data=data)
    serializer.is_valid(raise_exception=True)
    return serializer.validated_data


class ServicesView(APIView):
    """The available cloud services, and the minimum access each one asks for."""

    scope = "connections"

    @extend_schema(operation_id="connections_providers_list", responses=ServicesSerializer)
    def get(self, request: Any) -> Response:
        rows = []
        for provider, service in SERVICES.items():
            operations = CONNECTORS[provider].operations()
            tools = [f"{provider}_{operation.method}" for operation in operations]
            rows.append({**service.described(), "tools": tools})
        answer = {"results": rows, "next": None}
        return Response(ServicesSerializer(answer).data)


class AuthorizeView(APIView):
    """Begin a login."""

    scopes = {"get": "connections:write", "post": "connections:write"}
    parameters = {"get": ("connection", "access")}

    @extend_schema(request=AuthorizeSerializer, responses={200: AuthorizationSerializer})
    def post(self, request: Any, provider: str) -> Response:
        """The address to open in the browser, and the permissions the user will be asked for."""
        body = parse_posted_data(AuthorizeSerializer, request)
        url, authorization = start_account_login(request.user, provider, body)
        scopes = explain_scopes(provider, authorization.scopes)
        answer = {"url": url, "scopes": scopes, "expires_at": authorization.expires_at}
        return Response(AuthorizationSerializer(answer).data)

    @extend_schema(
        operation_id="connections_authorize_redirect",
        responses={302: None},
        parameters=[OpenApiParameter("connection", int), OpenApiParameter("access", str, many=True)],
    )
    def get(self, request: Any, provider: str) -> HttpResponse:
        """The same as a link: redirects the browser to the service."""
        query = {"access": request.query_params.getlist("access")}
        if connection := request.query_params.get("connection"):
            query["connection"] = connection
        serializer = AuthorizeSerializer(data=query)
        serializer.is_valid(raise_exception=True)
        url, _ = start_account_login(request.user, provider, serializer.validated_data)
        return HttpResponseRedirect(url)


def start_account_login(user: Any, provider: str, body: dict[str, Any]) -> Any:
    if provider != Connection.Provider.MCP:
        # Raises if there is no such service, or the site has no client of it.
        get_cloud_service(provider)
    connection = None
    if body.get("connection"):
        rows = Connection.objects.visible_to(user).filter(pk=body["connection"], provider=provider)
        connection = rows.first()
        if connection is None:
            raise NotFound("There is no such connection that you can see.")
        connection.require_edit(user)
    access = body.get("access") or ()
    name = body.get("name", "")
    return oauth.start_oauth_login(user, provider, access=access, name=name, connection=connection)


def explain_scopes(provider: str, scopes: list[str]) -> list[dict[str, str | None]]:
    if provider == Connection.Provider.MCP:
        return [{"scope": scope, "access": None, "why": "The server requires it."} for scope in scopes]
    known_scopes = {one.scope: one for one in get_cloud_service(provider).scopes}
    rows: list[dict[str, str | None]] = []
    for scope in scopes:
        known_scope = known_scopes.get(scope)
        if known_scope is None:
            # Scopes of the login itself, such as openid and offline_access.
            rows.append({"scope": scope, "access": "read", "why": "Stay signed in, and identify the account."})
        else:
            rows.append({"scope": scope, "access": known_scope.access, "why": known_scope.why})
    return rows


class CallbackView(APIView):
    """Completes a login: the service redirects the browser here."""

    scopes = {"get": "connections:write", "post": "connections:write"}
    parameters = {"get": ANYTHING}

    @extend_schema(
        operation_id="connections_callback_redirect",
        responses=ConnectionSerializer,
        parameters=[OpenApiParameter("state", str, required=True), *map(OpenApiParameter, ("code", "error", "iss"))],
    )
    def get(self, request: Any, provider: str) -> HttpResponse:
        """For a signed-in browser: completes the login and redirects to the connection's page.
        Other clients get JSON.
        """
        query = {name: request.query_params.get(name, "") for name in ("state", "code", "error", "iss")}
        connection = self.finish(request, provider, query)
        is_browser = "text/html" in request.headers.get("Accept", "")
        if is_browser:
            page = reverse("page:connection", args=[connection.pk])
            return HttpResponseRedirect(page)
        return Response(ConnectionSerializer(connection, context={"request": request}).data)

    @extend_schema(request=CallbackSerializer, responses={200: ConnectionSerializer})
    def post(self, request: Any, provider: str) -> Response:
        """The same for a program that received the redirect itself."""
        connection = self.finish(request, provider, request.data)
        serializer = ConnectionSerializer(connection, context={"request": request})
        return Response(serializer.data)

    def finish(self, request: Any, provider: str, body: Any) -> Connection:
        if body is None:
            body = {}
        serializer = CallbackSerializer(data=body)
        serializer.is_valid(raise_exception=True)
        connection = oauth.finish_oauth_login(request.user, provider, **serializer.validated_data)
        check_connection(connection, request.user)
        connection.refresh_from_db()
        return connection


class DeviceView(APIView):
    """Starts a login on a device without a browser."""

    scopes = {"post": "connections:write"}

    @extend_schema(request=AuthorizeSerializer, responses={200: DeviceLoginSerializer})
    def post(self, request: Any, provider: str) -> Response:
        """The code to enter, and the address to enter it at."""
        body = parse_posted_data(AuthorizeSerializer, request)
        access = body.get("access") or ()
        name = body.get("name", "")
        answer = device_code.start_device_login(request.user, provider, access=access, name=name)
        return Response(DeviceLoginSerializer(answer).data)


class DevicePollView(APIView):
    scopes = {"post": "connections:write"}

    @extend_schema(request=DevicePollSerializer, responses={200: ConnectionSerializer, 202: PendingSerializer})
    def post(self, request: Any, provider: str) -> Response:
        """The connection once the user has agreed; 202 until then."""
        body = parse_posted_data(DevicePollSerializer, request)
        connection = device_code.poll(request.user, provider, body["id"])
        if connection is None:
            return Response({"status": "pending"}, status=202)
        check_connection(connection, request.user)
        connection.refresh_from_db()
        return Response(ConnectionSerializer(connection, context={"request": request}).data)
