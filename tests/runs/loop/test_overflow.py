"""A conversation that is longer than the model can read goes on with less of it, or ends with a typed cause."""

import json

import pytest

from agents.known_models import KnownModel
from agents.models import Provider
from runs.loop import prompt
from runs.models import ModelCall, RunEvent, Session
from tests.fakes import Turn, calls, says

pytestmark = pytest.mark.django_db
ERROR = json.dumps({"error": {"message": "This model's maximum context length is exceeded.", "type": "x"}})
HEAD = f"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {len(ERROR)}\r\n\r\n"
TOO_LONG = Turn(raw=(HEAD + ERROR).encode())


def reads_at_most(stub, characters, otherwise=None):
    """The stub refuses a longer conversation, as the servers of the zoo do."""
    answer = otherwise or (lambda body: says("Fine."))

    def judge(body):
        return TOO_LONG if len(json.dumps(body["messages"])) > characters else answer(body)

    stub.otherwise = judge


@pytest.fixture
def long_session(worker, alice, make_agent, stub_provider, stub):
    """A session of an agent with 8 long messages."""

    def make(**fields):
        agent = make_agent(provider=stub_provider, **fields)
        session = Session.objects.create(owner=alice, agent=agent)
        for number in range(4):
            session.add_message("user", [{"type": "text", "text": f"Question {number} " + "x" * 900}])
            session.add_message("assistant", [{"type": "text", "text": f"Answer {number} " + "y" * 900}])
        return agent, session

    return make


def events(run, type):
    return [event.data for event in RunEvent.objects.filter(run=run, type=type)]


def test_older_messages_are_left_out_and_the_run_says_so(worker, alice, stub, long_session):
    agent, session = long_session(context_tokens=4000)
    reads_at_most(stub, 4000)
    run = worker.send_message(alice, "And now?", agent, session=session)
    assert (run.status, run.error) == ("succeeded", None)
    [told] = events(run, "context.shortened")
    assert told["left_out"] > 0 and told["characters"] > 3000
    sent = json.dumps(stub.requests[-1]["messages"])
    assert "And now?" in sent and "Question 0" not in sent
    assert events(run, "model.failed") == [] and ModelCall.objects.filter(run=run).count() == 1


def test_an_agent_that_summarises_does_so(worker, alice, stub, long_session):
    agent, session = long_session(context_tokens=4000, session_context="summary")

    def answer(body):
        return says("They talked." if "Summarise" in body["messages"][0]["content"] else "Fine.")

    reads_at_most(stub, 7000, answer)
    run = worker.send_message(alice, "And now?", agent, session=session)
    session.refresh_from_db()
    assert run.status == "succeeded" and session.summary == "They talked." and events(run, "session.summarised")
    assert "They talked." in stub.requests[-1]["messages"][0]["content"]


def test_long_results_are_cut(worker, alice, make_agent, make_tool, stub_provider, stub, functions):
    from agents.tools import ToolResult

    functions.answers.append(ToolResult(ok=True, value="z" * 30_000))
    agent = make_agent(tools=[make_tool()], provider=stub_provider)

    def answer(body):
        return says("Fine.") if body["messages"][-1]["role"] == "tool" else calls(("add", {"a": 1, "b": 2}))

    reads_at_most(stub, 10_000, answer)
    run = worker.send_message(alice, "Add", agent)
    assert run.status == "succeeded" and len(events(run, "context.shortened")) == 1
    assert "[cut: 22" in stub.requests[-1]["messages"][-1]["content"]
    assert len(run.tool_calls.get().result) == 30_000


def test_a_message_that_is_too_long_by_itself_ends_with_a_typed_cause(worker, alice, stub, long_session):
    agent, session = long_session(context_tokens=8000)
    reads_at_most(stub, 10)
    run = worker.send_message(alice, "And now?", agent, session=session)
    assert (run.status, run.error["code"]) == ("failed", "context_overflow")
    assert "too long for the model" in run.error["message"]
    assert len(stub.requests) < 8


def test_the_session_goes_on_afterwards(worker, alice, stub, long_session):
    agent, session = long_session(context_tokens=4000)
    reads_at_most(stub, 10)
    worker.send_message(alice, "x" * 5000, agent, session=session)
    reads_at_most(stub, 6000)
    run = worker.send_message(alice, "And now?", agent, session=session)
    assert run.status == "succeeded"


def test_what_the_window_of_a_known_model_surely_cannot_hold_is_not_sent(
    worker, alice, stub, long_session, monkeypatch
):
    monkeypatch.setattr(Provider, "known_model", lambda provider, name: KnownModel(1, 1, window=1_000))
    agent, session = long_session(context_tokens=8000)
    stub.script(says("Here I am."))
    run = worker.send_message(alice, "And now?", agent, session=session)
    assert run.status == "succeeded" and len(stub.requests) == 1, "nothing was refused by the server"
    assert RunEvent.objects.filter(run=run, type="context.shortened").exists()
    assert sum(len(message["content"]) for message in stub.requests[0]["messages"]) < 5_000


def test_an_image_is_not_measured_by_its_size():
    image = {"role": "user", "content": [{"type": "image", "data": "A" * 100_000}, {"type": "text", "text": "What?"}]}
    assert not prompt.is_too_long([image], 1_000)
    assert prompt.is_too_long([{"role": "user", "content": "x" * 5_001}], 1_000)
    assert not prompt.is_too_long([{"role": "user", "content": "x" * 100_000}], None)
