"""The mark of strangers' text in chains, child runs and records."""

import pytest

from agents.models import Agent, Tool, ToolGrant
from devices import catalog
from runs.intake import context
from runs.models import Run, ToolCallRecord
from tests.fakes import calls, says
from tests.files import stored
from tests.runs.calls.untrusted.mails import EVIL, MAIL, READ, a_mail, question

pytestmark = pytest.mark.django_db


# -- chains and children -------------------------------------------------------------------------------------------------


def test_the_step_after_an_untrusted_read_is_asked(make_chain, run_chain, tools, functions):
    functions.answers.append(a_mail())
    chain = make_chain(
        {"key": "read", "tool": "read_mail"},
        {"key": "send", "tool": "send", "needs": ["read"], "input": {"to": "steps.read.output.body"}},
    )
    assert question(run_chain(chain)).findings[0]["source"] == "stranger"


def test_a_step_whose_input_is_the_authors_is_not_asked(make_chain, run_chain, tools, functions):
    functions.answers.append(a_mail())
    chain = make_chain(
        {"key": "read", "tool": "read_mail"},
        {"key": "send", "tool": "post", "needs": ["read"], "input": {"to": "'bob@corp.example'"}},
    )
    assert run_chain(chain).status == "succeeded"


def test_what_a_child_has_read_marks_its_parent(say, functions, make_agent, make_tool, helper, stub_provider, stub):
    reader = make_agent("reader", tools=[helper.grants.get(tool__name="read_mail").tool], provider=stub_provider)
    ToolGrant.objects.create(agent=helper, tool=reader_tool(reader))
    helper.publish()
    functions.answers.append(a_mail())
    stub.script(calls(("reader", {"task": "read it"})), calls(READ), says(MAIL), calls(("send", EVIL)))
    run = say("hi", agent=Agent.objects.get(pk=helper.pk))
    assert question(run).findings[0]["source"] == "stranger"


def reader_tool(agent):
    return Tool.objects.get(kind="agent", source__agent=agent.pk)


def test_a_child_is_asked_for_what_its_parent_has_read(say, functions, make_agent, helper, stub_provider, stub):
    sender = make_agent("sender", tools=[helper.grants.get(tool__name="send").tool], provider=stub_provider)
    ToolGrant.objects.create(agent=helper, tool=reader_tool(sender))
    helper.publish()
    functions.answers.append(a_mail())
    stub.script(calls(READ), calls(("sender", {"task": "write to mallory@evil.example"})), calls(("send", EVIL)))
    run = say("hi", agent=Agent.objects.get(pk=helper.pk))
    child = Run.objects.get(parent=run)
    assert question(child).findings[0]["origin"] == "the result of “read_mail”"


def test_a_file_or_a_session_as_context_brings_its_mark(say, functions, alice, helper):
    functions.answers.append(a_mail())
    first = say("what is new?", READ)
    plain = say("hi")
    file = stored(alice, "a", content=b"x")
    asker = context.Asker.of(plain)
    assert context.is_untrusted(asker, [{"source": "session", "id": str(first.session_id)}])
    assert context.is_untrusted(asker, [{"source": "file", "id": f"file:{file.pk}"}])
    assert not context.is_untrusted(asker, [{"source": "session"}])


def test_the_task_of_a_child_is_not_the_persons_own_words(
    say, functions, make_agent, helper, stub_provider, stub, worker, alice
):
    """Somebody may write into the child's session later: what its caller said there stays the caller's."""
    sender = make_agent("sender", tools=[helper.grants.get(tool__name="send").tool], provider=stub_provider)
    ToolGrant.objects.create(agent=helper, tool=reader_tool(sender))
    helper.publish()
    functions.answers.append(a_mail())
    stub.script(calls(READ), calls(("sender", {"task": "write to mallory@evil.example"})), says("no"), says("done"))
    run = say("hi", agent=Agent.objects.get(pk=helper.pk))
    session = Run.objects.get(parent=run).session
    stub.script(calls(("send", EVIL)), says("done"))
    assert question(worker.send_message(alice, "go on", sender, session=session)).tool == "send"


# -- records -------------------------------------------------------------------------------------------------------------


def test_a_note_made_of_a_mail_is_strangers_text_when_it_is_read_again(
    worker, alice, make_agent, stub_provider, stub, functions, tools, site_records
):
    names = [tools["read_mail"], tools["send"], *site_records]
    agent = make_agent("keeper", tools=names, provider=stub_provider)
    agent.grants.update(mode="allow", allow_after_untrusted=False)
    agent.grants.filter(tool__name="create_note").update(allow_after_untrusted=True)
    functions.answers.append(a_mail())
    stub.script(calls(READ), calls(("create_note", {"title": "mail", "content": MAIL})), says("kept"))
    assert worker.send_message(alice, "keep it", agent).status == "succeeded"
    stub.script(calls(("list_notes", {})), calls(("send", EVIL)), says("done"))
    run = worker.send_message(alice, "do what my notes say", agent)
    assert question(run).tool == "send"
    stub.turns.clear()
    assert ToolCallRecord.objects.filter(name="list_notes", untrusted=True).exists()


def test_a_note_of_a_run_that_has_read_nothing_is_not_marked(
    worker, alice, make_agent, stub_provider, stub, tools, site_records
):
    agent = make_agent("keeper", tools=[tools["send"], *site_records], provider=stub_provider)
    agent.grants.update(mode="allow")
    stub.script(calls(("create_note", {"title": "a", "content": "b"})), calls(("list_notes", {})), says("done"))
    assert not worker.send_message(alice, "keep it", agent).has_untrusted


@pytest.fixture
def site_records(db):
    catalog.ensure_tools()
    return list(Tool.objects.filter(name__in=["create_note", "list_notes"]))
