"""Chains over HTTP, with strangers at the door."""

from xml.etree import ElementTree

import pytest

from agents.models import AuditEvent, Chain
from agents.tools import ToolFailed, ToolResult
from runs.chains import execution, steps
from runs.models import Approval, Run, StepRun

V1 = "/api/v1"
STEPS = [
    {"key": "look", "tool": "lookup", "input": {"title": "input.title"}},
    {"key": "tell", "tool": "say", "needs": ["look"], "input": {"what": "steps.look.output"}},
]
NEW = {"name": "look-and-tell", "description": "Looks and tells.", "steps": STEPS}


@pytest.fixture
def tools(make_tool, functions):
    make_tool("lookup", input_schema={"type": "object"})
    make_tool("say", input_schema={"type": "object"}, effect="sends_out")
    return functions


@pytest.fixture
def published(alice_api, tools):
    body = {**NEW, "grants": [{"tool": "lookup", "mode": "allow"}, {"tool": "say", "mode": "allow"}]}
    assert alice_api.post(f"{V1}/chains/", body).status_code == 201
    assert alice_api.post(f"{V1}/chains/look-and-tell/publish").status_code == 200
    return f"{V1}/chains/look-and-tell"


def test_a_chain_is_made_changed_published_and_rolled_back(alice_api, tools):
    made = alice_api.post(f"{V1}/chains/", NEW)
    assert made.status_code == 201, made.json()
    body = made.json()
    assert body["steps"][1] == STEPS[1]
    assert {grant["tool"]: grant["mode"] for grant in body["grants"]} == {"lookup": "allow", "say": "ask"}
    path = f"{V1}/chains/look-and-tell"
    first = alice_api.post(f"{path}/publish", {"note": "first"}).json()
    assert first["version"] == 1
    assert alice_api.post(f"{path}/publish").json() == first
    assert alice_api.patch(path, {"max_parallel": 2}, content_type="application/json").status_code == 200
    assert alice_api.post(f"{path}/publish").json()["version"] == 2
    assert [row["version"] for row in alice_api.get(f"{path}/versions/").json()["results"]] == [2, 1]
    changes = alice_api.get(f"{path}/diff?from=1&to=2").json()["changes"]
    assert changes == [{"path": "max_parallel", "from": 16, "to": 2}]
    assert alice_api.post(f"{path}/rollback", {"version": 1}).json()["version"] == 1
    assert alice_api.get(path).json()["published_version"] == 1
    assert alice_api.get(f"{path}/versions/1").json()["spec"]["steps"][0]["key"] == "look"
    assert AuditEvent.objects.filter(action="chain.published").count() == 3


def test_two_steps_of_one_key_are_refused_and_nothing_is_stored(alice_api, tools):
    answer = alice_api.post(f"{V1}/chains/", {**NEW, "steps": [{"key": "a", "tool": "say"}] * 2})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "duplicate_step")
    assert answer.json()["error"]["details"][0]["step"] == "a"
    assert alice_api.get(f"{V1}/chains/look-and-tell").status_code == 404


@pytest.mark.parametrize(
    ("steps", "step", "code"),
    [
        ([{"key": "a", "tool": "say", "needs": ["b"]}, {"key": "b", "tool": "say", "needs": ["a"]}], "b", "cycle"),
        ([{"key": "a", "tool": "nothing"}], "a", "unknown_target"),
        ([{"key": "a", "tool": "say", "needs": ["ghost"]}], "a", "unknown_step"),
        ([{"key": "a", "agent": "nobody"}], "a", "unknown_target"),
        ([{"key": "a", "chain": "look-and-tell"}], "a", "cycle"),
        ([], "", "no_steps"),
    ],
)
def test_publish_refuses_a_broken_graph_and_names_the_step(alice_api, tools, steps, step, code):
    assert alice_api.post(f"{V1}/chains/", {**NEW, "steps": steps}).status_code == 201
    answer = alice_api.post(f"{V1}/chains/look-and-tell/publish")
    assert answer.status_code == 422
    detail = answer.json()["error"]["details"][0]
    assert (detail["step"], detail["code"]) == (step, code)
    assert Chain.objects.get().published is None
    problems = alice_api.get(f"{V1}/chains/look-and-tell/graph").json()["problems"]
    assert problems[0]["code"] == code


@pytest.mark.parametrize(
    "steps",
    [
        "no list",
        [1],
        [{"tool": "say"}],
        [{"key": "a", "tool": "say", "color": "red"}],
        [{"key": "a", "tool": 5}],
        [{"key": "a", "tool": "say", "needs": "b"}],
        [{"key": "a", "tool": "say", "retry": {"attempts": 1000}}],
        [{"key": "a", "tool": "say", "on_error": "shrug"}],
        [{"key": "a", "tool": "say", "timeout_s": -1}],
        [{"key": "a", "tool": "say", "target_version": 10**30}],
        [{"key": "a" * 65, "tool": "say"}],
        [{"key": "a", "tool": "say", "when": "x" * 2001}],
    ],
)
def test_a_malformed_step_is_422_and_nothing_is_stored(alice_api, tools, steps):
    answer = alice_api.post(f"{V1}/chains/", {**NEW, "steps": steps})
    assert answer.status_code == 422, answer.content
    assert Chain.objects.count() == 0


def test_chains_that_nest_too_deep_are_refused(alice_api, make_chain, functions):
    make_chain({"key": "a", "tool": "one"}, name="c0")
    for depth in range(1, 5):
        alice_api.post(f"{V1}/chains/", {"name": f"c{depth}", "steps": [{"key": "a", "chain": f"c{depth - 1}"}]})
        answer = alice_api.post(f"{V1}/chains/c{depth}/publish")
        assert answer.status_code == (200 if depth < 4 else 422)
    assert answer.json()["error"]["details"][0]["code"] == "too_deep"


def start(api, worker, path, body=None, **headers):
    with worker.capture(execute=True):
        answer = api.post(f"{path}/runs", body or {}, headers=headers)
    worker.work(limit=500)
    return answer


def test_a_run_is_started_watched_and_drawn(alice_api, published, tools, worker):
    tools.answers += [ToolResult(ok=True, value="a book"), ToolResult(ok=True, value="said")]
    answer = start(alice_api, worker, published, {"input": {"title": "Emma"}})
    assert answer.status_code == 202
    assert (answer.json()["chain"], answer.json()["trigger"]) == ("look-and-tell", "manual")
    path = f"{V1}/runs/{answer.json()['id']}"
    run = alice_api.get(path).json()
    assert (run["status"], run["output"]) == ("succeeded", "said")
    steps = alice_api.get(f"{path}/steps/").json()["results"]
    assert [(row["key"], row["status"]) for row in steps] == [("look", "succeeded"), ("tell", "succeeded")]
    picture = alice_api.get(f"{path}/graph.svg")
    assert picture["Content-Type"] == "image/svg+xml"
    assert b'aria-label="look: tool lookup, succeeded' in picture.content
    ElementTree.fromstring(picture.content)
    assert alice_api.get(f"{published}/graph.svg").status_code == 200
    assert len(alice_api.get(f"{published}/graph").json()["edges"]) == 1
    assert len(alice_api.get(f"{published}/runs").json()["results"]) == 1


def test_the_same_idempotency_key_starts_one_run(alice_api, published, worker, tools):
    first = start(alice_api, worker, published, {"input": {"title": "Emma"}}, **{"Idempotency-Key": "k1"})
    again = start(alice_api, worker, published, {"input": {"title": "Emma"}}, **{"Idempotency-Key": "k1"})
    assert first.json()["id"] == again.json()["id"]
    other = start(alice_api, worker, published, {"input": {"title": "Ulysses"}}, **{"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_mismatch")
    body = {"input": {"title": "Emma"}, "metadata": {"for": "Bob"}}
    assert start(alice_api, worker, published, body, **{"Idempotency-Key": "k1"}).status_code == 409


def test_retry_goes_on_from_the_failed_step_with_an_edited_input(alice_api, published, tools, worker):
    tools.answers += [ToolResult(ok=True, value="a book"), ToolFailed("no voice", code="mute")]
    failed = start(alice_api, worker, published, {"input": {"title": "Emma"}}).json()["id"]
    assert alice_api.get(f"{V1}/runs/{failed}").json()["error"]["code"] == "mute"
    tools.answers += [ToolResult(ok=True, value="said")]
    with worker.capture(execute=True):
        again = alice_api.post(f"{V1}/runs/{failed}/retry", {"input": {"what": "louder"}})
    assert again.status_code == 202
    worker.work()
    run = alice_api.get(f"{V1}/runs/{again.json()['id']}").json()
    assert (run["status"], run["metadata"]["retry_of"]) == ("succeeded", failed)
    assert [asked[:2] for asked in tools.asked] == [
        ("lookup", {"title": "Emma"}), ("say", {"what": "a book"}), ("say", {"what": "louder"})
    ]  # fmt: skip
    assert alice_api.post(f"{V1}/runs/{again.json()['id']}/retry").status_code == 409


def test_retry_of_a_for_each_does_only_the_items_that_failed(alice_api, make_chain, run_chain, functions, worker):
    functions.answers += [ToolResult(ok=True, value=0), ToolFailed("no", code="no"), ToolResult(ok=True, value=2)]
    chain = make_chain(
        {"key": "each", "tool": "one", "for_each": "input.n", "input": {"n": "item"}, "on_error": "continue"},
        {"key": "need", "tool": "two", "needs": ["each"], "when": "length(steps.each.errors) == `0`"},
    )
    run = run_chain(chain, {"n": [10, 11, 12]})
    assert run.status == "partial"
    functions.answers += [ToolResult(ok=True, value=1), ToolResult(ok=True, value="joined")]
    with worker.capture(execute=True):
        again = alice_api.post(f"{V1}/runs/{run.pk}/retry", {"step": "each"}).json()["id"]
    worker.work()
    assert StepRun.objects.get(run=again, key="each", item=-1).output == [0, 1, 2]
    assert [asked[1] for asked in functions.asked[3:]] == [{"n": 11}, {}]
    assert Run.objects.get(pk=again).output == "joined"


def test_a_run_is_cancelled_in_the_middle(alice_api, make_chain, worker, functions):
    chain = make_chain({"key": "a", "tool": "one", "approval": True}, {"key": "b", "tool": "two", "needs": ["a"]})
    run = start(alice_api, worker, f"{V1}/chains/{chain.name}").json()["id"]
    assert alice_api.get(f"{V1}/runs/{run}").json()["waiting_for"] == "approval"
    with worker.capture(execute=True):
        assert alice_api.post(f"{V1}/runs/{run}/cancel").status_code == 200
    assert alice_api.get(f"{V1}/runs/{run}").json()["status"] == "cancelled"
    assert alice_api.get(f"{V1}/approvals/").json()["results"] == []
    assert functions.asked == []


@pytest.mark.parametrize(
    ("decision", "status", "asked"),
    [({"decision": "approve"}, "succeeded", [{"x": 1}]), ({"decision": "deny"}, "failed", []),
     ({"decision": "approve", "arguments": {"x": 2}}, "succeeded", [{"x": 2}])],
)  # fmt: skip
def test_a_person_is_asked_before_a_step(alice_api, make_chain, worker, functions, decision, status, asked):
    chain = make_chain({"key": "a", "tool": "one", "input": {"x": {"value": 1}}, "approval": True})
    run = start(alice_api, worker, f"{V1}/chains/{chain.name}").json()["id"]
    [approval] = alice_api.get(f"{V1}/approvals/").json()["results"]
    assert (approval["tool"], approval["arguments"]) == ("one", {"x": 1})
    with worker.capture(execute=True):
        assert alice_api.post(f"{V1}/approvals/{approval['id']}", decision).status_code == 200
    worker.work()
    assert Run.objects.get(pk=run).status == status
    assert [call[1] for call in functions.asked] == asked


def test_a_person_is_asked_before_each_round(alice_api, make_chain, worker, functions):
    functions.answers += [ToolResult(ok=True, value={"left": 2}), ToolResult(ok=True, value={"left": 1})]
    step = {
        "key": "a", "tool": "one", "approval": True, "input": {"round": "round"},
        "repeat_until": {"condition": "output.left == `0`", "limit": 5},
    }  # fmt: skip
    run = start(alice_api, worker, f"{V1}/chains/{make_chain(step).name}").json()["id"]
    for number, decision in enumerate(("approve", "approve", "deny")):
        [asked] = alice_api.get(f"{V1}/approvals/").json()["results"]
        assert (asked["arguments"], len(functions.asked)) == ({"round": number}, number)
        with worker.capture(execute=True):
            alice_api.post(f"{V1}/approvals/{asked['id']}", {"decision": decision})
        worker.work()
    ended = Run.objects.get(pk=run)
    assert (ended.status, ended.error["code"], len(functions.asked)) == ("failed", "approval_denied", 2)
    assert sorted(ended.approvals.values_list("status", flat=True)) == ["approved", "approved", "denied"]


def test_a_message_about_an_earlier_round_starts_no_round_that_nobody_was_asked_about(
    alice_api, make_chain, worker, functions
):
    chain = make_chain({"key": "a", "tool": "one", "approval": True})
    start(alice_api, worker, f"{V1}/chains/{chain.name}")
    row = StepRun.objects.get()
    Approval.objects.update(step=None)
    StepRun.objects.update(status="ready", repeat=1)
    execution.execute_step(str(row.pk))
    assert functions.asked == []
    assert not steps.claim_step(row, "running")  # as it was read before the round went on


def test_a_tool_that_asks_waits_for_its_person(alice_api, make_chain, worker, functions):
    chain = make_chain({"key": "a", "tool": "one"}, grants={"one": "ask"})
    run = start(alice_api, worker, f"{V1}/chains/{chain.name}").json()["id"]
    assert Run.objects.get(pk=run).waiting_for == "approval"
    [approval] = alice_api.get(f"{V1}/approvals/").json()["results"]
    with worker.capture(execute=True):
        alice_api.post(f"{V1}/approvals/{approval['id']}", {"decision": "approve"})
    worker.work()
    assert (Run.objects.get(pk=run).status, len(functions.asked)) == ("succeeded", 1)


def test_charlie_sees_nothing_of_it(charlie_api, published, alice_api, worker, tools):
    run = start(alice_api, worker, published).json()["id"]
    assert charlie_api.get(f"{V1}/chains/").json()["results"] == []
    for verb, path in [
        ("get", published), ("patch", published), ("delete", published), ("post", f"{published}/publish"),
        ("post", f"{published}/rollback"), ("get", f"{published}/versions/"), ("get", f"{published}/versions/1"),
        ("get", f"{published}/diff?from=1&to=1"), ("get", f"{published}/grants/"), ("put", f"{published}/grants/"),
        ("get", f"{published}/graph"), ("get", f"{published}/graph.svg"), ("get", f"{published}/runs"),
        ("post", f"{published}/runs"), ("get", f"{V1}/runs/{run}/steps/"), ("get", f"{V1}/runs/{run}/graph.svg"),
        ("post", f"{V1}/runs/{run}/retry"),
    ]:  # fmt: skip
        more = {"content_type": "application/json"} if verb in ("patch", "put") else {}
        assert getattr(charlie_api, verb)(path, **more).status_code == 404, (verb, path)


def test_bob_may_run_what_is_shared_with_his_team(bob, api, team, published, alice_api, worker, tools):
    alice_api.patch(published, {"team": "alice-and-bob"}, content_type="application/json")
    answer = start(api(bob, "*"), worker, published, {"input": {"title": "Emma"}})
    assert answer.status_code == 202
    run = Run.objects.get(pk=answer.json()["id"])
    assert run.principal == bob
    assert run.error["code"] == "denied"  # the tools are Alice's own: a shared chain does not share them
