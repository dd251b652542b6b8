"""No page scrolls sideways, and no list of cards does: on a phone and on a desktop, in English and in German, with names that do not break."""

import re
import secrets

import pytest
from django.urls import Resolver404, resolve

from .browser import DESKTOP, PHONE, forget

pytestmark = [pytest.mark.browser, pytest.mark.live]
MESSAGE = "Please calculate 240 * 12.5 / 100 " + "x" * 90
LINKS = "[...document.querySelectorAll('a[href]')].map((one) => new URL(one.href)).filter((one) => one.origin === location.origin).map((one) => one.pathname)"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
WIDEST = """() => [...document.querySelectorAll("body *")].filter((one) => !one.closest(".scroll, pre")
  && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((one) => one.outerHTML.slice(0, 100)).slice(-3)"""
# The last column, which has what can be done with a row, is in view without scrolling the table.
CUT = """() => [...document.querySelectorAll(".scroll")].filter((one) => [...one.querySelectorAll("tbody td:last-child :is(a, button)")]
  .some((verb) => verb.getBoundingClientRect().right > one.getBoundingClientRect().right + 1
    && one.querySelector("thead th:last-child > .sr:only-child"))).map((one) => one.ariaLabel)"""

# Lists whose rows are cards on a phone: their table is not wider than its frame.
WIDE_CARDS = """() => [...document.querySelectorAll(".scroll:has(> .cards)")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel)"""
# What scrolls in itself in the folds of a page, when they are open.
SCROLLING = """() => { document.querySelectorAll("main details").forEach((one) => { one.open = true; });
  return [...document.querySelectorAll("main details .scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel); }"""


@pytest.fixture(scope="module")
def filled(live):
    """Rows whose names are as long as names can be, without a place to break."""
    post, name = live.http.post, "wide" * 11 + secrets.token_hex(3)
    made = {
        "agents/": {"name": name, "provider": "offline", "description": "Calculates. " * 20},
        "teams/": {"name": name},
        "collections/": {"name": name, "description": "W" * 120},
        "skills/": {"text": f"---\nname: {name}\ndescription: {'Writes reports. ' * 8}\n---\n# Steps\n"},
        "memory/": {"text": "W" * 120, "kind": "fact"},
        "records/tasks/": {"title": "W" * 120},
        "functions/": {
            "name": f"f-{name[8:]}"[-40:],
            "source": 'def f(text: str) -> str:\n    """Say."""\n    return text\n',
        },
        "chains/": {"name": name, "steps": []},
    }
    for path, body in made.items():
        answer = post(f"/api/v1/{path}", json=body)
        assert answer.status_code < 300, (path, answer.text)
    post(f"/api/v1/agents/{name}/publish", json={}).raise_for_status()
    schedule = {"name": name, "agent": name, "text": MESSAGE, "crontab": "0 8 * * 1"}
    post("/api/v1/schedules/", json=schedule).raise_for_status()
    file = {"file": ("w" * 120 + ".txt", b"Words.", "text/plain")}
    post("/api/v1/files/", files=file).raise_for_status()
    post(f"/api/v1/agents/{name}/messages", json={"message": MESSAGE}).raise_for_status()
    return [f"/agents/{name}/", f"/teams/{name}/", f"/collections/{name}/", f"/skills/{name}/", f"/schedules/{name}/"]


def route_of(path):
    try:
        return resolve(path).view_name
    except Resolver404:
        return ""


def pages(page, first):
    """One page of each route that links lead to, then those that none leads to."""
    waiting, seen = [*first, "/"], {route_of(path) for path in first}
    while waiting:
        path = waiting.pop(0)
        answer = page.goto(path)
        if "text/html" not in answer.headers.get("content-type", ""):
            continue
        page.wait_for_load_state("load")
        page.wait_for_timeout(100)  # parts that scripts draw
        yield path
        for link in page.evaluate(LINKS):
            route = route_of(link)
            if route.startswith("page:") and route not in seen and not re.search("/client/|picture.svg", link):
                seen.add(route)
                waiting.append(link)


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_numbers_of_the_dashboard_fit_a_phone(language, open_page, filled):
    page = open_page("/", PHONE, locale=language)
    assert page.locator("main details .scroll").count() == 1, "the numbers of the last days"
    assert page.evaluate(SCROLLING) == []


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_page_scrolls_sideways_and_no_table_hides_its_actions(language, open_page, filled):
    page = open_page("about:blank", locale=language)
    faults, looked_at = [], 0
    for path in pages(page, [*filled, "/playground/?compare=1", "/playground/"]):
        looked_at += 1
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            wide = page.evaluate(TOO_WIDE)
            if wide > 0:
                faults.append(f"{path} at {width}: {wide} px, {page.evaluate(WIDEST)}")
            cut = page.evaluate(CUT)
            if cut:
                faults.append(f"{path} at {width}: the actions of {cut} are cut off")
            cards = page.evaluate(WIDE_CARDS) if width == 390 else []
            if cards:
                faults.append(f"{path} at {width}: the cards of {cards} are wider than the page")
        page.set_viewport_size(DESKTOP["viewport"])
    assert not faults, "\n".join(faults)
    assert looked_at > 35
    forget(open_page, 503)  # other journeys leave providers whose servers have ended
