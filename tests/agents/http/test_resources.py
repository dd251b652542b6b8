"""Rows have addresses and versions: nobody overwrites another person's change without knowing."""

import threading

import pytest
from django.db import connection

from agents.models import Agent, AuditEvent

V1 = "/api/v1"
JSON = "application/json"
NEW = {"name": "librarian", "description": "Finds books.", "system_prompt": "Be brief.", "provider": "offline"}
SOURCE = "def add(a: int, b: int = 2) -> int:\n    return a + b\n"
MADE = [
    ("agents", NEW, {"description": "Other"}),
    ("providers", {"name": "local", "kind": "offline"}, {"enabled": False}),
    ("secrets", {"name": "token", "value": "s3cret", "hosts": ["example.com"]}, {"value": "other"}),
    ("teams", {"name": "readers"}, {"name": "writers"}),
    ("functions", {"name": "add", "source": SOURCE}, {"timeout": 3}),
    ("chains", {"name": "both", "steps": []}, {"steps": [{"key": "one", "tool": "add"}]}),
    ("schedules", {"name": "daily", "agent": "librarian", "text": "Go.", "crontab": "0 9 * * *"}, {"text": "Stop."}),
    ("triggers", {"name": "called", "kind": "webhook", "agent": "librarian", "text": "Go."}, {"text": "Stop."}),
    ("webhooks", {"url": "https://93.184.216.34/told"}, {"url": "https://93.184.216.34/other"}),
    ("budgets", {"period": "day", "max_runs": 5}, {"max_runs": 6}),
    ("connections", {"name": "shop", "provider": "openapi"}, {"enabled": False}),
]  # fmt: skip


@pytest.fixture
def rows(alice_api, offline):
    """What schedules, triggers and chains refer to."""
    alice_api.post(f"{V1}/agents/", NEW)
    alice_api.post(f"{V1}/functions/", {"name": "add", "source": SOURCE})
    alice_api.post(f"{V1}/functions/add/publish", {})


def made(client, kind, body):
    answer = client.post(
        f"{V1}/{kind}/", {**body, "name": f"{body['name']}-2"} if kind in ("agents", "functions") else body
    )
    assert answer.status_code == 201, answer.content
    return answer


@pytest.mark.parametrize(("kind", "body", "change"), MADE, ids=[kind for kind, *_ in MADE])
def test_a_new_row_names_its_address_and_its_version(alice_api, rows, kind, body, change):
    answer = made(alice_api, kind, body)
    read = alice_api.get(answer["Location"])
    assert read.status_code == 200 and read["ETag"] == answer["ETag"]
    assert alice_api.get(answer["Location"], headers={"If-None-Match": read["ETag"]}).status_code == 304
    key = "name" if "name" in read.json() and kind != "connections" else "id"
    assert answer["Location"] == f"{V1}/{kind}/{read.json()[key]}"


@pytest.mark.parametrize(("kind", "body", "change"), MADE, ids=[kind for kind, *_ in MADE])
def test_a_change_of_a_row_that_was_changed_meanwhile_is_refused(alice_api, rows, kind, body, change):
    answer = made(alice_api, kind, body)
    at, old = answer["Location"], answer["ETag"]
    first = alice_api.patch(at, change, JSON, headers={"If-Match": old})
    assert first.status_code == 200 and first["ETag"] != old, first.content
    at = at.replace("readers", "writers")
    before = alice_api.get(at).json()
    late = alice_api.patch(at, change, JSON, headers={"If-Match": old})
    assert (late.status_code, late.json()["error"]["code"]) == (412, "changed_meanwhile")
    assert late["ETag"] == first["ETag"]
    assert alice_api.delete(at, headers={"If-Match": old}).status_code == 412
    assert alice_api.get(at).json() == before
    assert alice_api.delete(at, headers={"If-Match": first["ETag"]}).status_code == 204


def test_a_late_change_leaves_no_line_in_the_audit_log(alice_api, rows):
    before = AuditEvent.objects.count()
    answer = alice_api.patch(f"{V1}/agents/librarian", {"description": "x"}, JSON, headers={"If-Match": '"old"'})
    assert answer.status_code == 412 and AuditEvent.objects.count() == before


def test_a_refused_change_under_if_match_stores_nothing(alice_api, rows):
    tag = alice_api.get(f"{V1}/agents/librarian")["ETag"]
    wrong = {"description": "New", "grants": [{"tool": "no-such-tool"}]}
    answer = alice_api.patch(f"{V1}/agents/librarian", wrong, JSON, headers={"If-Match": tag})
    assert answer.status_code == 422
    assert alice_api.get(f"{V1}/agents/librarian").json()["description"] == "Finds books."


def test_any_version_of_the_row_matches_a_star(alice_api, rows):
    answer = alice_api.patch(f"{V1}/agents/librarian", {"description": "x"}, JSON, headers={"If-Match": "*"})
    assert answer.status_code == 200


def test_publishing_does_not_change_the_version_of_the_working_row_and_granting_does(alice_api, rows):
    at = f"{V1}/agents/librarian"
    tag = alice_api.get(at)["ETag"]
    alice_api.patch(at, {"model_name": "offline"}, JSON)
    changed = alice_api.get(at)["ETag"]
    alice_api.post(f"{at}/publish", {})
    assert tag != changed == alice_api.get(at)["ETag"]
    assert alice_api.put(f"{at}/grants/", [{"tool": "add"}], JSON, headers={"If-Match": tag}).status_code == 412
    assert alice_api.put(f"{at}/grants/", [{"tool": "add"}], JSON, headers={"If-Match": changed}).status_code == 200
    assert alice_api.get(at)["ETag"] != changed


def test_nobody_publishes_what_they_have_not_seen(alice_api, rows):
    read = alice_api.post(f"{V1}/chains/", {"name": "both", "steps": [{"key": "one", "tool": "add"}]})["ETag"]
    path = f"{V1}/chains/both"
    assert alice_api.post(f"{path}/publish", {}, headers={"If-Match": read}).status_code == 200
    alice_api.patch(path, {"description": "Other"}, JSON)
    late = alice_api.post(f"{path}/publish", {}, headers={"If-Match": read})
    assert (late.status_code, late.json()["error"]["code"]) == (412, "changed_meanwhile")
    assert alice_api.get(path).json()["published_version"] == 1
    assert alice_api.post(f"{path}/publish", {}).json()["version"] == 2


@pytest.mark.django_db(transaction=True)
def test_of_two_changes_at_once_one_is_refused(alice_api, rows):
    at = f"{V1}/agents/librarian"
    tag = alice_api.get(at)["ETag"]
    statuses, together = [], threading.Barrier(2)

    def change(text):
        together.wait(60)
        statuses.append(alice_api.patch(at, {"description": text}, JSON, headers={"If-Match": tag}).status_code)
        connection.close()

    both = [threading.Thread(target=change, args=(text,)) for text in ("one", "two")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(60)
    assert sorted(statuses) == [200, 412]


def test_another_person_learns_nothing_from_a_version(charlie_api, alice_api, rows):
    tag = alice_api.get(f"{V1}/agents/librarian")["ETag"]
    for headers in ({"If-Match": tag}, {"If-Match": '"x"'}):
        assert (
            charlie_api.patch(f"{V1}/agents/librarian", {"description": "x"}, JSON, headers=headers).status_code == 404
        )


FULL = [
    ("agents", {**NEW, "max_steps": 3, "capabilities": ["books"], "grants": [{"tool": "add"}], "enabled": False}, ("name", "provider", "model_name")),
    ("functions", {"name": "add", "source": SOURCE, "timeout": 3, "allowed_imports": ["json"]}, ("name", "source")),
    ("chains", {"name": "both", "description": "Two.", "max_parallel": 3, "steps": [{"key": "one", "tool": "add"}]}, ("name",)),
    ("schedules", {"name": "daily", "agent": "librarian", "text": "Go.", "crontab": "0 9 * * *", "timezone": "Europe/Berlin", "jitter_s": 5, "missed_policy": "all"}, ("name", "agent", "crontab")),
    ("triggers", {"name": "called", "kind": "webhook", "agent": "librarian", "text": "Go.", "enabled": False}, ("name", "kind", "agent")),
    ("providers", {"name": "local", "kind": "openai", "base_url": "https://93.184.216.34/v1", "prices": {"*": {"input": 1, "output": 2}}}, ("name", "kind")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "full", "needed"), FULL, ids=[kind for kind, *_ in FULL])
def test_put_replaces_a_row_and_patch_merges(alice_api, rows, kind, full, needed):
    bare = {name: full[name] for name in needed if name in full}
    new = {**bare, "name": "bare"} if kind != "agents" else {**bare, "name": "bare"}
    fresh = alice_api.post(f"{V1}/{kind}/", new)
    assert fresh.status_code == 201, fresh.content
    kept = {"name": "full", **{key: value for key, value in full.items() if key != "name"}}
    row = alice_api.post(f"{V1}/{kind}/", kept)
    assert row.status_code == 201, row.content
    at = row["Location"]
    patched = alice_api.patch(at, {}, JSON).json()
    volatile = {
        "updated_at",
        "created_at",
        "name",
        "secret",
        "url",
        "next_due_at",
        "next_due_local",
        "draft_sha256",
        "hook",
    }

    def same(one, other):
        return {key for key in one if key not in volatile and one[key] != other.get(key)}

    assert same(patched, row.json()) == set()
    replaced = alice_api.put(at, {**bare, "name": "full"}, JSON)
    assert replaced.status_code == 200, replaced.content
    assert same(replaced.json(), fresh.json()) == set()


def test_put_keeps_what_cannot_be_read(alice_api, alice, rows):
    alice_api.post(f"{V1}/providers/", {"name": "mine", "kind": "openai", "api_key": "sk-1"})
    assert alice_api.put(f"{V1}/providers/mine", {"name": "mine", "kind": "openai"}, JSON).json()["has_key"] is True


def test_put_needs_what_a_new_row_needs(alice_api, rows):
    alice_api.post(f"{V1}/schedules/", MADE[6][1])
    assert alice_api.put(f"{V1}/schedules/daily", {"name": "daily", "agent": "librarian"}, JSON).status_code == 422
    assert alice_api.put(f"{V1}/schedules/daily", {"name": "daily", "crontab": "0 9 * * *"}, JSON).status_code == 422
    alice_api.post(f"{V1}/teams/", {"name": "readers"})
    assert alice_api.put(f"{V1}/teams/readers", {"name": "readers"}, JSON).status_code == 422
    assert Agent.objects.get(name="librarian").description == "Finds books."


def test_limits_are_told_with_every_answer(alice_api, settings, one_minute):
    settings.RATE_PER_KEY, settings.RATE_PER_ADDRESS = 5, 0
    first, second = alice_api.get(f"{V1}/agents/"), alice_api.get(f"{V1}/agents/")
    told = [(one["RateLimit-Limit"], one["RateLimit-Remaining"], one["RateLimit-Reset"]) for one in (first, second)]
    assert told == [("5", "4", "31"), ("5", "3", "31")]
    settings.RATE_PER_KEY = 0
    assert "RateLimit-Limit" not in alice_api.get(f"{V1}/agents/")


def test_a_refusal_tells_when_to_come_back(alice_api, settings, one_minute):
    settings.RATE_PER_KEY = 1
    refused = [alice_api.get(f"{V1}/agents/") for _ in range(4)][-1]
    assert refused.status_code == 429 and refused["RateLimit-Remaining"] == "0"
    assert refused["Retry-After"] == refused["RateLimit-Reset"] == "31"


def test_a_draft_that_somebody_changed_meanwhile_is_not_published(alice_api, agent):
    at = f"{V1}/agents/librarian"
    seen = alice_api.get(at)["ETag"]
    alice_api.patch(at, {"description": "Somebody else's text."}, JSON)
    answer = alice_api.post(f"{at}/publish", {}, headers={"If-Match": seen})
    assert (answer.status_code, answer.json()["error"]["code"]) == (412, "changed_meanwhile")
    assert alice_api.get(at).json()["published_version"] is None
    assert not AuditEvent.objects.filter(action="agent.published").exists()
    now = answer["ETag"]
    assert alice_api.post(f"{at}/publish", {}, headers={"If-Match": now}).json()["version"] == 1
    assert alice_api.post(f"{at}/publish", {}).status_code == 200, "the header is optional"


def test_a_stranger_who_knows_the_tag_publishes_nothing(charlie_api, alice_api, agent):
    tag = alice_api.get(f"{V1}/agents/librarian")["ETag"]
    assert charlie_api.post(f"{V1}/agents/librarian/publish", {}, headers={"If-Match": tag}).status_code == 404


def test_options_answers_for_a_row_that_one_may_only_read(alice_api, offline):
    answer = alice_api.options(f"{V1}/providers/offline")
    assert (answer.status_code, "actions" in answer.json()) == (200, False)
    assert alice_api.options(f"{V1}/providers/missing").status_code == 404
