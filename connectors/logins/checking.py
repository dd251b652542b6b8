"""Checks logins that are not in use: warns before one expires, and renews it before the service
drops it.
"""

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from agents.tools import ToolError
from connectors.models import ACCOUNTS, WARN, Authorization, Connection

from . import tokens

# A login renewed daily does not expire for lack of use.
UNUSED = timedelta(days=1)
# Logins that are checked in one run.
A_RUN = 200


def check_logins(now: datetime | None = None) -> int:
    """Renew logins that were not checked for a day and warn about those that end soon; returns how
    many were checked.
    """
    now = now or timezone.now()
    outdated = Authorization.objects.filter(expires_at__lt=now - timedelta(days=1))
    outdated.delete()
    due = [row for row in list_due_logins(now) if row.refresh_token]
    for row in due:
        check_login(row, now)
    return len(due)


def list_due_logins(now: datetime) -> list[Connection]:
    """Linked accounts without a known problem; broken ones wait for their owner."""
    is_stale = Q(checked_at=None) | Q(checked_at__lt=now - UNUSED)
    needs_warning = Q(login_ends_at__lt=now + WARN) & ~Q(health=Connection.Health.EXPIRING)
    has_login = Q(provider__in=ACCOUNTS) | ~Q(login={})
    rows = Connection.objects.filter(is_stale | needs_warning, enabled=True)
    rows = rows.exclude(health=Connection.Health.BROKEN).filter(has_login)
    return list(rows.order_by("checked_at", "pk")[:A_RUN])


def check_login(row: Connection, now: datetime) -> None:
    try:
        tokens.access_token(row)
        row.mark_ok(now)
    except ToolError:
        # A dead login was recorded where it was found; an unavailable service is asked again in an hour.
        return
