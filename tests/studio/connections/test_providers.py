"""The pages of providers: add, test, edit, prices, delete, who may, and the fix of each failure."""

import re

import pytest

from agents.known_models import read_table
from agents.models import Agent, AuditEvent, Membership, Provider
from studio.connections import providers

FORM = {"name": "mine", "kind": "openai-compatible", "api_key": "sk-secret-1", "default_model": "small",
        "api": "chat", "tool_calling": "native", "thinking": "split", "enabled": "on"}  # fmt: skip


@pytest.fixture
def mine(alice, model_server):
    return Provider.objects.create(
        owner=alice, name="mine", kind="openai-compatible", base_url=model_server[1], api_key="sk-secret-1",
        prices={"small": {"input": 1, "output": 2}},
    )  # fmt: skip


def test_one_is_added_tested_and_shown_without_its_key(alice, signed_in, model_server):
    browser = signed_in(alice)
    answer = browser.post("/providers/", {**FORM, "base_url": model_server[1]}, follow=True)
    html = answer.content.decode()
    assert "The test passed." in html and "lists 2 models" in html and "sk-secret" not in html
    provider = Provider.objects.get(name="mine", owner=alice)
    assert (provider.api_key, provider.default_model) == ("sk-secret-1", "small")
    assert model_server[0].seen[0][1]["Authorization"] == "Bearer sk-secret-1"
    actions = list(AuditEvent.objects.filter(subject_kind="provider").order_by("pk").values_list("action", flat=True))
    assert actions == ["provider.created", "provider.tested"]
    assert b"The test passed." not in browser.get("/providers/mine/").content, "a result is shown once"


def test_a_change_keeps_the_key_and_a_new_address_clears_it(alice, signed_in, mine, model_server):
    browser, form = signed_in(alice), {**FORM, "api_key": "", "base_url": model_server[1]}
    browser.post("/providers/mine/", {**form, "name": "renamed"})
    mine.refresh_from_db()
    assert (mine.name, mine.api_key, mine.revision) == ("renamed", "sk-secret-1", 2)
    browser.post("/providers/renamed/", {**form, "base_url": model_server[1] + "/other"})
    mine.refresh_from_db()
    assert mine.api_key == ""


def test_prices_are_edited_row_by_row(alice, signed_in, mine, model_server):
    prices = {"price_model": ["small", "*", ""], "price_input": ["0.5", "3", ""], "price_output": ["1", "4", ""]}
    browser, form = signed_in(alice), {**FORM, "base_url": model_server[1]}
    assert browser.post("/providers/mine/", {**form, **prices}).status_code == 302
    mine.refresh_from_db()
    assert {name: (float(price["input"]), float(price["output"])) for name, price in mine.prices.items()} == {
        "small": (0.5, 1), "*": (3, 4),
    }  # fmt: skip
    for wrong in ("-1", "free", "1e400"):
        answer = browser.post("/providers/mine/", {**form, **prices, "price_input": [wrong, "3", ""]})
        assert answer.status_code == 422 and b"A price is a number" in answer.content
    mine.refresh_from_db()
    assert float(mine.prices["small"]["input"]) == 0.5


def test_known_prices_have_a_date_a_source_and_numbers():
    known = read_table()
    assert re.fullmatch(r"\d{4}-\d\d", known["as_of"])
    assert set(known["kinds"]) == {"openai", "anthropic", "google"}
    for kind in known["kinds"].values():
        assert kind["source"].startswith("https://")
        assert all(0 < price["input"] <= price["output"] < 1000 for price in kind["models"].values())


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"kind": "openai"}, "provider_key_refused", "https://platform.openai.com/api-keys"),
        ({"kind": "ollama", "default_model": "qwen3"}, "unknown_model", "ollama pull qwen3"),
        ({"kind": "ollama"}, "provider_unreachable", "ollama serve"),
        ({"kind": "openai-compatible", "base_url": "http://gpu:8000/"}, "provider_refused", "http://gpu:8000/v1"),
        ({"kind": "openai-compatible", "base_url": "http://gpu:8000"}, "private_address", "MUSTER_PRIVATE_HOSTS=gpu"),
    ],
)  # fmt: skip
def test_each_failure_has_a_fix_to_copy(fields, code, text):
    assert providers.find_fix(Provider(name="x", **fields), code).text == text


def test_a_failed_test_says_why_and_keeps_the_provider(alice, signed_in, model_server):
    model_server[0].answer = (401, {})
    html = signed_in(alice).post("/providers/", {**FORM, "base_url": model_server[1]}, follow=True).content.decode()
    assert "The test failed." in html and "refused the key (401)" in html
    assert Provider.objects.filter(name="mine").exists()


def test_a_private_address_is_refused_with_its_fix(alice, signed_in, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    answer = signed_in(alice).post("/providers/", {**FORM, "base_url": "http://127.0.0.1:11434/v1"})
    assert answer.status_code == 422 and b"MUSTER_PRIVATE_HOSTS=127.0.0.1" in answer.content
    assert b"sk-secret" not in answer.content, "a key is not sent back"
    assert not Provider.objects.filter(name="mine").exists()


def test_strangers_see_nothing_and_team_mates_may_not_change_it(
    alice, bob, charlie, team, signed_in, mine, model_server
):
    paths = {
        "/providers/mine/": {**FORM, "base_url": model_server[1]},
        "/providers/mine/test": {},
        "/providers/mine/delete": {},
    }
    assert signed_in(charlie).get("/providers/mine/").status_code == 404
    assert b"mine" not in signed_in(charlie).get("/providers/").content
    for path, body in paths.items():
        assert signed_in(charlie).post(path, body).status_code == 404, path
    Provider.objects.filter(pk=mine.pk).update(team=team)
    Membership.objects.filter(user=bob).update(role="operator")
    page = signed_in(bob).get("/providers/mine/").content
    assert b"Only its owner" in page and b"sk-secret" not in page
    for path, body in paths.items():
        assert signed_in(bob).post(path, body).status_code == 403, path
    assert not model_server[0].seen


def test_one_in_use_is_not_deleted(alice, signed_in, mine):
    agent = Agent.objects.create(owner=alice, name="user-of-it", provider=mine, model_name="small")
    answer = signed_in(alice).post("/providers/mine/delete")
    assert answer.status_code == 409 and b"user-of-it" in answer.content
    assert b"user-of-it" in signed_in(alice).get("/providers/mine/").content
    agent.delete()
    signed_in(alice).post("/providers/mine/delete")
    assert not Provider.objects.filter(pk=mine.pk).exists()


def test_a_viewer_of_the_site_is_told_who_may_add_one(alice, signed_in, settings):
    settings.DEFAULT_ROLE = "operator"
    browser = signed_in(alice)
    assert b"Only authors and administrators" in browser.get("/providers/").content
    assert browser.post("/providers/", FORM).status_code == 403


def test_a_new_provider_without_a_default_leads_from_its_models_to_an_agent(alice, signed_in, model_server):
    browser = signed_in(alice)
    form = {**FORM, "default_model": "", "base_url": model_server[1]}
    html = browser.post("/providers/", form, follow=True).content.decode()
    assert "Use as default" in html and "<option selected>small</option>" in html and "<option>large</option>" in html
    assert "Give it to an agent" not in html
    html = browser.post("/providers/mine/default", {"default_model": "large"}, follow=True).content.decode()
    assert Provider.objects.get(name="mine").default_model == "large"
    assert "/agents/new/?provider=mine" in html and "Use as default" not in html
    html = browser.get("/agents/new/?provider=mine").content.decode()
    assert re.search(r'<select id="provider"[^>]*><option>mine</option>', html)


def test_a_provider_is_active_only_after_it_answered(alice, alice_api, signed_in, mine, model_server):
    def state():
        return alice_api.get("/api/v1/providers/mine").json()["state"]

    browser = signed_in(alice)
    assert state() == "untested" and 'class="pill untested"' in browser.get("/providers/").content.decode()
    alice_api.post("/api/v1/providers/mine/test", {"requests": False})
    assert state() == "works" and 'class="pill works"' in browser.get("/providers/").content.decode()
    alice_api.patch("/api/v1/providers/mine", {"thinking": "text"}, "application/json")
    assert state() == "untested"
    model_server[0].answer = (401, {})
    alice_api.post("/api/v1/providers/mine/test", {"requests": False})
    body = alice_api.get("/api/v1/providers/mine").json()
    assert (body["state"], body["test_code"]) == ("failing", "provider_key_refused")


def test_a_superuser_adds_a_provider_for_themselves_or_for_the_site(site_admin, alice, signed_in, model_server):
    assert "For whom?" in signed_in(site_admin).get("/providers/").content.decode()
    assert "For whom?" not in signed_in(alice).get("/providers/").content.decode()
    form = {**FORM, "base_url": model_server[1]}
    signed_in(alice).post("/providers/", {**form, "for_whom": "site"})
    assert Provider.objects.get(name="mine").owner == alice
    browser = signed_in(site_admin)
    browser.post("/providers/", {**form, "for_whom": "site"})
    browser.post("/providers/", {**form, "name": "own", "for_whom": "me"})
    assert Provider.objects.get(name="mine", owner=None).enabled
    own = Provider.objects.get(name="own")
    assert own.owner == site_admin
    assert browser.post("/providers/", {**form, "for_whom": "site"}).status_code == 422, "the site has that name"
    assert browser.post("/providers/own/site").status_code == 302
    own.refresh_from_db()
    assert own.owner is None


def test_nobody_else_gives_a_provider_to_the_site(alice, bob, charlie, team, signed_in, mine):
    mine.team = team
    mine.save()
    for person, status in ((alice, 403), (bob, 403), (charlie, 404)):
        assert signed_in(person).post("/providers/mine/site").status_code == status
        if person != alice:
            answer = signed_in(person).post("/providers/mine/default", {"default_model": "x"})
            assert answer.status_code == status
    mine.refresh_from_db()
    assert (mine.owner, mine.default_model) == (alice, "")
