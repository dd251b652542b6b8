"""Looking after logins that nobody uses just now: a warning before one ends, and before a service forgets it."""

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from agents.tools import ToolError
from connectors.models import ACCOUNTS, WARN, Authorization, Connection

from . import tokens

UNUSED = timedelta(days=1)  # a login that is renewed each day is not forgotten for want of use
A_RUN = 200


def check_logins(now: datetime | None = None) -> int:
    """Renew what was not looked at for a day, warn of what ends soon; returns how many were looked at."""
    now = now or timezone.now()
    Authorization.objects.filter(expires_at__lt=now - timedelta(days=1)).delete()
    due = [row for row in waiting(now) if row.refresh_token]
    for row in due:
        check(row, now)
    return len(due)


def waiting(now: datetime) -> list[Connection]:
    """Linked accounts that work as far as we know; a broken one waits for its person."""
    stale = Q(checked_at=None) | Q(checked_at__lt=now - UNUSED)
    unwarned = Q(login_ends_at__lt=now + WARN) & ~Q(health=Connection.Health.EXPIRING)
    rows = Connection.objects.filter(stale | unwarned, enabled=True).exclude(health=Connection.Health.BROKEN)
    return list(rows.filter(Q(provider__in=ACCOUNTS) | ~Q(login={})).order_by("checked_at", "pk")[:A_RUN])


def check(row: Connection, now: datetime) -> None:
    try:
        tokens.access_token(row)
        row.mark_ok(now)
    except ToolError:
        return  # a dead login is written down where it was found; a service that is down is asked again in an hour
