"""`Prefer`: how long an answer may take (RFC 7240)."""

from types import SimpleNamespace

import pytest

from runs.api import prefer

SEND = "/api/v1/agents/helper/messages"


@pytest.mark.parametrize(
    ("header", "given", "seconds", "applied"),
    [
        ("", None, 60, None),
        ("", 5.0, 5.0, None),
        ("wait=10", None, 10, "wait=10"),
        ("wait=0", None, 0, "wait=0"),
        ("WAIT = 10; foo, handling=lenient", None, 10, "wait=10"),
        ('wait="10"', None, 10, "wait=10"),
        ("wait=10, wait=20", None, 10, "wait=10"),
        ("wait=100000", None, 600, "wait=600"),
        ("wait=10", 5.0, 5.0, None),
        ("respond-async", None, None, "respond-async"),
        ("respond-async", 5.0, None, "respond-async"),
        ("respond-async, wait=10", None, 10, "wait=10"),
        ("wait=soon", None, 60, None),
        ("wait=-1", None, 60, None),
        ("wait=\u0663", None, 60, None),
        ("return=minimal", None, 60, None),
        ("respond-asynchronously", None, 60, None),
    ],
)
def test_what_was_preferred_is_followed_and_told(header, given, seconds, applied):
    request = SimpleNamespace(headers={"Prefer": header})
    headers = {"Preference-Applied": applied} if applied else {}
    assert prefer.choose_wait(request, given, 60) == (seconds, headers)


@pytest.mark.django_db(transaction=True)
def test_a_message_and_a_chain_say_which_preference_was_followed(alice_api, make_agent, worker):
    make_agent("helper")
    answer = alice_api.post(SEND, {"message": "Hello"}, headers={"Prefer": "wait=0"})
    assert (answer.status_code, answer["Preference-Applied"]) == (202, "wait=0")
    answer = alice_api.post(SEND, {"message": "Hello"}, headers={"Prefer": "respond-async"})
    assert (answer.status_code, answer["Preference-Applied"]) == (202, "respond-async")
    alice_api.post("/api/v1/chains/", {"name": "tell", "steps": [{"key": "one", "agent": "helper", "input": {}}]})
    assert alice_api.post("/api/v1/chains/tell/publish", {}).status_code == 200
    for preference in ("respond-async", "wait=0", "wait=1"):
        answer = alice_api.post("/api/v1/chains/tell/runs", {"input": {}}, headers={"Prefer": preference})
        assert (answer.status_code, answer["Preference-Applied"]) == (202, preference)
    assert "Preference-Applied" not in alice_api.post("/api/v1/chains/tell/runs", {"input": {}})
