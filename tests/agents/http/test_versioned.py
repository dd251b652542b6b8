"""Rows with versions over HTTP: what is published, and what is written down of it."""

import pytest
from django.db import OperationalError

from agents.models import Agent, AuditEvent

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
NEW = {"name": "librarian", "description": "Finds books.", "system_prompt": "Be brief.", "provider": "offline"}


def broken(*arguments, **details):
    raise OperationalError("the disk is full")


def test_what_cannot_be_written_into_the_audit_log_is_not_published(alice_api, offline, monkeypatch):
    alice_api.post(f"{V1}/agents/", NEW)
    monkeypatch.setattr(AuditEvent, "record", broken)
    assert alice_api.post(f"{V1}/agents/librarian/publish").status_code == 503
    agent = Agent.objects.get(name="librarian")
    assert (agent.published, agent.versions.count()) == (None, 0)


def test_nor_is_it_rolled_back(alice_api, offline, monkeypatch):
    alice_api.post(f"{V1}/agents/", NEW)
    for number in (1, 2):
        alice_api.patch(f"{V1}/agents/librarian", {"description": f"{number}"}, "application/json")
        assert alice_api.post(f"{V1}/agents/librarian/publish").json()["version"] == number
    monkeypatch.setattr(AuditEvent, "record", broken)
    assert alice_api.post(f"{V1}/agents/librarian/rollback", {"version": 1}).status_code == 503
    assert Agent.objects.get(name="librarian").published.number == 2


def test_the_draft_is_compared_with_a_version(alice_api, bob_api, offline, team):
    alice_api.post(f"{V1}/agents/", {**NEW, "team": team.name})
    alice_api.post(f"{V1}/agents/librarian/publish")
    alice_api.patch(f"{V1}/agents/librarian", {"system_prompt": "Be long."}, "application/json")
    answer = alice_api.get(f"{V1}/agents/librarian/diff?from=1&to=draft")
    assert answer.json()["changes"] == [{"path": "system_prompt", "from": "Be brief.", "to": "Be long."}]
    assert (answer.json()["from"], answer.json()["to"]) == (1, None)
    assert "+system_prompt: Be long." in answer.json()["text"] and "+++ draft" in answer.json()["text"]
    assert bob_api.get(f"{V1}/agents/librarian/diff?from=draft&to=1").status_code == 200
    assert alice_api.get(f"{V1}/agents/librarian/diff?from=1&to=drafts").status_code == 422


SKILL = "---\nname: sums\ndescription: {}\n---\nAdd up.\n"
KINDS = {
    "agents": (NEW, lambda text: {"description": text}),
    "chains": ({"name": "sums", "steps": [{"key": "one", "tool": "add"}]}, lambda text: {"description": text}),
    "functions": (
        {"name": "sums", "source": "def sums(a: int) -> int:\n    return a\n"},
        lambda text: {"description": text},
    ),
    "skills": ({"text": SKILL.format("Sums.")}, lambda text: {"text": SKILL.format(text)}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_roll_back_is_refused_if_somebody_changed_the_row_meanwhile(alice_api, offline, kind):
    new, changes = KINDS[kind]
    if kind == "chains":
        alice_api.post(f"{V1}/functions/", {"name": "add", "source": "def add(a: int) -> int:\n    return a\n"})
        assert alice_api.post(f"{V1}/functions/add/publish").status_code == 200
    at = f"{V1}/{kind}/{alice_api.post(f'{V1}/{kind}/', new).json()['name']}"
    for number in (1, 2):
        assert alice_api.patch(at, changes(f"Text {number}."), "application/json").status_code == 200
        assert alice_api.post(f"{at}/publish").json()["version"] == number
    seen = alice_api.get(at)["ETag"]
    assert alice_api.patch(at, changes("Somebody else's."), "application/json").status_code == 200
    late = alice_api.post(f"{at}/rollback", {"version": 1}, headers={"If-Match": seen})
    assert (late.status_code, late.json()["error"]["code"]) == (412, "changed_meanwhile")
    assert alice_api.get(at).json()["published_version"] == 2
    assert not AuditEvent.objects.filter(action__endswith=".rolled_back").exists()
    now = {"If-Match": late["ETag"]}
    assert alice_api.post(f"{at}/rollback", {"version": 7}, headers=now).status_code == 422
    assert alice_api.post(f"{at}/rollback", {"version": 1}, headers=now).json()["version"] == 1
    assert alice_api.get(at).json()["published_version"] == 1
