"""Who sees which pages in the menu, and what a page says to people who may not change it."""

import re

import pytest

from agents import roles


def menu(browser, path="/approvals/"):
    html = browser.get(path).content.decode()
    nav = html[html.index('<nav id="nav"') : html.index("</nav>")]
    return [re.sub(r"<[^>]+>", "", link).strip() for link in re.findall(r"<li>(.*?)</li>", nav, re.S)]


@pytest.mark.parametrize(("role", "more"), [("viewer", []), ("operator", ["Schedules", "Devices"])])
def test_people_who_do_not_author_see_chat_approvals_history_and_files(role, more, alice, signed_in, settings):
    settings.DEFAULT_ROLE = role
    browser = signed_in(alice)
    assert menu(browser) == ["Chat", "Approvals", "History", "Files", *more]
    for path in ("/playground/", "/sessions/", "/account/", "/schedules/", "/devices/"):
        assert "Your role on this site lets you read" not in browser.get(path).content.decode(), path
    for path in ("/agents/", "/functions/", "/chains/", "/providers/"):
        assert "Your role on this site lets you read" in browser.get(path).content.decode(), path


@pytest.mark.parametrize("role", ["author", "administrator"])
def test_authors_see_the_rest(role, alice, signed_in, settings):
    settings.DEFAULT_ROLE = role
    seen = menu(signed_in(alice))
    assert {"Dashboard", "Playground", "Runs", "Agents", "Functions", "Chains", "Providers", "First steps"} <= set(seen)
    assert "Admin" not in seen
    assert "Your role on this site lets you read" not in signed_in(alice).get("/agents/").content.decode()


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


def test_pages_are_called_as_in_the_menu(alice, signed_in, settings):
    def headings():
        return [
            re.search(r"<h1>(.*?)</h1>", signed_in(alice).get(path).content.decode())[1]
            for path in ("/playground/", "/sessions/")
        ]

    assert headings() == ["Playground", "Sessions"]
    settings.DEFAULT_ROLE = "operator"
    assert headings() == ["Chat", "History"]


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
