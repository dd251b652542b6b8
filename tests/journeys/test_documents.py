"""A person adds documents to a collection and sees on its page when they are read."""

import secrets

import pytest

from tests.corpus.documents import CASES

from .browser import PHONE, picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]
SHEETS = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@pytest.fixture
def shelf():
    return f"prices-{secrets.token_hex(3)}"


def test_an_added_file_becomes_ready_on_the_open_page(open_page, live, shelf):
    live.http.post("/api/v1/collections/", json={"name": shelf}).raise_for_status()
    page = open_page(f"/collections/{shelf}/")
    [case] = [case for case in CASES if case.name == "hidden.xlsx"]
    sent = {"name": f"{'long-name-' * 4}.xlsx", "mimeType": SHEETS, "buffer": case.make()}
    page.set_input_files("#d-file", sent)
    page.get_by_role("button", name="Add", exact=True).click()
    page.locator("td .pill.waiting, td .pill.indexing").wait_for()
    page.locator("td .pill.ready").wait_for()
    assert page.locator("[data-busy]").count() == 0 and page.get_by_text("not in the text").count() == 0
    assert serious(page) == []
    page.locator("td.loose a").click()
    page.get_by_text("The sheet is hidden in the file.").wait_for()


def test_buttons_of_a_row_do_not_cover_its_name_on_a_phone(open_page, live, shelf):
    live.http.post("/api/v1/collections/", json={"name": shelf}).raise_for_status()
    body = {"name": f"{'long-name-' * 4}.md", "text": "# Prices\n\nA bell costs 4.50."}
    live.http.post(f"/api/v1/collections/{shelf}/documents/", json=body).raise_for_status()
    page = open_page(f"/collections/{shelf}/", PHONE)
    page.locator("td .pill.ready").wait_for()
    name, buttons = page.locator("td.loose").bounding_box(), page.locator("tbody td").last.bounding_box()
    is_beside = name["x"] + name["width"] <= buttons["x"] + 1
    is_above = name["y"] + name["height"] <= buttons["y"] + 1
    assert is_beside or is_above
    picture(page, "collection-phone")
