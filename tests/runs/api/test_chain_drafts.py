"""Trying a chain's draft: the path of every run, recorded as a try, with steps whose output is given."""

from uuid import uuid4

import pytest

from agents.models import Chain, ChainVersion
from agents.tools import ToolFailed, ToolResult
from runs.models import Run, StepRun
from runs.worker import pruning
from tests.chains import step_rows

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/chains/digest/runs"
FIRST = {"key": "first", "tool": "add", "input": {"a": "input.n", "b": {"value": 1}}}
SECOND = {"key": "second", "tool": "add", "needs": ["first"], "input": {"a": "steps.first.output", "b": {"value": 10}}}
THIRD = {"key": "third", "tool": "add", "needs": ["second"], "input": {"a": "steps.second.output", "b": {"value": 100}}}


def add(call, context):
    if not isinstance(call.arguments["a"], int):
        raise ToolFailed("no number", code="no_number")
    return ToolResult(ok=True, value=call.arguments["a"] + call.arguments["b"])


@pytest.fixture
def chain(make_chain, functions):
    """Published with one step; the draft has three."""
    functions.answers += [add] * 20
    chain = make_chain(FIRST)
    chain.replace_steps([FIRST, SECOND, THIRD])
    return chain


@pytest.fixture
def start(worker, alice_api):
    def send(body, api=None):
        with worker.capture(execute=True):
            answer = (api or alice_api).post(RUNS, body)
        worker.work(limit=200)
        return answer

    return send


def refusal(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_a_draft_runs_what_is_not_published(start, chain, alice_api):
    tried = start({"input": {"n": 1}, "draft": True}).json()
    run = Run.objects.get(pk=tried["id"])
    assert (run.error, run.status, run.trigger, run.output) == (None, "succeeded", "draft", 112)
    assert str(run.chain_version) == "digest (draft)"
    start({"input": {"n": 1}})
    assert Run.objects.first().output == 2
    versions = alice_api.get("/api/v1/chains/digest/versions/").json()["results"]
    assert [one["version"] for one in versions] == [1]


def test_the_same_draft_is_stored_once_and_gets_a_number_when_it_is_published(start, chain, alice_api):
    start({"input": {"n": 1}, "draft": True})
    start({"input": {"n": 2}, "draft": True})
    assert ChainVersion.everything.filter(number=None).count() == 1
    assert alice_api.post("/api/v1/chains/digest/publish").json()["version"] == 2


def test_a_chain_that_was_never_published_can_be_tried(start, chain):
    Chain.objects.filter(pk=chain.pk).update(published=None)
    assert refusal(start({"input": {"n": 1}}))[1] == "not_published"
    start({"input": {"n": 1}, "draft": True})
    assert Run.objects.get().status == "succeeded"


def test_a_pinned_step_does_not_run_and_the_run_says_so(start, chain, alice_api):
    tried = start({"input": {"n": 1}, "draft": True, "pinned": {"second": {"value": 40}}}).json()
    rows = {row["key"]: row for row in alice_api.get(f"/api/v1/runs/{tried['id']}/steps/").json()["results"]}
    assert (rows["second"]["pinned"], rows["second"]["output"], rows["second"]["call"]) == (True, 40, None)
    assert (rows["first"]["pinned"], rows["third"]["output"]) == (False, 140)
    events = alice_api.get(f"/api/v1/runs/{tried['id']}/events").json()["results"]
    told = [one["data"] for one in events if one["type"] == "step.finished"]
    assert [(one["key"], one.get("pinned", False)) for one in told] == [
        ("second", True), ("first", False), ("third", False),
    ]  # fmt: skip


def test_one_step_alone_with_the_output_of_an_earlier_run(start, chain):
    earlier = start({"input": {"n": 5}, "draft": True}).json()["id"]
    pins = {"first": {"run": earlier}}
    start({"input": {"n": 0}, "draft": True, "until": "second", "pinned": pins})
    run = Run.objects.first()
    assert (run.status, run.output) == ("succeeded", 16)
    assert step_rows(run) == {"first": "succeeded", "second": "succeeded"}
    assert StepRun.objects.get(run=run, key="first").pinned


def test_a_broken_step_does_not_prevent_trying_another(start, chain):
    chain.replace_steps([FIRST, SECOND, THIRD | {"input": {"a": "steps.nowhere.output"}}])
    assert start({"input": {"n": 1}, "draft": True}).status_code == 422
    start({"input": {"n": 1}, "draft": True, "until": "second"})
    assert Run.objects.get().output == 12


def test_the_pin_of_a_run_with_text_of_strangers_marks_the_try(start, chain):
    earlier = start({"input": {"n": 5}, "draft": True}).json()["id"]
    Run.objects.filter(pk=earlier).update(has_untrusted=True)
    for pin in ({"run": earlier}, {"run": earlier, "value": 3}):
        start({"input": {"n": 0}, "draft": True, "pinned": {"first": pin}})
        assert Run.objects.first().has_untrusted
    start({"input": {"n": 0}, "draft": True, "pinned": {"first": {"value": 3}}})
    assert not Run.objects.first().has_untrusted


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"pinned": {"nobody": {"value": 1}}}, "unknown_step"),
        ({"pinned": {"third": {"value": 1}}, "until": "second"}, "unknown_step"),
        ({"until": "nobody"}, "unknown_step"),
        ({"pinned": {"first": {"run": str(uuid4())}}}, "unknown_run"),
    ],
)
def test_pins_of_unknown_steps_and_runs_are_refused(start, chain, body, code):
    assert refusal(start({"input": {"n": 1}, "draft": True, **body})) == (422, code)
    assert not Run.objects.exists() and not StepRun.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        {"draft": True, "version": 1}, {"draft": "yes"}, {"until": "first"}, {"pinned": {"first": {"value": 1}}},
        {"draft": True, "pinned": {"first": {}}}, {"draft": True, "pinned": {"first": 3}}, {"draft": True, "pinned": []},
        {"draft": True, "pinned": {"first": {"value": 1, "name": "x"}}}, {"draft": True, "pinned": {"first": {"run": "x"}}},
    ],
)  # fmt: skip
def test_wrong_fields_are_refused(start, chain, body):
    assert start({"input": {"n": 1}, **body}).status_code == 422
    assert not Run.objects.exists()


def test_a_step_that_did_not_succeed_cannot_be_pinned(start, chain):
    earlier = start({"input": {"n": "x"}, "draft": True}).json()["id"]
    assert refusal(start({"draft": True, "pinned": {"first": {"run": earlier}}})) == (422, "nothing_to_pin")


def test_a_team_mate_starts_what_is_live_but_not_the_draft(start, chain, team, bob_api):
    Chain.objects.filter(pk=chain.pk).update(team=team)
    assert start({"input": {"n": 1}, "draft": True}, bob_api).status_code == 403
    assert start({"input": {"n": 1}}, bob_api).status_code == 202


def test_a_stranger_finds_no_draft_and_no_run_to_pin(start, chain, make_chain, charlie, charlie_api, alice_api):
    assert start({"draft": True}, charlie_api).status_code == 404
    other = start({"input": {"n": 5}}).json()["id"]
    Run.objects.filter(pk=other).update(principal=charlie)
    assert refusal(start({"draft": True, "pinned": {"first": {"run": other}}})) == (422, "unknown_run")


def test_a_retry_of_a_try_keeps_what_was_pinned(start, chain, worker, alice_api):
    tried = start({"input": {"n": 1}, "draft": True, "pinned": {"first": {"value": 7}}}).json()["id"]
    with worker.capture(execute=True):
        again = alice_api.post(f"/api/v1/runs/{tried}/retry", {"step": "second"})
    worker.work(limit=200)
    assert again.status_code == 202
    run = Run.objects.first()
    assert (run.output, StepRun.objects.get(run=run, key="first").pinned) == (117, True)


def test_a_chain_with_tries_only_is_kept_until_they_are_pruned(start, chain, alice_api, settings):
    start({"input": {"n": 1}, "draft": True})
    assert refusal(alice_api.delete("/api/v1/chains/digest")) == (409, "in_use")
    Run.objects.all().delete()
    assert pruning.prune()["drafts"] == 0
    settings.KEEP_DAYS = {**settings.KEEP_DAYS, "runs": 0}
    assert pruning.prune()["drafts"] == 1
    assert alice_api.delete("/api/v1/chains/digest").status_code == 204
