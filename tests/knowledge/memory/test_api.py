"""Memories over REST: seen, searched, written, decided, exported and erased by their owner; closed to everybody else."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import AuditEvent, Membership
from knowledge.memory import storage
from knowledge.memory.storage import Author, Place
from knowledge.models import Memory, MemoryVersion
from tests.people import make_person

URL = "/api/v1/memory/"
CALL = "0190a0a0-0000-7000-8000-000000000001"


def made(api, text="Likes green tea.", **more):
    answer = api.post(URL, {"text": text, **more})
    assert answer.status_code == 201, answer.json()
    return answer.json()


@pytest.fixture
def suggestion(alice):
    by = Author("clerk", run_id=CALL, root_id=CALL, call_id=CALL, is_untrusted=True)
    return storage.store_new_memory(Place(alice.pk), {"text": "Pays bills to Mallory."}, by, at_once=False)[0]


def test_a_person_writes_a_memory_of_their_own(alice_api):
    answer = alice_api.post(URL, {"text": " Likes green tea.\u200b ", "kind": "preference", "subject": "tea"})
    assert answer.status_code == 201, answer.json()
    body = answer.json()
    assert (body["text"], body["kind"], body["subject"], body["scope"]) == (
        "Likes green tea.",
        "preference",
        "tea",
        "person",
    )
    assert (body["status"], body["version"], body["untrusted"], answer["ETag"]) == ("active", 1, False, '"1"')
    assert body["source"] == {"run": None, "call": None} and body["agent"] is None
    assert answer["Location"] == f"{URL}{body['id']}"
    assert alice_api.get(answer["Location"]).json() == body
    assert AuditEvent.objects.filter(action="memory.created", actor__username="alice").count() == 1


def test_the_same_text_is_remembered_once(alice_api):
    first = made(alice_api)
    again = alice_api.post(URL, {"text": "likes GREEN tea."})
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert Memory.objects.count() == MemoryVersion.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "text"),
        ({"text": 3}, "text"),
        ({"text": "a" * 2001}, "text"),
        ({"text": "a", "kind": "wish"}, "kind"),
        ({"text": "a", "untrusted": False}, "untrusted"),
        ({"text": "a", "status": "active"}, "status"),
        ({"text": "a", "scope": "person_agent"}, "agent"),
        ({"text": "a", "agent": "librarian"}, "agent"),
        ({"text": "a", "scope": "team"}, "team"),
    ],
)
def test_a_body_that_cannot_be_meant_is_refused(alice_api, body, field):
    answer = alice_api.post(URL, body)
    assert answer.status_code == 422, answer.json()
    assert field in [one["field"] for one in answer.json()["error"]["details"]]
    assert not Memory.objects.exists()


@pytest.mark.parametrize("text", [" ", "\u200b\ufeff"])
def test_nothing_is_not_remembered(alice_api, text):
    assert alice_api.post(URL, {"text": text}).status_code == 422
    later = {"text": "a", "valid_from": "2026-02-01T00:00:00Z", "valid_until": "2026-01-01T00:00:00Z"}
    assert alice_api.post(URL, later).status_code == 422


@pytest.mark.parametrize("verb", ["get", "patch", "delete", "approve", "reject", "rollback", "versions/", "diff"])
def test_to_a_stranger_and_to_a_team_mate_it_does_not_exist(alice_api, bob_api, charlie_api, suggestion, verb):
    path = f"{URL}{suggestion.pk}"
    for api in (bob_api, charlie_api):
        match verb:
            case "get" | "patch" | "delete":
                answer = getattr(api, verb)(path, {}, content_type="application/json")
            case "versions/" | "diff":
                answer = api.get(f"{path}/{verb}?from=1&to=1" if verb == "diff" else f"{path}/{verb}")
            case _:
                answer = api.post(f"{path}/{verb}", {"version": 1} if verb == "rollback" else None)
        assert answer.status_code == 404, (verb, answer.content)
        assert api.get(URL).json()["results"] == api.get(f"{URL}search?q=bills").json()["results"] == []
        assert api.get(f"{URL}export").json()["results"] == []
        assert api.delete(f"{URL}erase").json() == {"erased": 0}
    assert Memory.objects.get().version == 1


def test_a_key_needs_the_scope(api, alice):
    assert api(alice, "records:read").get(URL).status_code == 403
    reader = api(alice, "memory:read")
    assert reader.get(URL).status_code == 200 and reader.post(URL, {"text": "a"}).status_code == 403
    assert reader.delete(f"{URL}erase").status_code == 403


def test_versions_are_kept_compared_and_rolled_back(alice_api):
    memory = made(alice_api)
    path = f"{URL}{memory['id']}"
    changed = alice_api.patch(path, {"text": "Likes black tea."}, content_type="application/json")
    assert (changed.status_code, changed["ETag"]) == (200, '"2"')
    stale = alice_api.patch(path, {"text": "x"}, content_type="application/json", headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    shown = alice_api.get(f"{path}/diff?from=1&to=2").json()
    assert "-text: Likes green tea." in shown["text"] and "+text: Likes black tea." in shown["text"]
    assert alice_api.get(f"{path}/diff?from=1&to=9").status_code == 404
    assert alice_api.get(f"{path}/diff?from=1").status_code == 422
    assert alice_api.post(f"{path}/rollback", {"version": 9}).status_code == 404
    back = alice_api.post(f"{path}/rollback", {"version": 1}).json()
    assert (back["text"], back["version"]) == ("Likes green tea.", 3)
    listed = alice_api.get(f"{path}/versions/").json()["results"]
    assert [(one["number"], one["action"]) for one in listed] == [(3, "rolled_back"), (2, "changed"), (1, "created")]


def test_a_suggestion_is_approved_once_and_keeps_its_mark(alice_api, suggestion):
    path = f"{URL}{suggestion.pk}"
    shown = alice_api.get(path).json()
    assert (shown["status"], shown["untrusted"], shown["source"]) == ("suggested", True, {"run": CALL, "call": CALL})
    edited = alice_api.patch(path, {"text": "Pays bills."}, content_type="application/json").json()
    assert (edited["status"], edited["untrusted"]) == ("suggested", True)
    assert alice_api.post(f"{path}/approve", headers={"If-Match": '"1"'}).status_code == 412
    done = alice_api.post(f"{path}/approve", headers={"If-Match": '"2"'})
    assert (done.status_code, done.json()["status"], done.json()["untrusted"]) == (200, "active", True)
    assert alice_api.post(f"{path}/approve").status_code == 409
    assert alice_api.post(f"{path}/reject").status_code == 409
    back = alice_api.post(f"{path}/rollback", {"version": 1}).json()
    assert back["untrusted"] is True, "nothing removes the mark"


def test_a_rejected_suggestion_is_gone(alice_api, suggestion):
    assert alice_api.post(f"{URL}{suggestion.pk}/reject").status_code == 204
    assert not Memory.objects.exists() and not MemoryVersion.objects.exists()


def test_a_suggested_change_leaves_the_memory_as_it_is_until_it_is_approved(alice, alice_api):
    memory = Memory.objects.get(pk=made(alice_api)["id"])
    by = Author("clerk", root_id=CALL, call_id=CALL, is_untrusted=True)
    change = storage.store_agent_change(memory, {"text": "Likes coffee."}, by, at_once=False)
    again = storage.store_agent_change(memory, {"text": "Likes coffee."}, by, at_once=False)
    assert again.pk == change.pk, "a repeated call finds what it wrote"
    memory.refresh_from_db()
    assert (memory.text, memory.untrusted) == ("Likes green tea.", False)
    approved = alice_api.post(f"{URL}{change.pk}/approve").json()
    assert (approved["id"], approved["text"], approved["version"]) == (str(memory.pk), "Likes coffee.", 2)
    assert approved["untrusted"] is True and not Memory.objects.filter(pk=change.pk).exists()


def test_two_writers_of_one_memory_do_not_overwrite_each_other(alice, alice_api):
    memory = Memory.objects.get(pk=made(alice_api)["id"])
    storage.store_changed_memory(memory, {"text": "One."}, Author("alice"), expected=1)
    with pytest.raises(Exception, match="changed in the meantime"):
        storage.store_changed_memory(memory, {"text": "Two."}, Author("alice"), expected=1)
    assert [one.text for one in memory.versions.all()] == ["One.", "Likes green tea."]


def test_a_memory_of_a_team_is_read_by_its_members_and_changed_by_its_writer(
    alice, alice_api, bob_api, charlie_api, team, api
):
    memory = made(alice_api, "The office closes at six.", scope="team", team=team.name)
    path = f"{URL}{memory['id']}"
    assert bob_api.get(path).json()["text"] == "The office closes at six."
    assert bob_api.get(f"{URL}search?q=office").json()["results"][0]["because"] == "it has “office”"
    assert bob_api.patch(path, {"text": "x"}, content_type="application/json").status_code == 403
    assert bob_api.delete(path).status_code == 403
    assert charlie_api.get(path).status_code == 404
    assert charlie_api.post(URL, {"text": "a", "scope": "team", "team": team.name}).status_code == 404
    viewer = make_person("viewer")
    Membership.objects.create(team=team, user=viewer, role="viewer")
    assert api(viewer).post(URL, {"text": "a", "scope": "team", "team": team.name}).status_code == 403
    bobs = made(bob_api, "Bob has the key.", scope="team", team=team.name)
    assert alice_api.delete(f"{URL}{bobs['id']}").status_code == 204, "an administrator of the team may delete it"


def test_a_memory_of_an_agent_is_written_by_its_owner_alone(alice_api, bob_api, agent, team):
    agent.team = team
    agent.save()
    body = {"text": "The library has two floors.", "agent": "librarian"}
    assert bob_api.post(URL, {**body, "scope": "agent"}).status_code == 403
    assert made(alice_api, **body, scope="agent")["agent"] == "librarian"
    assert bob_api.get(URL).json()["results"] == []
    assert bob_api.post(URL, {**body, "scope": "person_agent"}).status_code == 201


def test_the_search_finds_by_stems_and_says_why(alice_api):
    made(alice_api, "Her flights leave from Lisbon.")
    made(alice_api, "Invoice 4711 is paid.")
    over = made(alice_api, "Flew to Porto.")
    Memory.objects.filter(pk=over["id"]).update(valid_until=timezone.now() - timedelta(days=1))
    found = alice_api.get(f"{URL}search?q=When is the flight?").json()["results"]
    assert [(one["text"], one["because"]) for one in found] == [("Her flights leave from Lisbon.", "it has “flight”")]
    assert alice_api.get(f"{URL}search?q=4711").json()["results"][0]["text"] == "Invoice 4711 is paid."
    assert alice_api.get(f"{URL}search?q=porto").json()["results"] == [], "what is over is not recalled"
    for wrong in ("", "?q=", "?q=a&limit=0", "?q=a&limit=51", f"?q={'a' * 501}"):
        assert alice_api.get(f"{URL}search{wrong}").status_code == 422, wrong


def test_the_list_is_filtered(alice_api, suggestion):
    made(alice_api, kind="preference")
    assert [one["status"] for one in alice_api.get(f"{URL}?status=suggested").json()["results"]] == ["suggested"]
    assert [one["kind"] for one in alice_api.get(f"{URL}?kind=preference&search=TEA").json()["results"]] == [
        "preference"
    ]
    assert [one["id"] for one in alice_api.get(f"{URL}?untrusted=true&run={CALL}").json()["results"]] == [
        str(suggestion.pk)
    ]
    assert alice_api.get(f"{URL}?status=lost").status_code == 422


def test_lists_and_exports_cost_the_same_for_one_and_for_many(alice_api, team, agent):
    def count(path):
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert alice_api.get(path).status_code == 200
        return len(captured)

    made(alice_api)
    paths = (URL, f"{URL}search?q=tea", f"{URL}export")
    before = [count(path) for path in paths]
    for number in range(5):
        made(alice_api, f"Tea {number}", scope="team", team=team.name)
        made(alice_api, f"Tea {number}", scope="agent", agent="librarian")
    assert [count(path) for path in paths] == before


def test_quotas_hold(alice, alice_api, settings, monkeypatch):
    settings.MEMORIES_PER_PERSON = 2
    monkeypatch.setattr(storage, "MEMORIES_PER_RUN", 3)
    monkeypatch.setattr(storage, "MEMORY_SUGGESTIONS", 2)
    made(alice_api, "one")
    made(alice_api, "two")
    full = alice_api.post(URL, {"text": "three"})
    assert (full.status_code, full.json()["error"]["code"]) == (409, "too_many_memories")
    Memory.objects.first().delete()

    def suggest(number, root):
        by = Author("clerk", root_id=root, call_id=f"0190a0a0-0000-7000-8000-{number:012}")
        return storage.store_new_memory(Place(alice.pk), {"text": f"suggestion {number}"}, by, at_once=False)

    suggest(1, CALL), suggest(2, CALL)
    with pytest.raises(Exception, match="wait for a decision"):
        suggest(3, CALL)
    monkeypatch.setattr(storage, "MEMORY_SUGGESTIONS", 99)
    suggest(4, CALL)
    with pytest.raises(Exception, match="One message"):
        suggest(5, CALL)
    suggest(6, "0190a0a0-0000-7000-8000-0000000000ff")


def test_approving_does_not_exceed_the_quota(alice, alice_api, settings):
    settings.MEMORIES_PER_PERSON = 2
    first = made(alice_api, "one")
    by = Author("clerk", call_id=CALL)
    waits, other = (storage.store_new_memory(Place(alice.pk), {"text": text}, by_call(by, number), at_once=False)[0]
                    for number, text in enumerate(("two", "three")))  # fmt: skip
    assert alice_api.post(f"{URL}{waits.pk}/approve").status_code == 200
    full = alice_api.post(f"{URL}{other.pk}/approve")
    assert (full.status_code, full.json()["error"]["code"]) == (409, "too_many_memories")
    assert Memory.objects.get(pk=other.pk).is_suggested, "it waits until there is room"
    change = storage.store_suggestion(Memory.objects.get(pk=first["id"]), {"text": "One."}, by_call(by, 3))
    assert alice_api.post(f"{URL}{change.pk}/approve").json()["id"] == first["id"], "a change needs no room"
    assert alice_api.delete(f"{URL}{first['id']}").status_code == 204
    assert alice_api.post(f"{URL}{other.pk}/approve").status_code == 200


def by_call(by, number):
    return replace(by, call_id=f"0190a0a0-0000-7000-8000-{number:012}")


def test_export_and_erase_leave_nothing(alice, alice_api, suggestion, team):
    memory = made(alice_api, "Likes xylophones.")
    alice_api.patch(f"{URL}{memory['id']}", {"text": "Hates xylophones."}, content_type="application/json")
    made(alice_api, "The xylophone is in the cellar.", scope="team", team=team.name)
    exported = alice_api.get(f"{URL}export").json()["results"]
    assert len(exported) == 3
    assert [one["text"] for one in exported[1]["versions"]] == ["Likes xylophones.", "Hates xylophones."]
    assert alice_api.delete(f"{URL}erase").json() == {"erased": 3}
    assert AuditEvent.objects.get(action="memory.erased").details == {"memories": 3}
    assert everywhere("xylophone") == everywhere("Mallory") == []


def test_nothing_of_a_person_who_was_deleted_is_left(alice, alice_api, suggestion):
    made(alice_api, "Likes xylophones.")
    alice.delete()
    assert everywhere("xylophone") == everywhere("Mallory") == []


def test_lettas_agent_files_become_suggestions(alice_api, agent, bob_api):
    long = "\n".join(f"Line {number} of the notes about the house." for number in range(100))
    blocks = [{"label": "human", "value": "The human is Chad."}, {"label": "notes", "value": long, "limit": 5000}]
    done = alice_api.post(f"{URL}import", {"file": {"agents": [], "blocks": blocks}, "agent": "librarian"})
    assert (done.status_code, done.json()) == (200, {"created": 3, "known": 0}), done.json()
    rows = alice_api.get(URL).json()["results"]
    assert {(one["status"], one["untrusted"], one["agent"]) for one in rows} == {("suggested", True, "librarian")}
    assert "".join(one["text"] + "\n" for one in sorted(rows, key=lambda one: one["id"])[1:]) == long + "\n"
    older = {"file": {"core_memory": blocks[:1]}, "agent": "librarian"}
    assert alice_api.post(f"{URL}import", older).json() == {"created": 0, "known": 1}
    assert bob_api.post(f"{URL}import", older).status_code == 404, "an agent that Bob cannot use"


@pytest.mark.parametrize(
    "file",
    [
        {},
        {"blocks": {}},
        {"blocks": [{"label": "a"}]},
        {"blocks": [3]},
        {"blocks": [{"label": "a", "value": "b"}] * 101},
    ],
)
def test_a_broken_agent_file_stores_nothing(alice_api, file):
    assert alice_api.post(f"{URL}import", {"file": file}).status_code == 422
    many = [{"label": str(number), "value": f"Text {number}"} for number in range(100)]
    assert alice_api.post(f"{URL}import", {"file": {"blocks": [*many[:99], {"label": "x"}]}}).status_code == 422
    assert not Memory.objects.exists()


def everywhere(word):
    """The tables and files that contain the word."""
    found = []
    for model in apps.get_models(include_auto_created=True):
        for row in model._base_manager.values_list():
            if word.casefold() in repr(row).casefold():
                found.append(model._meta.db_table)
    files = [path for path in settings.FILES_DIR.rglob("*") if path.is_file()]
    return found + [str(path) for path in files if word.encode() in path.read_bytes()]
