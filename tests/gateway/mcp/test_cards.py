"""The approval card of the MCP server: who may decide with it, and what a model cannot do."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import ApiKey, AuditEvent
from connectors.mcp.messages import MODERN
from gateway.mcp import calls, cards
from gateway.mcp.catalogue import build_run_target
from gateway.mcp.protocol import APPS, MIME, ORIGIN, RpcRequest
from runs.intake import messages as intake
from runs.models import Approval
from tests.functions.library import ADD, publish
from tests.gateway.mcp.test_protocol import META, PREFIX, error, initialize, legacy, modern

ABLE = {"extensions": {APPS: {"mimeTypes": [MIME]}}, "elicitation": {}}
SHOWING = {**META, f"{PREFIX}/clientCapabilities": ABLE}
SCOPES = ["*", "approvals:decide"]


@pytest.fixture
def decider(alice, api):
    return api(alice, *SCOPES)


@pytest.fixture
def run(alice, agent):
    agent.publish()
    more = {"metadata": {ORIGIN: {"tool": "librarian"}}}
    return intake.accept_message(user=alice, agent="librarian", text="hello", **more).run


def ask(run, tool="send_mail", **more):
    until = timezone.now() + timedelta(hours=1)
    return Approval.objects.create(run=run, tool=tool, arguments={"to": "bob@example.org"}, expires_at=until, **more)


def card_of(run, scopes=SCOPES):
    """What the card of a call with this key has, by approval."""
    key = ApiKey.objects.filter(user=run.principal, scopes=scopes).latest("pk")
    asked = RpcRequest(run.principal, key, "tools/call", {}, 1, MODERN, ABLE)
    meta = cards.find_waiting_card(asked, build_run_target(run), run)["_meta"][cards.META]
    return {one["id"]: one for one in meta["open"]}


def decide(client, approval, token, decision="approve", *, meta=SHOWING, **more):
    given = {"approval": approval.pk.hex, "token": token, "decision": decision, **more}
    return modern(client, "tools/call", {"name": cards.TOOL, "arguments": given}, meta=meta)


def refusal(answer):
    """The words with which a decision was refused."""
    result = answer.json()["result"]
    assert result["isError"] is True
    return result["content"][0]["text"]


def is_open(approval):
    approval.refresh_from_db()
    return approval.status == Approval.Status.OPEN


# -- deciding ---------------------------------------------------------------------------------------------------------


def test_the_card_decides_once(decider, run):
    approval = ask(run)
    token = card_of(run)[approval.pk.hex]["token"]
    assert decide(decider, approval, token, note="Go on").status_code == 200
    approval.refresh_from_db()
    assert (approval.status, approval.note) == (Approval.Status.APPROVED, "Go on")
    assert AuditEvent.objects.get(action="approval.approve").source == "mcp card"
    assert "already approved" in refusal(decide(decider, approval, token, "deny"))
    approval.refresh_from_db()
    assert approval.status == Approval.Status.APPROVED


@pytest.mark.parametrize("token", [None, "", "x", 7, {"a": 1}, "eyJhIjoxfQ:1abc:def"])
def test_a_model_cannot_decide_without_the_token(decider, run, token):
    approval = ask(run)
    assert "cannot decide" in refusal(decide(decider, approval, token))
    assert is_open(approval)


def test_a_token_is_for_one_approval(decider, run):
    first, second = ask(run), ask(run, tool="delete_file")
    token = card_of(run)[first.pk.hex]["token"]
    assert "cannot decide" in refusal(decide(decider, second, token))
    assert is_open(first) and is_open(second)


def test_a_changed_token_is_refused(decider, run):
    approval = ask(run)
    token = card_of(run)[approval.pk.hex]["token"]
    body, signature = token.rsplit(":", 1)
    assert "cannot decide" in refusal(decide(decider, approval, f"{body}:{signature[::-1]}"))
    assert is_open(approval)


def test_a_token_of_another_purpose_is_refused(decider, run):
    approval = ask(run)
    session = initialize(decider)["Mcp-Session-Id"]
    assert "cannot decide" in refusal(decide(decider, approval, session))
    assert is_open(approval)


def test_another_person_and_another_key_cannot_use_a_token(alice, bob, charlie, team, api, decider, run):
    approval = ask(run)
    token = card_of(run)[approval.pk.hex]["token"]
    for client in (api(person, *SCOPES) for person in (bob, charlie, alice)):
        assert "cannot decide" in refusal(decide(client, approval, token))
    assert is_open(approval)


def test_a_token_expires(decider, run, time_machine):
    approval = ask(run)
    token = card_of(run)[approval.pk.hex]["token"]
    time_machine.move_to(timezone.now() + timedelta(seconds=cards.LIFETIME_S + 1))
    assert "/approvals/" in refusal(decide(decider, approval, token))
    assert is_open(approval)


def test_a_key_without_the_scope_is_sent_to_muster(alice, api, run):
    approval, client = ask(run), api(alice, "*")
    shown = card_of(run, ["*"])[approval.pk.hex]
    assert shown["may_decide"] is False
    words = refusal(decide(client, approval, shown["token"]))
    assert "approvals:decide" in words and "/approvals/" in words
    assert is_open(approval)


def test_the_scope_counts_when_it_is_decided(alice, decider, run):
    approval = ask(run)
    token = card_of(run)[approval.pk.hex]["token"]
    ApiKey.objects.filter(user=alice, scopes=SCOPES).update(scopes=["*"])
    assert "approvals:decide" in refusal(decide(decider, approval, token))
    assert is_open(approval)


def test_what_another_team_member_decides_is_not_decided_here(alice, team, decider, run):
    approval = ask(run, decides="team", decider_team=team, not_starter=True)
    shown = card_of(run)[approval.pk.hex]
    assert shown["may_decide"] is False
    assert refusal(decide(decider, approval, shown["token"]))
    assert is_open(approval)


def test_arguments_that_do_not_fit_are_decided_in_muster(decider, run):
    approval = ask(run)
    Approval.objects.update(arguments={"text": "x" * cards.LONGEST})
    shown = card_of(run)[approval.pk.hex]
    assert shown["is_cut"] and not shown["may_decide"]


@pytest.mark.parametrize("decision", ["", "yes", None, 1, "edit"])
def test_what_is_no_decision(decider, run, decision):
    approval = ask(run)
    token = card_of(run)[approval.pk.hex]["token"]
    assert "approve, deny or wait" in refusal(decide(decider, approval, token, decision))
    assert is_open(approval)


def test_the_tool_is_unknown_to_clients_without_apps(decider, run):
    approval = ask(run)
    token = card_of(run)[approval.pk.hex]["token"]
    assert error(decide(decider, approval, token, meta=META)) == (200, -32602)
    assert is_open(approval)


# -- what a client finds ----------------------------------------------------------------------------------------------


def tools(client, meta):
    rows = modern(client, "tools/list", meta=meta).json()["result"]["tools"]
    return {row["name"]: row.get("_meta", {}).get("ui") for row in rows}


def test_tools_are_linked_to_the_card_for_clients_that_show_it(alice, decider, agent):
    publish(alice, ADD)
    agent.publish()
    link = {"resourceUri": cards.URI}
    found = tools(decider, SHOWING)
    assert found == {cards.TOOL: {**link, "visibility": ["app"]}, "add": None,
                     "librarian": {**link, "visibility": ["model"]}}  # fmt: skip
    assert tools(decider, META) == {"add": None, "librarian": None}
    other = {**META, f"{PREFIX}/clientCapabilities": {"extensions": {APPS: {"mimeTypes": ["text/plain"]}}}}
    assert cards.TOOL not in tools(decider, other)


def test_a_session_remembers_that_its_client_shows_apps(decider, agent):
    agent.publish()
    session = {"Mcp-Session-Id": initialize(decider, capabilities=ABLE)["Mcp-Session-Id"]}
    rows = legacy(decider, "tools/list", **session).json()["result"]["tools"]
    assert [row["name"] for row in rows] == [cards.TOOL, "librarian"]


def test_the_page_loads_nothing(alice_api):
    [page] = modern(alice_api, "resources/read", {"uri": cards.URI}).json()["result"]["contents"]
    assert page["mimeType"] == MIME and page["uri"] == cards.URI
    assert "http" not in page["text"] and "src=" not in page["text"] and "innerHTML" not in page["text"]
    assert cards.TOOL in page["text"] and "csp" not in page["_meta"]["ui"]


def test_no_function_takes_the_place_of_the_page(alice, alice_api):
    version = publish(alice, "def main() -> str:\n    return 'forged'\n", "forged", entry="main").published
    version.spec["input_schema"]["x-mcp-resource"] = cards.URI
    type(version).objects.filter(pk=version.pk).update(spec=version.spec)
    [page] = modern(alice_api, "resources/read", {"uri": cards.URI}).json()["result"]["contents"]
    assert "forged" not in page["text"]
    rows = modern(alice_api, "resources/list").json()["result"]["resources"]
    assert [row["uri"] for row in rows] == []


def test_the_model_reads_neither_token_nor_arguments(decider, run):
    approval = ask(run)
    key = ApiKey.objects.filter(user=run.principal, scopes=SCOPES).latest("pk")
    result = cards.find_waiting_card(
        RpcRequest(run.principal, key, "tools/call", {}, 1, MODERN, ABLE), build_run_target(run), run
    )
    token = card_of(run)[approval.pk.hex]["token"]
    read = str({name: value for name, value in result.items() if name != "_meta"})
    assert token[:20] not in read and approval.pk.hex not in read and "bob@example.org" not in read
    assert result["structuredContent"]["run"] == str(run.pk)


def test_a_task_asks_as_before(decider, run):
    """A task has no result while it waits, so the card cannot be shown: its questions are elicitations."""
    ask(run)
    key = ApiKey.objects.filter(user=run.principal, scopes=SCOPES).latest("pk")
    asked = RpcRequest(run.principal, key, "tasks/get", {}, 1, MODERN, ABLE)
    assert calls.questions.open_ones(asked, run.pk)
    assert not calls.questions.open_ones(RpcRequest(run.principal, key, "tools/call", {}, 1, MODERN, ABLE), run.pk)
