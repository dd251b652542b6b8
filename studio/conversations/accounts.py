"""A person's mail and chat accounts on the page of a collection."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents.exceptions import Invalid, MusterError
from connectors.models import ACCOUNTS, Connection
from knowledge.indexing import accounts
from knowledge.models import Collection, CollectionAccount

from ..base import signed_in, tell
from ..namesakes import address, opened
from .evaluations import editable, note

WRITES = "collections:write"


def context_of(request: HttpRequest, row: Collection) -> dict[str, Any]:
    """The person's accounts in this collection, and those that they could add."""
    connections = list(Connection.objects.filter(owner=request.user, provider__in=ACCOUNTS, enabled=True))
    names = {connection.pk: connection.name for connection in connections}
    mine = CollectionAccount.objects.visible_to(request.user).filter(collection=row)
    read = [
        {
            "row": account,
            "account": names.get(account.connection_id, ""),
            "failed": account.items.exclude(error="").count(),
        }
        for account in mine
    ]
    return {"mail_accounts": read, "connections": connections}


@require_POST
@signed_in(writes=WRITES)
def add_account(request: HttpRequest, name: str) -> HttpResponse:
    row = editable(request, name)
    query = request.POST.get("query", "").replace("\0", "").strip()[:500]
    try:
        if not query:
            raise Invalid(_("Write what to search for."))
        account, is_new = accounts.add(row, request.user, request.POST.get("account", ""), query)
    except MusterError as error:
        tell(request, error)
    else:
        if is_new:
            note(request, "added", account, row)
    return redirect(address("page:collection", row))


@require_POST
@signed_in(writes=WRITES)
def remove_account(request: HttpRequest, name: str, pk: UUID) -> HttpResponse:
    """Also where the person may not change the collection."""
    row = opened(request, Collection.objects.all(), name)
    account = CollectionAccount.objects.visible_to(request.user).filter(collection=row, pk=pk).first()
    if account is None:
        raise Http404("You have no such account in this collection.")
    note(request, "removed", account, row)
    accounts.remove(account)
    return redirect(address("page:collection", row))
