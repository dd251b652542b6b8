from datetime import timedelta

from django.utils import timezone

from connectors.logins.checking import check_logins
from tests.connectors.loopback import Fault


def test_a_login_is_warned_of_before_it_ends_and_told_once_it_did(alice, gmail, connect):
    now = timezone.now()
    row = connect(alice, "gmail", checked_at=now, health="ok", login_ends_at=now + timedelta(days=2))
    assert check_logins(now) == 1
    row.refresh_from_db()
    assert row.health == "expiring"
    assert check_logins(now) == 0
    gmail.refresh_tokens.clear()
    row.token_expires_at = now
    row.save()
    assert check_logins(now + timedelta(days=3)) == 1
    row.refresh_from_db()
    assert row.health == "broken" and "invalid_grant" in row.last_error
    assert check_logins(now + timedelta(days=9)) == 0


def test_a_login_that_nobody_uses_is_renewed_each_day(alice, gmail, connect):
    now = timezone.now()
    connect(alice, "gmail", checked_at=now - timedelta(days=2), token_expires_at=now - timedelta(days=1))
    check_logins(now)
    check_logins(now)
    assert gmail.refreshes == 1


def test_a_login_service_that_is_down_is_asked_again(alice, gmail, connect):
    row = connect(alice, "gmail", token_expires_at=timezone.now())
    gmail.faults += [Fault("/token", status=503)]
    check_logins()
    row.refresh_from_db()
    assert row.health == "unknown"
    check_logins()
    row.refresh_from_db()
    assert row.health == "ok"
