"""The prompt library over HTTP and on its page: one's own, and the team's."""

import pytest

from agents.models import AuditEvent, Prompt

pytestmark = pytest.mark.django_db
BODY = {"name": "weather", "text": "How is the weather in {{city}} on {{ day }}, in {{city}}?"}


def test_a_prompt_lists_its_places_once(alice_api):
    made = alice_api.post("/api/v1/prompts/", BODY)
    assert made.status_code == 201 and made.json()["variables"] == ["city", "day"]


def test_a_team_reads_a_shared_prompt_and_strangers_do_not(alice_api, bob_api, charlie_api, client, team):
    alice_api.post("/api/v1/prompts/", BODY)
    assert bob_api.get("/api/v1/prompts/weather").status_code == 404
    alice_api.patch("/api/v1/prompts/weather", {"team": team.name}, content_type="application/json")
    assert bob_api.get("/api/v1/prompts/weather").status_code == 200
    assert bob_api.patch("/api/v1/prompts/weather", {"text": "x"}, content_type="application/json").status_code == 403
    assert bob_api.delete("/api/v1/prompts/weather").status_code == 403
    assert charlie_api.get("/api/v1/prompts/weather").status_code == 404
    assert charlie_api.get("/api/v1/prompts/").json()["results"] == []
    assert client.get("/api/v1/prompts/").status_code == 401
    assert Prompt.objects.get().text == BODY["text"]


def test_a_prompt_keeps_its_white_space_and_has_a_length(alice_api):
    assert alice_api.post("/api/v1/prompts/", {"name": "a", "text": "  two\n\n"}).json()["text"] == "  two\n\n"
    assert alice_api.post("/api/v1/prompts/", {"name": "b", "text": "x" * 20_001}).status_code == 422
    assert alice_api.post("/api/v1/prompts/", {"name": "c", "text": "x", "colour": 1}).status_code == 422


def test_the_page_saves_replaces_and_deletes_ones_own(signed_in, alice, bob, charlie, team):
    browser = signed_in(alice)
    form = {**BODY, "description": "", "team": team.name}
    assert browser.post("/prompts/save", form).status_code == 302
    assert browser.post("/prompts/save", {**form, "text": "other <b>text</b>"}).status_code == 302
    prompt = Prompt.objects.get()
    assert (prompt.text, prompt.owner, prompt.team) == ("other <b>text</b>", alice, team)
    assert "other &lt;b&gt;text" in browser.get("/prompts/").content.decode()
    assert "weather" in signed_in(bob).get("/prompts/").content.decode()
    assert "weather" not in signed_in(charlie).get("/prompts/").content.decode().split('<form method="post"')[0]
    for other in (bob, charlie):
        assert signed_in(other).post(f"/prompts/{prompt.pk}/delete").status_code == 404
    assert browser.post(f"/prompts/{prompt.pk}/delete").status_code == 302 and not Prompt.objects.exists()
    actions = AuditEvent.objects.filter(subject_kind="prompt").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["prompt.created", "prompt.changed", "prompt.deleted"]


def test_a_prompt_cannot_be_shared_with_a_team_of_others(signed_in, charlie, team):
    page = signed_in(charlie).post("/prompts/save", {**BODY, "team": team.name})
    assert page.status_code == 200 and not Prompt.objects.exists()
