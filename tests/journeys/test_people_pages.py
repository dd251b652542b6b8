"""An administrator gives access, somebody accepts it, and what is shared works for them at the first try."""

import re
from secrets import token_hex

import pytest

from agents.models import Provider

from .browser import assert_inside_window, picture, serious

pytestmark = [pytest.mark.browser, pytest.mark.live]
SIZES = [
    {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    {"viewport": {"width": 1024, "height": 768}, "color_scheme": "light", "locale": "de-DE"},
    {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
]
COST = 'def %s(kg: float) -> float:\n    """What a parcel costs."""\n    return kg * 2\n'


@pytest.fixture(scope="module")
def shared(live):
    """A team, and an agent on a private provider with a private function."""
    end = token_hex(3)
    names = {"team": f"logistics-{end}", "model": f"model-{end}", "function": f"cost_{end}", "agent": f"parcels-{end}"}
    function = {"name": names["function"], "source": COST % names["function"]}
    agent = {"name": names["agent"], "provider": names["model"], "grants": [{"tool": names["function"]}]}
    for path, body in (
        ("teams/", {"name": names["team"]}),
        ("providers/", {"name": names["model"], "kind": Provider.Kind.OFFLINE}),
        ("functions/", function),
        (f"functions/{names['function']}/publish", {}),
        ("agents/", agent),
        (f"agents/{names['agent']}/publish", {}),
    ):
        live.http.post(f"/api/v1/{path}", json=body).raise_for_status()
    return names


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["viewport"]["width"]))
def test_the_dialog_of_sharing_lies_inside_the_window_and_shares_all(live, open_page, shared, size):
    page = open_page(f"/agents/{shared['agent']}/", size)
    page.locator("#use").click()
    page.locator("#f-team").select_option(shared["team"])
    assert_inside_window(page, "dialog[open]")
    words = page.locator("dialog[open]").inner_text()
    assert shared["model"] in words and shared["function"] in words
    assert serious(page) == []
    picture(page, f"sharing-{size['viewport']['width']}")
    # The last size shares, so that the others find something to ask about.
    if size is SIZES[-1]:
        page.locator("dialog[open] button.primary").click()
        page.get_by_text("Shared with").wait_for()
        needs = live.http.get(f"/api/v1/sharing/agents/{shared['agent']}?team={shared['team']}").json()["needs"]
        assert needs == []
    else:
        page.locator("dialog[open] button[value='']").click()
        # The dialog tells that it is closed a moment later.
        page.wait_for_function("document.querySelector('#f-team').value === ''")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["viewport"]["width"]))
def test_an_account_is_made_and_its_person_chooses_a_password(live, open_page, browser, shared, size):
    name = f"erin-{token_hex(3)}"
    page = open_page("/people/", size)
    page.locator("section summary").click()
    page.locator("#id_username").fill(name)
    page.locator("input[name=role][value=operator]").check()
    page.locator(f"input[name=teams][value={shared['team']}]").check()
    assert serious(page) == []
    picture(page, f"people-{size['viewport']['width']}")
    page.locator("form[data-guard] button.primary").click()
    page.locator("form[action$='/invitation'] button").click()
    link = page.locator("#join-link").inner_text()
    picture(page, f"person-{size['viewport']['width']}")
    context = browser.new_context(base_url=live.url, viewport=size["viewport"])
    guest = context.new_page()
    guest.set_default_timeout(120_000)
    guest.goto(re.sub(r"^https?://[^/]+", "", link))
    guest.locator("#id_new_password1").fill("correct-horse-7")
    guest.locator("#id_new_password2").fill("correct-horse-7")
    guest.locator("button.primary").click()
    guest.locator("[data-invited] a").click()
    guest.locator("form[action$='/accept'] button").click()
    guest.get_by_role("link", name=shared["team"]).wait_for()
    context.close()
