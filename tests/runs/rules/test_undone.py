"""What a run left undone, as a table."""

from types import SimpleNamespace

import pytest

from runs.rules.incomplete_calls import Call, shortfall, undone


def call(name="read", outcome="ok", code="", effect="read", **arguments):
    return Call(name, str(sorted(arguments.items())), effect, outcome, code)


def lost(code, name="read", effect="read", **arguments):
    return call(name, "failed", code, effect, **arguments)


@pytest.mark.parametrize(
    ("calls", "left"),
    [
        ([], 0),
        ([call()], 0),
        ([lost("device_offline", path="a")], 1),
        ([lost("device_offline", path="a"), call(path="a")], 0),  # the same call got its answer later
        ([lost("device_offline", path="a"), call(path="b")], 1),  # another file is another file
        ([call(path="a"), lost("device_offline", path="a")], 1),  # an earlier answer is no answer to this one
        ([call(outcome="unknown", path="a")], 1),
        ([lost("binary", path="a")], 0),  # a refusal of a reading tool is an answer
        ([lost("invalid_arguments")], 1),
        ([lost("answer_cut_off")], 1),
        ([lost("answer_cut_off", limit="x"), call(limit=1)], 0),
        ([lost("invalid_arguments", limit="x"), call(limit=1)], 0),
        ([lost("tool_failed", effect="write")], 1),
        ([lost("tool_failed", effect="write", n=1), call(effect="write", n=2)], 0),
        ([lost("tool_failed", effect="write"), call("other", effect="write")], 1),
        ([lost("denied", effect="write")], 0),  # the person at the device decided
        ([call(outcome="denied", code="denied", effect="write")], 0),  # the policy decided
        ([call(outcome="denied", code="approval_denied", effect="write")], 0),
        ([call(outcome="denied", code="approval_expired", effect="write")], 1),  # nobody decided
    ],
)
def test_what_counts_as_undone(calls, left):
    assert len(undone(calls)) == left
    assert (shortfall(calls) is None) == (left == 0)


def record(**fields):
    usual = {"name": "ask", "arguments": {}, "kind": "agent", "effect": "idempotent", "outcome": "ok", "error": None}
    return SimpleNamespace(**{**usual, "result": None, **fields})


def test_an_agent_that_did_only_a_part_leaves_its_caller_s_work_undone():
    partial = Call.of(record(result={"run": "r", "status": "partial", "reply": "half"}))
    assert undone([partial]) == [partial]
    assert undone([partial, Call.of(record(result={"run": "q", "status": "succeeded"}))]) == []
    assert undone([Call.of(record(kind="function", result={"run": "r", "status": "partial"}))]) == []
    assert undone([Call.of(record(kind="builtin", result={"status": "partial"}))]) == []


def test_the_message_names_tools_and_reasons():
    error = shortfall([lost("device_offline", path="a"), lost("device_offline", path="b"), lost("busy", "list")])
    assert error == {
        "code": "work_undone",
        "message": "3 calls were not carried out: read, list (device_offline, busy)",
    }
