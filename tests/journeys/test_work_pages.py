"""The pages of daily work in a real browser: runs, providers, schedules, help."""

import re
import secrets
import subprocess
import sys

import httpx2
import pytest

from tests.live import ROOT, environment_of

from .browser import DESKTOP, PHONE, picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]


@pytest.fixture(scope="module")
def scribe(live):
    """An agent that writes tasks down."""
    agent = {"name": "work-scribe", "provider": "offline", "grants": [{"tool": "create_task"}]}
    if live.http.get("/api/v1/agents/work-scribe").status_code == 404:  # else made for the other browser
        live.http.post("/api/v1/agents/", json=agent).raise_for_status()
        live.http.post("/api/v1/agents/work-scribe/publish", json={}).raise_for_status()
    return lambda text: live.http.post("/api/v1/agents/work-scribe/messages", json={"message": text}).json()["run"][
        "id"
    ]


@pytest.mark.firefox
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
    name = f"My tasks {secrets.token_hex(3)}"
    page.fill("#f-name", name)
    page.get_by_role("button", name="Save these filters").click()
    page.get_by_role("link", name=name).wait_for()
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


@pytest.fixture(scope="module")
def other(live):
    """A person who is no administrator, with a key of their own."""
    command = [sys.executable, "manage.py", "create_key", "work-other", "--scope", "*", "--scope", "approvals:decide"]
    done = subprocess.run(command, cwd=ROOT, env=environment_of(live), capture_output=True, text=True, timeout=120)
    key = re.search(r"mk_\S+", done.stdout)[0]
    with httpx2.Client(base_url=live.url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        yield client


def test_an_administrator_follows_the_run_of_somebody_else(open_page, other):
    agent = {"name": "work-asker", "provider": "offline", "grants": [{"tool": "create_task", "mode": "ask"}]}
    other.post("/api/v1/agents/", json=agent).raise_for_status()
    other.post("/api/v1/agents/work-asker/publish", json={}).raise_for_status()
    said = {"message": 'create task with title "Shovel"', "wait": 0}
    run = other.post("/api/v1/agents/work-asker/messages", json=said).json()["run"]["id"]
    page = open_page(f"/runs/{run}/")
    page.locator(".pill", has_text="waiting for approval").first.wait_for()
    assert page.get_by_role("button", name="Cancel").count() == 0, "an administrator looks, and does not act"
    [approval] = other.get(f"/api/v1/approvals/?run={run}").json()["results"]
    other.post(f"/api/v1/approvals/{approval['id']}", json={"decision": "approve"}).raise_for_status()
    page.locator(".pill.succeeded").first.wait_for()
    page.locator(".fall summary", has_text="create_task").wait_for()


@pytest.mark.firefox
def test_a_provider_is_added_tested_priced_and_deleted(open_page):
    name = f"work-local-{secrets.token_hex(3)}"
    page = open_page("/providers/")
    unfold(page, "#id_name")
    page.fill("#id_name", name)
    page.select_option("#id_kind", "openai-compatible")
    page.fill("#id_base_url", "http://127.0.0.1:9/v1")
    page.get_by_role("button", name="Add and test").click()
    page.get_by_text("The test failed.").wait_for()
    assert serious(page) == []
    page.select_option("#id_kind", "anthropic")
    page.fill("#id_base_url", "http://127.0.0.1:9/v1")
    page.get_by_role("button", name="Save and test").click()
    page.locator("details", has=page.locator("[data-fill-prices]")).locator("summary").first.click()
    page.get_by_role("button", name="Fill in known prices").click()
    page.locator("[data-prices] tr").nth(3).wait_for()
    picture(page, "provider")
    page.get_by_role("button", name="Save and test").click()
    page.get_by_role("link", name="Providers").first.click()
    page.get_by_role("link", name=name).click()
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    page.get_by_text(f"“{name}” was deleted.").wait_for()
    ignore_models(open_page)


def ignore_models(open_page):
    """The browser writes the refused list of models of a server that is not there into its console."""
    meant = [one for one in open_page.complaints if "/models" in one]
    assert len(meant) == len(open_page.complaints), open_page.complaints
    open_page.complaints.clear()


def unfold(page, field):
    if not page.locator(field).is_visible():
        page.locator("details", has=page.locator(field)).locator("summary").first.click()


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_help_of_a_page_and_the_first_steps_fit(device, open_page):
    page = open_page("/schedules/", device)
    page.get_by_role("link", name="Help for this page").click()
    page.wait_for_url("**/help/schedules/")
    for name, path in {
        "help": "/help/models/",
        "start": "/start/",
        "devices": "/devices/",
        "providers": "/providers/",
    }.items():
        page.goto(path)
        page.wait_for_load_state("networkidle")
        assert serious(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, name
        picture(page, f"work-{name}-{'phone' if device is PHONE else 'desktop'}")


def test_a_crontab_line_is_explained_while_it_is_typed(open_page):
    page = open_page("/schedules/")
    unfold(page, "#id_crontab")
    page.fill("#id_crontab", "30 7 * * 1")
    page.locator("[data-times]", has_text="07:30").locator("li").nth(4).wait_for()
    page.fill("#id_crontab", "nonsense")
    page.locator("[data-times] li").first.wait_for(state="detached")
    picture(page, "schedule-words")
