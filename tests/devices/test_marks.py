"""Records that were made after strangers' text was read keep the mark, on the device as on the server."""

import pytest

from devices.client.exceptions import ToolRefused
from devices.client.store import Store
from devices.client.tools import TOOLS
from devices.tools import is_marked, iterate_records


def test_the_client_keeps_the_mark_with_the_record():
    store = Store(":memory:")
    make, change, read = (TOOLS[name].function for name in ("create_note", "update_note", "list_notes"))
    plain = make(store.for_agent("clerk"), title="mine", content="a")["note"]
    marked = make(store.for_agent("clerk", is_untrusted=True), title="theirs", content="b")["note"]
    assert not is_marked(plain) and is_marked(marked)
    assert sorted(map(is_marked, read(store.for_agent("clerk"))["notes"])) == [False, True]
    change(store.for_agent("clerk"), note_id=marked["id"], content="c")
    assert is_marked(store.get("note", marked["id"]))
    change(store.for_agent("clerk", is_untrusted=True), note_id=plain["id"], content="d")
    assert is_marked(store.get("note", plain["id"]))


def test_marks_are_found_wherever_a_result_holds_records():
    found = iterate_records({"task": {"id": 1, "comments": [{"untrusted": 1}]}})
    assert [is_marked(record) for record in found] == [False, False, True]


def test_after_untrusted_text_a_change_of_an_approved_record_waits_on_the_device():
    store = Store(":memory:")
    trusted, marked = store.for_agent("clerk"), store.for_agent("clerk", is_untrusted=True)
    make, change = TOOLS["create_task"].function, TOOLS["update_task"].function
    task = make(marked, title="Pay the bill")["task"]["id"]
    assert change(marked, task_id=task, title="Pay the large bill")["task"]["title"] == "Pay the large bill"
    assert store.approve(task) and not store.approve(task)
    assert change(trusted, task_id=task, state="In Progress")["task"]["state"] == "In Progress"
    said = change(marked, task_id=task, title="Pay Mallory")["task"]
    assert said["title"] == "Pay the large bill" and said["suggestedChange"]["title"] == "Pay Mallory"
    assert [one["id"] for one in store.suggestions()] == [task]
    assert store.reject(task) and store.suggestions() == []
    change(marked, task_id=task, due_date="2026-03-01")
    change(marked, task_id=task, priority="high")
    assert store.approve(task)
    row = store.get("task", task)
    assert (row["title"], row["due_date"], row["priority"]) == ("Pay the large bill", "2026-03-01", "high")
    assert "suggestedChange" not in row and is_marked(row)


def test_a_rejected_suggestion_is_kept_from_agents_with_its_reason():
    store = Store(":memory:")
    clerk = store.for_agent("clerk")
    task = TOOLS["create_task"].function(clerk, title="Pay")["task"]["id"]
    assert store.reject(task, "paid already") and not store.reject(task)
    assert TOOLS["list_tasks"].function(clerk)["tasks"] == [] == store.suggestions()
    assert store.get("task", task)["reason"] == "paid already"
    with pytest.raises(ToolRefused, match="paid already"):
        TOOLS["update_task"].function(clerk, task_id=task, title="Pay again")


def test_the_device_finds_records_by_words_assignee_and_source():
    store = Store(":memory:")
    clerk = store.for_agent("clerk")
    make, find = TOOLS["create_task"].function, TOOLS["list_tasks"].function
    make(clerk, title="Über Miete reden", assignees=["Ann Lee", "ann lee"], source="thread-1")
    make(clerk, title="Pay")

    def titles(**by):
        return [one["title"] for one in find(clerk, **by)["tasks"]]

    assert (
        titles(search="miete ÜBER") == titles(assignee="ANN LEE") == titles(source="thread-1") == ["Über Miete reden"]
    )
    assert titles(search="task") == titles(assignee="ann") == titles(source="thread-2") == []
    assert titles(limit=1) == ["Pay"]
    comment = TOOLS["add_task_comment"].function(clerk, task_id=store.all("task", limit=1)[0]["id"], text="Hm.")
    assert comment["comment"]["author"] == "clerk"
