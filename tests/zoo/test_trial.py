"""The test of a provider: four requests, and in words what its model can do."""

import pytest
from django.urls import reverse

from agents import available_models
from agents.models import AuditEvent, Provider
from registry.llm.trial import try_model
from runs.management.commands import doctor

from .acts import calls, fails, says
from .keepers import SERVERS

pytestmark = pytest.mark.django_db
ABLE = [says("Yes."), says("One two three."), calls(("add", {"a": 17, "b": 25})), says('{"sum": 42}')]


@pytest.fixture
def make_provider(alice, keep):
    def make(server="openai", **more):
        pool, _ = keep(server)
        about = {"kind": pool.server.kind, "base_url": pool.server.base, "api": getattr(pool.server, "api", "chat")}
        fields = {"owner": alice, "name": "zoo", "api_key": "key", "default_model": pool.server.model, **about, **more}
        return pool, Provider.objects.create(**fields)

    return make


@pytest.mark.parametrize("server", SERVERS)
def test_every_server_is_found_able(make_provider, server):
    pool, provider = make_provider(server)
    pool.script(*ABLE)
    results = try_model(provider, pool.server.model)
    assert [one["name"] for one in results] == ["plain", "stream", "tools", "schema"]
    assert [one for one in results if not one["ok"]] == []


def test_what_a_model_cannot_do_is_said_with_the_reason(make_provider):
    pool, provider = make_provider()
    pool.script(says("Yes."), says("One."), says("I cannot call anything."), says("It is 42."))
    results = {one["name"]: (one["ok"], one["message"]) for one in try_model(provider, pool.server.model)}
    assert results["tools"] == (False, "It does not call tools: the model answered with a text")
    assert results["schema"] == (False, "It does not answer by a JSON Schema: the model answered “It is 42.”")
    pool.script(says("Yes."), says("One."), calls(("add", {"a": 1, "b": 25})), fails("refused"))
    results = {one["name"]: (one["ok"], one["message"]) for one in try_model(provider, pool.server.model)}
    assert "called add with" in results["tools"][1] and "temperature is too high" in results["schema"][1]


def test_a_model_that_does_not_answer_is_asked_once(make_provider):
    pool, provider = make_provider()
    pool.script(fails("refused"))
    [plain] = try_model(provider, pool.server.model)
    assert not plain["ok"] and len(pool.requests) == 1


def test_the_endpoint_tells_it_and_may_leave_it_out(make_provider, alice_api, monkeypatch):
    pool, _ = make_provider()
    monkeypatch.setattr(available_models, "models", lambda provider, fresh=False: [pool.server.model])
    pool.script(*ABLE)
    body = alice_api.post("/api/v1/providers/zoo/test", {}).json()
    assert body["ok"] and [one["name"] for one in body["abilities"] if one["ok"]] == [
        "plain",
        "stream",
        "tools",
        "schema",
    ]
    body = alice_api.post("/api/v1/providers/zoo/test", {"requests": False}).json()
    assert body["ok"] and body["abilities"] == [] and len(pool.requests) == 4
    assert AuditEvent.objects.filter(action="provider.tested").count() == 2


def test_a_server_that_cannot_be_reached_is_not_asked_again(make_provider, alice_api, monkeypatch):
    pool, _ = make_provider()

    def models(provider, fresh=False):
        raise available_models.NotServed("It cannot be reached.", hint="")

    monkeypatch.setattr(available_models, "models", models)
    body = alice_api.post("/api/v1/providers/zoo/test", {}).json()
    assert (body["ok"], body["code"], body["abilities"]) == (False, "provider_unreachable", [])
    assert pool.requests == []


def test_a_stranger_and_a_team_mate(make_provider, team, bob_api, charlie_api):
    pool, _ = make_provider(team=team)
    assert charlie_api.post("/api/v1/providers/zoo/test", {}).status_code == 404
    assert bob_api.post("/api/v1/providers/zoo/test", {}).status_code in (403, 404)
    assert pool.requests == []


def test_the_button_of_the_page_shows_it(make_provider, alice, signed_in, monkeypatch):
    pool, _ = make_provider()
    monkeypatch.setattr(available_models, "models", lambda provider, fresh=False: [pool.server.model])
    pool.script(*ABLE[:3], says("It is 42."))
    page = signed_in(alice).post(reverse("page:provider-test", args=["zoo"]), follow=True).content.decode()
    assert "✓ It calls tools." in page and "✗ It does not answer by a JSON Schema" in page


def test_doctor_tries_the_site_s_providers(make_provider, monkeypatch):
    pool, _ = make_provider(owner=None)
    monkeypatch.setattr(available_models, "models", lambda provider, fresh=False: [pool.server.model])
    pool.script(*ABLE)
    report = doctor.providers()
    assert report["provider zoo"]["ok"] and "It calls tools." in report["provider zoo"]["says"]
