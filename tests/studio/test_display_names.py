"""Pages say what people call agents and tools, with the technical name beside it."""

import pytest

from agents.models import Agent
from functions.models import StoredFunction
from studio.display_names import find_display_names


@pytest.fixture
def named(agent):
    agent.publish()
    Agent.objects.filter(pk=agent.pk).update(display_name="Bücherei & Archiv", icon="📚")
    agent.refresh_from_db()
    return agent


def test_the_chat_shows_the_display_name_and_the_icon_of_an_agent(named, alice, signed_in):
    html = signed_in(alice).get(f"/playground/?agent={named.name}").content.decode()

    assert html.count("Bücherei &amp; Archiv") >= 3 and "📚" in html
    assert f'data-name="{named.name}"' in html


@pytest.mark.parametrize("path", ["/agents/", "/runs/", "/"])
def test_lists_show_the_display_name_in_as_many_statements(
    path, named, make_run, alice, signed_in, django_assert_max_num_queries
):
    for number in range(3):
        make_run(number)
    browser = signed_in(alice)
    browser.get(path)

    with django_assert_max_num_queries(20):
        html = browser.get(path).content.decode()
    assert "Bücherei &amp; Archiv" in html


def test_ones_own_name_of_a_tool_wins_over_that_of_others(alice, bob, team, charlie):
    for owner, shared_with, label in ((bob, team, "Theirs"), (alice, None, "Mine")):
        StoredFunction.objects.create(name="add", owner=owner, team=shared_with, display_name=label, source="")

    assert find_display_names(alice) == {"add": "Mine"}
    assert find_display_names(bob) == {"add": "Theirs"}
    assert find_display_names(charlie) == {}


def test_an_approval_shows_both_names_of_its_tool(alice, signed_in, make_run):
    StoredFunction.objects.create(name="lookup", owner=alice, display_name="Buch <suchen>", source="")
    make_run()

    html = signed_in(alice).get("/approvals/").content.decode()

    assert 'Buch &lt;suchen&gt; <code class="small soft">lookup</code>' in html
