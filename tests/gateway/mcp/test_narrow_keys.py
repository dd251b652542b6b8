"""What a key of the same person can do with runs over MCP that it could not have started."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import ApiKey
from connectors.mcp.messages import LEGACY
from gateway.mcp import calls, sessions
from gateway.mcp.protocol import ORIGIN, Fault, RpcRequest
from runs.intake import messages as intake
from runs.models import InputRequest, Run, ToolCallRecord
from tests.gateway.mcp.test_protocol import initialize, legacy

pytestmark = pytest.mark.django_db


@pytest.fixture
def narrow(api, alice):
    return api(alice, "memory:read")


@pytest.fixture
def session(alice_api):
    return initialize(alice_api)["Mcp-Session-Id"]


def key_of(client):
    return ApiKey.objects.get(prefix=client.secret.partition(".")[0])


def begun(client, agent, session=""):
    agent.publish()
    digest = sessions.load_mcp_session(client.user, session).digest if session else ""
    about = {"tool": agent.name, "client": "t", "session": digest, "request": "1"}
    run = intake.accept_message(
        user=client.user, agent=agent.name, text="hello", key=key_of(client), metadata={ORIGIN: about}
    ).run
    return Run.objects.get(pk=run.pk)


def cancel(client, **headers):
    return legacy(client, "notifications/cancelled", {"requestId": 1}, None, **headers)


def tasks_of(client):
    return legacy(client, "tasks/list", **{"MCP-Protocol-Version": LEGACY}).json()["result"]["tasks"]


def test_it_lists_no_task(alice_api, narrow, agent):
    run = begun(alice_api, agent)
    assert [one["taskId"] for one in tasks_of(alice_api)] == [run.pk.hex]
    assert tasks_of(narrow) == []


@pytest.mark.parametrize("scope", ["messages:write", "runs:write"])
def test_it_lists_tasks_of_what_it_may_call(api, alice, alice_api, agent, scope):
    begun(alice_api, agent)
    assert bool(tasks_of(api(alice, scope))) is (scope == "messages:write")


@pytest.mark.parametrize("is_in_session", [False, True])
def test_it_cancels_nothing(alice_api, narrow, agent, session, is_in_session):
    headers = {"Mcp-Session-Id": session} if is_in_session else {}
    run = begun(alice_api, agent, session if is_in_session else "")
    assert cancel(narrow, **headers).status_code == 202
    run.refresh_from_db()
    assert run.status == "queued"
    cancel(alice_api, **headers)
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_a_client_without_a_session_cancels_no_request_of_another_one(alice, alice_api, api, agent):
    """Both count their requests from 1."""
    run = begun(alice_api, agent)
    cancel(api(alice))
    run.refresh_from_db()
    assert run.status == "queued"


def test_it_answers_no_question(alice_api, narrow, agent):
    run, until = begun(alice_api, agent), timezone.now() + timedelta(hours=1)
    call = ToolCallRecord.objects.create(run=run, turn=1, name="ask_user")
    asked = InputRequest.objects.create(
        run=run, call=call, name="ask_user", kind="form", prompt="Why?", expires_at=until
    )
    answer = {"jsonrpc": "2.0", "id": str(asked.pk), "result": {"action": "decline"}}
    for client, status in ((narrow, "open"), (alice_api, "declined")):
        assert client.post("/mcp", answer).status_code == 202
        asked.refresh_from_db()
        assert asked.status == status


def test_it_does_not_resume_a_stream(alice, alice_api, narrow, agent):
    run = begun(alice_api, agent)
    facts = {"r": run.pk.hex, "s": 0, "i": 1, "p": None, "m": "tools/call"}
    wide, small = (RpcRequest(alice, key_of(one), "", {}, None, LEGACY) for one in (alice_api, narrow))
    event = sessions.seal_client_facts(wide, sessions.EVENT, facts)
    assert calls.resume_call_stream(wide, event).turn.run == run
    with pytest.raises(Fault, match="no such event"):
        calls.resume_call_stream(small, event)
