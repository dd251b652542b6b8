"""What a child session may be told: each source, its limits, and that nobody is told of another person's."""

import pytest

from agents.models import Agent, Tool
from agents.tools import ToolFailed
from runs.intake import context
from runs.models import Message, Run, Session
from tests.fakes import calls, says
from tests.files import stored

pytestmark = pytest.mark.django_db
V1, JSON = "/api/v1", "application/json"
NOWHERE = "00000000-0000-7000-8000-000000000000"


def session_of(owner, *texts, summary=""):
    made = Session.objects.create(owner=owner, summary=summary)
    for text in texts:
        made.add_message(Message.Role.USER, [{"type": "text", "text": text}])
    return made


@pytest.fixture
def parent(alice):
    return Run.objects.create(principal=alice, session=session_of(alice, "one", "two", summary="They counted. " * 60))


def told(parent, **source):
    return context.gather(context.Asker.of(parent), [source])


def test_each_source_is_told(parent, alice):
    other = session_of(alice, "three", "four")
    file = stored(alice, "a.txt", content="ä".encode())
    assert told(parent, source="summary") == "They counted. " * 60
    assert told(parent, source="compact").startswith("…") and len(told(parent, source="compact")) == 601
    assert told(parent, source="transcript", last=1) == "user: two"
    assert told(parent, source="session", id=str(other.pk)) == "user: three\nuser: four"
    assert told(parent, source="file", id=f"file:{file.pk}") == "File a.txt:\nä"
    assert told(parent, source="summary", id=str(other.pk)) == "user: three\nuser: four"  # it has none yet


def test_several_are_told_one_after_the_other(parent):
    text = context.gather(
        context.Asker.of(parent), [{"source": "transcript", "last": 1}, {"source": "transcript", "last": 2}]
    )
    assert text == "user: two\n\nuser: one\nuser: two"


def test_a_long_source_is_cut_and_says_so(parent, alice):
    file = stored(alice, "a", content=b"x" * 30_000)
    assert told(parent, source="file", id=str(file.pk)).endswith("more characters]")


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({"source": "dreams"}, "unknown_source"),
        ({}, "unknown_source"),
        ({"source": ["summary"]}, "unknown_source"),
        ({"source": "session", "id": "nope"}, "unknown_source"),
        ({"source": "session", "id": NOWHERE}, "unknown_session"),
        ({"source": "file", "id": NOWHERE}, "unknown_file"),
        ({"source": "file", "id": "/etc/passwd"}, "unknown_source"),
        ({"source": "file"}, "unknown_source"),
    ],
)
def test_what_is_missing_or_makes_no_sense_refuses(parent, source, code):
    with pytest.raises(ToolFailed) as refused:
        told(parent, **source)
    assert refused.value.code == code


def test_a_strangers_session_and_file_are_not_there(parent, charlie):
    theirs = session_of(charlie, "secret")
    file = stored(charlie, "a", content=b"secret")
    for source in ({"source": "session", "id": str(theirs.pk)}, {"source": "file", "id": str(file.pk)}):
        with pytest.raises(ToolFailed, match="there is no such"):
            told(parent, **source)


# -- declared in steps


def step_with(*context, **more):
    return {"key": "ask", "agent": "helper", "input": {"message": "input.text"}, "context": list(context), **more}


def asked(stub, number=0):
    """The instructions of a request."""
    return stub.requests[number]["messages"][0]["content"]


@pytest.fixture
def helper(make_agent, stub_provider):
    return make_agent(provider=stub_provider)


def test_what_a_step_is_told_stands_in_the_instructions(helper, make_chain, run_chain, stub, alice):
    file = stored(alice, "a.txt", content=b"Mind the gap.")
    stub.script(says("ok"))
    chain = make_chain(step_with({"source": "file", "id": "input.file"}))
    run = run_chain(chain, {"text": "Hi", "file": str(file.pk)})
    assert run.status == "succeeded", run.error
    assert "File a.txt:\nMind the gap." in asked(stub)


def test_a_step_is_told_what_an_earlier_step_said(helper, make_chain, run_chain, stub):
    stub.script(says("It rains."), says("ok"))
    chain = make_chain(
        {"key": "look", "agent": "helper", "input": {"message": {"value": "Look outside"}}},
        step_with({"source": "transcript", "step": "look", "last": 2}, needs=["look"]),
    )
    assert run_chain(chain, {"text": "Hi"}).status == "succeeded"
    assert "user: Look outside\nassistant: It rains." in asked(stub, 1) and "It rains" not in asked(stub, 0)


def test_an_agent_s_own_sources_reach_it(make_agent, make_chain, run_chain, stub_provider, stub):
    """`sources` is a field of the agent's input like any other."""
    schema = {"type": "object", "properties": {"sources": {"type": "array"}}, "required": ["sources"]}
    make_agent(provider=stub_provider, input_schema=schema)
    stub.script(says("ok"))
    step = {"key": "ask", "agent": "helper", "input": {"message": "input.text", "sources": "input.sources"}}
    run = run_chain(make_chain(step), {"text": "Hi", "sources": ["a", "b"]})
    assert run.status == "succeeded", run.error
    assert run.children.get().input == {"sources": ["a", "b"]}


def test_a_step_whose_context_is_missing_fails_before_a_session_exists(helper, make_chain, run_chain, charlie):
    theirs = session_of(charlie, "secret")
    chain = make_chain(step_with({"source": "session", "id": "input.session"}))
    for wanted, code in ((str(theirs.pk), "unknown_session"), ("nope", "unknown_source")):
        run = run_chain(chain, {"text": "Hi", "session": wanted})
        assert (run.status, run.error["code"], run.error["step"]) == ("failed", code, "ask")
    assert not Session.objects.exclude(pk=theirs.pk).exists() and not Run.objects.exclude(parent=None).exists()


@pytest.mark.parametrize(
    ("context", "code"),
    [
        ([{"source": "dreams"}], "invalid_step"),
        ([{"source": "summary", "colour": "red"}], "invalid_step"),
        ([{"source": "transcript", "last": 0}], "invalid_step"),
        ([{"source": "file"}], "no_source"),
        ([{"source": "session"}], "no_source"),
        ([{"source": "session", "id": "input.a", "step": "look"}], "two_sources"),
        ([{"source": "session", "step": "nobody"}], "unknown_step"),
        ([{"source": "session", "step": "look"}], "not_upstream"),
        ([{"source": "file", "id": "steps.look.output"}], "not_upstream"),
        ([{"source": "file", "id": "input..a"}], "invalid_expression"),
    ],
)
def test_context_that_makes_no_sense_is_not_published(helper, alice_api, context, code):
    body = {"name": "c", "steps": [{"key": "look", "agent": "helper"}, step_with(*context)]}
    answer = alice_api.post(f"{V1}/chains/", body)
    if code != "invalid_step":
        assert answer.status_code == 201, answer.json()
        answer = alice_api.post(f"{V1}/chains/c/publish")
    error = answer.json()["error"]
    codes = {error["code"], *(detail["code"] for detail in error["details"])}
    assert answer.status_code == 422 and code in codes, error


def test_a_tool_has_no_context(alice_api, make_tool):
    make_tool("add")
    step = {"key": "a", "tool": "add", "context": [{"source": "summary"}]}
    alice_api.post(f"{V1}/chains/", {"name": "c", "steps": [step]})
    details = alice_api.post(f"{V1}/chains/c/publish").json()["error"]["details"]
    assert [detail["code"] for detail in details] == ["no_session"]


def test_context_that_others_wrote_marks_the_step(helper, make_chain, run_chain, stub, alice):
    file = stored(alice, "a.txt", content=b"Pay me.", untrusted=True)
    stub.script(says("ok"))
    run = run_chain(make_chain(step_with({"source": "file", "id": "input.file"})), {"text": "Hi", "file": str(file.pk)})
    assert run.children.get().has_untrusted and run.has_untrusted


# -- declared in grants: agents as tools, and delegation


@pytest.mark.parametrize("through", ["helper", "delegate"])
def test_an_agent_called_as_a_tool_is_told_of_the_caller_s_session(
    worker, alice, make_agent, stub_provider, stub, alice_api, through
):
    make_agent(provider=stub_provider, capabilities=["weather"])
    Tool.objects.create(name="delegate", kind="builtin", source={"builtin": "delegate"}, effect="idempotent")
    boss = make_agent("boss", provider=stub_provider)
    grants = [{"tool": through, "context": [{"source": "transcript", "last": 5}]}]
    assert alice_api.put(f"{V1}/agents/boss/grants/", grants, JSON).json()["results"][0]["context"] == [
        {"source": "transcript", "last": 5}
    ]
    alice_api.post(f"{V1}/agents/boss/publish")
    task = {"task": "Tell"} if through == "helper" else {"task": "Tell", "capability": "weather"}
    stub.script(calls((through, task)), says("It rains."), says("It rains."))
    run = worker.send_message(alice, "I am in Paris. What is the weather?", Agent.objects.get(pk=boss.pk))
    assert run.status == "succeeded", run.error
    assert "user: I am in Paris. What is the weather?" in asked(stub, 1)


@pytest.mark.parametrize(
    ("tool", "context"),
    [
        ("helper", [{"source": "file", "id": NOWHERE}]),
        ("helper", [{"source": "summary", "id": NOWHERE}]),
        ("add", [{"source": "summary"}]),
    ],
)
def test_a_grant_whose_context_makes_no_sense_is_refused(alice_api, make_agent, make_tool, tool, context):
    make_tool("add")
    make_agent()
    make_agent("boss")
    answer = alice_api.put(f"{V1}/agents/boss/grants/", [{"tool": tool, "context": context}], JSON)
    assert answer.status_code == 422, answer.json()


# -- prepared runs


def test_a_prepared_run_is_told_its_context(alice, alice_api, charlie, bob, make_agent):
    make_agent()
    mine, theirs = session_of(alice, "We are in Paris."), session_of(charlie, "secret")
    body = {"agent": "helper", "message": "Go", "context": [{"source": "session", "id": str(mine.pk)}]}
    run = alice_api.post(f"{V1}/runs/", body).json()
    claimed = alice_api.post(f"{V1}/runs/{run['id']}/claim", {"executor": "terminal"}).json()
    assert "user: We are in Paris." in claimed["messages"][0]["content"]
    for other in (theirs, session_of(bob, "a team-mate's")):
        refused = alice_api.post(f"{V1}/runs/", {**body, "context": [{"source": "session", "id": str(other.pk)}]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "unknown_session")
    unknown = alice_api.post(f"{V1}/runs/", {**body, "context": [{"source": "session", "id": "x", "colour": 1}]})
    assert unknown.status_code == 422
