"""The pages of chains: the list, the editor and for whom it is one, and the admin's ways to try and export."""

import pytest
from django.urls import reverse

from agents.models import Chain, ChainStep, Membership, Tool, ToolGrant
from runs.intake import messages as intake
from runs.models import Run

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.fixture
def chain(alice):
    tool = Tool.objects.create(name="lookup", kind="builtin", input_schema={"type": "object"})
    made = Chain.objects.create(owner=alice, name="look-up", description="Looks it up.", input_schema=SCHEMA)
    ChainStep.objects.create(chain=made, key="look", target_kind="tool", target="lookup")
    ToolGrant.objects.create(chain=made, tool=tool, mode="allow")
    made.publish(author=alice)
    return made


def test_its_author_gets_the_editor(alice, signed_in, chain):
    browser = signed_in(alice)
    page = browser.get("/chains/look-up/").content.decode()
    assert 'data-name="look-up" data-editable="yes"' in page
    assert all(words in page for words in ('data-at="add"', 'data-at="publish"', 'data-try="start"', "v1 is live"))
    assert "&quot;text&quot;: &quot;&quot;" in page, "an empty input in the example call"


def test_a_team_mate_tries_what_is_live_and_a_viewer_looks(alice, bob, team, signed_in, chain):
    Chain.objects.filter(pk=chain.pk).update(team=team)
    page = signed_in(bob).get("/chains/look-up/").content.decode()
    assert 'data-editable="no"' in page and 'data-try="start"' in page
    assert 'data-at="add"' not in page and 'value="draft"' not in page
    Membership.objects.filter(user=bob).update(role="viewer")
    assert 'data-try="start"' not in signed_in(bob).get("/chains/look-up/").content.decode()


def test_charlie_finds_no_chain(charlie, signed_in, chain):
    browser = signed_in(charlie)
    assert b"look-up" not in browser.get("/chains/").content
    assert browser.get("/chains/look-up/").status_code == 404
    assert browser.get("/chains/Not A Name/").status_code == 404


def test_the_list_has_versions_steps_and_ones_own_runs(alice, bob, team, signed_in, chain):
    Chain.objects.create(owner=alice, name="unpublished")
    run = intake.start_chain(user=alice, chain="look-up", input={"text": "x"})
    Run.objects.get(pk=run.pk).change("failed")
    browser = signed_in(alice)
    shown = {one.name: one for one in browser.get("/chains/").context["chains"]}
    assert list(shown) == ["look-up", "unpublished"]
    assert (shown["look-up"].total, shown["look-up"].month.runs, shown["look-up"].month.failed) == (1, 1, 1)
    assert shown["unpublished"].month.last is None
    Chain.objects.filter(pk=chain.pk).update(team=team)
    (seen,) = signed_in(bob).get("/chains/?whose=team").context["chains"]
    assert (seen.name, seen.month.runs) == ("look-up", 0)


def test_archived_chains_are_apart(alice, signed_in, chain):
    Chain.objects.filter(pk=chain.pk).update(enabled=False)
    browser = signed_in(alice)
    assert b"No chain yet." in browser.get("/chains/").content
    assert b"look-up" in browser.get("/chains/?archived=1").content


def test_the_number_of_queries_of_the_list_does_not_grow(alice, signed_in, chain, django_assert_max_num_queries):
    browser = signed_in(alice)
    browser.get("/chains/")
    for number in range(20):
        Chain.objects.create(owner=alice, name=f"chain-{number}")
    with django_assert_max_num_queries(9):
        assert len(browser.get("/chains/").context["chains"]) == 21


def test_a_new_chain_and_a_copy(alice, signed_in, chain):
    browser = signed_in(alice)
    assert b'data-from=""' in browser.get("/chains/new/").content
    assert b'data-from="look-up"' in browser.get("/chains/new/?from=look-up").content


def test_the_admin_tries_chains_and_agents_on_their_pages(alice, charlie, staff, signed_in, chain, agent):
    browser = signed_in(staff(alice))
    assert browser.get(reverse("admin:agents_chain_try_out", args=[chain.pk]))["Location"] == "/chains/look-up/"
    to_try = reverse("admin:agents_agent_try_out", args=[agent.pk])
    assert browser.get(to_try)["Location"] == reverse("admin:agents_agent_change", args=[agent.pk])
    agent.publish(author=alice)
    assert browser.get(to_try)["Location"] == "/playground/?agent=librarian"
    assert signed_in(staff(charlie)).get(to_try).status_code == 404


def test_the_admin_exports_definitions(alice, charlie, staff, signed_in, chain, agent):
    agent.publish(author=alice)
    for kind, row in (("chain", chain), ("agent", agent)):
        sent = {"action": "export_selected", "_selected_action": [row.pk]}
        answer = signed_in(staff(alice)).post(reverse(f"admin:agents_{kind}_changelist"), sent)
        assert answer["Content-Disposition"] == f'attachment; filename="{row.name}.yaml"'
        assert f"kind: {kind}\nname: {row.name}\n" in answer.content.decode()
        other = signed_in(staff(charlie)).post(reverse(f"admin:agents_{kind}_changelist"), sent)
        assert row.name.encode() not in other.content


def test_the_sites_chain_of_the_same_name_has_a_page_of_its_own(alice, charlie, signed_in, chain):
    sites = Chain.objects.create(name=chain.name, owner=None, description="Of the site.")
    client = signed_in(alice)
    assert f'href="/chains/{chain.name}/?owner="' in client.get("/chains/").content.decode()
    html = client.get(f"/chains/{chain.name}/?owner=").content.decode()
    assert "Of the site." in html and f"/chains/{sites.pk}/picture.svg" in html and "/admin/" not in html
    assert client.get(f"/chains/{sites.pk}/picture.svg").status_code == 200
    assert "chain-editor" in signed_in(charlie).get(f"/chains/{chain.name}/?owner=").content.decode()
    assert signed_in(charlie).get(f"/chains/{chain.name}/?owner=alice").status_code == 404
