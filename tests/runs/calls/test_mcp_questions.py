"""An MCP server asks the person of a run: the run waits without a worker, and the call goes on with the answer."""

from dataclasses import replace

import pytest

from agents.models import Tool
from connectors.models import Connection
from connectors.toolsets import sessions
from connectors.toolsets.mcp import fetch_server_tools
from runs.calls import inputs
from runs.calls.executor import ToolCallExecutor
from runs.models import InputRequest, Run, ToolCallRecord
from runs.queue import endings
from runs.worker import recovery
from tests.connectors.fake_mcp import FakeMcp, ModernMcp, stream
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ELICIT = {"message": "Your name?", "requestedSchema": FORM}
ADA = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture
def allowed(settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    yield
    sessions.close_all()


@pytest.fixture
def modern(allowed):
    with ModernMcp() as made:
        yield made


@pytest.fixture
def fake(allowed):
    with FakeMcp() as made:
        yield made


@pytest.fixture
def start(alice, worker, make_agent, stub_provider, stub):
    """A run of an agent that calls the server's tool `echo` once."""

    def start(server, effect="write"):
        row = Connection.objects.create(owner=alice, name="fake", provider="mcp", base_url=server.address)
        fetch_server_tools(row, alice.pk)
        Tool.objects.filter(name="fake_echo").update(effect=effect)
        agent = make_agent(tools=[Tool.objects.get(name="fake_echo")], provider=stub_provider)
        stub.script(calls(("fake_echo", {"text": "hello"})), says("Done."))
        run = worker.send_message(alice, "Hello", agent)
        worker.work()
        run.refresh_from_db()
        return run

    return start


@pytest.fixture
def chain_of(alice, make_chain, run_chain):
    """A run of a chain with one step that calls the server's tool `echo`."""

    def start(server, **step):
        row = Connection.objects.create(owner=alice, name="fake", provider="mcp", base_url=server.address)
        fetch_server_tools(row, alice.pk)
        Tool.objects.filter(name="fake_echo").update(effect="write")
        step = {"key": "ask", "tool": "fake_echo", "input": {"text": "'hello'"}, **step}
        return run_chain(make_chain(step), {"items": ["a", "b"]})

    return start


@pytest.fixture
def answer(worker, alice_api):
    def answer(run, status=200, **body):
        request = InputRequest.objects.open().get(run=run)
        with worker.capture(execute=True):
            said = alice_api.post(f"/api/v1/inputs/{request.pk}", body)
        assert said.status_code == status, said.json()
        worker.work()
        run.refresh_from_db()
        return said.json()

    return answer


def asking(*requests, state="sealed"):
    """A server of the newest version that asks these, one after the other, before it is done."""

    def reply(message):
        params = message["params"]
        done = int(params.get("requestState", f"{state}-0").rpartition("-")[2])
        if done >= len(requests):
            return {"content": [{"type": "text", "text": str(params.get("inputResponses"))}]}
        return {
            "resultType": "input_required", "requestState": f"{state}-{done + 1}",
            "inputRequests": {f"q{done}": requests[done]},
        }  # fmt: skip

    return reply


def elicit(**params):
    return {"method": "elicitation/create", "params": params or ELICIT}


def only_call(run):
    return ToolCallRecord.objects.get(run=run)


def test_a_question_of_the_newest_version_waits_for_the_person_and_the_call_goes_on(modern, start, answer, alice_api):
    modern.reply = asking(elicit())
    run = start(modern)
    assert (run.status, run.waiting_for) == ("waiting", "input")
    shown = alice_api.get("/api/v1/inputs/", {"run": str(run.pk)}).json()["results"][0]
    assert "“fake” (127.0.0.1) asks" in shown["prompt"] and "Your name?" in shown["prompt"]
    assert shown["schema"] == FORM and "state" not in shown and "sealed" not in str(shown)
    answer(run, value={"name": "Ada"})
    assert run.status == "succeeded" and len(modern.calls) == 2
    assert modern.calls[1]["inputResponses"] == {"q0": ADA} and modern.calls[1]["requestState"] == "sealed-1"
    assert only_call(run).outcome == "ok" and only_call(run).untrusted
    assert "sealed" not in str(list(run.events.values_list("data", flat=True)))


def test_several_questions_are_asked_one_after_the_other(modern, start, answer):
    modern.reply = asking(elicit(), {"method": "roots/list"}, elicit(message="Age?", requestedSchema=FORM))
    run = start(modern)
    answer(run, value={"name": "Ada"})
    assert run.status == "waiting" and run.inputs.count() == 2
    answer(run, value={"name": "36"})
    assert run.status == "succeeded"
    assert modern.calls[2]["inputResponses"] == {"q1": {"roots": []}}
    assert modern.calls[3]["inputResponses"] == {"q2": {"action": "accept", "content": {"name": "36"}}}


def test_an_answer_must_match_the_form_and_may_be_refused(modern, start, answer):
    modern.reply = asking(elicit())
    run = start(modern)
    assert answer(run, 422, value={"name": 7})["error"]["code"] == "invalid_answer"
    answer(run, decline=True)
    assert modern.calls[1]["inputResponses"] == {"q0": {"action": "decline"}} and run.status == "succeeded"


def test_a_page_to_visit_is_named_with_its_host(modern, start, answer, alice_api):
    modern.reply = asking(elicit(mode="url", message="Pay here", url="https://pay.example.net/x?y=1"))
    run = start(modern)
    shown = alice_api.get("/api/v1/inputs/", {"run": str(run.pk)}).json()["results"][0]
    assert "page of pay.example.net" in shown["prompt"]
    assert shown["arguments"] == {"url": "https://pay.example.net/x?y=1"}
    answer(run, value={})
    assert modern.calls[1]["inputResponses"] == {"q0": {"action": "accept"}}


@pytest.mark.parametrize(
    "request_",
    [
        {"method": "sampling/createMessage", "params": {"messages": []}},
        elicit(message="x", requestedSchema={"type": "object", "properties": {"a": {"type": "object"}}}),
        elicit(message="x", requestedSchema={"type": "object", "properties": {"a": {"$ref": "http://10.0.0.1/"}}}),
        elicit(message="x", requestedSchema="none"),
        elicit(message="x", mode="url", url="javascript:alert(1)"),
        elicit(message="x", mode="url", url="file:///etc/passwd"),
        {"method": "elicitation/create"},
        "no request",
    ],
)
def test_what_is_not_answered_ends_the_call_and_nobody_is_asked(modern, start, request_):
    modern.reply = asking(request_)
    run = start(modern)
    assert run.status == "succeeded" and not InputRequest.objects.exists()
    assert only_call(run).outcome == "failed" and only_call(run).error["code"] in ("input_refused", "bad_answer")


def test_a_server_that_asks_without_end_is_stopped(modern, start, answer):
    modern.reply = asking(*[{"method": "roots/list"}] * 50)
    run = start(modern)
    assert only_call(run).error["code"] == "too_many_questions" and len(modern.calls) <= 12


def test_an_earlier_version_is_answered_in_its_session_and_the_stream_read_on(fake, start, answer):
    kept = {}

    def begun(message):
        kept["message"] = message
        asked = {"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": ELICIT}
        return stream(("e1", None), ("e2", asked))

    fake.reply = begun
    fake.continued = lambda asked: stream(
        ("e3", fake.result(kept["message"], {"content": [{"type": "text", "text": "Hello Ada"}]}))
    )
    run = start(fake)
    assert (run.status, run.waiting_for) == ("waiting", "input")
    sessions.close_all()  # as if another process went on
    assert not [asked for asked in fake.asked if asked.method == "DELETE"]
    answer(run, value={"name": "Ada"})
    assert run.status == "succeeded" and only_call(run).result == "Hello Ada" and fake.called == 1
    answers = [asked.json for asked in fake.asked if asked.method == "POST" and "method" not in asked.json]
    assert answers == [{"jsonrpc": "2.0", "id": 7, "result": ADA}]


def test_a_session_that_ends_while_the_person_thinks_leaves_the_outcome_unknown(fake, start, answer):
    asked = {"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": ELICIT}
    fake.reply = lambda message: stream(("e1", None), ("e2", asked))
    run = start(fake)
    fake.open.clear()
    answer(run, value={"name": "Ada"})
    assert only_call(run).outcome == "unknown" and fake.called == 1


def test_a_call_that_may_be_repeated_is_made_again_with_the_answer(fake, start, answer):
    def reply(message):
        asked = {"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": ELICIT}
        return stream(asked, fake.result(message, {"content": [{"type": "text", "text": "done"}]}))

    fake.reply = reply
    run = start(fake, effect="idempotent")
    assert run.waiting_for == "input" and fake.called == 1
    answer(run, value={"name": "Ada"})
    assert run.status == "succeeded" and fake.called == 2
    answers = [asked.json for asked in fake.asked if asked.method == "POST" and "method" not in asked.json]
    assert answers[-1]["result"] == ADA


def test_a_worker_that_dies_after_the_answer_does_not_make_the_call_twice(modern, start, answer, worker, monkeypatch):
    modern.reply = asking(elicit())
    run = start(modern)
    died = []

    def die(*args, **kwargs):
        died.append(1)
        raise SystemExit

    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr("connectors.toolsets.mcp.Making.go_on", die)
        answer(run, value={"name": "Ada"})
    record = only_call(run)
    assert died and (record.waiting_for, record.attempt, record.outcome) == ("", 2, "")
    Run.objects.filter(pk=run.pk).update(lease_expires_at="2020-01-01T00:00:00Z")
    recovery.tick_recovery()
    worker.work()
    assert only_call(run).outcome == "unknown" and len(modern.calls) == 1


def test_a_chain_step_that_calls_the_tool_waits_and_goes_on_too(modern, alice, worker, answer, chain_of):
    modern.reply = asking(elicit())
    run = chain_of(modern)
    assert (run.status, run.waiting_for) == ("waiting", "input")
    answer(run, value={"name": "Ada"})
    assert run.status == "succeeded" and modern.calls[1]["inputResponses"] == {"q0": ADA}


def test_items_of_a_step_wait_for_their_own_answers(modern, alice, worker, answer, chain_of):
    modern.reply = asking(elicit())
    run = chain_of(modern, for_each="input.items", input={"text": "item"}, max_parallel=2)
    assert run.status == "waiting" and InputRequest.objects.open().count() == 2
    for _ in range(2):
        request = InputRequest.objects.open().order_by("id").first()
        with worker.capture(execute=True):
            inputs.answer_input_request(request, by=alice, value={"name": "Ada"})
        worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded" and len(modern.calls) == 4


def test_a_functions_callback_is_not_asked_and_the_server_gets_a_cancel(modern, alice, start, monkeypatch):
    modern.reply = asking(elicit())
    executor_context = ToolCallExecutor.context
    monkeypatch.setattr(
        ToolCallExecutor, "context", lambda *args: replace(executor_context(*args), ask=None)
    )  # as in a callback
    run = start(modern)
    assert run.status == "succeeded" and modern.calls[1]["inputResponses"] == {"q0": {"action": "cancel"}}


def test_nobody_else_sees_or_answers_the_question(modern, start, bob_api, charlie_api):
    modern.reply = asking(elicit())
    start(modern)
    request = InputRequest.objects.get()
    for other in (bob_api, charlie_api):
        assert other.get("/api/v1/inputs/").json()["results"] == []
        assert other.post(f"/api/v1/inputs/{request.pk}", {"value": {"name": "x"}}).status_code == 404


def test_a_question_nobody_answers_is_cancelled_at_the_server(modern, start, worker):
    modern.reply = asking(elicit())
    run = start(modern)
    InputRequest.objects.update(expires_at="2020-01-01T00:00:00Z")
    with worker.capture(execute=True):
        endings.wake(run.pk)
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded"
    assert modern.calls[1]["inputResponses"] == {"q0": {"action": "cancel"}}
