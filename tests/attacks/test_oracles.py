"""What an answer tells of others by the way: kept results, counts, tags of versions, and searches by hidden fields."""

import pytest

from agents.models import Agent, Provider, Secret
from runs.models import Session
from tests.functions import library

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
JSON = {"content_type": "application/json"}
SOURCE = "def look(name: str) -> str:\n    return name.upper()\n"


def test_a_kept_result_does_not_tell_what_somebody_else_asked(alice, alice_api, bob_api, team):
    """`cached` would say that Alice looked for this name."""
    library.publish(alice, SOURCE, "look", is_pure=True, cache_ttl=60, team=team)

    def ask(api):
        answer = api.post(f"{V1}/functions/look/execute", {"arguments": {"name": "Dr. Weber"}}, **JSON)
        return answer.json()["result"], answer.json()["cached"]

    assert [ask(alice_api), ask(alice_api), ask(bob_api), ask(bob_api)] == [
        ("DR. WEBER", False), ("DR. WEBER", True), ("DR. WEBER", False), ("DR. WEBER", True),
    ]  # fmt: skip


def test_no_list_can_be_searched_filtered_or_ordered_by_what_it_does_not_show(alice, bob, bob_api, team):
    """A key of a provider, the value of a secret and the texts of a shared agent's owner stay unknown, guess by guess."""
    provider = Provider.objects.create(
        owner=alice, team=team, name="model", kind="openai-compatible", api_key="sk-alice"
    )
    Secret.objects.create(owner=alice, team=team, name="crm", value="hush-hush", hosts=["api.example.com"])
    Agent.objects.create(owner=alice, team=team, name="helper", provider=provider, system_prompt="The word is tulip.")
    Session.objects.create(owner=alice, title="tulip")
    fields = ["api_key", "value", "provider__api_key", "owner__password", "owner__email", "team__members__password",
              "system_prompt", "sessions__title", "owner__api_keys__digest"]  # fmt: skip
    guesses = [f"{field}{lookup}" for field in fields for lookup in ("", "__startswith")]
    for kind in ("providers", "secrets", "agents", "functions", "chains", "runs", "sessions", "teams", "keys"):
        path = f"{V1}/{kind}/"
        for guess in guesses:
            assert bob_api.get(path, {guess: "sk-alice"}).status_code == 422, (kind, guess)
        for field in fields:
            assert bob_api.get(path, {"ordering": field}).status_code == 422, (kind, field)
        for text in ("sk-alice", "hush", str(alice.password)[:30]):
            answer = bob_api.get(path, {"search": text})
            assert answer.status_code in (200, 422) and not answer.json().get("results"), (kind, text)


def test_the_tag_of_a_version_needs_the_row(alice, alice_api, charlie_api):
    """A stranger who guesses a tag learns neither that it is right nor that the row exists."""
    Provider.objects.create(name="offline", kind="offline")
    path = f"{V1}/agents/helper"
    body = {"name": "helper", "provider": "offline", "system_prompt": "Hi."}
    assert alice_api.post(f"{V1}/agents/", body).status_code == 201
    tag = alice_api.get(path)["ETag"]
    for headers in ({"If-None-Match": tag}, {"If-None-Match": "*"}, {"If-Match": tag}, {"If-Match": '"other"'}):
        for method in ("get", "patch", "delete"):
            answers = []
            for address in (path, f"{V1}/agents/nobody"):
                more = [] if method == "get" else [{}, "application/json"]
                answer = getattr(charlie_api, method)(address, *more, headers=headers)
                answers.append((answer.status_code, answer.headers.get("ETag"), answer.json()["error"]["code"]))
            assert answers[0] == answers[1] and answers[0][0] == 404, (headers, method, answers)
