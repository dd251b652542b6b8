"""Embeds over HTTP: who may offer which agent to visitors, and what is refused."""

import pytest

from agents.models import AuditEvent
from runs.models import Budget, Embed
from tests.people import ApiClient

pytestmark = pytest.mark.django_db
V1 = "/api/v1/embeds/"
JSON = "application/json"


@pytest.fixture
def agent(make_agent, make_tool):
    return make_agent("clerk", tools=[make_tool(), make_tool("screen", kind="device")])


@pytest.fixture
def made(alice_api, agent):
    answer = alice_api.post(V1, {"agent": "clerk"})
    assert answer.status_code == 201, answer.json()
    return answer.json()


def patch(api: ApiClient, row, **fields):
    return api.patch(f"{V1}{row['id']}", fields, content_type=JSON)


def test_a_new_one_is_off_and_limited(made, alice_api, settings):
    assert made["enabled"] is False and made["origins"] == made["tools"] == []
    assert (made["daily_cost"], made["monthly_cost"]) == ("1.0000", None)
    assert made["page_url"] == f"{settings.PUBLIC_URL}/chat/{made['key']}/"
    listed = alice_api.get(f"/api/v1/budgets/{Budget.objects.get().pk}").json()
    assert listed["embed"] == made["id"] and listed["max_cost"] == "1.0000"


def test_it_is_changed_with_an_audit_line_each_time(made, alice_api, alice):
    changed = patch(alice_api, made, enabled=True, origins=["https://shop.example.org"], tools=["add"], monthly_cost=9)
    assert changed.status_code == 200 and changed.json()["monthly_cost"] == "9.0000"
    assert patch(alice_api, made, daily_cost=None).json()["daily_cost"] is None
    rotated = alice_api.post(f"{V1}{made['id']}/rotate").json()
    assert rotated["key"] != made["key"] and rotated["enabled"] is True
    assert alice_api.delete(f"{V1}{made['id']}").status_code == 204
    lines = AuditEvent.objects.filter(action__startswith="embed.").order_by("id").values_list("action", "actor")
    assert list(lines) == [
        (f"embed.{verb}", alice.pk) for verb in ("created", "changed", "changed", "rotated", "deleted")
    ]
    assert not Budget.objects.exists()


@pytest.mark.parametrize("origin", [
    "*", "null", "https://*.example.org", "https://shop.example.org/", "https://shop.example.org/path", "shop.example.org",
    "HTTPS://shop.example.org", "https://shop.example.org:443", "ftp://shop.example.org", "https://user@example.org",
    "https://a.org; script-src *", "https://a.org https://b.org", "https://a.org\n;", "", "javascript://a.org", 7,
])  # fmt: skip
def test_only_exact_origins_are_taken(made, alice_api, origin):
    assert patch(alice_api, made, origins=[origin]).status_code == 422
    assert Embed.objects.get().origins == []


@pytest.mark.parametrize("origin", ["https://shop.example.org", "http://localhost:3000", "http://[::1]:8080"])
def test_exact_origins(made, alice_api, origin):
    assert patch(alice_api, made, origins=[origin]).json()["origins"] == [origin]


@pytest.mark.parametrize("fields", [
    {"tools": ["screen"]}, {"tools": ["unknown"]}, {"colour": "red; }"}, {"suggestions": [" "]}, {"per_visitor": 0},
    {"max_characters": 20_001}, {"daily_cost": -1}, {"colour": "#0F766E\n"}, {"key": "pub_mine", "unknown": 1},
    {"agent": "other"}, {"greeting": "x" * 501},
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(made, alice_api, fields):
    assert patch(alice_api, made, **fields).status_code == 422


def test_if_match_is_honoured(made, alice_api):
    path = f"{V1}{made['id']}"
    tag = alice_api.get(path)["ETag"]
    patch(alice_api, made, title="New")
    again = alice_api.patch(path, {"title": "Other"}, content_type=JSON, headers={"If-Match": tag})
    assert again.status_code == 412


def test_neither_a_team_mate_nor_a_stranger_sees_or_changes_it(made, team, agent, bob_api, charlie_api):
    agent.team = team
    agent.save()
    for api in (bob_api, charlie_api):
        assert api.get(V1).json()["results"] == []
        assert api.get(f"{V1}{made['id']}").status_code == 404
        assert patch(api, made, enabled=True).status_code == 404
        assert api.post(f"{V1}{made['id']}/rotate").status_code == 404
        assert api.delete(f"{V1}{made['id']}").status_code == 404


def test_a_team_mate_offers_no_agent_of_another_person(agent, team, bob_api, charlie_api):
    agent.team = team
    agent.save()
    assert bob_api.post(V1, {"agent": "clerk"}).status_code == 403
    assert charlie_api.post(V1, {"agent": "clerk"}).status_code == 422
    assert not Embed.objects.exists()


def test_a_key_needs_the_scope(agent, api, alice):
    assert api(alice, "agents:read").post(V1, {"agent": "clerk"}).status_code == 403


def test_the_list_costs_a_fixed_number_of_queries(alice_api, agent, django_assert_num_queries):
    counts = []
    for _ in range(2):
        alice_api.post(V1, {"agent": "clerk"})
        with django_assert_num_queries(5, exact=False) as queries:
            alice_api.get(V1)
        counts.append(len(queries))
    assert counts[0] == counts[1]
