"""The Python face: the same doors for Django code in the same process."""

import json

import pytest

from agents.exceptions import Conflict, Invalid, NotFound
from gateway.python import FunctionFailed, FunctionStore, Registry
from runs.events import waiting
from runs.models import Run, Session
from runs.queue import endings
from tests.fakes import says

pytestmark = pytest.mark.django_db


@pytest.fixture
def registry(alice, worker, monkeypatch):
    """Waiting lets the inline worker work, as a worker beside would."""

    def wait(run_id, timeout):
        worker.work()
        run = Run.objects.get(pk=run_id)
        if not run.is_done:
            return None
        message = run.messages.filter(role="assistant").last()
        return endings.summarize_run(run, message.text if message else None)

    def committed(accept):
        def call(**arguments):
            with worker.capture(execute=True):
                return accept(**arguments)

        return call

    from runs.intake import messages as intake

    monkeypatch.setattr(waiting, "wait_for_end", wait)
    monkeypatch.setattr(intake, "accept_message", committed(intake.accept_message))
    return Registry(alice)


def test_it_processes_a_message(registry, make_agent, stub_provider, stub):
    make_agent("helper", provider=stub_provider)
    stub.script(says("Five."))
    reply = registry.process("What is 2 + 3?", agent="helper")
    assert (reply.text, reply.status, reply.usage["input_tokens"]) == ("Five.", "succeeded", 11)


def test_a_conversation_of_ones_own_goes_on(registry, make_agent, stub_provider, stub):
    make_agent("helper", provider=stub_provider)
    stub.script(says("One."), says("Two."))
    registry.process("First", "ticket-17", agent="helper")
    reply = registry.process("Second", "ticket-17")  # the session's agent answers
    assert (reply.text, reply.conversation_id) == ("Two.", "ticket-17")
    assert [one["content"] for one in stub.requests[1]["messages"]][1:] == ["First", "One.", "Second"]


def test_what_was_said_before_opens_the_conversation(registry, make_agent, stub_provider, stub):
    make_agent("helper", provider=stub_provider)
    stub.script(says("Ann."))
    said = [
        {"role": "user", "content": "I am Ann"},
        {"role": "assistant", "content": "Hello Ann"},
        {"role": "user", "content": "Who am I?"},
    ]
    registry.process(said, agent="helper")
    assert [one["content"] for one in stub.requests[0]["messages"]][1:] == ["I am Ann", "Hello Ann", "Who am I?"]


def test_the_router_chooses_where_nobody_is_named(registry, make_agent):
    make_agent("cook", capabilities=["recipes"])
    reply = registry.process("Two recipes, please")
    assert reply.status == "succeeded" and Run.objects.get(pk=reply.run_id).agent.name == "cook"


@pytest.mark.parametrize("messages", [[], [{"role": "assistant", "content": "Hi"}], [{"role": "robot"}], ["Hi"]])
def test_malformed_messages_are_refused(registry, messages):
    with pytest.raises(Invalid):
        registry.process(messages)


def test_a_strangers_conversation_is_not_found(registry, charlie, make_agent):
    make_agent("helper")
    reply = registry.process("Hello", agent="helper")
    with pytest.raises(NotFound):
        Registry(charlie).process("Hello", reply.conversation_id)


def test_it_registers_an_agent_and_changes_it(alice, offline, make_tool):
    make_tool("add")
    registry = Registry(alice)
    definition = {"name": "adder", "provider": "offline", "system_prompt": "Add.", "grants": ["add"]}
    assert registry.register_agent(definition).published.number == 1
    assert registry.register_agent(definition).published.number == 1
    assert registry.register_agent({**definition, "system_prompt": "Add well."}).published.number == 2
    live = registry.get_agent("adder")
    assert live.spec.system_prompt == "Add well." and set(live.tools) == {"add"}
    assert [agent.name for agent in registry.list_agents()] == ["adder"]


def test_it_does_not_find_what_is_not_there(alice, charlie, make_agent):
    make_agent("helper")
    with pytest.raises(NotFound):
        Registry(charlie).get_agent("helper")
    with pytest.raises(Invalid):
        Registry(alice).register_agent({"description": "nameless"})


def test_a_refused_definition_says_each_fault_and_a_refused_message_leaves_nothing(registry, make_agent):
    make_agent("helper")
    with pytest.raises(Invalid) as refusal:
        registry.register_agent({"name": "x" * 500, "provider": "offline"})
    assert {one["field"] for one in refusal.value.details} == {"name"}
    for text, word in (("", "ticket-1"), ("Hello", "ticket\0")):
        with pytest.raises(Invalid):
            registry.process(text, word, agent="helper")
    assert not Session.objects.exists()


def test_a_function_is_stored_and_executed(alice, charlie):
    functions = FunctionStore(alice)
    functions.store_function("double", "def double(n: int) -> int:\n    return n * 2\n", timeout=5)
    assert functions.execute_function("double", {"n": 21}) == 42
    with pytest.raises(Invalid):
        functions.execute_function("double", {"n": "many"})
    with pytest.raises(NotFound):
        FunctionStore(charlie).execute_function("double", {"n": 1})


def test_a_function_that_fails_says_why(alice):
    functions = FunctionStore(alice)
    functions.store_function("broken", "def broken() -> int:\n    return 1 // 0\n")
    with pytest.raises(FunctionFailed) as failure:
        functions.execute_function("broken")
    assert failure.value.error["type"] == "ZeroDivisionError" and json.dumps(failure.value.error)


def test_a_draft_is_not_executed(alice):
    functions = FunctionStore(alice)
    functions.store_function("draft", "def draft() -> int:\n    return 1\n", publish=False)
    with pytest.raises(Conflict):
        functions.execute_function("draft")
    with pytest.raises(Invalid):
        functions.store_function("draft", "import os\n")
