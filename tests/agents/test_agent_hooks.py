"""An agent's field `hooks`: its own hooks by short names, replaced as a list, kept where it is not named."""

import pytest

from agents.models import Hook
from tests.functions.library import publish

pytestmark = pytest.mark.django_db
JSON = "application/json"
CHECK = 'def check(event: dict) -> dict:\n    return {"verdict": "allow"}\n'
NO_HOOK = "def add(a: int) -> int:\n    return a\n"


@pytest.fixture
def path(alice, agent):
    publish(alice, CHECK, "check")
    publish(alice, NO_HOOK, "add")
    return f"/api/v1/agents/{agent.name}"


def test_hooks_are_set_read_kept_and_replaced(alice_api, path):
    wanted = [
        {"when": "message", "function": "check"},
        {"when": "before_call", "function": "check", "tools": ["send_*"], "timeout_s": 1.0},
        {"when": "after_call", "function": "check"},
        {"when": "reply", "function": "check"},
    ]
    assert alice_api.patch(path, {"hooks": wanted}, JSON).json()["hooks"] == wanted
    assert alice_api.get(path).json()["hooks"] == wanted
    places = ["message_in", "before_tool", "after_tool", "message_out"]
    assert list(Hook.objects.order_by("pk").values_list("place", flat=True)) == places
    assert alice_api.patch(path, {"description": "Other."}, JSON).json()["hooks"] == wanted
    body = {"name": "librarian", "provider": "offline"}
    assert alice_api.put(path, body, JSON).json()["hooks"] == wanted  # a rule is never dropped by leaving it out
    assert alice_api.patch(path, {"hooks": []}, JSON).json()["hooks"] == [] and not Hook.objects.exists()


def test_a_new_agent_has_its_hooks(alice_api, path):
    hooks = [{"when": "reply", "function": "check"}]
    made = alice_api.post("/api/v1/agents/", {"name": "other", "provider": "offline", "hooks": hooks})
    assert made.status_code == 201 and made.json()["hooks"] == hooks


@pytest.mark.parametrize(
    "entry",
    [{"when": "later", "function": "check"}, {"when": "reply"}, {"when": "reply", "function": "nobody"},
     {"when": "reply", "function": "add"}, {"when": "reply", "function": "check", "place": "x"},
     {"when": "reply", "function": "check", "tools": ["a"]}],
)  # fmt: skip
def test_what_is_no_hook_is_refused_and_the_others_stay(alice_api, path, entry):
    good = {"when": "reply", "function": "check"}
    alice_api.patch(path, {"hooks": [good]}, JSON)
    assert alice_api.patch(path, {"hooks": [good, entry]}, JSON).status_code == 422
    assert alice_api.get(path).json()["hooks"] == [good]


def test_a_stranger_finds_no_agent_and_a_team_mate_reads_the_hooks(alice_api, bob_api, charlie_api, path, team, agent):
    alice_api.patch(path, {"hooks": [{"when": "reply", "function": "check"}]}, JSON)
    type(agent).objects.filter(pk=agent.pk).update(team=team)
    assert charlie_api.patch(path, {"hooks": []}, JSON).status_code == 404
    assert bob_api.patch(path, {"hooks": []}, JSON).status_code == 403
    assert len(bob_api.get(path).json()["hooks"]) == 1 == Hook.objects.count()


def test_a_list_of_agents_reads_all_hooks_at_once(alice_api, path, make_agent, django_assert_max_num_queries):
    for name in ("one", "two", "three"):
        make_agent(name)
        alice_api.patch(f"/api/v1/agents/{name}", {"hooks": [{"when": "reply", "function": "check"}]}, JSON)
    with django_assert_max_num_queries(12):
        listed = alice_api.get("/api/v1/agents/").json()["results"]
    assert sum(len(row["hooks"]) for row in listed) == 3
