"""Talking to an agent on a page: what is offered, and a conversation from an earlier point."""

import json

import pytest

from agents.models import Agent
from runs.models import Run, Session


def test_a_fork_holds_what_was_said_before(alice, signed_in, make_run):
    run = make_run()
    later = Run.objects.create(principal=alice, agent=run.agent, version=run.version, session=run.session)
    run.session.add_message("user", [{"type": "text", "text": "And Walden?"}], run=later)
    body = json.dumps({"session": str(run.session_id), "run": str(later.pk)})
    made = signed_in(alice).post("/playground/fork", body, "application/json")
    fork = Session.objects.get(pk=made.json()["session"])
    assert [message.text for message in fork.messages.all()] == ["Find Moby-Dick"]
    assert run.messages.count() == 1


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"session": 1, "run": 2}', "null", "[" * 100_000])
def test_a_fork_of_nothing_is_refused(body, alice, signed_in):
    assert signed_in(alice).post("/playground/fork", body, "application/json").status_code in (400, 404)


def test_the_examples_are_those_of_the_agent_that_the_name_means(alice, charlie, signed_in, make_agent, agent, version):
    made = make_agent("shared", examples=["the site's"])
    Agent.objects.filter(pk=made.pk).update(owner=None, name=agent.name)
    Agent.objects.filter(pk=agent.pk).update(examples=["her own"])
    path = f"/playground/?agent={agent.name}"
    assert [signed_in(who).get(path).context["examples"] for who in (alice, charlie)] == [["her own"], ["the site's"]]


@pytest.mark.parametrize("name", ["nobody", "%00", "x" * 200, "Not a name"])
def test_an_agent_that_is_not_there_has_no_examples(name, alice, signed_in):
    answer = signed_in(alice).get(f"/playground/?agent={name}")
    assert answer.status_code == 200 and answer.context["examples"] == []
