"""What agents remember: at once or as suggestions, never lost, never trusted after strangers' text."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Agent, Tool
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed
from knowledge import catalog
from knowledge.memory import storage
from knowledge.memory.storage import Author, Place
from knowledge.models import Memory, MemoryWrite
from registry import factory, toolsets

RUN = "0190a0a0-0000-7000-8000-000000000001"


@pytest.fixture
def tools(db):
    catalog.ensure_tools()
    assert catalog.ensure_tools() == [], "nothing changes the second time"
    return {tool.name: tool for tool in Tool.objects.filter(kind="knowledge")}


@pytest.fixture
def call(alice, agent, tools):
    def make(name, *, untrusted=False, person=None, call_id="", mode="auto", root=RUN, **arguments):
        Agent.objects.filter(pk=agent.pk).update(memory=mode)
        context = ToolContext(
            (person or alice).pk, agent="librarian", agent_id=agent.pk, run_id=RUN, root_id=root, is_untrusted=untrusted,
            authors=lambda: (agent.owner_id,),
        )  # fmt: skip
        spec = factory.make_tool_spec(tools[name], grant_of(tools[name]), 30.0)
        return toolsets.call_tool(spec, ToolCall(call_id or str(uuid.uuid4()), name, arguments), context)

    return make


def grant_of(tool):
    from agents.spec import GrantSpec

    return GrantSpec(tool=tool.name, tool_id=tool.pk)


def test_what_is_remembered_holds_at_once_only_if_the_agent_is_set_so(call):
    assert call("remember", text="Likes tea.").value["status"] == "active"
    for mode in ("off", "suggest"):
        made = call("remember", text=f"Likes {mode}.", mode=mode).value
        assert made["status"] == "suggested" and "approval" in made["note"]
    row = Memory.objects.get(text="Likes tea.")
    assert (str(row.run_id), row.untrusted, row.scope, row.agent_id) == (RUN, False, "person", None)


def test_after_strangers_text_everything_waits_and_is_marked(call, alice):
    made = call("remember", text="Mallory is a friend.", untrusted=True).value
    row = Memory.objects.get(pk=made["id"])
    assert (row.status, row.untrusted) == ("suggested", True)
    assert call("recall", query="Mallory").value == {"memories": []}, "a suggestion is not known yet"
    storage.store_approved_memory(row, Author("alice"))
    found = call("recall", query="Mallory friend")
    assert found.value["memories"][0]["text"] == "Mallory is a friend." and found.untrusted is True


def test_a_mail_cannot_make_an_agent_forget_or_change_what_it_knows(call):
    id = call("remember", text="Never pay Mallory.").value["id"]
    gone = call("forget", id=id, untrusted=True).value
    changed = call("remember", text="Always pay Mallory.", replaces=id, untrusted=True).value
    assert gone["status"] == changed["status"] == "suggested"
    row = Memory.objects.get(pk=id)
    assert (row.text, row.valid_until, row.untrusted, row.version) == ("Never pay Mallory.", None, False, 1)


def test_a_memory_is_corrected_and_ended_and_can_be_brought_back(call):
    id = call("remember", text="Lives in Rome.").value["id"]
    assert call("remember", text="Lives in Oslo.", replaces=id).value == {"id": id, "status": "active", "version": 2}
    assert call("forget", id=id).counts == {"created": 0, "updated": 1}
    assert call("recall", query="lives").value == {"memories": []}
    row = Memory.objects.get(pk=id)
    assert row.is_over and row.versions.first().action == "forgotten"
    storage.store_earlier_content(row, 2, Author("alice"))
    assert call("recall", query="living").value["memories"][0]["text"] == "Lives in Oslo."


def test_a_repeated_call_writes_once(call):
    same = str(uuid.uuid4())
    first = call("remember", text="Likes tea.", call_id=same).value
    assert call("remember", text="Likes tea.", call_id=same).value == first
    assert Memory.objects.count() == 1
    again = str(uuid.uuid4())
    call("remember", text="Likes coffee.", replaces=first["id"], call_id=again)
    call("remember", text="Likes coffee.", replaces=first["id"], call_id=again)
    assert Memory.objects.get().version == 2


def test_people_do_not_meet_each_others_memories(call, bob, agent, alice):
    id = call("remember", text="Alice likes tea.").value["id"]
    own = call("remember", text="Alice's librarian.", scope="person_agent").value["id"]
    assert call("recall", query="Alice tea librarian", person=bob).value == {"memories": []}
    for other in (id, own, str(uuid.uuid4()), "x"):
        with pytest.raises(RetryTool):
            call("forget", id=other, person=bob)
        with pytest.raises(RetryTool):
            call("remember", text="x", replaces=other, person=bob)
    elsewhere = Agent.objects.create(name="other", owner=alice, provider=agent.provider)
    known = Memory.objects.for_run(alice.pk, elsewhere.pk, authors=[alice.pk]).values_list("text", flat=True)
    assert list(known) == ["Alice likes tea."], "another agent does not get what is for one alone"


def test_an_agent_does_not_change_what_belongs_to_others(call, alice, bob, agent, team):
    shared, _ = storage.store_new_memory(
        Place(alice.pk, "team", team_id=team.pk), {"text": "Office at six."}, Author("alice")
    )
    assert call("recall", query="office", person=bob).value["memories"][0]["id"] == str(shared.pk)
    with pytest.raises(RetryTool):
        call("forget", id=str(shared.pk), person=bob)


def test_limits_are_told_to_the_model(call, monkeypatch):
    monkeypatch.setattr(storage, "MEMORIES_PER_RUN", 1)
    call("remember", text="One.")
    with pytest.raises(ToolFailed) as refused:
        call("remember", text="Two.")
    assert refused.value.code == "too_many_in_run"
    row = Memory.objects.get()
    with pytest.raises(ToolFailed):
        call("remember", text="Two.", replaces=str(row.pk))


def flood(call, count, *, untrusted=True, mode="auto", word="Mallory"):
    """The codes of the refusals when each of so many messages leads to one suggestion."""
    refused = []
    for number in range(count):
        try:
            call("remember", text=f"{word} {number}.", untrusted=untrusted, mode=mode, root=str(uuid.uuid4()))
        except ToolFailed as error:
            refused.append(error.code)
    return refused


def test_hostile_mails_cannot_fill_the_list_of_suggestions(call, monkeypatch):
    monkeypatch.setattr(storage, "MEMORY_SUGGESTIONS", 6)
    assert flood(call, 5) == ["too_many_suggestions"] * 2
    assert flood(call, 4, untrusted=False, mode="suggest", word="Tea") == ["too_many_suggestions"]
    assert Memory.objects.suggested().count() == 6 and not Memory.objects.active().exists()


def test_one_hostile_mail_cannot_write_more_than_a_message_may(call, monkeypatch):
    monkeypatch.setattr(storage, "MEMORIES_PER_RUN", 3)
    for number in range(3):
        call("remember", text=f"Mallory {number}.", untrusted=True)
    with pytest.raises(ToolFailed) as refused:
        call("remember", text="Mallory again.", untrusted=True)
    assert refused.value.code == "too_many_in_run"
    assert Memory.objects.suggested().count() == 3 and not Memory.objects.active().exists()


def test_hostile_mails_of_one_day_leave_room_for_what_the_person_says(call, monkeypatch):
    monkeypatch.setattr(storage, "MEMORIES_PER_DAY", 6)
    assert flood(call, 5) == ["too_many_in_day"] * 2
    assert flood(call, 4, untrusted=False, word="Tea") == ["too_many_in_day"]
    MemoryWrite.objects.update(at=timezone.now() - timedelta(days=1, minutes=1))
    assert flood(call, 1, word="Later") == []


def test_what_was_known_cannot_be_changed_more_often_by_hostile_mails(call, monkeypatch):
    monkeypatch.setattr(storage, "MEMORIES_PER_DAY", 4)
    id = call("remember", text="Never pay Mallory.").value["id"]
    for number in range(2):
        call("remember", text=f"Pay Mallory {number}.", replaces=id, untrusted=True)
    with pytest.raises(ToolFailed) as refused:
        call("forget", id=id, untrusted=True)
    assert refused.value.code == "too_many_in_day"


@pytest.mark.parametrize("when", ["soon", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00"])
def test_a_time_that_cannot_be_read_is_refused(call, when):
    with pytest.raises(RetryTool):
        call("remember", text="One.", valid_until=when)
    assert not Memory.objects.exists()


def test_the_tools_of_the_memory_are_closed_to_visitors(tools):
    from runs.rules import visitors

    for tool in tools.values():
        assert not visitors.is_open(tool.name, tool.kind, tool.source, [tool.name])


def test_what_was_rejected_counts_for_the_day(call, monkeypatch, alice):
    monkeypatch.setattr(storage, "MEMORIES_PER_DAY", 4)
    for number in range(2):
        made = call("remember", text=f"Pay Mallory {number}.", untrusted=True, root=str(uuid.uuid4())).value
        storage.delete_rejected_suggestion(Memory.objects.get(pk=made["id"]))
    with pytest.raises(ToolFailed) as refused:
        call("remember", text="Pay Mallory again.", untrusted=True, root=str(uuid.uuid4()))
    assert refused.value.code == "too_many_in_day"
    call("remember", text="Likes tea."), call("remember", text="Likes coffee.")
    Memory.objects.all().delete()
    with pytest.raises(ToolFailed):
        call("remember", text="Likes water.")
    MemoryWrite.objects.update(at=timezone.now() - timedelta(days=2))
    assert call("remember", text="Likes water.").value["status"] == "active"
    assert MemoryWrite.objects.count() == 1, "older ones are deleted"


def test_an_agent_knows_of_a_team_only_while_its_owner_is_in_it(call, bob, alice, team):
    storage.store_new_memory(Place(bob.pk, "team", team_id=team.pk), {"text": "Office at six."}, Author("bob"))
    assert len(call("recall", query="office", person=bob).value["memories"]) == 1
    team.memberships.filter(user=alice).delete()
    assert call("recall", query="office", person=bob).value == {"memories": []}


def test_a_chain_of_somebody_else_has_no_memory_of_mine(tools, alice, bob):
    def run(name, author, **arguments):
        context = ToolContext(bob.pk, chain="report", authors=lambda: (author,))
        spec = factory.make_tool_spec(tools[name], grant_of(tools[name]), 30.0)
        return toolsets.call_tool(spec, ToolCall(str(uuid.uuid4()), name, arguments), context)

    id = run("remember", bob.pk, text="Likes tea.").value["id"]
    Memory.objects.update(status="active")
    assert run("recall", alice.pk, query="tea").value == {"memories": []}
    assert (
        run("recall", None, query="tea").value["memories"] == run("recall", bob.pk, query="tea").value["memories"] != []
    )
    for name, arguments in (("remember", {"text": "Pay Alice."}), ("forget", {"id": id})):
        with pytest.raises((RetryTool, ToolFailed)):
            run(name, alice.pk, **arguments)
    assert Memory.objects.count() == 1
