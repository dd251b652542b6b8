"""The pages of memory: what is known is shown with its source, suggestions are decided, versions come back."""

import pytest

from knowledge.memory import storage
from knowledge.memory.storage import Author, Place
from knowledge.models import Memory

CALL = "0190a0a0-0000-7000-8000-000000000001"


@pytest.fixture
def suggestion(alice):
    by = Author("clerk", run_id=CALL, root_id=CALL, call_id=CALL, is_untrusted=True)
    return storage.store_new_memory(Place(alice.pk), {"text": "The bill is due."}, by, at_once=False)[0]


def text(answer):
    return answer.content.decode()


def test_an_empty_page_says_how_to_begin(alice, signed_in):
    assert "switch on the memory of an agent" in text(signed_in(alice).get("/memory/"))


def test_what_waits_is_counted_listed_and_decided(alice, signed_in, suggestion):
    browser = signed_in(alice)
    assert 'data-count="collections">1<' in text(browser.get("/"))  # at Knowledge, of which memory is a part
    assert 'data-count="memory">1<' in text(browser.get("/collections/"))
    listed = text(browser.get("/memory/?status=suggested&search=BILL&untrusted=true"))
    assert "The bill is due." in listed and "from others’ text" in listed
    assert "No memory matches" in text(browser.get("/memory/?search=nowhere"))
    assert "No memory matches" in text(browser.get("/memory/?scope=nobody"))
    storage.store_suggestion(suggestion, {"text": "The bill is paid."}, Author("clerk"))
    assert text(browser.get("/memory/")).count('name="chosen"') == 2, "each suggestion can be chosen"
    Memory.objects.exclude(pk=suggestion.pk).delete()
    stale = browser.post("/memory/", {"decision": "approve", "chosen": [f"{suggestion.pk}:7"]}, follow=True)
    assert "changed in the meantime" in text(stale)
    done = browser.post("/memory/", {"decision": "approve", "chosen": [f"{suggestion.pk}:1"]}, follow=True)
    assert "1 approved." in text(done)
    suggestion.refresh_from_db()
    assert (suggestion.status, suggestion.untrusted) == ("active", True)


def test_a_person_writes_edits_rolls_back_and_deletes(alice, signed_in):
    browser = signed_in(alice)
    assert "Remembered." in text(browser.post("/memory/", {"text": "Likes tea.", "kind": "preference"}, follow=True))
    row = Memory.objects.get()
    path = f"/memory/{row.pk}/"
    saved = browser.post(
        path, {"text": "Likes <b>coffee</b>.", "subject": "", "kind": "fact", "version": "1"}, follow=True
    )
    assert "Saved." in text(saved) and "<b>coffee" not in text(saved) and "<del>Likes tea.</del>" in text(saved)
    assert browser.post(path, {"text": "x", "version": "1"}).status_code == 412
    assert "Version 1 is back." in text(browser.post(f"{path}rollback", {"to": "1", "version": "2"}, follow=True))
    row.refresh_from_db()
    assert (row.text, row.version) == ("Likes tea.", 3)
    browser.post(f"{path}delete")
    assert not Memory.objects.exists()


def test_a_suggestion_is_edited_and_approved_or_rejected_on_its_page(alice, signed_in, suggestion):
    browser, path = signed_in(alice), f"/memory/{suggestion.pk}/"
    assert "never put into a prompt" in text(browser.get(path))
    browser.post(path, {"text": "Due on Friday.", "subject": "bill", "version": "1", "then": "approve"})
    suggestion.refresh_from_db()
    assert (suggestion.text, suggestion.status) == ("Due on Friday.", "active")
    other = storage.store_suggestion(suggestion, {"text": "Due never."}, Author("clerk", call_id=str(suggestion.pk)))
    assert "An agent suggests a change" in text(browser.get(path))
    assert "Rejected." in text(
        browser.post(f"/memory/{other.pk}/decide", {"decision": "reject", "version": "1"}, follow=True)
    )


def test_nobody_else_finds_it(alice, bob, charlie, signed_in, suggestion):
    for person in (bob, charlie):
        browser, path = signed_in(person), f"/memory/{suggestion.pk}/"
        assert "bill" not in text(browser.get("/memory/"))
        assert browser.get(path).status_code == 404
        for verb in ("", "decide", "rollback", "delete"):
            assert browser.post(f"{path}{verb}", {"text": "x", "version": "1", "to": "1"}).status_code == 404
    assert Memory.objects.get().text == "The bill is due."
