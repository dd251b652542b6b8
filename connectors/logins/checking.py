"""Checks logins that are not in use: warns before one expires, and renews it before the service
drops it.
"""

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from agents.tools import ToolError
from connectors.models import ACCOUNTS, WARN, Authorization, Connection

from . import tokens

UNUSED = timedelta(days=1)  # a login renewed daily does not expire for lack of use
A_RUN = 200


def check_logins(now: datetime | None = None) -> int:
    """Renew logins that were not checked for a day and warn about those that end soon; returns how
    many were checked.
    """
    now = now or timezone.now()
    Authorization.objects.filter(expires_at__lt=now - timedelta(days=1)).delete()
    due = [row for row in list_due_logins(now) if row.refresh_token]
    for row in due:
        check_login(row, now)
    return len(due)


def list_due_logins(now: datetime) -> list[Connection]:
    """Linked accounts without a known problem; broken ones wait for their owner."""
    stale = Q(checked_at=None) | Q(checked_at__lt=now - UNUSED)
    unwarned = Q(login_ends_at__lt=now + WARN) & ~Q(health=Connection.Health.EXPIRING)
    rows = Connection.objects.filter(stale | unwarned, enabled=True).exclude(health=Connection.Health.BROKEN)
    return list(rows.filter(Q(provider__in=ACCOUNTS) | ~Q(login={})).order_by("checked_at", "pk")[:A_RUN])


def check_login(row: Connection, now: datetime) -> None:
    try:
        tokens.access_token(row)
        row.mark_ok(now)
    except ToolError:
        return  # a dead login was recorded where it was found; an unavailable service is asked again in an hour
