"""A yes is for the definition that was shown: what was published, listed or announced afterwards does not run by it."""

import pytest

from agents.models import Agent, Chain, Tool, ToolGrant
from agents.tools import ToolResult
from connectors.models import Connection
from functions import store
from functions.models import Execution, FunctionVersion, StoredFunction
from registry import toolsets
from runs.models import Approval, Run, ToolCallRecord
from tests.fakes import calls, says
from tests.functions import library

pytestmark = pytest.mark.django_db
GRAVER = "def add(a: int, b: int = 2) -> int:\n    return a * 1000 + b\n"
OTHER_SCHEMA = "def add(words: str) -> str:\n    return words\n"


def approve(api, worker, **body):
    """Through the front door; the run as it stands afterwards."""
    approval = Approval.objects.get(status="open")
    with worker.capture(execute=True):
        answer = api.post(f"/api/v1/approvals/{approval.pk}", {"decision": "approve", **body})
    assert answer.status_code == 200, answer.json()
    worker.work()
    return Run.objects.filter(parent=None).get()


def publish_again(owner, source=GRAVER, effect="destructive"):
    function = StoredFunction.objects.get(name="add")
    function.source, function.effect, function.input_schema, function.output_schema = source, effect, {}, None
    store.save_function(function, user=owner)
    store.publish_function(function, user=owner)


# -- functions ------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(alice, worker, make_agent, stub_provider, stub):
    """A run that waits for Alice's answer to add(1, 2)."""
    library.publish(alice)
    agent = make_agent(tools=[Tool.objects.get(name="add")], provider=stub_provider)
    agent.grants.update(mode="ask")
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
    return worker.send_message(alice, "add", agent)


@pytest.mark.parametrize("source", [GRAVER, OTHER_SCHEMA])
def test_the_approved_version_of_a_function_runs_whatever_is_published_since(alice, alice_api, worker, asked, source):
    publish_again(alice, source)
    run = approve(alice_api, worker)
    call = ToolCallRecord.objects.get()
    assert (run.status, call.result, call.effect) == ("succeeded", 3, "read")
    assert Execution.objects.get().version_number == 1


def test_edited_arguments_follow_the_schema_of_the_approved_version(alice, alice_api, worker, asked):
    publish_again(alice, OTHER_SCHEMA)
    approval = Approval.objects.get()
    refused = alice_api.post(f"/api/v1/approvals/{approval.pk}", {"decision": "approve", "arguments": {"words": "x"}})
    assert refused.status_code == 422
    approve(alice_api, worker, arguments={"a": 5, "b": 5})
    assert ToolCallRecord.objects.get().result == 10


def withdraw(number):
    version = FunctionVersion.objects.get(number=number)
    Execution.objects.create(
        function=version.function, version=version, status="violation", error={"type": "SystemCall"}
    )


def test_a_withdrawn_version_is_not_run_and_the_call_asks_again(alice, alice_api, worker, asked):
    publish_again(alice)
    withdraw(1)
    run = approve(alice_api, worker)
    assert (run.status, run.waiting_for) == ("waiting", "approval")
    again = Approval.objects.get(status="open")
    assert (again.effect, again.arguments, again.call.name) == ("destructive", {"a": 1, "b": 2}, "add")
    assert "approved again" in again.reason and run.events.filter(type="approval.requested").count() == 2
    run = approve(alice_api, worker)
    assert (run.status, ToolCallRecord.objects.get().result) == ("succeeded", 1002)


# -- what cannot be pinned ------------------------------------------------------------------------------------------


class Answers:
    def __init__(self):
        self.asked = []

    def call(self, tool, call, context):
        self.asked.append(tool.description)
        return ToolResult(ok=True, value="done")


def changed_definition(tool):
    tool.description, tool.effect = "Deletes the account", "destructive"
    tool.freeze_hash()
    tool.save()


def changed_effect(tool):
    tool.effect = "destructive"
    tool.freeze_hash()
    tool.save()


def changed_address(tool):
    Connection.objects.filter(pk=tool.source["connection"]).update(base_url="https://elsewhere.example")


@pytest.mark.parametrize("kind", ["mcp", "http", "a2a"])
@pytest.mark.parametrize("change", [changed_definition, changed_effect, changed_address])
def test_another_definition_of_a_remote_tool_asks_again(
    alice, alice_api, worker, make_agent, make_tool, stub_provider, stub, monkeypatch, kind, change
):
    remote = Answers()
    monkeypatch.setitem(toolsets.TOOLSETS, kind, remote)
    connection = Connection.objects.create(owner=alice, name="far", provider="mcp", base_url="https://far.example")
    source = {"connection": connection.pk, "tool": "look", "pin": "1"}
    tool = make_tool("look", kind=kind, source=source, description="Looks", input_schema={"type": "object"})
    agent = make_agent(tools=[tool], provider=stub_provider)
    agent.grants.update(mode="ask")
    stub.script(calls(("look", {})), says("done"))
    worker.send_message(alice, "look", agent)
    change(tool)
    Agent.objects.get(pk=agent.pk).publish()
    run = approve(alice_api, worker)
    assert (run.status, run.waiting_for, remote.asked) == ("waiting", "approval", [])
    assert Approval.objects.get(status="open").effect == Tool.objects.get(pk=tool.pk).effect
    assert approve(alice_api, worker).status == "succeeded" and len(remote.asked) == 1


@pytest.fixture
def boss(make_agent, stub_provider):
    """An agent that has to ask before it calls its minion, which calls another one."""
    make_agent("deep", provider=stub_provider)
    make_agent("minion", tools=[Tool.objects.get(name="deep")], provider=stub_provider)
    made = make_agent("boss", tools=[Tool.objects.get(name="minion")], provider=stub_provider)
    made.grants.update(mode="ask")
    return made


@pytest.mark.parametrize("name", ["minion", "deep"])
def test_an_agent_that_was_published_again_asks_again(alice, alice_api, worker, boss, stub, name):
    stub.script(calls(("minion", {"task": "Help"})), says("helped"), says("done"))
    worker.send_message(alice, "go", boss)
    changed = Agent.objects.get(name=name)
    changed.system_prompt = "Do other things."
    changed.save()
    changed.publish()
    run = approve(alice_api, worker)
    assert (run.status, run.waiting_for) == ("waiting", "approval") and not Run.objects.exclude(parent=None).exists()
    assert approve(alice_api, worker).status == "succeeded"


def test_what_did_not_change_is_asked_once(alice, alice_api, worker, boss, stub):
    stub.script(calls(("minion", {"task": "Help"})), says("helped"), says("done"))
    worker.send_message(alice, "go", boss)
    assert approve(alice_api, worker).status == "succeeded"
    assert Approval.objects.count() == 1


# -- steps of chains ------------------------------------------------------------------------------------------------


def test_a_step_runs_the_version_that_was_approved(alice, alice_api, worker, make_chain, run_chain):
    library.publish(alice)
    run_chain(make_chain({"key": "one", "tool": "add", "input": {"a": "input.a"}, "approval": True}), {"a": 1})
    publish_again(alice)
    run = approve(alice_api, worker)
    assert (run.status, run.output) == ("succeeded", 3)


def test_each_item_of_a_step_runs_the_version_that_was_approved(alice, alice_api, worker, make_chain, run_chain):
    library.publish(alice)
    step = {"key": "one", "tool": "add", "for_each": "input", "input": {"a": "item"}, "approval": True}
    run_chain(make_chain(step), [1, 2])
    publish_again(alice)
    run = approve(alice_api, worker)
    assert run.status == "succeeded" and {one.version_number for one in Execution.objects.all()} == {1}


def test_a_step_with_an_agent_asks_again_once_it_was_published_again(
    alice, alice_api, worker, make_agent, make_chain, run_chain, stub_provider, stub
):
    agent = make_agent("helper", provider=stub_provider)
    stub.script(says("hi"))
    run_chain(make_chain({"key": "one", "agent": "helper", "input": {"message": "'Hi'"}, "approval": True}), {})
    agent.system_prompt = "Do other things."
    agent.save()
    agent.publish()
    run = approve(alice_api, worker)
    assert (run.status, run.waiting_for) == ("waiting", "approval") and not run.children.exists()
    assert approve(alice_api, worker).status == "succeeded"


def test_a_call_of_a_chain_with_a_grant_that_asks_runs_what_was_approved(
    alice, alice_api, worker, make_chain, run_chain
):
    library.publish(alice)
    run_chain(make_chain({"key": "one", "tool": "add", "input": {"a": "input.a"}}, grants={"add": "ask"}), {"a": 1})
    publish_again(alice)
    run = approve(alice_api, worker)
    assert (run.status, run.output) == ("succeeded", 3)
    assert ToolGrant.objects.get().mode == "ask" and Chain.objects.count() == 1
