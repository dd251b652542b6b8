"""An agent is given a collection with one click, and its answer in the chat cites the place that it read."""

import secrets
import time

import pytest

from tests.fakes import calls, says

from .browser import picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]


@pytest.mark.firefox
def test_an_answer_cites_its_sources_and_they_open_the_document(open_page, live, model):
    word = secrets.token_hex(3)
    post, shelf, agent = live.http.post, f"rules-{word}", f"clerk-{word}"
    post("/api/v1/collections/", json={"name": shelf, "description": "Rules."}).raise_for_status()
    body = {
        "name": "returns.md",
        "media_type": "text/markdown",
        "text": "# Returns\n\nGoods may be returned in 30 days.",
    }
    place = post(f"/api/v1/collections/{shelf}/documents/", json=body).headers["Location"]
    end = time.monotonic() + 40
    while live.http.get(place).json()["status"] != "ready" and time.monotonic() < end:
        time.sleep(0.2)
    provider = {"name": agent, "kind": "openai-compatible", "base_url": model.url, "api_key": "none"}
    post("/api/v1/providers/", json=provider).raise_for_status()
    made = {"name": agent, "provider": agent, "model_name": "stub", "system_prompt": "Help."}
    post("/api/v1/agents/", json=made).raise_for_status()
    page = open_page(f"/agents/{agent}/")
    page.get_by_role("tab", name="Tools").click()
    page.get_by_role("tab", name="Knowledge").click()
    page.get_by_role("checkbox", name=f"The agent reads {shelf}", exact=True).check()
    page.get_by_text("unsaved changes").wait_for()
    assert serious(page) == []
    picture(page, "agent-knowledge")
    page.locator("[data-save]").click()
    page.get_by_text("unsaved changes").wait_for(state="hidden")
    assert len(live.http.get(f"/api/v1/agents/{agent}").json()["grants"]) == 2
    post(f"/api/v1/agents/{agent}/publish", json={}).raise_for_status()
    model.script(calls((f"search-{shelf}", {"query": "returned goods"})), says("Within 30 days."))
    page = open_page(f"/playground/?agent={agent}")
    page.fill("#text", "How long?")
    page.keyboard.press("Enter")
    page.locator(".facts-line", has_text="succeeded").wait_for()
    picture(page, "chat-sources")
    assert serious(page) == []
    page.reload()
    page.locator(".sources summary").click()
    page.locator(".sources li a", has_text="returns.md, Returns").click()
    page.locator("mark", has_text="Goods may be returned in 30 days.").wait_for()
