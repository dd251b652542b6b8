"""What a member with every permission of the admin learns about what a team-mate shares."""

from typing import Any

import pytest

from agents.models import Agent, ApiKey, Provider, Secret
from connectors.models import Connection
from runs.models import Budget, Trigger
from tests.people import ApiClient

pytestmark = pytest.mark.django_db


def test_the_admin_never_shows_a_team_mates_shared_secret(
    alice: Any, bob: Any, team: Any, staff: Any, signed_in: Any
) -> None:
    secret = Secret.objects.create(name="tok", owner=alice, team=team, value="hunter2-secret", hosts=["a.example"])
    page = signed_in(staff(bob)).get(f"/admin/agents/secret/{secret.pk}/change/")
    assert page.status_code == 200
    assert b"hunter2-secret" not in page.content


def test_the_admin_never_shows_a_team_mates_provider_key(
    alice: Any, bob: Any, team: Any, staff: Any, signed_in: Any
) -> None:
    row = Provider.objects.create(name="p", owner=alice, team=team, kind="openai", api_key="sk-hunter2")
    page = signed_in(staff(bob)).get(f"/admin/agents/provider/{row.pk}/change/")
    assert page.status_code == 200
    assert b"sk-hunter2" not in page.content


def test_the_admin_shows_nothing_secret_of_a_shared_connection(
    alice: Any, bob: Any, team: Any, staff: Any, signed_in: Any
) -> None:
    row = Connection.objects.create(
        name="p", owner=alice, team=team, provider="gmail", access_token="hunter2-a", refresh_token="hunter2-b"
    )
    page = signed_in(staff(bob)).get(f"/admin/connectors/connection/{row.pk}/change/")
    assert page.status_code == 200
    assert b"hunter2" not in page.content


def test_the_admin_shows_nothing_secret_of_a_shared_trigger(
    agent: Any, alice: Any, bob: Any, team: Any, staff: Any, signed_in: Any
) -> None:
    row = Trigger.objects.create(
        name="t", owner=alice, team=team, kind="webhook", agent=agent, secret="whsec_hunter2", text="x"
    )
    page = signed_in(staff(bob)).get(f"/admin/runs/trigger/{row.pk}/change/")
    assert page.status_code == 200
    assert b"hunter2" not in page.content


def test_the_admin_does_not_answer_guesses_at_a_shared_secret(
    agent: Any, alice: Any, bob: Any, team: Any, staff: Any, signed_in: Any
) -> None:
    Trigger.objects.create(
        name="guessed", owner=alice, team=team, kind="webhook", agent=agent, secret="whsec_hunter2", text="x"
    )
    browser = signed_in(staff(bob))
    right = browser.get("/admin/runs/trigger/?secret__startswith=whsec_h")
    wrong = browser.get("/admin/runs/trigger/?secret__startswith=whsec_x")
    assert (b"guessed" in right.content, right.status_code) == (b"guessed" in wrong.content, wrong.status_code)


def test_deleting_a_key_in_the_admin_ends_the_keys_it_made(alice: Any, staff: Any, signed_in: Any) -> None:
    parent, secret = ApiKey.make(alice, ["*"])
    child = ApiClient(alice, ApiClient(alice, secret).post("/api/v1/keys/", {"scopes": ["*"]}).json()["key"])
    signed_in(staff(alice)).post(f"/admin/agents/apikey/{parent.pk}/delete/", {"post": "yes"})
    assert not ApiKey.objects.filter(pk=parent.pk).exists()
    assert child.get("/api/v1/me/").status_code == 401


def test_the_admin_lets_only_a_team_s_administrators_limit_it(
    bob: Any, team: Any, offline: Any, staff: Any, signed_in: Any
) -> None:
    mine = Agent.objects.create(name="mine", owner=bob, provider=offline)
    body = {"agent": mine.pk, "team": team.pk, "period": "day", "max_runs": "0", "enabled": "on"}
    assert signed_in(staff(bob)).post("/admin/runs/budget/add/", body).status_code == 302
    assert Budget.objects.get().team is None
