"""A yes holds for what was approved (docs/security.md, "Text written by strangers", docs/howto/approvals.md): whatever is
published, changed, switched off or raised meanwhile, by links, retries and crashes too. tests/runs/calls/test_bindings.py
has the cases of each kind of tool.
"""

from urllib.parse import urlsplit

import pytest

from agents.models import Agent, Tool
from functions.models import Execution, StoredFunction
from runs.events import links
from runs.models import Approval, Run, ToolCallRecord
from tests.fakes import calls, says
from tests.functions import library

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
JSON = {"content_type": "application/json"}
GRAVER = "def add(a: int, b: int = 2) -> int:\n    return a * 1000 + b\n"


def publish_graver(api):
    """As the owner of the function does, through the front door."""
    changed = api.patch(f"{V1}/functions/add", {"source": GRAVER, "effect": "destructive"}, **JSON)
    assert changed.status_code == 200, changed.content
    assert api.post(f"{V1}/functions/add/publish", {}).status_code == 200
    assert StoredFunction.objects.get(name="add").published.number == 2


@pytest.fixture
def asked(alice, bob, team, worker, make_agent, stub_provider, stub):
    """Bob's agent calls Alice's function, and Bob is asked."""
    library.publish(alice, team=team)
    stub_provider.owner = bob
    stub_provider.save()
    agent = make_agent(tools=[Tool.objects.get(name="add")], provider=stub_provider)
    Agent.objects.update(owner=bob)
    agent.grants.update(mode="ask")
    agent.refresh_from_db()
    stub.script(calls(("add", {"a": 1, "b": 2})), says("done"), calls(("add", {"a": 1, "b": 2})), says("done"))
    return worker.send_message(bob, "add", agent)


def by_api(approval, bob, bob_api, browser):
    return bob_api.post(f"{V1}/approvals/{approval.pk}", {"decision": "approve"})


def by_page(approval, bob, bob_api, browser):
    return browser.post(f"/approvals/{approval.pk}/decide", {"decision": "approve"})


def by_pages_list(approval, bob, bob_api, browser):
    return browser.post("/approvals/decide", {"decision": "approve", "chosen": [str(approval.pk)]})


def by_responses(approval, bob, bob_api, browser):
    answer = {"type": "mcp_approval_response", "approval_request_id": str(approval.pk), "approve": True}
    body = {"model": "helper", "input": [answer], "background": True,
            "previous_response_id": f"resp_{approval.run_id.hex}"}  # fmt: skip
    return bob_api.post("/v1/responses", body)


def by_langgraph(approval, bob, bob_api, browser):
    body = {"assistant_id": "helper", "command": {"resume": {"decisions": [{"type": "approve"}]}}}
    return bob_api.post(f"/langgraph/threads/{approval.run.session_id}/runs", body)


def by_link(approval, bob, bob_api, browser):
    return browser.post(urlsplit(links.sign_approval_link(approval.pk, bob.pk)).path, {"decision": "approve"})


DOORS = [by_api, by_page, by_pages_list, by_responses, by_langgraph, by_link]


def approve(door, worker, bob, bob_api, signed_in):
    approval = Approval.objects.get(status="open")
    with worker.capture(execute=True):
        answer = door(approval, bob, bob_api, signed_in(bob))
    assert answer.status_code < 400, answer.content
    worker.work()
    approval.refresh_from_db()
    assert approval.status == "approved"


@pytest.mark.parametrize("door", DOORS)
def test_the_approved_version_runs_whichever_door_said_yes(alice_api, bob, bob_api, worker, signed_in, asked, door):
    publish_graver(alice_api)
    approve(door, worker, bob, bob_api, signed_in)
    call = ToolCallRecord.objects.get()
    assert (call.result, call.effect, Execution.objects.get().version_number) == (3, "read", 1)


def test_a_second_yes_decides_nothing_else(alice_api, bob, bob_api, worker, signed_in, asked):
    """The same link, opened again, is not a yes for the next question."""
    link = urlsplit(links.sign_approval_link(Approval.objects.get().pk, bob.pk)).path
    approve(by_link, worker, bob, bob_api, signed_in)
    publish_graver(alice_api)
    with worker.capture(execute=True):
        again = bob_api.post(f"{V1}/runs/{asked.pk}/retry", {}, headers={"Prefer": "respond-async"})
    assert again.status_code == 202, again.content
    worker.work()
    signed_in(bob).post(link, {"decision": "approve"})
    worker.work()
    question = Approval.objects.get(status="open")
    assert (question.effect, question.definition["version"]["number"]) == ("destructive", 2)
    assert Execution.objects.count() == 1 and Run.objects.exclude(pk=asked.pk).get().status == "waiting"


def unshared(api, team):
    return api.patch(f"{V1}/functions/add", {"team": None}, **JSON).status_code == 200


def switched_off(api, team):
    Tool.objects.filter(name="add").update(enabled=False)
    return True


def deleted(api, team):
    """Refused while it is used, or gone with its tool."""
    api.patch(f"{V1}/functions/add", {"team": None}, **JSON)
    return api.delete(f"{V1}/functions/add").status_code == 204


@pytest.mark.parametrize("change", [unshared, switched_off, deleted])
def test_what_may_not_be_called_any_more_is_not_called_by_an_earlier_yes(
    alice_api, bob, bob_api, team, worker, signed_in, asked, change
):
    assert change(alice_api, team)
    approve(by_api, worker, bob, bob_api, signed_in)
    assert not Execution.objects.exists()
    run = Run.objects.get(pk=asked.pk)
    assert ToolCallRecord.objects.get().outcome == "denied" and run.status == "succeeded"


def test_an_agent_that_is_published_meanwhile_keeps_the_version_that_asked(
    bob, bob_api, worker, signed_in, stub, asked
):
    changed = bob_api.patch(f"{V1}/agents/helper", {"system_prompt": "Send everything to me."}, **JSON)
    assert changed.status_code == 200 and bob_api.post(f"{V1}/agents/helper/publish", {}).status_code == 200
    approve(by_api, worker, bob, bob_api, signed_in)
    run = Run.objects.get(pk=asked.pk)
    assert (run.status, run.version.number) == ("succeeded", 1)
    assert all("Send everything" not in str(request) for request in stub.requests)
