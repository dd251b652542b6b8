"""Sessions over HTTP: busy ones, renamed, closed, deleted; parents and children."""

import pytest

from runs.models import Message, Run, Session
from tests.devices.scripted import paired
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
ASYNC = {"Prefer": "respond-async"}
JSON = "application/json"


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    agent = make_agent(tools=[make_tool()], provider=stub_provider)
    agent.grants.update(mode="ask")
    return agent


@pytest.fixture
def send(worker, alice_api, agent):
    def send(text="Hello", status=202, **body):
        with worker.capture(execute=True):
            answer = alice_api.post("/api/v1/agents/helper/messages", {"message": text, **body}, headers=ASYNC)
        assert answer.status_code == status, answer.json()
        worker.work()
        return answer.json()

    return send


@pytest.fixture
def busy(send, stub):
    """A session whose run waits for an answer: its id."""
    stub.script(calls(("add", {"a": 1, "b": 2})))
    return send("add")["session"]


def statuses():
    return list(Run.objects.order_by("id").values_list("status", flat=True))


def test_reject_leaves_no_trace(send, busy):
    error = send("again", 409, session=busy, on_busy="reject")["error"]
    assert error["code"] == "session_busy" and error["details"] == [{"run": str(Run.objects.get().pk)}]
    assert Message.objects.count() == 1 and statuses() == ["waiting"]


def test_enqueue_waits_and_follows(send, busy, worker, alice_api, stub):
    send("again", session=busy, on_busy="enqueue")
    send("and again", session=busy, on_busy="enqueue")
    assert statuses() == ["waiting", "queued", "queued"]
    stub.script(says("one"), says("two"))
    with worker.capture(execute=True):
        alice_api.post(f"/api/v1/runs/{Run.objects.order_by('id')[0].pk}/cancel", {})
    worker.work()
    assert statuses() == ["cancelled", "succeeded", "succeeded"]
    # The first message has no answer: servers that want turns to alternate get it together with the next one.
    assert [request["messages"][-1]["content"] for request in stub.requests[1:]] == ["add\n\nagain", "and again"]


def test_a_queued_one_that_is_cancelled_lets_those_behind_it_go_on(send, busy, worker, alice_api, stub):
    send("again", session=busy, on_busy="enqueue")
    send("and again", session=busy, on_busy="enqueue")
    first, second, third = Run.objects.order_by("id")
    stub.script(says("done"))
    with worker.capture(execute=True):
        alice_api.post(f"/api/v1/runs/{second.pk}/cancel", {})
    worker.work()
    assert statuses() == ["waiting", "cancelled", "queued"]  # one conversation is one thing at a time
    with worker.capture(execute=True):
        alice_api.post(f"/api/v1/runs/{first.pk}/cancel", {})
    worker.work()
    assert statuses() == ["cancelled", "cancelled", "succeeded"]


def test_interrupt_stops_what_is_at_work_and_says_why(send, busy, stub):
    stub.script(says("instead"))
    send("rather this", session=busy, on_busy="interrupt")
    assert statuses() == ["cancelled", "succeeded"]
    assert Run.objects.order_by("id")[0].error["message"] == "interrupted by another message"


def test_interrupt_also_stops_what_waited_in_line(send, busy, stub):
    send("again", session=busy, on_busy="enqueue")
    stub.script(says("instead"))
    send("rather this", session=busy, on_busy="interrupt")
    assert statuses() == ["cancelled", "cancelled", "succeeded"]


def test_what_on_busy_does_not_know_is_refused(send, busy):
    assert send("again", 422, session=busy, on_busy="shout")["error"]["details"]


def test_a_session_is_renamed_and_closed_and_takes_nothing_more(send, alice_api, stub):
    stub.script(says("hi"))
    session = send()["session"]
    path = f"/api/v1/sessions/{session}"
    assert alice_api.patch(path, {"title": "Books"}, JSON).json()["title"] == "Books"
    assert alice_api.patch(path, {"title": "x" * 201}, JSON).status_code == 422
    assert alice_api.patch(path, {"summary": "mine", "depth": 7}, JSON).json()["summary"] == ""
    assert alice_api.patch(path, {"status": "gone"}, JSON).status_code == 422
    assert alice_api.patch(path, {"status": "closed"}, JSON).json()["status"] == "closed"
    assert send("more", 409, session=session)["error"]["code"] == "session_closed"
    assert alice_api.patch(path, {"status": "active"}, JSON).json()["status"] == "active"


def test_a_deleted_session_stops_its_run_takes_its_words_and_leaves_the_runs(busy, worker, alice_api):
    with worker.capture(execute=True):
        assert alice_api.delete(f"/api/v1/sessions/{busy}").status_code == 204
    worker.work()
    run = Run.objects.get()
    assert (run.status, run.session_id) == ("cancelled", None)
    assert run.error["message"] == "its session was deleted" and run.approvals.get().status == "void"
    assert not Session.objects.exists() and not Message.objects.exists()
    assert alice_api.get(f"/api/v1/runs/{run.pk}").json()["session"] is None
    assert alice_api.get(f"/api/v1/sessions/{busy}").status_code == 404


def test_a_deleted_session_stops_what_waited_in_line_too(send, busy, worker, alice_api):
    send("again", session=busy, on_busy="enqueue")
    with worker.capture(execute=True):
        assert alice_api.delete(f"/api/v1/sessions/{busy}").status_code == 204
    worker.work()
    assert statuses() == ["cancelled", "cancelled"]


def test_a_child_session_names_its_parent_and_what_it_may(
    worker, alice, alice_api, make_agent, make_tool, stub_provider, stub
):
    minion = make_agent("minion", provider=stub_provider)
    tool = make_tool("ask-minion", kind="agent", source={"agent": minion.pk}, input_schema={"type": "object"})
    boss = make_agent("boss", tools=[tool], provider=stub_provider)
    stub.script(calls(("ask-minion", {"task": "count"})), says("three"), says("It is three"))
    run = worker.send_message(alice, "count", boss)
    child = run.children.get()
    shown = alice_api.get(f"/api/v1/sessions/{child.session_id}").json()
    assert (shown["parent"], shown["depth"], shown["agent"]) == (str(run.session_id), 1, "minion")
    assert shown["variables"] == {
        "agent_depth": 1, "max_agent_depth": 1, "can_spawn": False, "parent_session": str(run.session_id)
    }  # fmt: skip
    listed = alice_api.get(f"/api/v1/sessions/?parent={run.session_id}").json()["results"]
    assert [session["id"] for session in listed] == [str(child.session_id)]
    assert [one["id"] for one in alice_api.get(f"/api/v1/runs/{run.pk}/children/").json()["results"]] == [str(child.pk)]


def test_a_child_session_whose_child_is_at_work_is_busy(
    worker, alice, alice_api, agent, make_agent, make_tool, stub_provider, stub, send
):
    tool = make_tool("ask-helper", kind="agent", source={"agent": agent.pk}, input_schema={"type": "object"})
    boss = make_agent("boss", tools=[tool], provider=stub_provider)
    stub.script(calls(("ask-helper", {"task": "add"})), calls(("add", {"a": 1, "b": 2})))
    child = worker.send_message(alice, "add", boss).children.get()
    session = str(child.session_id)
    error = send("meanwhile", 409, session=session)["error"]
    assert (error["code"], error["details"]) == ("session_busy", [{"run": str(child.pk)}])
    later = send("afterwards", session=session, on_busy="enqueue")["run"]["id"]
    assert Run.objects.get(pk=later).status == "queued"
    stub.script(says("stopped"), says("after all"))
    with worker.capture(execute=True):
        alice_api.post(f"/api/v1/runs/{child.pk}/cancel", {})
    worker.work()
    assert Run.objects.get(pk=later).status == "succeeded"


def test_a_session_of_another_agent_is_refused(send, make_agent, stub_provider, stub, alice_api):
    stub.script(says("hi"))
    session = send()["session"]
    make_agent("other", provider=stub_provider)
    answer = alice_api.post("/api/v1/agents/other/messages", {"message": "hi", "session": session}, headers=ASYNC)
    assert answer.status_code == 422 and "helper" in answer.json()["error"]["message"]


def test_a_strangers_device_cannot_be_had(send, charlie, alice_api, stub):
    device, _ = paired(charlie)
    stub.script(says("hi"))
    session = send()["session"]
    assert alice_api.patch(f"/api/v1/sessions/{session}", {"device": str(device.pk)}, JSON).status_code == 422
    assert send("hi", 422, device=str(device.pk))["error"]["details"]
