"""The notice while the broker is away."""

from datetime import timedelta

import pytest

from plumbing import clock
from runs.models import Worker
from runs.queue import carriers
from studio import status


@pytest.fixture(autouse=True)
def looks_again(monkeypatch):
    monkeypatch.setattr(status, "HOLDS_S", -1.0)


def test_pages_say_that_the_broker_is_away_and_keep_working(alice, signed_in, monkeypatch, make_run):
    make_run()
    browser = signed_in(alice)
    assert browser.get("/status").json()["notice"] == ""
    monkeypatch.setattr(type(carriers.current()), "problem", lambda self: "secret-host:6379 refused")
    notice = browser.get("/status").json()["notice"]
    assert "cannot be reached" in notice and "secret-host" not in notice
    for path in ("/", "/runs/", "/approvals/", "/schedules/"):
        assert browser.get(path).status_code == 200, path


def test_one_look_serves_many_pages(alice, signed_in, monkeypatch):
    looks = []
    monkeypatch.setattr(status, "HOLDS_S", 60.0)
    monkeypatch.setattr(status, "last_look", (float("-inf"), False))
    monkeypatch.setattr(type(carriers.current()), "problem", lambda self: looks.append(1) or "")
    for _ in range(3):
        signed_in(alice).get("/status")
    assert len(looks) == 1


def test_it_says_whether_a_worker_runs(alice, signed_in):
    browser = signed_in(alice)
    # A worker of another test may have said that it is there.
    Worker.objects.all().delete()
    assert browser.get("/status").json()["has_worker"] is False
    now = clock.near()
    Worker.objects.create(name="first", started_at=now, seen_at=now)
    assert browser.get("/status").json()["has_worker"] is True
    Worker.objects.update(seen_at=now - timedelta(hours=1))
    assert browser.get("/status").json()["has_worker"] is False


def test_it_is_for_people_who_are_signed_in(client, db):
    assert client.get("/status").status_code == 302
