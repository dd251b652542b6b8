"""A schedule is created, changed, paused, resumed and deleted in a browser."""

import secrets

import pytest

from .browser import DESKTOP, PHONE, picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]


@pytest.fixture(scope="module")
def greeter(live):
    if live.http.get("/api/v1/agents/greeter").status_code == 200:
        return  # stored when this module ran in the other browser
    live.http.post("/api/v1/agents/", json={"name": "greeter", "provider": "offline"}).raise_for_status()
    live.http.post("/api/v1/agents/greeter/publish", json={}).raise_for_status()


@pytest.mark.firefox
@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop-light", "phone-dark"])
def test_a_schedule_is_kept_in_its_page(device, open_page, live, greeter, request):
    name = f"greet-{secrets.token_hex(3)}"
    page = open_page("/schedules/?agent=greeter", device)
    if not page.locator("#id_name").is_visible():
        page.get_by_text("New schedule").click()
    page.fill("#id_name", name)
    page.fill("#id_text", "Good morning")
    page.select_option("#id_missed_policy", "all")
    page.select_option("#id_overlap_policy", "queue")
    page.get_by_role("button", name="Create schedule").click()
    page.get_by_text("is due first").wait_for()

    page.goto(f"/schedules/{name}/")
    page.locator("dd", has_text="At 08:00, Monday through Friday").wait_for()  # the form explains its line, too
    assert page.locator("ol.stack li").count() == 5
    page.get_by_text("Edit", exact=True).click()
    assert serious(page) == []
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{width} px too wide"
    picture(page, f"schedule-{request.node.callspec.id}")
    page.fill("#id_crontab", "30 17 * * 5")
    page.get_by_role("button", name="Save").click()
    page.locator("dd", has_text="At 17:30, only on Friday").wait_for()

    page.get_by_role("button", name="Pause").click()
    page.get_by_text("It is paused").wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("Resumed.").wait_for()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    page.get_by_text("was deleted").wait_for()
    assert live.http.get(f"/api/v1/schedules/{name}").status_code == 404
