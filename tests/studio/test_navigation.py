"""Who sees which pages in the menu, and what a page says to people who may not change it."""

import re

import pytest

from agents import roles


def menu(browser, path="/approvals/"):
    html = browser.get(path).content.decode()
    nav = html[html.index('<nav id="nav"') : html.index("</nav>")]
    return [re.sub(r"<[^>]+>", "", link).strip() for link in re.findall(r"<li>(.*?)</li>", nav, re.S)]


def tabs(browser, path):
    html = browser.get(path).content.decode()
    found = re.search(r'<nav class="tabs".*?</nav>', html, re.S)
    return re.findall(r'href="([^"]+)"', found[0]) if found else []


@pytest.mark.parametrize(
    ("role", "more"), [("viewer", ["Settings"]), ("operator", ["Schedules", "Devices", "Settings"])]
)
def test_people_who_do_not_author_see_chat_approvals_and_what_is_known_of_them(role, more, alice, signed_in, settings):
    settings.DEFAULT_ROLE = role
    browser = signed_in(alice)
    assert menu(browser) == ["Chat", "Approvals", "Knowledge", *more]
    assert tabs(browser, "/memory/") == ["/memory/", "/records/"]
    for path in ("/playground/", "/sessions/", "/account/", "/schedules/", "/devices/"):
        assert "Your role on this site lets you read" not in browser.get(path).content.decode(), path
    for path in ("/agents/", "/functions/", "/chains/", "/providers/"):
        assert "Your role on this site lets you read" in browser.get(path).content.decode(), path


@pytest.mark.parametrize("role", ["author", "administrator"])
def test_authors_see_the_rest(role, alice, signed_in, settings):
    settings.DEFAULT_ROLE = role
    seen = menu(signed_in(alice))
    assert seen == [
        "Chat", "Approvals", "Agents", "Functions", "Chains", "Skills", "Knowledge", "Connections", "Runs", "Schedules",
        "Dashboard", "Settings", "First steps",
    ]  # fmt: skip
    assert "Your role on this site lets you read" not in signed_in(alice).get("/agents/").content.decode()


def test_the_first_steps_leave_the_menu_with_the_first_published_agent(alice, agent, signed_in):
    assert "First steps" in menu(signed_in(alice))
    agent.publish()
    assert "First steps" not in menu(signed_in(alice))


def test_pages_of_one_entry_are_tabs_of_each_other_and_the_entry_is_marked_on_all(alice, signed_in):
    browser = signed_in(alice)
    for pages, entry in (
        (["/playground/", "/sessions/", "/prompts/", "/files/"], "Chat"),
        (["/collections/", "/memory/", "/records/"], "Knowledge"),
        (["/connections/", "/devices/"], "Connections"),
        (["/providers/", "/teams/", "/clients/", "/audit/"], "Settings"),
    ):
        for path in pages:
            html = browser.get(path).content.decode()
            assert tabs(browser, path) == pages, path
            assert html.count('aria-current="page"') == 2, path
            assert entry in re.search(r'<li><a href="[^"]+" aria-current="page">.*?</li>', html, re.S)[0], path
    for path in ("/runs/", "/agents/", "/"):
        assert tabs(browser, path) == []


def test_the_list_of_conversations_leads_to_the_other_pages_of_the_chat(alice, agent, signed_in):
    agent.publish()
    html = signed_in(alice).get("/playground/").content.decode()
    places = re.search(r'<nav class="places".*?</nav>', html, re.S)[0]
    assert re.findall(r'href="([^"]+)"', places) == ["/sessions/", "/prompts/", "/files/"]


def test_the_admin_is_a_tab_of_the_settings_for_the_staff(site_admin, alice, signed_in):
    assert tabs(signed_in(site_admin), "/providers/")[-1] == "/admin/"
    assert "/admin/" not in tabs(signed_in(alice), "/providers/")


def test_a_role_on_the_site_counts_more_than_the_default(alice, signed_in, settings):
    settings.DEFAULT_ROLE = "operator"
    roles.make_roles()
    alice.groups.add(roles.Group.objects.get(name="author"))
    assert "Agents" in menu(signed_in(alice))


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_people_who_do_not_author_are_led_to_no_page_for_authors(role, alice, signed_in, settings):
    settings.DEFAULT_ROLE = role
    browser = signed_in(alice)
    for path in ("/", "/playground/", "/functions/"):
        html = browser.get(path).content.decode()
        assert 'href="/start/"' not in html and 'href="/functions/new/"' not in html, path
    for path in ("/start/", "/functions/new/"):
        answer = browser.get(path)
        assert answer.status_code == 403 and "role “author”" in answer.content.decode(), path


@pytest.mark.parametrize("role", ["author", "operator"])
def test_pages_are_called_as_in_the_menu(role, alice, signed_in, settings):
    settings.DEFAULT_ROLE = role
    for path, name in (("/playground/", "Chat"), ("/sessions/", "All conversations")):
        assert re.search(r"<h1>(.*?)</h1>", signed_in(alice).get(path).content.decode())[1] == name


def test_viewers_learn_before_they_write_that_they_cannot_send(alice, agent, signed_in, settings):
    agent.publish()
    words = "not send messages"
    html = signed_in(alice).get("/playground/").content.decode()
    assert words not in html and not re.search(r'<textarea id="text"[^>]* disabled', html)
    settings.DEFAULT_ROLE = "viewer"
    html = signed_in(alice).get("/playground/").content.decode()
    assert words in html and re.search(r'<textarea id="text"[^>]* disabled', html)
    html = signed_in(alice).get("/").content.decode()
    assert words in html and "Talk to an agent" not in html
