"""The pages of connections: connect cloud accounts and servers, check their health, approve offered
tools.
"""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from agents.models import Tool
from connectors.exceptions import reconnect_link
from connectors.logins.providers import SERVICES
from connectors.models import Connection, RemoteTool
from plumbing.http.addresses import url_refusal

from ..base import render_shell_page, require_login
from .providers import Fix, private_fix

TOOLS = 300


@require_login
def connection_list(request: HttpRequest) -> HttpResponse:
    connections = Connection.objects.visible_to(request.user).select_related("owner", "team").order_by("name")
    services = []
    for service in SERVICES.values():
        services.append({**service.described(), "accesses": accesses(service)})
    return render_shell_page(
        request, "connections.html", _("Connections"), connections=connections[:300], services=services
    )


def accesses(service: Any) -> list[dict[str, Any]]:
    """The kinds of access that a user can choose before the login, with their explanations."""
    reasons: dict[str, list[str]] = {}
    for scope in service.scopes:
        reasons.setdefault(scope.access, []).append(scope.why)
    return [{"word": word, "why": " ".join(sentences)} for word, sentences in reasons.items()]


@require_login
def connection_page(request: HttpRequest, pk: int) -> HttpResponse:
    connection = Connection.objects.visible_to(request.user).select_related("owner").filter(pk=pk).first()
    if connection is None:
        raise Http404("There is no such connection that you can see.")
    tools = RemoteTool.objects.filter(connection=connection).select_related("tool").order_by("remote_name")
    return render_shell_page(
        request,
        "connection.html",
        connection.name,
        connection=connection,
        tools=tools[:TOOLS],
        effects=Tool.Effect.choices,
        may_edit=connection.may_edit(request.user),
        login_link=reconnect_link(connection),
        fix=find_fix(connection),
    )


def find_fix(connection: Connection) -> Fix | None:
    """The setting that allows a private address. A missing login is mended by the button for it."""
    url = connection.base_url
    if not url or connection.health != Connection.Health.BROKEN:
        return None
    # A name that cannot be found is no private address.
    if not url_refusal(url, settings.PRIVATE_HOSTS_ALLOWED, must_resolve=False):
        return None
    return private_fix(url)
