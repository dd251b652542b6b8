"""A provider is tried with one request for its models, and its models are listed."""

import json
import threading

import pytest

from agents import available_models
from agents.models import AuditEvent, Provider
from agents.models.agent import provider_changed

V1 = "/api/v1/providers"
pytestmark = pytest.mark.django_db


@pytest.fixture
def local(alice, model_server):
    return Provider.objects.create(
        owner=alice,
        name="local",
        kind="openai-compatible",
        base_url=model_server[1],
        api_key="sk-1",
        default_model="small",
    )


def test_the_models_are_listed_and_kept_for_a_minute(alice_api, local, model_server):
    for _ in range(2):
        answer = alice_api.get(f"{V1}/local/models")
        assert answer.json() == {"models": ["small", "large"], "default_model": "small", "known": {}}
    assert [path for path, _ in model_server[0].seen] == ["/v1/models"]
    assert model_server[0].seen[0][1]["Authorization"] == "Bearer sk-1"
    provider_changed(local)
    alice_api.get(f"{V1}/local/models")
    assert len(model_server[0].seen) == 2


@pytest.mark.parametrize(
    ("kind", "answer", "path", "header"),
    [
        ("anthropic", {"data": [{"id": "small"}]}, "/v1/models?limit=1000", ("X-Api-Key", "sk-1")),
        ("google", {"models": [{"name": "models/small"}]}, "/v1/models?pageSize=1000", ("X-Goog-Api-Key", "sk-1")),
        ("ollama", {"models": [{"name": "small"}]}, "/v1/api/tags", None),
    ],
)
def test_each_kind_is_asked_in_its_own_way(alice_api, local, model_server, kind, answer, path, header):
    Provider.objects.filter(pk=local.pk).update(kind=kind)
    model_server[0].answer = (200, answer)
    assert alice_api.get(f"{V1}/local/models").json()["models"] == ["small"]
    asked, headers = model_server[0].seen[0]
    assert asked == path and (header is None or header in {(name.title(), value) for name, value in headers.items()})


def test_a_trial_says_that_it_works(alice_api, local):
    trial = alice_api.post(f"{V1}/local/test").json()
    assert (trial["ok"], trial["code"], trial["models"]) == (True, "", 2)
    assert AuditEvent.objects.filter(action="provider.tested").count() == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((401, {}), "provider_key_refused"),
        ((404, {}), "provider_refused"),
        ((302, {}), "provider_refused"),
        ((200, b"<html>"), "provider_refused"),
        ((200, {"data": 5}), "provider_refused"),
        ((200, b"x" * 3_000_000), "provider_unreachable"),
    ],
)
def test_a_trial_says_what_is_wrong_without_the_words_of_an_exception(alice_api, local, model_server, answer, code):
    model_server[0].answer = answer
    trial = alice_api.post(f"{V1}/local/test").json()
    assert (trial["ok"], trial["code"]) == (False, code) and trial["message"].startswith("“local”")
    assert "Error" not in trial["message"] and "sk-1" not in json.dumps(trial)
    refused = alice_api.get(f"{V1}/local/models")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, code)


def test_a_model_that_the_server_does_not_have_is_named(alice_api, local):
    trial = alice_api.post(f"{V1}/local/test", {"model": "huge"}).json()
    assert (trial["ok"], trial["code"]) == (False, "unknown_model") and "huge" in trial["message"]


def test_a_private_address_is_not_asked(alice_api, local, model_server, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    assert alice_api.post(f"{V1}/local/test").json()["code"] == "private_address"
    assert model_server[0].seen == []


def test_nothing_listens(alice_api, local, settings):
    Provider.objects.filter(pk=local.pk).update(base_url="http://127.0.0.1:9/v1")
    assert alice_api.post(f"{V1}/local/test").json()["code"] == "provider_unreachable"


def test_the_offline_provider_needs_no_server(alice_api, alice):
    Provider.objects.create(owner=alice, name="mine", kind="offline")
    assert alice_api.post(f"{V1}/mine/test").json()["ok"] and alice_api.get(f"{V1}/mine/models").json()["models"] == []


def test_a_stranger_and_a_team_mate(charlie_api, bob_api, team, local, model_server):
    for verb, path in (("get", "models"), ("post", "test")):
        assert getattr(charlie_api, verb)(f"{V1}/local/{path}").status_code == 404
    Provider.objects.filter(pk=local.pk).update(team=team)
    assert bob_api.get(f"{V1}/local/models").status_code == 200
    assert bob_api.post(f"{V1}/local/test").status_code in (200, 403)


def test_an_agent_without_a_model_is_not_published(alice_api, local):
    new = {"name": "nameless", "provider": "local"}
    alice_api.post("/api/v1/agents/", new)
    assert alice_api.post("/api/v1/agents/nameless/publish").status_code == 200
    spec = alice_api.get("/api/v1/agents/nameless/versions/1").json()["spec"]
    assert spec["model_name"] == "small"
    Provider.objects.update(default_model="")
    refused = alice_api.post("/api/v1/agents/nameless/publish")
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "no_model")
    assert refused.json()["error"]["details"][0]["field"] == "model_name"


def test_no_more_than_a_few_providers_are_asked_at_once(alice_api, local, model_server, monkeypatch):
    monkeypatch.setattr(available_models, "AT_ONCE", threading.BoundedSemaphore(1))
    available_models.AT_ONCE.acquire()
    assert alice_api.get(f"{V1}/local/models").status_code == 429
    assert alice_api.post(f"{V1}/local/test").json()["code"] == "rate_limited"
