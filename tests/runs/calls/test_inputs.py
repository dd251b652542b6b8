"""Runs that wait for an answer: a tool that the caller executes, and a question to the person."""

import pytest

from runs.models import InputRequest, Run
from runs.queue import endings
from runs.worker import recovery
from tests import travel
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
WEATHER = {
    "name": "weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
def agent(make_agent, make_tool, stub_provider):
    return make_agent(tools=[make_tool()], provider=stub_provider)


@pytest.fixture
def send(worker, alice_api, agent):
    """Send a message with these tools and let the worker work: the answer's run."""

    def send(*tools, status=202, **body):
        with worker.capture(execute=True):
            said = alice_api.post(
                "/api/v1/agents/helper/messages", {"message": "Hello", "tools": list(tools), **body}, headers=ASYNC
            )
        assert said.status_code == status, said.json()
        worker.work()
        return Run.objects.get(pk=said.json()["run"]["id"]) if status == 202 else said.json()["error"]

    return send


@pytest.fixture
def answer(worker):
    def answer(api, request, status=200, **body):
        with worker.capture(execute=True):
            said = api.post(f"/api/v1/inputs/{request.pk}", body)
        assert said.status_code == status, said.json()
        worker.work()
        return said.json() if status == 200 else said.json()["error"]

    return answer


@pytest.fixture
def waiting(send, stub):
    """A run that waits for the caller's weather("Oslo")."""
    stub.script(calls(("weather", {"city": "Oslo"})), says("It rains."))
    return send(WEATHER)


def test_the_caller_executes_its_own_tool_and_the_run_continues_with_the_result(waiting, alice_api, answer, stub):
    assert (waiting.status, waiting.waiting_for) == ("waiting", "input")
    assert [tool["function"]["name"] for tool in stub.requests[0]["tools"]] == ["add", "weather"]
    request = alice_api.get("/api/v1/inputs/", {"run": str(waiting.pk)}).json()["results"][0]
    assert (request["kind"], request["name"], request["arguments"]) == ("tool", "weather", {"city": "Oslo"})
    said = answer(alice_api, waiting.inputs.get(), value={"sky": "rain"})
    assert (said["status"], said["value"], said["answered_by"]) == ("answered", {"sky": "rain"}, "alice")
    waiting.refresh_from_db()
    assert waiting.status == "succeeded" and waiting.has_untrusted
    assert '"sky"' in stub.requests[1]["messages"][-1]["content"]
    assert alice_api.get("/api/v1/inputs/").json()["results"] == []
    told = [event.type for event in waiting.events.order_by("seq")]
    assert "input.requested" in told and "input.answered" in told


def test_an_answer_is_taken_once(waiting, alice_api, answer):
    request = waiting.inputs.get()
    answer(alice_api, request, value=1)
    assert answer(alice_api, request, 409, value=2)["code"] == "already_answered"
    assert InputRequest.objects.get().value == 1


@pytest.mark.parametrize("body", [{}, {"value": 1, "decline": True}, {"decline": False}, {"valu": 1}, {"error": {}}])
def test_an_answer_that_says_nothing_or_two_things_changes_nothing(waiting, alice_api, answer, body):
    answer(alice_api, waiting.inputs.get(), 422, **body)
    assert InputRequest.objects.get().status == "open" and Run.objects.get().status == "waiting"


@pytest.mark.parametrize(
    ("body", "code"),
    [({"error": {"code": "no_sky", "message": "no window"}}, "no_sky"), ({"decline": True}, "input_declined")],
)
def test_a_failure_of_the_callers_tool_reaches_the_model(waiting, alice_api, answer, body, code):
    answer(alice_api, waiting.inputs.get(), **body)
    call = waiting.tool_calls.get()
    assert (call.outcome, call.error["code"]) == ("failed", code)
    waiting.refresh_from_db()
    assert waiting.status == "succeeded"


def test_an_unanswered_request_expires_with_a_typed_result(waiting, worker, alice_api, answer):
    with travel.later(3601):
        with worker.capture(execute=True):
            recovery.tick_recovery()
        worker.work()
        assert answer(alice_api, waiting.inputs.get(), 409, value=1)["code"] == "already_answered"
    assert waiting.tool_calls.get().error["code"] == "input_expired"
    waiting.refresh_from_db()
    assert waiting.status == "succeeded"  # waiting does not count against the run's deadline of five minutes


def test_a_worker_that_died_while_asking_asks_no_second_time(waiting, worker, alice_api, answer):
    waiting.tool_calls.update(waiting_for="")  # it died before the wait was written
    with worker.capture(execute=True):
        endings.wake(waiting.pk)
    worker.work()
    assert InputRequest.objects.count() == 1 and Run.objects.get().status == "waiting"
    answer(alice_api, waiting.inputs.get(), value=1)
    assert Run.objects.get().status == "succeeded"


def test_a_cancelled_run_takes_no_answer(waiting, worker, alice, alice_api, answer):
    with worker.capture(execute=True):
        endings.cancel_run(waiting, by=alice)
    assert waiting.inputs.get().status == "void"
    answer(alice_api, waiting.inputs.get(), 409, value=1)


@pytest.mark.parametrize("who", ["bob_api", "charlie_api"])
def test_neither_a_team_mate_nor_a_stranger_sees_or_answers_it(waiting, request, answer, who):
    api = request.getfixturevalue(who)
    assert api.get("/api/v1/inputs/").json()["results"] == []
    assert api.get(f"/api/v1/inputs/{waiting.inputs.get().pk}").status_code == 404
    assert answer(api, waiting.inputs.get(), 404, value=1)["code"] == "not_found"
    assert InputRequest.objects.get().status == "open"


@pytest.mark.parametrize(
    ("tools", "code"),
    [
        ([{"name": "add"}], "name_taken"),
        ([WEATHER, WEATHER], "name_taken"),
        ([{"name": "complete"}], "name_taken"),
        ([{"name": "no spaces"}], "invalid"),
        ([{"name": "x", "input_schema": {"type": "nothing"}}], "invalid"),
        ([{"name": "x", "timeout_s": 0}], None),
        ([{"name": "x", "inputschema": {}}], "unknown_field"),
    ],
)
def test_tools_that_cannot_be_offered_are_refused_and_nothing_is_stored(send, tools, code):
    error = send(*tools, status=422)
    assert not Run.objects.exists()
    assert code is None or error["details"][0]["code"] == code


def test_a_caller_cannot_replace_the_tool_of_an_agent_that_the_router_chooses(alice_api, worker, agent, stub):
    with worker.capture(execute=True):
        said = alice_api.post("/api/v1/messages", {"message": "add", "tools": [{"name": "add"}]}, headers=ASYNC)
    worker.work()
    run = Run.objects.get(pk=said.json()["run"]["id"])
    assert run.error["code"] in ("name_taken", "nobody_fits") and stub.requests == []


def test_a_tool_of_one_message_is_not_offered_in_the_next(waiting, send, alice_api, answer, stub):
    answer(alice_api, waiting.inputs.get(), value=1)
    stub.script(says("hello"))
    send(session=str(waiting.session_id))
    assert [tool["function"]["name"] for tool in stub.requests[-1]["tools"]] == ["add"]


def test_the_person_answers_a_question_and_only_with_an_option(
    make_agent, make_tool, stub_provider, stub, worker, alice, alice_api, answer
):
    tool = make_tool(
        "ask_user", kind="builtin", effect="read", source={"builtin": "ask_user"}, input_schema={"type": "object"}
    )
    agent = make_agent("asker", provider=stub_provider, tools=[tool])
    stub.script(calls(("ask_user", {"question": "Which?", "options": ["red", "blue"]})), says("Blue it is."))
    run = worker.send_message(alice, "paint", agent)
    request = run.inputs.get()
    assert (run.waiting_for, request.kind, request.prompt) == ("input", "form", "Which?")
    assert answer(alice_api, request, 422, value="green")["code"] == "invalid_answer"
    answer(alice_api, request, value="blue")
    run.refresh_from_db()
    assert run.status == "succeeded" and not run.has_untrusted and run.tool_calls.get().result == "blue"
