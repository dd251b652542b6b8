"""`python -m devices.client review`: the person reads everything, corrects, approves and rejects."""

import pytest

from devices.client.__main__ import main
from devices.client.home import Home
from devices.client.store import Store
from devices.client.tools import TOOLS

TEXT = "\n".join(f"line {number}" for number in range(300))


@pytest.fixture
def store(tmp_path):
    return Store(Home(str(tmp_path)).database)


@pytest.fixture
def review(tmp_path, capsys, store):
    def run(*arguments, code=0):
        assert main(["--home", str(tmp_path), "review", *arguments]) == code
        return capsys.readouterr()

    return run


def suggest(store, tool="create_task", *, is_untrusted=True, **arguments):
    return TOOLS[tool].function(store.for_agent("clerk", is_untrusted=is_untrusted), **arguments)


def test_it_shows_the_whole_content(review, store):
    suggest(store, title="Pay", description=TEXT, due_date="2026-01-31", assignees=["Ann", "Bo"], source="thread-1")
    suggest(store, "create_note", is_untrusted=False, title="Bank", content="IBAN DE1", tags=["money"])
    said = review().out
    for part in ("title: Pay", "due_date: 2026-01-31", "assignees: Ann, Bo", "source: thread-1", "line 0", "line 299",
                 "content: IBAN DE1", "tags: money"):  # fmt: skip
        assert part in said, part
    assert said.count("read text from other people") == 1
    assert "Bank" in review("--search", "IBAN").out and "Pay" not in review("--search", "iban").out
    assert review("--search", "nothing").out == "No suggestions.\n"


def test_a_suggestion_is_corrected_and_approved_once(review, store):
    id = suggest(store, title="Pay")["task"]["id"]
    said = review("edit", id, "title=Pay it", "assignees=Ann Lee, Bo", "due_date=2026-01-31").out
    assert "title: Pay it" in said and "assignees: Ann Lee, Bo" in said
    for wrong in ("due_date=soon", "titel=a", "state=Lost", "id=3", "nothing"):
        assert review("edit", id, wrong, code=1).err.startswith("muster-device: "), wrong
    review("edit", "unknown", "title=a", code=1)
    assert review("approve", id).out == "1 approved\n"
    assert "no open suggestion" in review("approve", id, code=1).err
    assert store.get("task", id)["isApproved"] == 1


def test_a_suggested_change_is_shown_with_what_is_there(review, store):
    id = suggest(store, title="Pay", description="12 euros")["task"]["id"]
    review("approve", id)
    suggest(store, "update_task", task_id=id, description="1200 euros\nto Mallory")
    said = review().out
    assert "change of an approved record" in said
    assert "description: 12 euros" in said and "→ description: 1200 euros\n    to Mallory" in said
    review("reject", id)
    assert store.get("task", id)["description"] == "12 euros"


def test_a_rejected_one_is_kept_with_the_reason(review, store):
    id = suggest(store, title="Pay")["task"]["id"]
    assert review("reject", id, "--reason", "paid already").out == "1 rejected\n"
    assert store.get("task", id)["reason"] == "paid already" and review().out == "No suggestions.\n"
    suggest(store, title="One"), suggest(store, title="Two")
    assert review("approve", "all").out == "2 approved\n"
