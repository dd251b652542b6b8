"""Records that were made after strangers' text was read keep the mark, on the device as on the server."""

from devices.client.store import Store
from devices.client.tools import TOOLS
from devices.tools import is_marked, records_in


def test_the_client_keeps_the_mark_with_the_record():
    store = Store(":memory:")
    make, change, read = (TOOLS[name].function for name in ("create_note", "update_note", "list_notes"))
    plain = make(store.marking(False), title="mine", content="a")["note"]
    marked = make(store.marking(True), title="theirs", content="b")["note"]
    assert not is_marked(plain) and is_marked(marked)
    assert sorted(map(is_marked, read(store.marking(False))["notes"])) == [False, True]
    change(store.marking(False), note_id=marked["id"], content="c")
    assert is_marked(store.get("note", marked["id"]))
    change(store.marking(True), note_id=plain["id"], content="d")
    assert is_marked(store.get("note", plain["id"]))


def test_marks_are_found_wherever_a_result_holds_records():
    found = records_in({"task": {"id": 1, "comments": [{"untrusted": 1}]}})
    assert [is_marked(record) for record in found] == [False, False, True]
