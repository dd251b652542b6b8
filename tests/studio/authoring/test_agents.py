"""The pages of agents: what each person sees of whose agents, and how many queries it takes."""

import pytest

from agents.models import Agent, Membership, Team, Tool, ToolGrant
from runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def shared(agent, team):
    """Alice's agent, published and shared with her team."""
    agent.publish()
    Agent.objects.filter(pk=agent.pk).update(team=team)
    return Agent.objects.get(pk=agent.pk)


def rows(answer):
    return [agent.name for agent in answer.context["agents"]]


def test_the_list_shows_own_shared_and_site_agents(shared, bob, charlie, offline, signed_in):
    Agent.objects.create(name="greeter", owner=None, provider=offline)
    Agent.objects.create(name="mine", owner=bob, provider=offline)
    page = signed_in(bob).get
    assert rows(page("/agents/")) == ["greeter", "librarian", "mine"]
    assert rows(page("/agents/?whose=own")) == ["mine"]
    assert rows(page("/agents/?whose=team")) == ["librarian"]
    assert rows(page("/agents/?whose=site")) == ["greeter"]
    assert rows(page("/agents/?search=books")) == ["librarian"]
    assert rows(signed_in(charlie).get("/agents/")) == ["greeter"]


def test_an_archived_agent_has_a_list_of_its_own(agent, alice, signed_in):
    Agent.objects.update(enabled=False)
    assert rows(signed_in(alice).get("/agents/")) == []
    assert rows(signed_in(alice).get("/agents/?archived=1")) == ["librarian"]


def test_the_figures_are_of_the_persons_own_runs(shared, alice, bob, signed_in):
    Run.objects.create(principal=alice, agent=shared, status=Run.Status.FAILED, cost="0.25")
    Run.objects.create(principal=alice, agent=shared, status=Run.Status.SUCCEEDED, cost="0.5")
    month = signed_in(alice).get("/agents/").context["agents"][0].month
    assert (month.runs, month.failed, float(month.cost)) == (2, 1, 0.75)
    assert month.last is not None
    assert signed_in(bob).get("/agents/").context["agents"][0].month.runs == 0


def test_the_number_of_queries_does_not_grow(alice, offline, signed_in, django_assert_max_num_queries):
    for number in range(30):
        one = Agent.objects.create(name=f"a-{number}", owner=alice, provider=offline)
        one.publish()
        Run.objects.create(principal=alice, agent=one)
    client = signed_in(alice)
    # The same for one agent: five of them are for the preference, the memories to approve, and the browser's session.
    with django_assert_max_num_queries(12):
        assert len(rows(client.get("/agents/"))) == 30


def test_the_owner_edits_in_the_studio(shared, alice, signed_in, django_assert_max_num_queries):
    client = signed_in(alice)
    with django_assert_max_num_queries(15):
        html = client.get("/agents/librarian/").content.decode()
    assert "data-publish" in html and 'data-editable="yes"' in html and '<option value="draft">' in html
    assert " style=" not in html and "<script>" not in html


@pytest.mark.parametrize(("role", "may_use"), [("viewer", False), ("operator", True), ("administrator", True)])
def test_a_team_mate_only_looks_and_uses_what_the_role_allows(role, may_use, shared, bob, signed_in):
    Membership.objects.filter(user=bob).update(role=role)
    html = signed_in(bob).get("/agents/librarian/").content.decode()
    assert 'data-editable="no"' in html and "data-publish" not in html and "data-save" not in html
    assert ("data-send" in html) == may_use
    assert '<option value="draft">' not in html


@pytest.fixture
def tools(shared, alice, team):
    """Granted: one tool of Alice alone, one that her team has too, and one of the site."""
    places = {"private": (alice, None), "teams": (alice, team), "sites": (None, None)}
    rows = [
        Tool.objects.create(name=f"{name}-tool", kind=Tool.Kind.FUNCTION, owner=owner, team=of)
        for name, (owner, of) in places.items()
    ]
    ToolGrant.objects.bulk_create(ToolGrant(agent=shared, tool=tool) for tool in rows)


def test_the_studio_names_the_tools_that_sharing_an_agent_does_not_share(tools, shared, alice, bob, signed_in):
    def without(user):
        return signed_in(user).get("/agents/librarian/").context["without"]

    assert without(alice) == without(bob) == ["private-tool"]
    assert "until you share them too: private-tool." in signed_in(alice).get("/agents/librarian/").content.decode()
    assert "not shared with you: private-tool." in signed_in(bob).get("/agents/librarian/").content.decode()
    Agent.objects.filter(pk=shared.pk).update(team=None)
    assert without(alice) == ["private-tool", "teams-tool"]


def test_a_studio_whose_tools_are_all_shared_names_none(shared, alice, signed_in):
    assert "does not share its tools" not in signed_in(alice).get("/agents/librarian/").content.decode()


def test_a_stranger_finds_no_studio(shared, charlie, signed_in, client):
    assert signed_in(charlie).get("/agents/librarian/").status_code == 404
    assert client.get("/agents/librarian/").status_code == 302
    assert signed_in(charlie).get("/agents/NOT%20a%20name/").status_code == 404


def test_a_viewer_of_the_site_creates_nothing(alice, offline, make_viewer, signed_in):
    make_viewer(alice)
    assert "Your role on this site" in signed_in(alice).get("/agents/").content.decode()
    assert "Your role on this site" in signed_in(alice).get("/agents/new/").content.decode()


@pytest.fixture
def make_viewer():
    from django.contrib.auth.models import Group

    def make(user):
        user.groups.add(Group.objects.get_or_create(name="viewer")[0])

    return make


def test_without_a_provider_the_next_step_is_named(alice, signed_in):
    assert "Connect a model" in signed_in(alice).get("/agents/new/").content.decode()


# -- several agents of one name -----------------------------------------------------------------------------------------

SITES = 'href="/agents/librarian/?owner="'


@pytest.fixture
def sites(agent, offline):
    """The site's agent with the name of Alice's."""
    return Agent.objects.create(name="librarian", owner=None, provider=offline, system_prompt="Speak for the site.")


def test_the_sites_agent_of_the_same_name_has_a_page_of_its_own(sites, alice, bob, signed_in):
    client = signed_in(alice)
    listed = client.get("/agents/").content.decode()
    assert 'href="/agents/librarian/"' in listed and SITES in listed
    assert listed.count("?from=librarian") == 1  # what is done by name is offered for the one it would be done to
    html = client.get("/agents/librarian/?owner=").content.decode()
    assert "Speak for the site." in html and "more than one called" in html and "data-save" not in html
    assert "Speak for the site." not in client.get("/agents/librarian/").content.decode()
    assert 'data-editable="yes"' in client.get("/agents/librarian/?owner=alice").content.decode()
    assert SITES not in signed_in(bob).get("/agents/").content.decode()
    assert 'id="studio"' in signed_in(bob).get("/agents/librarian/?owner=").content.decode()


def test_a_team_mate_and_a_stranger_open_by_owner_only_what_they_see(sites, shared, alice, bob, charlie, signed_in):
    listed = signed_in(bob).get("/agents/").content.decode()
    assert 'href="/agents/librarian/?owner=alice"' in listed  # the site's comes before the team's
    assert "Speak for the site." not in signed_in(bob).get("/agents/librarian/?owner=alice").content.decode()
    assert signed_in(bob).get("/agents/librarian/?owner=alice").status_code == 200
    for owner in ("alice", "%00", "nobody"):
        assert signed_in(charlie).get(f"/agents/librarian/?owner={owner}").status_code == 404


def test_two_teams_that_share_a_name_leave_both_to_be_read(shared, bob, charlie, offline, signed_in):
    other = Team.objects.create(name="others")
    Membership.objects.create(team=other, user=bob)
    Agent.objects.create(name="librarian", owner=charlie, team=other, provider=offline)
    listed = signed_in(bob).get("/agents/").content.decode()
    for owner in ("alice", "charlie"):
        assert f"?owner={owner}" in listed
        html = signed_in(bob).get(f"/agents/librarian/?owner={owner}").content.decode()
        assert "more than one called" in html and "Open the one" not in html
