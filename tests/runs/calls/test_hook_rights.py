"""Who may set hooks, see them and change them."""

import pytest

from agents.models import AuditEvent, Hook
from tests.functions.library import publish
from tests.runs.calls.test_hooks import ALLOW

pytestmark = pytest.mark.django_db

HOOKS = "/api/v1/run-hooks/"


@pytest.fixture
def check(alice):
    publish(alice, f"def check(event: dict) -> dict:\n    {ALLOW}\n", "check")
    return {"place": "before_tool", "function": "check"}


def test_an_agents_owner_sets_lists_changes_and_deletes_a_hook(alice_api, make_agent, check):
    make_agent()
    made = alice_api.post(HOOKS, {**check, "agent": "helper", "tools": ["send_*"]})
    assert made.status_code == 201, made.json()
    row = made.json()
    assert (row["scope"], row["agent"], row["team"], row["function"], row["created_by"]) == (
        "agent",
        "helper",
        None,
        "check",
        "alice",
    )
    assert alice_api.get(HOOKS).json()["results"] == [row]
    changed = alice_api.patch(f"{HOOKS}{row['id']}", {"enabled": False}, "application/json")
    assert changed.status_code == 200 and changed.json()["enabled"] is False
    assert alice_api.delete(f"{HOOKS}{row['id']}").status_code == 204
    assert list(AuditEvent.objects.filter(subject_kind="hook").order_by("id").values_list("action", flat=True)) == [
        "hook.created",
        "hook.changed",
        "hook.deleted",
    ]


def test_a_function_that_is_a_hook_cannot_be_deleted(alice_api, make_agent, check):
    make_agent()
    row = alice_api.post(HOOKS, {**check, "agent": "helper"}).json()
    assert alice_api.delete("/api/v1/functions/check").status_code == 409
    alice_api.delete(f"{HOOKS}{row['id']}")
    assert alice_api.delete("/api/v1/functions/check").status_code == 204


@pytest.mark.parametrize(
    "more",
    [
        {"place": "sometimes"},
        {"timeout_s": 100},
        {"timeout_s": 0},
        {"tools": "add"},
        {"tools": [7]},
        {"place": "message_in", "tools": ["add"]},
        {"function": "nothing"},
        {"agent": "nobody"},
        {"agent": "helper", "team": "crew"},
        {"agnet": "helper"},
    ],
)
def test_a_hook_that_cannot_be_is_refused(alice_api, make_agent, check, team, more):
    make_agent()
    assert alice_api.post(HOOKS, {**check, "agent": "helper", **more}).status_code == 422
    assert not Hook.objects.exists()


def test_a_function_of_other_arguments_is_no_hook(alice, alice_api, make_agent):
    make_agent()
    publish(alice)
    refused = alice_api.post(HOOKS, {"place": "before_tool", "function": "add", "agent": "helper"})
    assert refused.status_code == 422 and "event" in str(refused.json())


def test_a_team_mate_sees_the_hook_of_a_shared_agent_and_cannot_touch_it(alice_api, bob_api, make_agent, team, check):
    agent = make_agent()
    agent.team = team
    agent.save()
    row = alice_api.post(HOOKS, {**check, "agent": "helper"}).json()
    assert [one["id"] for one in bob_api.get(HOOKS).json()["results"]] == [row["id"]]
    assert bob_api.patch(f"{HOOKS}{row['id']}", {"enabled": False}, "application/json").status_code == 403
    assert bob_api.delete(f"{HOOKS}{row['id']}").status_code == 403 and Hook.objects.get().enabled


def test_a_stranger_sees_no_hook_of_an_agent_or_team(alice_api, charlie_api, make_agent, check):
    make_agent()
    row = alice_api.post(HOOKS, {**check, "agent": "helper"}).json()
    assert charlie_api.get(HOOKS).json()["results"] == []
    assert charlie_api.get(f"{HOOKS}{row['id']}").status_code == 404
    assert charlie_api.patch(f"{HOOKS}{row['id']}", {"enabled": False}, "application/json").status_code == 404
    assert charlie_api.delete(f"{HOOKS}{row['id']}").status_code == 404


def test_only_administrators_set_a_teams_hook_and_only_superusers_the_sites(
    alice, alice_api, bob, bob_api, api, site_admin, team, check
):
    publish(bob, f"def mine(event: dict) -> dict:\n    {ALLOW}\n", "mine")
    body = {"place": "before_tool", "function": "mine", "team": team.name}
    assert bob_api.post(HOOKS, body).status_code == 403
    assert alice_api.post(HOOKS, {**check, "team": team.name}).status_code == 201
    assert alice_api.post(HOOKS, check).status_code == 403
    publish(site_admin, f"def ours(event: dict) -> dict:\n    {ALLOW}\n", "ours")
    assert api(site_admin).post(HOOKS, {"place": "before_tool", "function": "ours"}).status_code == 201
    assert sorted(Hook.objects.values_list("tool__name", flat=True)) == ["check", "ours"]
    mine = Hook.objects.get(tool__name="ours")
    assert alice_api.delete(f"{HOOKS}{mine.pk}").status_code == 403


def test_a_hook_cannot_move_to_another_agent(alice_api, make_agent, check):
    make_agent(), make_agent("other")
    row = alice_api.post(HOOKS, {**check, "agent": "helper"}).json()
    assert alice_api.patch(f"{HOOKS}{row['id']}", {"agent": "other"}, "application/json").status_code == 422
