"""The pages of daily work in a real browser: runs that appear, two runs compared."""

import pytest

from .browser import DESKTOP, PHONE, picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]


@pytest.fixture(scope="module")
def scribe(live):
    """An agent that writes tasks down."""
    agent = {"name": "work-scribe", "provider": "offline", "grants": [{"tool": "create_task"}]}
    live.http.post("/api/v1/agents/", json=agent).raise_for_status()
    live.http.post("/api/v1/agents/work-scribe/publish", json={}).raise_for_status()
    return lambda text: live.http.post("/api/v1/agents/work-scribe/messages", json={"message": text}).json()["run"][
        "id"
    ]


def test_a_new_run_appears_without_a_reload_and_two_are_compared(open_page, scribe):
    first = scribe('create task with title "Sweep"')
    page = open_page("/runs/?agent=work-scribe")
    page.locator(f'tr[data-run="{first}"]').wait_for()
    page.evaluate("window.kept = true")
    second = scribe('create task with title "Mop"')
    page.locator(f'tr[data-run="{second}"] .pill.succeeded').wait_for()
    assert page.evaluate("window.kept"), "the page was not loaded again"
    assert page.locator("tr[data-run]").first.get_attribute("data-run") == second
    page.get_by_text("More filters").click()
    assert serious(page) == []
    picture(page, "runs-list")
    page.fill("#f-name", "My tasks")
    page.get_by_role("button", name="Save these filters").click()
    page.get_by_role("link", name="My tasks").wait_for()
    compare = page.get_by_role("button", name="Compare two runs")
    for run in (first, second):
        assert compare.is_disabled()
        page.locator(f'tr[data-run="{run}"] input').check()
    compare.click()
    page.get_by_role("heading", name="Two runs compared").wait_for()
    page.get_by_role("row", name="Message differs").wait_for()
    assert serious(page) == []
    picture(page, "runs-compared")


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_list_of_runs_fits(device, open_page, scribe):
    scribe('create task with title "Dust"')
    page = open_page("/runs/?agent=work-scribe&min_tokens=0", device)
    page.wait_for_load_state("networkidle")
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    picture(page, f"runs-{'phone' if device is PHONE else 'desktop'}")
