"""Windows, features and prices of models that are known by name."""

import re
from decimal import Decimal

import pytest

from agents import known_models
from agents.models import Provider

pytestmark = pytest.mark.django_db
FEATURES = {"tools", "vision", "reasoning", "schema"}


@pytest.mark.parametrize("kind", known_models.read_table()["kinds"])
def test_every_row_can_be_used(kind):
    assert re.fullmatch(r"\d{4}-\d\d", known_models.read_table()["as_of"])
    assert kind in Provider.Kind.values
    for name, model in known_models.read_models(kind).items():
        assert known_models.SNAPSHOT.sub("", name) in (name, name[:-11]), name
        assert 0 < model.input <= model.output
        assert model.window is None or 1_000 < model.window < 10_000_000
        assert set(model.features) <= FEATURES


def test_a_snapshot_is_the_model_that_it_is_of():
    assert known_models.find_model("anthropic", "claude-haiku-4-5-20251001").window == 200_000
    assert known_models.find_model("google", "models/gemini-2.5-flash").window == 1_048_576
    assert known_models.find_model("openai", "gpt-4o-2024-05-13").output == 15, "a snapshot with a row of its own"
    assert known_models.find_model("openai", "gpt-4o-2024-08-06").output == 10
    assert known_models.find_model("openai", "nobody-knows-it") is None
    assert known_models.find_model("ollama", "gpt-4o") is None


def test_what_a_provider_sets_wins_over_what_is_known():
    own = Provider(kind="openai", prices={"gpt-4o": {"input": 1, "output": 1}})
    assert own.cost("gpt-4o", 1_000_000, 0) == 1
    assert own.cost("gpt-4o-mini", 1_000_000, 0) == Decimal("0.15")
    assert own.cost("nobody-knows-it", 1_000_000, 0) == 0
    assert Provider(kind="openai", prices={"*": {"input": 3}}).cost("gpt-4o", 1_000_000, 0) == 3
    assert Provider(kind="openai", prices={"gpt-4o": {"input": 0}}).cost("gpt-4o", 1_000_000, 0) == 0


def test_nothing_is_known_of_another_address():
    proxy = Provider(kind="openai", base_url="https://proxy.example/v1")
    assert proxy.cost("gpt-4o", 1_000_000, 0) == 0 and proxy.known_model("gpt-4o") is None


def test_the_list_of_models_says_what_is_known(alice, alice_api, monkeypatch):
    Provider.objects.create(owner=alice, name="mine", kind="openai", api_key="sk")
    monkeypatch.setattr("agents.available_models.models", lambda provider: ["gpt-4o", "gpt-unknown"])
    body = alice_api.get("/api/v1/providers/mine/models").json()
    assert body["models"] == ["gpt-4o", "gpt-unknown"] and list(body["known"]) == ["gpt-4o"]
    assert body["known"]["gpt-4o"]["features"] == ["tools", "vision", "schema"]
