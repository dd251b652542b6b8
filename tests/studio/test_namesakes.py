"""Pages of rows with one name: each list leads to each row, and links and forms of a row's page keep to it."""

import re
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from agents.models import Agent, Chain, Membership, Provider, Team
from functions.models import StoredFunction
from knowledge.collections import catalog
from knowledge.models import Collection, Skill
from runs.models import Run, Schedule
from tests.knowledge.documents import add, index
from tests.knowledge.skills.samples import skill_md

PAGES = {
    "functions": StoredFunction,
    "skills": Skill,
    "collections": Collection,
    "providers": Provider,
    "schedules": Schedule,
}
QUERIES = {"": "?owner=", "site-admin": "", "alice": "?owner=alice"}
ADDRESSES = re.compile(r'(?:href|action)="([^"]*)"')


@pytest.fixture
def browser(signed_in, site_admin):
    return signed_in(site_admin)


@pytest.fixture
def twins(site_admin, alice, team, offline):
    """`twins(kind)`: rows called "twin" by owner: of the administrator, of the site, and of Alice for her team."""
    Membership.objects.create(team=team, user=site_admin)

    def make(kind):
        row = {"": made(PAGES[kind], None, offline), "site-admin": made(PAGES[kind], site_admin, offline)}
        return {**row, "alice": made(PAGES[kind], alice, offline, team=team)}

    return make


def made(model, owner, offline, **fields):
    words = f"of {owner}"
    about = {
        Provider: {"kind": "offline", "default_model": words}, Skill: {"text": skill_md(name="twin", body=words)},
        StoredFunction: {"source": f"def twin() -> str:\n    return {words!r}\n", "entry": "twin"},
        Collection: {"description": words}, Schedule: {"text": words},
    }[model]  # fmt: skip
    if model is Skill:
        about["files"] = [{"path": "notes.txt", "size": 1, "media_type": "text/plain", "sha256": "0" * 64}]
    if model is Schedule:
        about["agent"] = Agent.objects.create(name=f"agent-{owner}", provider=offline)
        about["interval"] = model._meta.get_field("interval").related_model.objects.create(every=1, period="days")
    return model.objects.create(name="twin", owner=owner, **about, **fields)


def text(answer):
    assert answer.status_code == 200, answer.content.decode()[:2000]
    return unescape(answer.content.decode())


def addresses(answer):
    """Those of links and forms; an address that begins with ? belongs to the page."""
    found = [unescape(one) for one in ADDRESSES.findall(answer.content.decode())]
    return [answer.wsgi_request.path + one if one.startswith("?") else one for one in found]


@pytest.mark.parametrize("kind", PAGES)
def test_each_row_of_a_list_leads_to_its_own_page(twins, browser, kind):
    rows = twins(kind)
    links = [one for one in addresses(browser.get(f"/{kind}/")) if one.startswith(f"/{kind}/twin/")]
    assert set(links) == {f"/{kind}/twin/{query}" for query in QUERIES.values()}
    pages = {owner: browser.get(f"/{kind}/twin/{query}") for owner, query in QUERIES.items()}
    assert {owner: page.context[kind[:-1]].pk for owner, page in pages.items()} == {
        owner: row.pk for owner, row in rows.items()
    }
    several = {owner for owner, page in pages.items() if "You can see more than one called “twin”" in text(page)}
    assert several == {"", "alice"}
    assert browser.get(f"/{kind}/twin/?owner=nobody").status_code == 404


@pytest.mark.parametrize("kind", PAGES)
def test_every_link_and_form_of_a_page_keeps_to_its_row(twins, browser, kind):
    twins(kind)
    for query in ("?owner=", "?owner=&file=notes.txt", "?owner=&query=goods"):
        answer = browser.get(f"/{kind}/twin/{query}")
        if answer.status_code == 404:
            continue  # a skill whose file is not there
        meant = f'/{kind}/twin/">Open the one that the name means'
        assert meant in text(answer)
        own = [one for one in addresses(answer) if f"/{kind}/twin" in one and not one.endswith("/admin")]
        lost = [one for one in own if "owner=" not in one]
        assert lost == [f"/{kind}/twin/"], "only the link to the other one"


@pytest.mark.parametrize("kind", [kind for kind in PAGES if kind != "functions"])
def test_only_the_row_of_the_page_is_deleted(twins, browser, signed_in, alice, kind):
    rows = twins(kind)
    if kind == "collections":
        [catalog.save_collection_tools(row) for row in rows.values()]
    left = lambda: set(PAGES[kind].objects.filter(name="twin").values_list("pk", flat=True))  # noqa: E731
    assert signed_in(alice).post(f"/{kind}/twin/delete?owner=").status_code in (302, 403)
    assert browser.post(f"/{kind}/twin/delete?owner=alice").status_code in (302, 403)
    assert left() == {row.pk for row in rows.values()}
    assert browser.post(f"/{kind}/twin/delete?owner=").status_code == 302
    assert left() == {rows["site-admin"].pk, rows["alice"].pk}


def test_a_provider_is_changed_and_tested_where_its_form_stands(twins, browser):
    rows = twins("providers")
    form = {
        "name": "twin",
        "kind": "offline",
        "default_model": "changed",
        "api": "chat",
        "tool_calling": "native",
        "thinking": "split",
        "enabled": "on",
    }
    saved = browser.post("/providers/twin/?owner=", form)
    assert (saved.status_code, saved.headers["Location"]) == (302, "/providers/twin/?owner=")
    assert browser.post("/providers/twin/test?owner=").headers["Location"] == "/providers/twin/?owner="
    assert {owner: Provider.objects.get(pk=row.pk).default_model for owner, row in rows.items()} == {
        "": "changed", "site-admin": "of site-admin", "alice": "of alice",
    }  # fmt: skip
    assert 'data-query="owner="' in text(browser.get("/providers/twin/?owner="))


def test_a_failed_run_leads_to_the_provider_of_its_agent(twins, browser, site_admin):
    agent = Agent.objects.create(name="helper", owner=site_admin, provider=twins("providers")[""])
    agent.publish(author=site_admin)
    run = Run.objects.create(
        principal=site_admin, agent=agent, version=agent.published, status="failed",
        error={"code": "model_unreachable", "message": "x"},
    )  # fmt: skip
    assert "/providers/twin/?owner=" in addresses(browser.get(f"/runs/{run.pk}/"))
    other = Agent.objects.create(name="helper", provider=agent.provider)
    assert {"/agents/helper/", "/agents/helper/?owner="} <= set(addresses(browser.get("/providers/twin/?owner=")))
    assert other.provider_id == agent.provider_id


def test_a_skill_is_saved_and_published_where_its_form_stands(twins, browser):
    rows = twins("skills")
    seen = {"seen": rows[""].updated_at.isoformat()}
    saved = browser.post("/skills/twin/?owner=", {"text": skill_md(name="twin", body="Changed."), **seen})
    assert (saved.status_code, saved.headers["Location"]) == (302, "/skills/twin/?owner=")
    seen = {"seen": Skill.objects.get(pk=rows[""].pk).updated_at.isoformat()}
    assert browser.post("/skills/twin/publish?owner=", seen).headers["Location"] == "/skills/twin/?owner="
    assert {owner for owner, row in rows.items() if Skill.objects.get(pk=row.pk).published_id} == {""}
    assert {owner for owner, row in rows.items() if "Changed." in Skill.objects.get(pk=row.pk).text} == {""}


def test_a_collection_is_filled_searched_and_evaluated_where_its_form_stands(twins, browser):
    rows = twins("collections")
    for owner, row in rows.items():
        catalog.save_collection_tools(row)
        if owner:
            add(row, "rules.txt", f"Returns to {owner}.")
    page = "/collections/twin"
    sent = {"file": SimpleUploadedFile("rules.txt", b"Returns to everybody."), "own": "yes"}
    assert browser.post(f"{page}/?owner=", sent).headers["Location"] == f"{page}/?owner="
    index()
    found = text(browser.get(f"{page}/?owner=&query=returns"))
    assert "Returns to everybody" in found and "Returns to site-admin" not in found
    assert '<input type="hidden" name="owner" value="">' in found, "of the form for the search"
    asked = browser.post(f"{page}/questions?owner=", {"question": "returns", "document": "rules.txt"})
    assert asked.headers["Location"] == f"{page}/?owner="
    assert browser.post(f"{page}/evaluate?owner=").headers["Location"] == f"{page}/?owner="
    assert {owner for owner, row in rows.items() if row.evaluations.exists()} == {""}
    document = rows[""].documents.get()
    assert f"{page}/?owner=" in addresses(browser.get(f"{page}/documents/{document.pk}/"))
    assert browser.post(f"{page}/documents/{document.pk}/erase").status_code == 404, "of another collection"
    assert browser.post(f"{page}/documents/{document.pk}/erase?owner=").headers["Location"] == f"{page}/?owner="
    assert [row.documents.count() for row in rows.values()] == [0, 1, 1]


def test_a_schedule_is_paused_and_changed_where_its_form_stands(twins, browser, site_admin):
    rows = twins("schedules")
    assert browser.post("/schedules/twin/pause?owner=").headers["Location"] == "/schedules/twin/?owner="
    assert {owner for owner, row in rows.items() if not Schedule.objects.get(pk=row.pk).enabled} == {""}
    Schedule.objects.filter(pk=rows["alice"].pk).update(next_due_at="2050-01-01T00:00Z")
    rows[""].agent.publish()  # without a published agent, the dashboard shows the first steps
    Run.objects.create(principal=site_admin, agent=rows[""].agent, version=rows[""].agent.published, status="succeeded")
    assert "/schedules/twin/?owner=alice" in addresses(browser.get("/"))


def test_the_editor_of_a_function_says_whose_it_is(twins, browser):
    twins("functions")
    assert 'data-query="owner="' in text(browser.get("/functions/twin/?owner="))
    assert 'data-query=""' in text(browser.get("/functions/twin/"))


def test_two_teams_that_share_a_name_leave_both_to_be_opened(twins, signed_in, bob, charlie, offline):
    twins("functions")[""].delete()
    other = Team.objects.create(name="others")
    for person in (bob, charlie):
        Membership.objects.create(team=other, user=person)
    made(StoredFunction, charlie, offline, team=other)
    browser = signed_in(bob)
    assert browser.get("/functions/twin/").status_code == 409
    for owner in ("alice", "charlie"):
        page = text(browser.get(f"/functions/twin/?owner={owner}"))
        assert f"of {owner}" in page and "Open the one that the name means" not in page


def test_the_rows_of_one_name_are_on_one_page_of_the_list(browser, twins, site_admin, monkeypatch):
    from studio import base

    monkeypatch.setattr(base, "PAGE", 2)
    twins("functions")
    StoredFunction.objects.create(name="other", source="x", owner=site_admin)
    StoredFunction.objects.create(name="zebra", source="x", owner=site_admin)
    first = browser.get("/functions/")
    assert [row.name for row in first.context["functions"]] == ["other", "twin", "twin", "twin"]
    assert [row.name for row in browser.get("/functions/?after=twin").context["functions"]] == ["zebra"]


def test_chains_and_agents_of_one_name_keep_their_pages(browser, site_admin, offline):
    for model, more in ((Agent, {"provider": offline}), (Chain, {})):
        for owner in (site_admin, None):
            model.objects.create(name="twin", owner=owner, **more)
    for kind in ("agents", "chains"):
        assert {f"/{kind}/twin/", f"/{kind}/twin/?owner="} <= set(addresses(browser.get(f"/{kind}/")))
        page = text(browser.get(f"/{kind}/twin/?owner="))
        assert "You can see more than one called “twin”" in page and "the other needs another name" in page
