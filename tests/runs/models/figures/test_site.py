"""What `doctor` says of the servers and of this machine."""

import json
import resource
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.utils import timezone

from agents.models import AuditEvent, SiteHold
from runs.models import Worker
from runs.models.figures import site

pytestmark = pytest.mark.django_db


def test_a_healthy_site_has_no_hints():
    assert [name for name, part in site.report_site().items() if not part["ok"]] == []


def test_a_clock_that_differs_from_the_database_is_named():
    told = site.skew(timezone.now() + timedelta(seconds=60))
    assert not told["ok"] and round(told["ahead_s"]) == 60 and "NTP" in told["hint"]


def test_few_descriptors_and_a_full_disk_are_named(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    monkeypatch.setattr(site.shutil, "disk_usage", lambda _: type("usage", (), {"free": 5 << 20}))
    assert site.descriptors() == {"ok": False, "limit": 1024, "hint": site.descriptors()["hint"]}
    assert site.disk()["ok"] is False and site.disk()["data"] == 5


def test_pools_that_are_larger_than_the_server_allows_are_named(monkeypatch):
    if site.connection.vendor != "postgresql":
        pytest.skip("SQLite has no connections to count")
    now = timezone.now()
    for number in range(100):
        Worker.objects.create(name=f"w{number}", started_at=now, seen_at=now)
    assert not site.connections()["ok"]


def test_a_database_that_lets_a_stopped_process_hold_up_others_is_named():
    if site.connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    with site.connection.cursor() as cursor:
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    assert not site.transactions()["ok"] and "ALTER DATABASE" in site.transactions()["hint"]


def test_a_site_that_is_old_and_was_never_backed_up_is_named():
    first = AuditEvent.objects.create(action="agent.created", subject_kind="agent")
    assert site.backup()["ok"]
    AuditEvent.objects.filter(pk=first.pk).update(at=timezone.now() - timedelta(days=3))
    assert not site.backup()["ok"]
    assert "manage.py backup" in site.backup()["hint"]


def test_an_old_backup_and_a_hold_are_named():
    assert site.backup() == {"ok": True, "latest": "none by manage.py backup"}
    made = AuditEvent.objects.create(action="backup.made", subject_kind="site")
    AuditEvent.objects.filter(pk=made.pk).update(at=timezone.now() - timedelta(days=3))
    SiteHold.objects.create(snapshot_at=timezone.now(), reason="restored from a backup")
    assert site.backup()["hours"] == 72.0 and not site.backup()["ok"]
    assert "restored from a backup" in site.check_site_hold()["state"] and not site.check_site_hold()["ok"]


def test_doctor_shows_every_part(monkeypatch):
    told = StringIO()
    with pytest.raises(SystemExit):
        SiteHold.objects.create(snapshot_at=timezone.now(), reason="restored from a backup")
        call_command("doctor", "--json", stdout=told)
    report = json.loads(told.getvalue())
    assert set(site.report_site()) | {
        "carrier",
        "database",
        "sandbox",
        "settings",
        "tables",
        "ticker",
        "versions",
    } == set(report)
