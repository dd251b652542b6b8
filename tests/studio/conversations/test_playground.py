"""Talking to an agent on a page: what is offered, and a conversation from an earlier point."""

import json

import pytest

from agents.models import Agent
from runs.models import Feedback, Run, RunEvent, Session
from studio.conversations import message_files
from studio.conversations.conversation import find_turns, stored_events
from tests.files import PNG, stored


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
    chosen = [signed_in(who).get(path).context["chosen"] for who in (alice, charlie)]
    assert [one.examples for one in chosen] == [["her own"], ["the site's"]]


@pytest.mark.parametrize("name", ["nobody", "%00", "x" * 200, "Not a name"])
def test_an_agent_that_is_not_there_has_no_examples(name, alice, signed_in):
    answer = signed_in(alice).get(f"/playground/?agent={name}")
    assert answer.status_code == 200 and answer.context["chosen"] is None


def talk(alice, run, *texts):
    """More messages in the session of this run, each with a run and a reply of its own."""
    for text in texts:
        made = Run.objects.create(
            principal=alice, agent=run.agent, version=run.version, session=run.session, status="succeeded"
        )
        run.session.add_message("user", [{"type": "text", "text": text}], run=made)
        run.session.add_message("assistant", [{"type": "text", "text": f"{text}!"}], run=made)


def fork(browser, session, seq):
    body = json.dumps({"session": str(session.pk), "seq": seq})
    made = browser.post("/playground/fork", body, "application/json")
    assert made.status_code == 201, made.content
    return Session.objects.get(pk=made.json()["session"])


def test_each_branch_of_a_message_leads_to_its_neighbours(alice, signed_in, make_run, django_assert_max_num_queries):
    run = make_run()
    browser, first = signed_in(alice), run.session
    talk(alice, run, "Two", "Three")
    second = fork(browser, first, 2)
    second.add_message("user", [{"type": "text", "text": "Other two"}])
    third = fork(browser, second, 1)
    third.add_message("user", [{"type": "text", "text": "Other one"}])
    fourth = fork(browser, second, 2)
    fourth.add_message("user", [{"type": "text", "text": "Third two"}])
    shown = {
        session.pk: {
            turn.user.words: (turn.branches.place, turn.branches.count, turn.branches.before, turn.branches.after)
            for turn in find_turns(session, 100)[0]
            if turn.branches
        }
        for session in (first, second, third, fourth)
    }
    assert shown == {
        first.pk: {"Find Moby-Dick": (1, 2, None, third.pk), "Two": (1, 3, None, second.pk)},
        second.pk: {"Find Moby-Dick": (1, 2, None, third.pk), "Other two": (2, 3, first.pk, fourth.pk)},
        third.pk: {"Other one": (2, 2, first.pk, None)},
        fourth.pk: {"Find Moby-Dick": (1, 2, None, third.pk), "Third two": (3, 3, second.pk, None)},
    }
    with django_assert_max_num_queries(8):
        assert len(find_turns(first, 100)[0]) == 3


def test_what_runs_did_is_shown_also_in_a_fork_and_only_to_their_person(alice, charlie, signed_in, make_run):
    run = make_run()
    talk(alice, run, "Two")
    for number, (type, data) in enumerate([("tool.called", {"id": "1", "name": "lookup", "arguments": {}}),
                                           ("run.finished", {"status": "succeeded", "output": "secret"})], 1):  # fmt: skip
        RunEvent.objects.create(run=run, seq=number, type=type, data=data, at=run.started_at)
    copy = fork(signed_in(alice), run.session, 2)
    for session in (run.session, copy):
        turns, _earlier = find_turns(session, 100)
        told = stored_events(alice, turns)
        assert [entry["type"] for entry in told[str(run.pk)]] == ["tool.called", "run.finished"]
        assert "output" not in told[str(run.pk)][1]["data"]
        assert stored_events(charlie, turns) == {}
    assert signed_in(charlie).get(f"/playground/?session={copy.pk}").status_code == 404
    body = json.dumps({"session": str(run.session_id), "seq": 1})
    assert signed_in(charlie).post("/playground/fork", body, "application/json").status_code == 404


def test_the_history_is_ones_own_searched_pinned_first_and_one_line_for_all_branches(
    alice, charlie, signed_in, make_run
):
    runs = [make_run(number) for number in range(3)]
    Session.objects.filter(pk=runs[0].session_id).update(pinned=True)
    copy = fork(signed_in(alice), runs[1].session, 1)
    shown = signed_in(alice).get(f"/playground/?session={runs[1].session_id}").context["history"]
    assert [one.title for one in shown] == ["Books 0", "Books 1", "Books 2"]
    assert set(shown[1].family) == {copy.pk, runs[1].session_id}
    assert [one.is_here for one in shown] == [False, True, False]
    found = signed_in(alice).get("/playground/?find=books+2").context["history"]
    assert [one.title for one in found] == ["Books 2"]
    assert signed_in(charlie).get("/playground/").context["history"] == []


def test_a_rating_is_shown_with_the_run(alice, make_run):
    run = make_run()
    RunEvent.objects.create(run=run, seq=1, type="run.finished", data={"status": "succeeded"}, at=run.started_at)
    Feedback.objects.create(run=run, rating="down", note="Wrong shelf.")
    told = stored_events(alice, find_turns(run.session, 100)[0])
    assert told[str(run.pk)][-1] == {"type": "feedback", "data": {"rating": "down", "note": "Wrong shelf."}}


@pytest.mark.parametrize("page", ["/playground/?session={session}", "/sessions/{session}/", "/runs/{run}/"])
def test_attached_files_are_shown_to_their_owner_pictures_as_previews(alice, charlie, signed_in, make_run, page):
    run = make_run()
    seen, note = stored(alice, "box.png", PNG), stored(alice, "<note>.txt")
    foreign = stored(charlie, "secret.txt")
    parts = [{"type": "file", "file": str(one.pk)} for one in (seen, note, foreign)]
    run.session.add_message("user", [{"type": "text", "text": "Look"}, *parts], run=run)
    shown = signed_in(alice).get(page.format(session=run.session_id, run=run.pk)).content.decode()
    assert f'<img src="/api/v1/files/{seen.pk}/preview" alt="box.png"' in shown
    assert f'/api/v1/files/{note.pk}/content" download>&lt;note&gt;.txt</a>' in shown
    assert "1 file cannot be shown" in shown and "secret.txt" not in shown and "[file]" not in shown


def test_files_of_messages_cost_one_query(alice, make_run, django_assert_max_num_queries):
    run = make_run()
    files = [stored(alice, f"{number}.png", PNG) for number in range(3)]
    for file in files:
        run.session.add_message("user", [{"type": "file", "file": str(file.pk)}], run=run)
    said = list(run.session.messages.all())
    with django_assert_max_num_queries(1):
        message_files.place_attachments(said, alice.pk)
    assert [one.files for one in said] == [[], *([file] for file in files)]
