"""What a person writes is checked with its own settings, can be corrected, and is not lost by mistake."""

import json
import secrets

import pytest

from .browser import DESKTOP, PHONE, picture, serious, wait_on

pytestmark = [pytest.mark.browser, pytest.mark.live]
ROOT = '''import math


def square_root(number: float) -> float:
    """The square root of a number."""
    return math.sqrt(number)
'''
DOCUMENT = {
    "openapi": "3.0.0",
    "info": {"title": "Till", "version": "1"},
    "paths": {"/prices": {"get": {"operationId": "listPrices", "responses": {"200": {"description": "All prices"}}}}},
}


@pytest.mark.firefox
def test_a_function_that_imports_is_allowed_to_tried_and_saved(open_page):
    page = open_page("/functions/new/")
    page.locator(".cm-content").fill(ROOT)
    page.get_by_role("button", name="Allow math").click()
    page.locator("#refusals li").wait_for(state="detached")
    page.locator("#argument-number").fill("9")
    page.get_by_role("button", name="Run the draft").click()
    page.locator("#outcome pre", has_text="3").wait_for()
    picture(page, "function-with-an-import")
    name = f"root-{secrets.token_hex(3)}"
    page.fill("#name", name)
    page.get_by_role("button", name="Save draft").click()
    page.wait_for_url(f"**/functions/{name}/")
    assert page.locator("#allowed_imports").input_value() == "math"
    assert serious(page) == []


def test_a_starter_with_imports_shows_no_error(open_page):
    page = open_page("/functions/add_to_date/")
    page.locator("#derived", has_text="imports datetime").wait_for()
    assert page.locator("#refusals li").count() == 0


def test_unsaved_code_is_not_left_without_a_question(open_page):
    page = open_page("/functions/new/")
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.locator("#derived", has_text="Entry").wait_for()
    page.get_by_role("link", name="Functions").first.click()  # nothing was written yet
    page.wait_for_url("**/functions/")
    page.goto("/functions/new/")
    page.locator(".cm-content").fill(ROOT)
    page.get_by_role("link", name="Functions").first.click(no_wait_after=True)
    wait_on(page, lambda: asked)
    assert asked == ["beforeunload"] and page.url.endswith("/functions/new/")
    assert "math.sqrt" in page.locator("#source").input_value()


def test_a_service_is_read_from_its_document_moved_and_deleted(open_page, live):
    body = {"name": f"till-{secrets.token_hex(3)}", "provider": "openapi", "base_url": "http://127.0.0.1:9/wrong"}
    made = live.http.post("/api/v1/connections/", json=body).json()
    page = open_page(f"/connections/{made['id']}/")
    page.fill("#change-url", "http://127.0.0.1:9/right")
    page.get_by_role("button", name="Save").click()
    page.locator(".lead", has_text="/right").wait_for()
    page.fill("#import-text", json.dumps(DOCUMENT))
    page.get_by_role("button", name="Show its operations").click()
    page.get_by_role("row", name="listPrices").get_by_text("new", exact=True).wait_for()
    assert serious(page) == []
    picture(page, "service-preview")
    page.set_viewport_size(PHONE["viewport"])
    assert page.locator("[data-operations] .pill").bounding_box()["height"] < 30, "a word stays on one line"
    picture(page, "service-preview-phone")
    page.set_viewport_size(DESKTOP["viewport"])
    page.get_by_role("button", name="Import the chosen operations").click()
    page.get_by_role("row", name="listPrices").get_by_text("approved").wait_for()
    assert serious(page) == []
    picture(page, "service-imported")
    page.set_viewport_size(PHONE["viewport"])
    picture(page, "service-imported-phone")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/connections/")
    assert page.get_by_role("link", name=body["name"]).count() == 0


def test_the_tabs_of_a_function_keep_to_the_one_that_was_opened(open_page, live):
    """The person has a function with the name of one of the site's."""
    source = "def add_to_date() -> str:\n    return 'mine'\n"
    assert live.http.post("/api/v1/functions/", json={"name": "add_to_date", "source": source}).status_code == 201
    try:
        page = open_page("/functions/")
        page.locator('a[href="/functions/add_to_date/?owner="]').click()
        page.get_by_text("You can see more than one called").wait_for()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        for tab in ("Versions", "Tests", "Executions"):
            page.get_by_role("tab", name=tab).click()
        page.locator("#panel-versions", has_text="v1").wait_for(state="attached")
        page.locator("#panel-executions", has_text="No executions yet").wait_for()
        asked = [url for url in asked if "/functions/add_to_date" in url]
        assert len(asked) >= 4 and [url for url in asked if "owner=" not in url] == []
        assert "return 'mine'" not in page.locator(".cm-content").inner_text()
    finally:
        live.http.delete("/api/v1/functions/add_to_date")
