"""What a model is shown of a conversation: in order, within its budget, nothing lost on the way into the summary."""

import pytest

from runs.calls import approvals
from runs.intake import messages as intake
from runs.models import Message, Run
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db


@pytest.fixture
def converse(worker, alice, stub):
    """Say a thing in a session (a new one without), get the reply; the session."""

    def converse(agent, text, reply, session=None):
        stub.turns[:] = reply if isinstance(reply, list) else [says(reply)]
        run = worker.send_message(alice, text, agent, session=session)
        assert run.status == "succeeded", run.error
        return run.session

    return converse


def told(stub):
    """(role, content) of what the model was last told, without the system prompt."""
    return [(message["role"], message["content"]) for message in stub.requests[-1]["messages"][1:]]


def test_what_waits_for_its_turn_is_not_shown_to_a_run_that_goes_on(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions
):
    agent = make_agent(tools=[make_tool()], provider=stub_provider)
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("It is 3."), says("You are welcome."))
    first = worker.send_message(alice, "Add 1 and 2", agent)
    second = worker.send_message(alice, "Thanks", agent, session=first.session, on_busy="enqueue")
    approve(worker, alice, first)
    assert [role for role, _ in told_of(stub, 1)] == ["user", "assistant", "tool"]
    second.refresh_from_db()
    assert second.status == "succeeded"
    assert told_of(stub, 2)[0] == ("user", "Add 1 and 2") and told_of(stub, 2)[-1] == ("user", "Thanks")


def told_of(stub, number):
    return [(message["role"], message.get("content")) for message in stub.requests[number]["messages"][1:]]


def approve(worker, alice, run):
    with worker.capture(execute=True):
        approvals.decide_approval(run.approvals.get(), "approve", by=alice)
    worker.work()


def test_messages_that_waited_are_shown_beside_their_replies(worker, alice, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider)
    stub.script(says("r1"), says("r2"), says("r3"))
    with worker.capture(execute=True):
        first = intake.accept_message(user=alice, text="m1", agent=agent).run
        for text in ("m2", "m3"):
            intake.accept_message(user=alice, text=text, agent=agent, session=first.session, on_busy="enqueue")
    worker.work()
    assert [run.status for run in Run.objects.all()] == ["succeeded"] * 3
    assert told(stub) == [("user", "m1"), ("assistant", "r1"), ("user", "m2"), ("assistant", "r2"), ("user", "m3")]


def test_nothing_is_lost_between_what_is_shown_and_what_is_summed_up(converse, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider, session_context="summary", context_messages=4)
    session = None
    for number in range(1, 4):
        session = converse(agent, f"m{number}", f"r{number}", session)
    converse(agent, "m4", "r4", session)  # six earlier ones: four and what waits for the next portion
    assert [content for _, content in told(stub)] == ["m1", "r1", "m2", "r2", "m3", "r3", "m4"]
    converse(agent, "m5", [says("They counted to two."), says("r5")], session)
    session.refresh_from_db()
    assert (session.summary, session.summarised_to) == ("They counted to two.", 4)
    assert [content for _, content in told(stub)] == ["m3", "r3", "m4", "r4", "m5"]


def test_what_does_not_fit_into_the_tokens_is_summed_up(converse, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider, session_context="summary", context_messages=20, context_tokens=100)
    session = converse(agent, "m1 " + "long " * 60, "r1")
    converse(agent, "m2", "r2 " + "words " * 60, session)
    converse(agent, "m3", [says("A long m1."), says("r3")], session)
    session.refresh_from_db()
    assert session.summary == "A long m1." and session.summarised_to >= 2
    assert "A long m1." in stub.requests[-1]["messages"][0]["content"]


def test_an_empty_summary_forgets_nothing(converse, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider, session_context="summary", context_messages=2)
    session = converse(agent, "m1", "r1")
    converse(agent, "m2", "r2", session)
    converse(agent, "m3", [says(" "), says("r3")], session)
    session.refresh_from_db()
    assert (session.summary, session.summarised_to) == ("", 0)
    begun = ["(The beginning of the conversation is left out.)", "r1", "m2", "r2", "m3"]
    assert [content for _, content in told(stub)] == begun


def test_a_message_that_waits_is_not_summed_up_before_it_is_answered(
    worker, alice, converse, make_agent, stub_provider, stub
):
    agent = make_agent(provider=stub_provider, session_context="summary", context_messages=2)
    session = converse(agent, "m1", "r1")
    converse(agent, "m2", "r2", session)
    stub.turns[:] = [says("Summed up."), says("r3"), says("Summed up again."), says("r4")]
    with worker.capture(execute=True):
        intake.accept_message(user=alice, text="m3", agent=agent, session=session)
        intake.accept_message(user=alice, text="m4", agent=agent, session=session, on_busy="enqueue")
    worker.work()
    summed_up = stub.requests[2]["messages"][-1]["content"]
    assert "m1" in summed_up and "m4" not in summed_up
    assert told(stub)[-1] == ("user", "m4")


def test_none_shows_the_message_alone(converse, make_agent, stub_provider, stub):
    agent = make_agent(provider=stub_provider, session_context="none")
    session = converse(agent, "m1", "r1")
    converse(agent, "m2", "r2", session)
    assert told(stub) == [("user", "m2")] and Message.objects.filter(session=session).count() == 4
