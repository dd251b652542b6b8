"""The admin of runs, chains, schedules and connections opens, for staff with their own rows alone."""

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.urls import reverse

from agents.models import Chain, Preference, Tool, ToolGrant
from config import admin_theme
from runs.models import Run

OURS = ("agents", "functions", "connectors", "devices", "knowledge", "runs", "auth")
LISTS = sorted(
    f"{model._meta.app_label}_{model._meta.model_name}"
    for model in admin.site._registry
    if model._meta.app_label in OURS
)


@pytest.mark.parametrize("name", LISTS)
def test_every_list_opens_and_can_be_searched(name, site_admin, signed_in):
    browser = signed_in(site_admin)
    url = reverse(f"admin:{name}_changelist")
    assert browser.get(url).status_code == 200
    assert browser.get(url + "?q=word").status_code == 200


@pytest.mark.parametrize("name", LISTS)
def test_every_form_opens_for_who_may_add(name, site_admin, signed_in):
    assert signed_in(site_admin).get(reverse(f"admin:{name}_add")).status_code in (200, 403)


@pytest.mark.parametrize("name", [name for name in LISTS if not name.startswith("auth")])
def test_a_stranger_on_the_staff_finds_nothing_of_alices(name, alice, charlie, staff, signed_in, agent):
    version = agent.publish(author=alice)
    Run.objects.create(principal=alice, agent=agent, version=version)
    page = signed_in(staff(charlie)).get(reverse(f"admin:{name}_changelist")).content
    assert b"librarian" not in page


def test_a_chain_is_made_published_and_kept_when_it_is_wrong(site_admin, signed_in):
    Tool.objects.create(name="lookup", kind="builtin", input_schema={"type": "object"})
    step = {
        "steps-0-key": "look",
        "steps-0-position": 0,
        "steps-0-target_kind": "tool",
        "steps-0-target": "lookup",
        "steps-0-input": "{}",
        "steps-0-options": "{}",
    }
    tool = Tool.objects.get()
    form = {
        "name": "look",
        "strategy": "graph",
        "session": "step",
        "timeout": 60,
        "max_chain_depth": 3,
        "max_parallel": 4,
        "enabled": "on",
        "owner": site_admin.pk,
        "steps-TOTAL_FORMS": 1,
        "steps-INITIAL_FORMS": 0,
        **step,
        "grants-TOTAL_FORMS": 1,
        "grants-INITIAL_FORMS": 0,
        "grants-0-tool": tool.pk,
        "grants-0-mode": "allow",
        "grants-0-offline": "fail",
    }
    browser = signed_in(site_admin)
    answer = browser.post(reverse("admin:agents_chain_add"), form)
    assert answer.status_code == 302, answer.context["errors"]
    chain = Chain.objects.get()
    assert chain.published.number == 1
    assert chain.published.read_spec().steps[0].target == "lookup"


@pytest.mark.parametrize("name", ["runs_schedule", "runs_budget", "runs_trigger"])
def test_a_choice_among_many_agents_is_searched_and_finds_only_ones_own(
    name, alice, bob, charlie, staff, signed_in, agent
):
    """The form holds no list of them, and what the search does not offer cannot be sent either."""
    page = signed_in(staff(charlie)).get(reverse(f"admin:{name}_add")).content.decode()
    assert "admin-autocomplete" in page
    asked = {"app_label": "runs", "model_name": name.split("_")[1], "field_name": "agent", "term": "lib"}
    found = lambda user: signed_in(staff(user)).get(reverse("admin:autocomplete"), asked).json()["results"]  # noqa: E731
    assert [one["text"] for one in found(alice)] == ["librarian"]
    assert found(charlie) == []
    refused = signed_in(charlie).post(reverse(f"admin:{name}_add"), {"agent": agent.pk})
    assert "agent" in refused.context["adminform"].form.errors


def test_every_model_of_the_admin_stands_in_the_menu():
    listed = {model for _, entries in admin_theme.MENU for _, model in entries}
    assert listed == {model._meta.label_lower for model in admin.site._registry}


def test_the_admin_has_the_navigation_theme_and_content_policy_of_the_pages(site_admin, signed_in, agent):
    browser = signed_in(site_admin)
    browser.cookies["theme"] = "dark"
    pages = [
        browser.get(path)
        for path in ("/runs/", "/admin/", "/admin/agents/agent/", f"/admin/agents/agent/{agent.pk}/change/")
    ]
    navigation = [re.findall(r'<li><a href="([^"]+)"', page.content.decode().split("</nav>")[0]) for page in pages]
    assert all(found == navigation[0] for found in navigation)
    assert '<a href="/admin/" aria-current="page">' in pages[1].content.decode()  # a tab of the settings
    for page in pages:
        html = page.content.decode()
        assert 'data-theme="dark"' in html and "muster/app.css" in html
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)(?![^>]*json)", html)
        assert "unsafe" not in page["Content-Security-Policy"]


def test_there_is_one_login_and_who_is_not_on_the_staff_is_refused(client, alice, site_admin, signed_in):
    refused = client.get("/admin/runs/run/", follow=True)
    assert refused.redirect_chain[-1][0].startswith("/login/?next=") and b"muster/app.css" in refused.content
    outside = client.get("/admin/login/?next=https://evil.example/")["Location"]
    signed = client.post(outside, {"username": site_admin.username, "password": "correct horse battery"})
    assert signed["Location"] in ("/", "/start/")
    assert signed_in(alice).get("/admin/runs/run/", follow=True).status_code == 403
    assert signed_in(site_admin).get("/admin/password_change/")["Location"] == "/account/"
    browser = signed_in(site_admin)
    assert browser.post("/admin/logout/")["Location"] == "/login/"
    assert browser.get("/admin/").status_code == 302


def test_what_changes_a_row_is_no_link(site_admin, signed_in, agent):
    html = signed_in(site_admin).get(f"/admin/agents/agent/{agent.pk}/change/").content.decode()
    duplicate = reverse("admin:agents_agent_duplicate", args=[agent.pk])
    assert f'<form method="post" action="{duplicate}"' in html and f'href="{duplicate}"' not in html
    assert signed_in(site_admin).get(duplicate).status_code == 405


def test_the_menu_offers_what_a_person_may_look_at(site_admin, charlie, signed_in):
    viewer = signed_in(charlie)
    charlie.is_staff = True
    charlie.save()
    charlie.user_permissions.add(Permission.objects.get(codename="view_agent"))
    hers = signed_in(site_admin).get(reverse("admin:index")).content.decode()
    his = viewer.get(reverse("admin:index")).content.decode()
    assert "Django administration" not in hers
    assert "Route decisions" in hers
    assert reverse("admin:agents_agent_changelist") in his
    assert "Route decisions" not in his


def test_the_page_of_a_chain_shows_its_picture(alice, charlie, site_admin, staff, signed_in, make_chain):
    chain = make_chain({"key": "look", "tool": "lookup"}, {"key": "tell", "tool": "say", "needs": ["look"]})
    browser = signed_in(staff(alice))
    page = browser.get(reverse("admin:agents_chain_change", args=[chain.pk])).content.decode()
    [address] = re.findall(r'<img src="([^"]+)" alt="look after nothing; tell after look"', page)
    picture = browser.get(address)
    Preference.objects.create(user=alice, language="de")
    german = browser.get(reverse("admin:agents_chain_change", args=[chain.pk])).content.decode()
    assert 'alt="look am Anfang; tell nach look"' in german
    assert (picture.status_code, picture["Content-Type"]) == (200, "image/svg+xml")
    assert 'data-step="tell"' in picture.content.decode()
    assert signed_in(charlie).get(address).status_code == 404
    assert signed_in(site_admin).get(address).status_code == 200


def test_the_form_of_an_agent_with_many_tools_is_small_and_keeps_indented_texts(site_admin, signed_in, make_agent):
    prompt = "Steps:\n\n    1. read\n        a. twice"
    agent = make_agent("granted", system_prompt=prompt)
    for number in range(15):
        tool = Tool.objects.create(name=f"tool-{number}", kind="builtin", effect="read")
        ToolGrant.objects.create(agent=agent, tool=tool, mode="allow")
    html = signed_in(site_admin).get(f"/admin/agents/agent/{agent.pk}/change/").content.decode()
    assert prompt in html and "select2" not in html and "delete-related" not in html
    assert len(html) < 110_000
