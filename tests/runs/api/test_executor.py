"""What a program can do with nothing but the claim of one run: its tools, its files, its conversation."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from rest_framework.test import APIClient

from agents import membership, roles
from agents.models import Agent, ApiKey, BrowserSession, Membership, Tool, ToolGrant
from agents.tools import CallPending, ToolFailed, ToolResult
from runs.models import Approval, Run, RunEvent, ToolCallRecord
from runs.queue import endings
from runs.worker import recovery
from tests.fakes import says

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
SUM = {"id": "one", "tool": "add", "arguments": {"a": 1, "b": 2}}


def prepare(client, **more):
    answer = client.post(f"{V1}/runs/", {"agent": "tidier", "message": "Tidy up", **more})
    assert answer.status_code == 201, answer.content
    return answer.json()["id"]


def claim(client, run, **more):
    answer = client.post(f"{V1}/runs/{run}/claim", {"executor": "terminal", **more})
    assert answer.status_code == 200, answer.content
    return answer.json()["claim"]


class Program(APIClient):
    default_format = "json"


def program(token):
    """An outside program that knows nothing but a claim."""
    client = Program()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


@pytest.fixture
def tidier(make_agent, make_tool):
    return make_agent("tidier", tools=[make_tool("add"), make_tool("say", input_schema={"type": "object"})])


@pytest.fixture
def run(worker, tidier, alice_api):
    return prepare(alice_api)


@pytest.fixture
def mine(alice_api, run):
    return program(claim(alice_api, run))


def test_it_reads_its_run_and_the_tools_that_the_policy_allows(mine, run, tidier):
    work = mine.get(f"{V1}/executor/").json()
    assert (work["run"]["id"], work["cancel_requested"]) == (run, False)
    assert work["messages"][-1] == {"role": "user", "content": "Tidy up"}
    ToolGrant.objects.filter(tool__name="say").update(mode="ask")
    offered = mine.get(f"{V1}/executor/tools/").json()["results"]
    assert [(tool["name"], tool["mode"]) for tool in offered] == [("add", "allow"), ("say", "ask")]
    assert offered[0]["input_schema"]["properties"].keys() == {"a", "b"}
    ToolGrant.objects.filter(tool__name="add").update(mode="deny")
    assert [tool["name"] for tool in mine.get(f"{V1}/executor/tools/").json()["results"]] == ["say"]


def test_a_call_is_recorded_made_once_and_shown(mine, run, functions):
    functions.answers += [ToolResult(ok=True, value=3)]
    first, again = (mine.post(f"{V1}/executor/calls/", SUM) for _ in range(2))
    assert (first.status_code, first.json()["outcome"], first.json()["result"]) == (200, "ok", 3)
    assert again.json()["id"] == first.json()["id"] and len(functions.asked) == 1
    other = mine.post(f"{V1}/executor/calls/", {**SUM, "arguments": {"a": 9, "b": 9}})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_mismatch")
    assert [row["id"] for row in mine.get(f"{V1}/executor/calls/").json()["results"]] == [first.json()["id"]]
    types = list(RunEvent.objects.filter(run=run).values_list("type", flat=True))
    assert types == ["run.queued", "run.started", "tool.called", "tool.finished"]


@pytest.mark.parametrize(
    ("body", "outcome", "code"),
    [
        ({"tool": "add", "arguments": {"a": "x"}}, "failed", "invalid_arguments"),
        ({"tool": "rm", "arguments": {}}, "denied", "denied"),
    ],
)
def test_what_the_policy_or_the_schema_refuses_is_recorded_and_not_made(mine, functions, body, outcome, code):
    answer = mine.post(f"{V1}/executor/calls/", {"id": "x", **body})
    assert (answer.status_code, answer.json()["outcome"], answer.json()["error"]["code"]) == (200, outcome, code)
    assert functions.asked == []


def test_the_run_s_own_policy_narrows_the_tools(worker, tidier, alice_api, functions):
    mine = program(claim(alice_api, prepare(alice_api, tool_policy={"blocked": ["add"]})))
    assert [tool["name"] for tool in mine.get(f"{V1}/executor/tools/").json()["results"]] == ["say"]
    assert mine.post(f"{V1}/executor/calls/", SUM).json()["outcome"] == "denied"
    assert functions.asked == []


def test_a_failing_tool_says_why(mine, functions):
    functions.answers += [ToolFailed("the disk is full", code="disk_full")]
    answer = mine.post(f"{V1}/executor/calls/", SUM).json()
    assert (answer["outcome"], answer["error"]["code"]) == ("failed", "disk_full")


@pytest.mark.parametrize(("decision", "outcome", "asked"), [("approve", "ok", 1), ("deny", "denied", 0)])
def test_a_call_that_needs_approval_waits_for_a_person(mine, alice_api, functions, decision, outcome, asked):
    ToolGrant.objects.update(mode="ask")
    answer = mine.post(f"{V1}/executor/calls/", SUM)
    assert (answer.status_code, answer.json()["waiting_for"]) == (202, "approval")
    path = f"{V1}/executor/calls/{answer.json()['id']}"
    assert mine.get(path).status_code == 202 and functions.asked == []
    [approval] = alice_api.get(f"{V1}/approvals/").json()["results"]
    assert alice_api.post(f"{V1}/approvals/{approval['id']}", {"decision": decision}).status_code == 200
    done = mine.get(path)
    assert (done.status_code, done.json()["outcome"]) == (200, outcome)
    assert mine.get(path).json()["outcome"] == outcome and len(functions.asked) == asked


def test_a_call_that_waits_is_continued_when_its_answer_has_come(mine, functions):
    soon = timezone.now() + timedelta(hours=1)
    functions.answers += [CallPending("timer", until=soon), ToolResult(ok=True, value="late")]
    answer = mine.post(f"{V1}/executor/calls/", SUM)
    path = f"{V1}/executor/calls/{answer.json()['id']}"
    assert (answer.status_code, mine.get(path).status_code, len(functions.asked)) == (202, 202, 1)
    record = ToolCallRecord.objects.get()
    record.details = {**record.details, "until": (timezone.now() - timedelta(seconds=1)).isoformat()}
    record.save()
    assert mine.get(path).json()["result"] == "late"
    assert functions.asked[0][2] == functions.asked[1][2], "under its old id"


def test_a_call_in_progress_elsewhere_is_not_made_twice_and_one_left_behind_is_unknown(mine, run, functions):
    ToolGrant.objects.update(mode="ask")
    id = mine.post(f"{V1}/executor/calls/", SUM).json()["id"]
    Approval.objects.update(status="approved")
    now = timezone.now()
    rows = ToolCallRecord.objects.filter(pk=id)
    rows.update(waiting_for="", attempt=1, started_at=now, effect="write")  # another request makes it now
    assert mine.get(f"{V1}/executor/calls/{id}").status_code == 202
    rows.update(started_at=now - timedelta(hours=1))  # the process that made it died
    Tool.objects.update(effect="write")
    left = mine.get(f"{V1}/executor/calls/{id}").json()
    assert (left["outcome"], functions.asked) == ("unknown", [])


def test_a_new_executor_sees_the_calls_of_the_earlier_one(mine, run, alice_api, functions):
    functions.answers += [ToolResult(ok=True, value=3)]
    mine.post(f"{V1}/executor/calls/", SUM)
    Run.objects.filter(pk=run).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert mine.get(f"{V1}/executor/").status_code == 401, "it was silent too long"
    recovery.tick_recovery(timezone.now())
    second = program(claim(alice_api, run))
    assert second.get(f"{V1}/executor/calls/").json()["results"][0]["result"] == 3
    assert second.post(f"{V1}/executor/calls/", SUM).json()["result"] == 3 and len(functions.asked) == 1
    assert mine.post(f"{V1}/executor/calls/", {**SUM, "id": "two"}).status_code == 401


def test_progress_cancellation_and_the_end(mine, run, alice, alice_api):
    beat = mine.post(f"{V1}/executor/heartbeat", {"note": "half", "fraction": 0.5, "lease": 120}).json()
    assert beat["cancel_requested"] is False
    event = RunEvent.objects.get(run=run, type="run.progress")
    assert event.data == {"message": "half", "fraction": 0.5}
    endings.cancel_run(Run.objects.get(pk=run), by=alice, reason="enough")
    assert mine.post(f"{V1}/executor/heartbeat", {}).json()["cancel_requested"] is True
    assert mine.get(f"{V1}/executor/").json()["cancel_requested"] is True
    assert mine.post(f"{V1}/executor/finish", {"status": "cancelled"}).json()["status"] == "cancelled"
    for answer in (mine.get(f"{V1}/executor/"), mine.post(f"{V1}/executor/calls/", SUM)):
        assert answer.status_code == 401


def test_a_cancelled_run_calls_nothing_more(mine, run, alice, functions):
    endings.cancel_run(Run.objects.get(pk=run), by=alice, reason="enough")
    answer = mine.post(f"{V1}/executor/calls/", SUM)
    assert answer.json()["outcome"] != "ok" and functions.asked == []


def test_the_end_closes_what_is_open_and_remembers_the_calls(mine, run, functions, alice_api):
    functions.answers += [ToolResult(ok=True, value=3)]
    mine.post(f"{V1}/executor/calls/", SUM)
    ToolGrant.objects.update(mode="ask")
    mine.post(f"{V1}/executor/calls/", {**SUM, "id": "two"})
    done = mine.post(f"{V1}/executor/finish", {"status": "succeeded", "reply": "It is 3."})
    assert done.json()["status"] == "succeeded", done.content
    assert [row.outcome for row in ToolCallRecord.objects.order_by("id")] == ["ok", "denied"]
    assert Approval.objects.get().status == "void"
    assert Run.objects.get(pk=run).messages.last().tool_calls[0]["name"] == "add"


def test_files_belong_to_the_person_and_are_listed_on_the_run(mine, run, alice_api):
    made = mine.post(f"{V1}/executor/artifacts/", {"name": "report.txt", "text": "Tidy."})
    assert made.status_code == 201, made.content
    assert made.json()["untrusted"] is True
    assert mine.get(f"{V1}/executor/artifacts/").json()["results"][0]["name"] == "report.txt"
    [listed] = alice_api.get(f"{V1}/runs/{run}/artifacts/").json()["results"]
    content = alice_api.get(f"{V1}/files/{listed['file']}/content")
    assert content.content == b"Tidy."
    assert mine.post(f"{V1}/executor/artifacts/", {"name": "x"}).status_code == 422


def test_it_continues_a_session_of_the_person(worker, tidier, alice, alice_api, stub, stub_provider):
    type(tidier).objects.update(provider=stub_provider)
    tidier.refresh_from_db()
    tidier.publish(author=alice)
    stub.script(says("Hello Alice."))
    first = worker.send_message(alice, "My name is Alice", tidier)
    mine = program(claim(alice_api, prepare(alice_api, session=str(first.session_id))))
    said = [message["content"] for message in mine.get(f"{V1}/executor/").json()["messages"]]
    assert said[1:] == ["My name is Alice", "Hello Alice.", "Tidy up"]
    mine.post(f"{V1}/executor/finish", {"status": "succeeded", "reply": "Tidied."})
    assert first.session.messages.last().text == "Tidied."


# -- what it cannot do ---------------------------------------------------------------------------

GETS = ["", "tools/", "calls/", "artifacts/"]
POSTS = [("calls/", SUM), ("heartbeat", {}), ("finish", {"status": "succeeded"}),
         ("artifacts/", {"name": "x", "text": "y"})]  # fmt: skip


@pytest.mark.parametrize("who", ["alice_api", "bob_api", "charlie_api", "nobody", "wrong"])
def test_only_the_claim_opens_it(request, mine, run, functions, who):
    """Neither the person's own key, nor a team-mate's, nor a stranger's."""
    wrong = program(f"mc_{run.replace('-', '')}.0.guessed")
    client = {"nobody": Program(), "wrong": wrong}.get(who) or request.getfixturevalue(who)
    answers = [client.get(f"{V1}/executor/{path}") for path in GETS]
    answers += [client.post(f"{V1}/executor/{path}", body) for path, body in POSTS]
    assert {answer.status_code for answer in answers} == {401}
    assert Run.objects.get(pk=run).status == "running" and functions.asked == []


def test_a_claim_opens_nothing_else(mine, run):
    for path in ("runs/", f"runs/{run}", "agents/", "files/", "sessions/", "secrets/", "keys/"):
        assert mine.get(f"{V1}/{path}").status_code == 401, path
    assert mine.post(f"{V1}/agents/tidier/messages", {"message": "hi"}).status_code == 401


@pytest.mark.parametrize("who", ["bob_api", "charlie_api"])
def test_nobody_else_claims_the_run(request, run, who):
    client = request.getfixturevalue(who)
    assert client.post(f"{V1}/runs/{run}/claim", {"executor": "x"}).status_code == 404


def test_one_claim_does_not_reach_the_run_of_another(worker, tidier, alice_api, functions):
    first, second = (program(claim(alice_api, prepare(alice_api))) for _ in range(2))
    id = first.post(f"{V1}/executor/calls/", SUM).json()["id"]
    assert second.get(f"{V1}/executor/calls/{id}").status_code == 404
    assert second.get(f"{V1}/executor/calls/").json()["results"] == []


def test_a_person_who_was_switched_off_takes_the_claim_along(mine, alice):
    alice.is_active = False
    alice.save()
    assert mine.get(f"{V1}/executor/").status_code == 401


def test_a_key_that_is_revoked_takes_the_claims_along_that_were_made_with_it(mine, alice, alice_api, run):
    other = program(claim(alice_api, prepare(alice_api)))
    assert other.get(f"{V1}/executor/").status_code == 200
    ApiKey.objects.get(user=alice).revoke()
    assert mine.get(f"{V1}/executor/").status_code == other.get(f"{V1}/executor/").status_code == 401


def log_out(browser, alice):
    browser.logout()


def sign_out_elsewhere(browser, alice):
    BrowserSession.objects.filter(user_id=alice.pk).delete()


def change_password(browser, alice):
    alice.set_password("another correct horse")
    alice.save()


@pytest.mark.parametrize("deed", [log_out, sign_out_elsewhere, change_password])
def test_a_login_that_ends_takes_the_claims_along_that_were_made_with_it(alice, signed_in, alice_api, run, deed):
    browser, other = signed_in(alice), signed_in(alice)
    body = {"executor": "terminal"}
    token = browser.post(f"{V1}/runs/{run}/claim", body, content_type="application/json").json()["claim"]
    mine = program(token)
    assert mine.get(f"{V1}/executor/").status_code == 200
    assert browser.session.session_key not in token
    if deed is log_out:
        other.logout()
        assert mine.get(f"{V1}/executor/").status_code == 200, "another browser does not matter"
    deed(browser, alice)
    assert mine.get(f"{V1}/executor/").status_code == 401


@pytest.mark.parametrize(
    ("verb", "path", "body"),
    [("get", "", None), ("get", "tools/", None), *(("post", path, body) for path, body in POSTS)],
)
def test_a_person_who_left_the_team_does_no_more_with_its_agents(
    worker, tidier, team, bob, bob_api, functions, verb, path, body
):
    Agent.objects.update(team=team)
    Tool.objects.update(owner=None)
    queued, claimed = prepare(bob_api), prepare(bob_api)
    mine = program(claim(bob_api, claimed))
    membership.end_membership(Membership.objects.get(user=bob))
    refused = bob_api.post(f"{V1}/runs/{queued}/claim", {"executor": "terminal"})
    assert (refused.status_code, "messages" in refused.json()) == (409, False)
    assert getattr(mine, verb)(f"{V1}/executor/{path}", body).status_code == 401
    assert {run.error["code"] for run in Run.objects.all()} == {"not_shared"} and functions.asked == []


def test_a_heartbeat_of_a_person_who_left_the_team_ends_the_run(worker, tidier, team, bob, bob_api):
    Agent.objects.update(team=team)
    run = prepare(bob_api)
    token = claim(bob_api, run)
    membership.end_membership(Membership.objects.get(user=bob))
    assert bob_api.post(f"{V1}/runs/{run}/heartbeat", {"claim": token}).status_code == 409
    assert Run.objects.get(pk=run).error["code"] == "not_shared"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("calls/", {**SUM, "x": 1}),
        ("heartbeat", {"claim": "mine"}),
        ("finish", {"status": "succeeded", "claim": "mine"}),
    ],
)
def test_unknown_fields_are_refused(mine, run, path, body):
    assert mine.post(f"{V1}/executor/{path}", body).status_code == 422
    assert Run.objects.get(pk=run).status == "running" and not ToolCallRecord.objects.exists()


def test_the_person_s_role_on_the_site_limits_the_claim(mine, run, alice, functions):
    roles.make_roles()
    alice.groups.set([Group.objects.get(name="viewer")])
    answers = [mine.post(f"{V1}/executor/{path}", body) for path, body in POSTS]
    assert {answer.json()["error"]["code"] for answer in answers} == {"role_forbids"}
    assert functions.asked == [] and Run.objects.get(pk=run).status == "running"


def test_invented_parameters_are_refused(mine):
    answers = [mine.get(f"{V1}/executor/{path}?zzz=1") for path in GETS]
    answers += [mine.post(f"{V1}/executor/{path}?zzz=1", body) for path, body in POSTS]
    assert {answer.json()["error"]["details"][0]["code"] for answer in answers} == {"unknown_parameter"}
    paged = {path: mine.get(f"{V1}/executor/{path}?limit=1").status_code for path in GETS}
    assert paged == {"": 422, "tools/": 422, "calls/": 200, "artifacts/": 200}


def test_a_claim_that_holds_nothing_is_told_apart_from_a_wrong_key(client):
    for path in ("executor/", "executor/tools/"):
        answer = client.get(f"/api/v1/{path}", headers={"Authorization": "Bearer mc_nothing"})
        assert answer.status_code == 401 and answer.json()["error"]["code"] == "not_authenticated"
        assert answer.json()["error"]["hint"] == "Stop the work, and claim a run with an API key."


def test_a_claim_is_not_answered_with_what_was_kept_for_another_run(alice_api, mine, run):
    """The paths of the executor name no run, and all runs of a person share one person."""
    key, done = {"Idempotency-Key": "finish"}, {"status": "succeeded", "reply": "Done"}
    other = prepare(alice_api)
    its_program = program(claim(alice_api, other))
    assert mine.post(f"{V1}/executor/finish", done, headers=key).json()["id"] == run
    answer = its_program.post(f"{V1}/executor/finish", done, headers=key)
    assert (answer.status_code, answer.json()["id"]) == (200, other)
    assert Run.objects.get(pk=other).status == "succeeded"


def test_a_claim_does_not_learn_which_keys_its_person_has_used(alice_api, mine):
    key = {"Idempotency-Key": "monday"}
    assert alice_api.post(f"{V1}/prompts/", {"name": "hello", "text": "Hello"}, headers=key).status_code == 201
    first, again = (mine.post(f"{V1}/executor/heartbeat", {"note": "half"}, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert "Idempotent-Replayed" not in first and again["Idempotent-Replayed"] == "true"
