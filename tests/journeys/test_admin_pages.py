"""Every page of the admin in a real browser: nothing that axe finds, nothing too wide, a silent console, few bytes."""

import re
import secrets

import pytest

from tests.matrices import is_exhaustive

from .browser import DESKTOP, PHONE, assert_inside_window, needs_chromium, picture

pytestmark = [pytest.mark.browser, pytest.mark.live]
FOUND = """async () => (await axe.run()).violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 120)}`)"""
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SENT = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .reduce((sum, one) => sum + Math.min(one.transferSize, one.encodedBodySize), 0)"""  # from the cache: 0
ROW = "#result_list tbody a[href*='/change/']"
LIMIT = 300 * 1024  # as sent by a server that does not compress
WITH_EDITOR, EDITOR_LIMIT = "/admin/functions/storedfunction/", 600 * 1024  # a third of it when compressed


def lists(page):
    """The address of each list that the admin's first page names."""
    page.goto("/admin/")
    links = page.eval_on_selector_all("main .card a", "all => all.map((one) => new URL(one.href).pathname)")
    assert len(links) > 30
    return links


def check(page, path, with_axe=True):
    answer = page.goto(path)
    assert answer.status == 200, path
    page.wait_for_load_state("load")
    page.wait_for_timeout(150)  # parts that Django's scripts draw get their names
    assert not with_axe or page.evaluate(FOUND) == [], path
    assert page.evaluate(TOO_WIDE) <= 0, path
    weight = page.evaluate(SENT)
    limit = EDITOR_LIMIT if path.startswith(WITH_EDITOR) else LIMIT
    assert weight <= limit, f"{path}: {weight} bytes"


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop-light", "phone-dark"])
def test_every_list_and_form_of_the_admin(device, open_page):
    """Lists and forms to add on the desktop; lists, rows, their history and deletion on the phone.

    axe looks at each list on the desktop. The pages of history and deletion are one template each for all kinds of rows,
    so that every fourth kind is enough; `make exhaustive` looks at all.
    """
    page = open_page("/", device)
    for number, path in enumerate(lists(page)):
        check(page, path, with_axe=device is DESKTOP or is_exhaustive())
        row = page.locator(ROW).first.get_attribute("href") if page.locator(ROW).count() else None
        if device is DESKTOP:
            if page.locator("main a", has_text=re.compile("^Add ")).count():
                check(page, f"{path}add/")
        elif row:
            row = row.split("?")[0]
            check(page, row)
            for verb in ("history", "delete") if number % 4 == 0 or is_exhaustive() else ():
                other = row.replace("/change/", f"/{verb}/")
                if page.locator(f"main a[href^='{other}']").count():
                    check(page, other)
                    page.goto(row)


@pytest.mark.firefox
def test_the_admin_is_reached_and_left_by_the_same_menu(open_page):
    page = open_page("/runs/", PHONE)
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Settings", exact=True).click()
    page.get_by_role("link", name="Admin", exact=True).click()
    page.get_by_role("link", name="Budgets").click()
    page.get_by_role("navigation", name="People and limits").get_by_role("link", name="Keys").click()
    page.get_by_role("heading", name="Api keys").wait_for()
    picture(page, "admin-keys")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Runs", exact=True).click()
    page.wait_for_url("**/runs/")


def test_the_theme_of_the_pages_holds_in_the_admin_and_can_follow_the_system(open_page):
    page = open_page("/runs/")
    shown = "document.documentElement.dataset.theme ?? 'auto'"
    for theme in ("dark", "light", "auto"):
        page.get_by_role("button", name="Theme").click()
        assert page.evaluate(shown) == theme
        page.goto("/admin/")
        assert page.evaluate(shown) == theme
        page.get_by_role("button", name=f"Theme: {theme}").wait_for()


@pytest.mark.firefox
def test_a_tool_is_found_and_granted_by_keyboard_in_a_light_form(open_page, live):
    name = f"granted-{secrets.token_hex(3)}"
    live.http.post("/api/v1/agents/", json={"name": name, "provider": "offline"}).raise_for_status()
    page = open_page(f"/admin/agents/agent/?q={name}")
    page.get_by_role("link", name=name).click()
    page.locator(".add-row a").click()
    field = page.get_by_role("combobox", name="Tool").last
    field.click()
    page.locator(".found [role=option]").first.wait_for()
    assert_inside_window(page, ".found:popover-open")
    field.press_sequentially("shorten")
    page.locator(".found [role=option]", has_text="shorten_text").wait_for()
    assert page.evaluate(FOUND) == []
    picture(page, "admin-search")
    page.keyboard.press("Enter")
    assert field.input_value() == "shorten_text"
    page.keyboard.press("Tab")
    owner = page.get_by_role("combobox", name="Owner")
    if not owner.is_visible():
        page.locator("summary", has_text="Sharing").click()
    owner.fill("nobody of this name")
    page.get_by_text("Nothing matches.").wait_for()
    page.keyboard.press("Escape")
    assert owner.input_value() != "nobody of this name"
    page.locator("[name=_save]").click()
    page.get_by_text("was changed successfully").wait_for()
    grants = live.http.get(f"/api/v1/agents/{name}").json()["grants"]
    assert [one["tool"] for one in grants] == ["shorten_text"]


def test_the_form_of_a_starter_agent_loads_less_than_300_kb_uncompressed(open_page):
    page = open_page("/admin/agents/agent/?q=bookkeeper")
    path = page.get_by_role("link", name="bookkeeper", exact=True).get_attribute("href")
    sizes, fresh = [], page.context.new_page()
    needs_chromium(fresh.context.browser, "it reports no sizes of cached answers")
    fresh.context.new_cdp_session(fresh).send("Network.setCacheDisabled", {"cacheDisabled": True})
    fresh.on("response", lambda answer: sizes.append(answer))
    fresh.goto(path)
    fresh.wait_for_load_state("networkidle")
    whole = sum(len(one.body()) for one in sizes if one.status == 200)
    assert whole < 300_000, whole
