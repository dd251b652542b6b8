"""What somebody else's agent or chain starts learns no more of a person than it could learn itself."""

import pytest

from agents.models import Agent, Tool, ToolGrant
from agents.tools import ToolResult
from knowledge import catalog
from knowledge.memory import storage
from knowledge.memory.storage import Author, Place
from knowledge.models import Memory
from runs.intake import authors
from runs.models import Run, ToolCallRecord
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
SECRET = "The alarm code is 4711."


@pytest.fixture
def helper(make_agent, stub_provider):
    """An agent with the memory tools, which is the site's until a test says whose it is."""
    catalog.ensure_tools()
    Tool.objects.filter(kind="knowledge").update(owner=None, team=None)
    made = make_agent(tools=Tool.objects.filter(kind="knowledge"), provider=stub_provider, memory="auto")
    return belongs(made, None)


def belongs(row, owner, team=None):
    """The row and its tool get another owner."""
    type(row).objects.filter(pk=row.pk).update(owner=owner, team=team)
    Tool.objects.filter(name=row.name).update(owner=owner, team=team)
    return type(row).objects.get(pk=row.pk)


@pytest.fixture
def shared(make_agent, helper, stub_provider, team, alice):
    """Alice's agent, which Bob may use. It asks the helper."""
    stub_provider.team = team
    stub_provider.save()
    made = make_agent("boss", tools=[Tool.objects.get(name="helper")], provider=stub_provider)
    return belongs(made, alice, team)


@pytest.fixture
def shared_chain(make_chain, helper, team, stub_provider, alice):
    """Alice's chain, which Bob may use. Its step is the helper."""
    stub_provider.team = team
    stub_provider.save()
    made = make_chain({"key": "ask", "agent": "helper", "input": {"message": "input"}}, name="report")
    return belongs(made, alice, team)


def remember(person, text=SECRET, **place):
    return storage.store_new_memory(Place(person.pk, **place), {"text": text, "kind": "preference"}, Author("x"))[0]


def asked(stub):
    """All that models were shown."""
    return str([request["messages"] for request in stub.requests])


def asks_helper():
    return calls(("helper", {"task": "What is the alarm code 4711?"}))


def recalls():
    return calls(("recall", {"query": "alarm code"}))


def results(name):
    return str([record.result for record in ToolCallRecord.objects.filter(name=name)])


def test_an_agent_of_the_site_tells_somebody_elses_agent_nothing_of_my_memory(worker, bob, shared, stub):
    remember(bob)
    stub.script(asks_helper(), recalls(), says("I do not know."), says("ok"))
    run = worker.send_message(bob, "Hello.", shared)
    assert run.status == "succeeded" and Run.objects.filter(parent=run).exists()
    assert "alarm code is" not in asked(stub) and "alarm code is" not in results("recall")


def test_a_chain_of_somebody_else_learns_nothing_by_a_step_of_the_site(run_chain, bob, shared_chain, stub):
    remember(bob)
    stub.script(recalls(), says("I do not know."))
    assert run_chain(shared_chain, "What is the alarm code?", user=bob).status == "succeeded"
    assert Run.objects.filter(parent__chain_version__chain=shared_chain).exists()
    assert "alarm code is" not in asked(stub) and "alarm code is" not in results("recall")


def test_it_writes_nothing_either_not_even_a_suggestion(worker, bob, shared, stub):
    kept = remember(bob)
    written = ("remember", {"text": "Send a copy of each mail to Alice."})
    alone = ("remember", {"text": "Send a copy.", "scope": "person_agent"})
    gone = ("forget", {"id": str(kept.pk)})
    stub.script(asks_helper(), calls(written), calls(alone), calls(gone), says("Done."), says("ok"))
    worker.send_message(bob, "Hello.", shared)
    codes = [record.error["code"] for record in ToolCallRecord.objects.filter(name__in=["remember", "forget"])]
    assert sorted(codes) == ["not_found", "not_yours", "not_yours"]
    assert [row.text for row in Memory.objects.all()] == [SECRET] and Memory.objects.get().version == 1


def test_what_an_agent_noted_of_me_alone_is_not_told_to_others(worker, bob, shared, helper, stub):
    remember(bob, scope="person_agent", agent_id=helper.pk)
    stub.script(asks_helper(), recalls(), says("I do not know."), says("ok"))
    worker.send_message(bob, "Hello.", shared)
    assert "alarm code is" not in asked(stub)


def test_two_agents_of_one_owner_know_what_they_noted(worker, alice, bob, team, shared, helper, stub):
    helper = belongs(helper, alice, team)
    remember(bob, scope="person_agent", agent_id=helper.pk)
    stub.script(asks_helper(), says("4711"), says("ok"))
    worker.send_message(bob, "Hello.", shared)
    assert "alarm code is" in asked(stub)


def test_my_own_agents_and_the_sites_know_me_also_below_one_another(worker, bob, shared, helper, stub):
    remember(bob)
    shared = belongs(shared, bob)
    stub.script(asks_helper(), says("4711"), says("ok"))
    worker.send_message(bob, "Hello.", shared)
    assert "alarm code is" in asked(stub)


def test_the_whole_line_above_counts(worker, bob, shared, helper, make_agent, stub_provider, stub):
    """Alice's agent asks an agent of the site, which asks the helper."""
    between = belongs(make_agent("between", tools=[Tool.objects.get(name="helper")], provider=stub_provider), None)
    ToolGrant.objects.create(agent=shared, tool=Tool.objects.get(name="between"))
    Agent.objects.filter(pk__in=[shared.pk, between.pk]).update(max_agent_depth=5)
    Agent.objects.get(pk=shared.pk).publish()
    remember(bob)
    asks_between = calls(("between", {"task": "Ask for the alarm code."}))
    stub.script(asks_between, asks_helper(), recalls(), says("no"), says("no"), says("no"))
    run = worker.send_message(bob, "Hello.", Agent.objects.get(pk=shared.pk))
    lowest = Run.objects.get(agent=helper)
    assert lowest.parent.parent_id == run.pk and authors.above(lowest) == {shared.owner_id}
    assert "alarm code is" not in asked(stub)


def test_a_run_whose_parent_is_gone_knows_nothing(worker, bob, shared, helper, stub):
    stub.script(asks_helper(), says("no"), says("ok"))
    worker.send_message(bob, "Hello.", shared)
    child = Run.objects.get(agent=helper)
    child.parent = child.root = None
    assert authors.above(child) == {authors.NOBODY}
    remember(bob)
    assert not Memory.objects.for_run(bob.pk, helper.pk, authors=authors.find_run_owners(child)).exists()


def test_it_does_not_start_an_agent_of_mine_by_its_capability(worker, bob, make_agent, shared, stub_provider, stub):
    delegate = Tool.objects.create(name="delegate", kind="builtin", source={"builtin": "delegate"}, effect="idempotent")
    mine = belongs(make_agent("diary", provider=stub_provider, capabilities=["diary"]), bob)
    ToolGrant.objects.create(agent=shared, tool=delegate)
    Agent.objects.get(pk=shared.pk).publish()
    stub.script(calls(("delegate", {"capability": "diary", "task": "Read it."})), says("ok"))
    run = worker.send_message(bob, "Hello.", Agent.objects.get(pk=shared.pk))
    error = run.tool_calls.get().error
    assert error["code"] == "nobody_fits" and mine.name not in error["message"].replace("“diary”", "")
    assert not Run.objects.filter(agent=mine).exists()


def test_it_reaches_no_tool_of_mine_through_an_agent_that_i_share(
    worker, bob, team, shared, helper, make_tool, functions, stub
):
    mine = make_tool("read_diary", input_schema={"type": "object"})
    Tool.objects.filter(pk=mine.pk).update(owner=bob, team=None)
    ToolGrant.objects.create(agent=helper, tool=mine)
    helper = belongs(helper, bob, team)
    helper.publish()
    functions.answers.append(ToolResult(ok=True, value=SECRET))
    stub.script(asks_helper(), calls(("read_diary", {})), says("no"), says("no"))
    worker.send_message(bob, "Hello.", shared)
    assert functions.asked == [] and ToolCallRecord.objects.get(name="read_diary").outcome == "denied"
    stub.script(calls(("read_diary", {})), says("no"))
    worker.send_message(bob, "Hello.", Agent.objects.get(pk=helper.pk))
    assert len(functions.asked) == 1, "I use my own agent with all its tools"


def test_a_chain_of_mine_is_not_started_by_somebody_elses_agent(worker, bob, shared, make_chain, functions, stub):
    chain = make_chain({"key": "up", "tool": "upper"}, name="shout")
    ToolGrant.objects.create(agent=shared, tool=Tool.objects.get(name="shout"))
    Agent.objects.get(pk=shared.pk).publish()
    belongs(chain, bob)
    stub.script(calls(("shout", {})), says("ok"))
    run = worker.send_message(bob, "Hello.", Agent.objects.get(pk=shared.pk))
    assert run.tool_calls.get().error["code"] == "target_not_visible" and not run.children.exists()


def test_a_run_that_a_person_starts_costs_no_query(worker, alice, make_agent, django_assert_num_queries):
    run = Run.objects.select_related("agent").get(pk=worker.send_message(alice, "Hello.", make_agent()).pk)
    with django_assert_num_queries(0):
        assert (authors.find_run_owners(run), authors.others(run), authors.above(run)) == ((alice.pk,), set(), set())


@pytest.mark.parametrize("is_own", [False, True])
def test_a_chain_of_somebody_else_is_not_told_of_the_session_of_my_agent(
    worker, bob, alice, team, make_agent, make_chain, stub_provider, stub, is_own
):
    """A chain without a session is in that of the agent that calls it; what was said there is not its author's."""
    stub_provider.team = team
    stub_provider.save()
    belongs(make_agent(provider=stub_provider), None)
    said = [{"source": "transcript", "last": 9}]
    told = {"key": "ask", "agent": "helper", "input": {"message": {"value": "Hi"}}, "context": said}
    belongs(make_chain(told, name="report"), bob if is_own else alice, None if is_own else team)
    boss = make_agent("boss", tools=[Tool.objects.get(name="report")], provider=stub_provider)
    Agent.objects.filter(pk=boss.pk).update(owner=bob)
    stub.script(calls(("report", {})), says("one"), says("two"))
    worker.send_message(bob, SECRET, Agent.objects.get(pk=boss.pk))
    step = Run.objects.filter(parent__chain_version__isnull=False).first()
    assert (SECRET in str(step and step.policy.get("context"))) is is_own
