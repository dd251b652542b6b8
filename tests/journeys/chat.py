"""What several journeys do in a chat."""

from typing import Any

from .browser import assert_inside_window


def create_agent(live: Any, model: Any, name: str, **fields: Any) -> str:
    """A published agent of the scripted model, behind a provider of the same name."""
    post = live.http.post
    provider = {"name": name, "kind": "openai-compatible", "base_url": model.url, "api_key": "none"}
    post("/api/v1/providers/", json=provider).raise_for_status()
    agent = {"name": name, "provider": name, "model_name": "stub", "system_prompt": "Help.", **fields}
    post("/api/v1/agents/", json=agent).raise_for_status()
    post(f"/api/v1/agents/{name}/publish", json={}).raise_for_status()
    return name


def send(page: Any, text: str) -> None:
    page.fill("#text", text)
    page.keyboard.press("Enter")


def choose_for_item(page: Any, title: str, verb: str) -> None:
    """Open the menu of a conversation in the list, which lies inside the window, and choose."""
    item = page.locator("#history li", has_text=title).first
    item.hover()
    item.get_by_role("button", name="What to do with").click()
    assert_inside_window(page, "#item-menu")
    page.get_by_role("menuitem", name=verb).click()
