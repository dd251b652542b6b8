"""What a child session may be told: each source, its limits, and that nobody is told of another person's."""

import pytest

from agents.tools import ToolFailed
from runs.intake import context
from runs.models import Message, Run, Session
from tests.fakes import says
from tests.files import stored

pytestmark = pytest.mark.django_db
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
    return context.gather(parent, [source])


def test_each_source_is_told(parent, alice):
    other = session_of(alice, "three", "four")
    file = stored(alice, "a.txt", content="ä".encode())
    assert told(parent, source="summary") == "They counted. " * 60
    assert told(parent, source="compact_summary").startswith("…") and len(told(parent, source="compact_summary")) == 601
    assert told(parent, source="transcript", last=1) == "user: two"
    assert told(parent, source="session", id=str(other.pk)) == "user: three\nuser: four"
    assert told(parent, source="file", id=f"file:{file.pk}") == "File a.txt:\nä"
    assert told(parent, source="summary", id=str(other.pk)) == "user: three\nuser: four"  # it has none yet


def test_several_are_told_one_after_the_other(parent):
    text = context.gather(parent, [{"source": "transcript", "last": 1}, {"source": "transcript", "last": 2}])
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
        ({"source": "transcript", "last": "many"}, "unknown_source"),
        ({"source": "transcript", "last": None}, "unknown_source"),
        ({"source": "transcript", "last": True}, "unknown_source"),
    ],
)
def test_what_is_missing_or_makes_no_sense_refuses(parent, source, code):
    with pytest.raises(ToolFailed) as refused:
        context.gather(parent, [source])
    assert refused.value.code == code


def test_a_strangers_session_and_file_are_not_there(parent, charlie):
    theirs = session_of(charlie, "secret")
    file = stored(charlie, "a", content=b"secret")
    for source in ({"source": "session", "id": str(theirs.pk)}, {"source": "file", "id": str(file.pk)}):
        with pytest.raises(ToolFailed, match="there is no such"):
            context.gather(parent, [source])


@pytest.mark.parametrize("sources", ["summary", {"source": "summary"}, ["summary"], 7])
def test_a_step_with_malformed_sources_fails_with_a_reason_before_a_session_exists(
    make_agent, make_chain, run_chain, sources
):
    make_agent()
    run = run_chain(
        make_chain({"key": "ask", "agent": "helper", "input": {"message": "input.text", "sources": "input.sources"}}),
        {"text": "Hi", "sources": sources},
    )
    assert (run.status, run.error["code"]) == ("failed", "unknown_source"), run.error
    assert not Session.objects.exists() and not run.children.exists()


def test_what_a_step_is_told_stands_in_the_instructions(make_agent, make_chain, run_chain, stub_provider, stub, alice):
    make_agent(provider=stub_provider)
    file = stored(alice, "a.txt", content=b"Mind the gap.")
    stub.script(says("ok"))
    step = {"key": "ask", "agent": "helper", "input": {"message": "input.text", "sources": "input.sources"}}
    run = run_chain(make_chain(step), {"text": "Hi", "sources": [{"source": "file", "id": str(file.pk)}]})
    assert run.status == "succeeded", run.error
    assert "File a.txt:\nMind the gap." in stub.requests[0]["messages"][0]["content"]
