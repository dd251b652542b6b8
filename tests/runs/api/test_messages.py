"""Messages, runs, sessions and approvals over HTTP: what they answer, and that a stranger sees nothing."""

import pytest

from runs.models import Message, Run, RunEvent, Session, ToolCallRecord
from runs.queue import carriers
from tests.fakes import calls, says
from tests.worker import Threads

pytestmark = pytest.mark.django_db
ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    return make_agent(tools=[make_tool()], provider=stub_provider)


@pytest.fixture
def send(worker, alice_api):
    """Send asynchronously and let the worker work: (202 body, the run)."""

    def send(path="/api/v1/agents/helper/messages", body=None, **headers):
        with worker.capture(execute=True):
            response = alice_api.post(path, body or {"message": "Hello"}, headers={**ASYNC, **headers})
        worker.work()
        return response

    return send


@pytest.fixture
def busy_worker(monkeypatch):
    """Works in threads, as the real one does beside the web server."""
    made = Threads()
    monkeypatch.setattr(carriers, "current", lambda: made)
    yield
    made.join()


@pytest.mark.django_db(transaction=True)
def test_by_default_the_answer_waits_for_the_reply(busy_worker, alice_api, agent, stub):
    stub.script(says("Hello Alice"))
    response = alice_api.post("/api/v1/agents/helper/messages", {"message": "Hello"})
    body = response.json()
    assert response.status_code == 200, body
    assert body["reply"]["text"] == "Hello Alice"
    assert body["run"]["status"] == "succeeded"
    assert body["usage"]["input_tokens"] > 0


@pytest.mark.django_db(transaction=True)
def test_a_run_that_waits_for_a_person_answers_202(busy_worker, alice_api, agent, stub):
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})))
    response = alice_api.post("/api/v1/agents/helper/messages", {"message": "add", "wait": 0.5})
    assert response.status_code == 202
    assert response.json()["run"]["urls"]["self"].startswith("/api/v1/runs/")


def test_on_request_it_answers_202_at_once(send, agent, stub):
    stub.script(says("hi"))
    response = send()
    assert response.status_code == 202
    assert response.json()["run"]["status"] == "queued"
    assert Run.objects.get().status == "succeeded"


def test_a_run_that_is_read_has_its_reply_once_it_has_ended(send, alice_api, bob_api, charlie_api, client, agent, stub):
    stub.script(says("hi"))
    accepted = send(**{"Idempotency-Key": "one"}).json()
    at = f"/api/v1/runs/{accepted['run']['id']}"
    said = {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "text": "hi",
        "untrusted": False,
        "finish": "stop",
    }
    assert accepted["reply"] is None and alice_api.get(at).json()["reply"] == said
    assert send(**{"Idempotency-Key": "one"}).json()["reply"] == said, "the repeated request of a run that has ended"
    RunEvent.objects.all().delete()
    assert alice_api.get(at).json()["reply"] == said, "also when its events were pruned"
    Message.objects.all().delete()
    assert alice_api.get(at).json()["reply"] is None
    assert [other.get(at).status_code for other in (bob_api, charlie_api, client)] == [404, 404, 401]


def test_a_run_at_work_or_of_a_chain_has_no_reply(alice, alice_api):
    for status in ("queued", "succeeded"):
        run = Run.objects.create(principal=alice, status=status)
        assert alice_api.get(f"/api/v1/runs/{run.pk}").json()["reply"] is None
    assert "reply" not in alice_api.get("/api/v1/runs/").json()["results"][0], "a list of long texts would be slow"


def test_the_same_idempotency_key_is_the_same_run(send, agent, stub):
    stub.script(says("hi"))
    first = send(**{"Idempotency-Key": "one"}).json()
    second = send(**{"Idempotency-Key": "one"}).json()
    assert first["run"]["id"] == second["run"]["id"] and Run.objects.count() == 1


def test_another_body_under_the_same_key_is_a_conflict(send, agent, stub):
    stub.script(says("hi"))
    send(**{"Idempotency-Key": "one"})
    response = send(body={"message": "other"}, **{"Idempotency-Key": "one"})
    assert response.status_code == 409
    assert response.json()["error"]["code"] == "idempotency_mismatch"


@pytest.mark.parametrize("more", [{"metadata": {"a": 1}}, {"timeout": 5}, {"version": 1}, {"input": {"n": 1}}])
def test_all_that_changes_what_is_done_is_part_of_the_body(send, agent, stub, more):
    stub.script(says("hi"), says("ho"))
    first = send(body={"message": "Hello", **more}, **{"Idempotency-Key": "one"})
    again = send(body={"message": "Hello", **more, "wait": 5}, **{"Idempotency-Key": "one"})  # it only waits otherwise
    assert first.json()["run"]["id"] == again.json()["run"]["id"]
    assert send(body={"message": "Hello"}, **{"Idempotency-Key": "one"}).status_code == 409


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"message": ""}, 422),
        ({"message": 7}, 422),
        ({"message": "a\x00b"}, 400),
        ({"message": [{"type": "smell"}]}, 422),
        ({"message": [{"type": "file", "file": "nope"}]}, 422),
        ({"message": "hi", "session": "not-an-id"}, 422),
        ({"message": "hi", "session": "00000000-0000-7000-8000-000000000000"}, 404),
        ({"message": "hi", "timeout": -1}, 422),
    ],
)
def test_a_bad_message_is_refused_and_nothing_is_stored(alice_api, agent, body, status):
    response = alice_api.post("/api/v1/agents/helper/messages", body, headers=ASYNC)
    assert response.status_code == status, response.json()
    assert set(response.json()["error"]) == {"code", "message", "hint", "details", "request_id"}
    assert Run.objects.count() == Message.objects.count() == 0


def test_malformed_json_is_400(alice_api, agent):
    response = alice_api.post("/api/v1/agents/helper/messages", "{oops", content_type="application/json")
    assert response.status_code == 400


def test_an_unknown_agent_is_404_and_an_unpublished_one_409(alice_api, agent, stub):
    assert alice_api.post("/api/v1/agents/nobody/messages", {"message": "hi"}).status_code == 404
    agent.published = None
    agent.save()
    response = alice_api.post("/api/v1/agents/helper/messages", {"message": "hi"})
    assert response.status_code == 409 and response.json()["error"]["code"] == "not_published"


def test_a_disabled_provider_is_503(alice_api, agent, stub_provider):
    stub_provider.enabled = False
    stub_provider.save()
    response = alice_api.post("/api/v1/agents/helper/messages", {"message": "hi"})
    assert response.status_code == 503 and response.json()["error"]["code"] == "provider_disabled"


def test_input_that_breaks_the_schema_is_422_with_each_fault(alice_api, make_agent, stub_provider):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    make_agent(provider=stub_provider, input_schema=schema)
    response = alice_api.post("/api/v1/agents/helper/messages", {"message": "hi", "input": {"n": "x"}})
    assert response.status_code == 422
    assert response.json()["error"]["details"]


def test_a_busy_session_is_409_with_the_run_that_holds_it(send, agent, stub):
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})))
    first = send().json()
    response = send(body={"message": "again", "session": first["session"]})
    assert response.status_code == 409
    assert response.json()["error"]["details"] == [{"run": first["run"]["id"]}]


def test_a_stranger_sees_nothing_of_a_run(send, charlie_api, agent, stub):
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})))
    body = send().json()
    run, session = body["run"]["id"], body["session"]
    approval = Run.objects.get().approvals.get().pk
    for path in (
        f"runs/{run}", f"runs/{run}/events", f"runs/{run}/stream", f"runs/{run}/tool-calls/", f"runs/{run}/children/",
        f"sessions/{session}", f"sessions/{session}/messages/", f"approvals/{approval}",
    ):  # fmt: skip
        assert charlie_api.get(f"/api/v1/{path}").status_code == 404, path
    for path in ("runs/", "sessions/", "approvals/"):
        assert charlie_api.get(f"/api/v1/{path}").json()["results"] == []
    assert charlie_api.post(f"/api/v1/runs/{run}/cancel").status_code == 404
    assert charlie_api.post(f"/api/v1/approvals/{approval}", {"decision": "approve"}).status_code == 404
    assert charlie_api.patch(f"/api/v1/sessions/{session}", {"title": "x"}, "application/json").status_code == 404
    assert charlie_api.delete(f"/api/v1/sessions/{session}").status_code == 404
    assert charlie_api.post("/api/v1/agents/helper/messages", {"message": "hi"}).status_code == 404
    assert charlie_api.post("/api/v1/messages", {"message": "hi", "session": session}).status_code == 404


def test_without_a_key_everything_is_401(client, agent):
    for path in ("runs/", "sessions/", "approvals/"):
        assert client.get(f"/api/v1/{path}").status_code == 401
    assert client.post("/api/v1/messages", {}, "application/json").status_code == 401


def test_approving_through_the_api_lets_the_run_go_on(worker, send, alice_api, agent, stub, functions):
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
    send()
    approval = alice_api.get("/api/v1/approvals/").json()["results"][0]
    assert approval["tool"] == "add" and approval["default"] == "deny"
    path = f"/api/v1/approvals/{approval['id']}"
    assert alice_api.post(path, {"decision": "perhaps"}).status_code == 422
    broken = alice_api.post(path, {"decision": "approve", "arguments": {"a": "x"}})
    assert broken.status_code == 422 and broken.json()["error"]["details"]
    with worker.capture(execute=True):
        assert alice_api.post(path, {"decision": "approve"}).status_code == 200
    assert alice_api.post(path, {"decision": "deny"}).status_code == 409
    worker.work()
    assert Run.objects.get().status == "succeeded"


def test_cancelling_twice_is_a_conflict(send, alice_api, agent, stub):
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})))
    run = send().json()["run"]["id"]
    assert alice_api.post(f"/api/v1/runs/{run}/cancel", {"reason": "enough"}).json()["status"] == "cancelled"
    assert alice_api.post(f"/api/v1/runs/{run}/cancel").status_code == 409


def test_events_come_by_the_page(send, alice_api, agent, stub):
    stub.script(says("hi"))
    path = f"/api/v1/runs/{send().json()['run']['id']}/events"
    every = alice_api.get(path).json()
    assert every["next"] is None and len(every["results"]) == 4
    first = alice_api.get(f"{path}?limit=3").json()
    second = alice_api.get(first["next"]).json()
    assert first["results"] + second["results"] == every["results"] and second["next"] is None
    assert alice_api.get(f"{path}?limit=0").status_code == 422


def test_a_key_whose_conversation_is_deleted_is_a_conflict(send, alice_api, agent, stub):
    stub.script(says("hi"))
    first = send(**{"Idempotency-Key": "one"}).json()
    assert alice_api.delete(f"/api/v1/sessions/{first['session']}").status_code == 204
    again = send(**{"Idempotency-Key": "one"})
    assert again.status_code == 409 and again.json()["error"]["code"] == "session_deleted"


def test_the_reason_of_a_cancel_is_a_text(send, alice_api, agent, stub):
    stub.script(says("hi"))
    run = send().json()["run"]["id"]
    assert alice_api.post(f"/api/v1/runs/{run}/cancel", {"reason": 0}).status_code == 422


def test_events_resume_after_a_cursor(send, alice_api, agent, stub):
    stub.script(says("hi"))
    run = send().json()["run"]["id"]
    events = alice_api.get(f"/api/v1/runs/{run}/events?after=2").json()["results"]
    assert [event["seq"] for event in events] == [3, 4]
    assert alice_api.get(f"/api/v1/runs/{run}/events?after=99").json()["results"] == []
    assert alice_api.get(f"/api/v1/runs/{run}/events?after=x").status_code == 422


def test_lists_take_the_same_queries_for_one_and_for_many(send, alice_api, agent, stub, django_assert_max_num_queries):
    stub.script(*[says("hi")] * 6)
    for _ in range(6):
        send()
    with django_assert_max_num_queries(3):
        assert len(alice_api.get("/api/v1/runs/").json()["results"]) == 6
    with django_assert_max_num_queries(3):
        assert len(alice_api.get("/api/v1/sessions/").json()["results"]) == 6


def test_calls_and_children_come_by_the_page(send, alice, alice_api, agent, stub):
    stub.script(says("hi"))
    run = Run.objects.get(pk=send().json()["run"]["id"])
    for number in range(3):
        ToolCallRecord.objects.create(run=run, name=f"call-{number}", outcome="ok")
        Run.objects.create(principal=alice, parent=run, root=run, status="succeeded")
    for path in ("tool-calls", "children"):
        first = alice_api.get(f"/api/v1/runs/{run.pk}/{path}/?limit=2").json()
        second = alice_api.get(first["next"]).json()
        found = [row["id"] for row in first["results"] + second["results"]]
        assert len(found) == 3 and found == sorted(found) and second["next"] is None


# -- a session below another ------------------------------------------------------------------------------------------


def test_a_message_starts_a_session_below_another(send, agent, stub):
    stub.script(says("first"), says("second"))
    above = Session.objects.get(pk=send().json()["session"])
    Session.objects.filter(pk=above.pk).update(has_untrusted=True)
    below = Session.objects.get(pk=send(body={"message": "Hi", "parent": str(above.pk)}).json()["session"])
    assert (below.parent_id, below.depth, below.has_untrusted) == (above.pk, 1, True)
    assert Run.objects.get(session=below).has_untrusted
    assert [one["content"] for one in stub.requests[1]["messages"]][1:] == ["Hi"]  # a conversation of its own


def test_a_session_and_a_parent_are_too_much(send, agent, stub):
    stub.script(says("first"))
    session = send().json()["session"]
    refused = send(body={"message": "Hi", "parent": session, "session": session})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "session_and_parent")


@pytest.mark.parametrize("who", ["bob_api", "charlie_api"])
def test_neither_a_team_mate_nor_a_stranger_starts_a_session_below_mine(send, agent, stub, request, who):
    stub.script(says("first"))
    body = {"message": "Hi", "parent": send().json()["session"]}
    agent.__class__.objects.filter(pk=agent.pk).update(owner=None)  # the site's, so that everybody can use it
    answer = request.getfixturevalue(who).post("/api/v1/agents/helper/messages", body, headers=ASYNC)
    assert answer.status_code == 404 and Session.objects.count() == 1


def test_sessions_are_nested_a_hundred_deep_at_most(send, agent, stub):
    stub.script(says("first"))
    session = send().json()["session"]
    Session.objects.filter(pk=session).update(depth=100)
    assert send(body={"message": "Hi", "parent": session}).json()["error"]["code"] == "too_deep"
