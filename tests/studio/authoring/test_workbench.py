"""The page of a function: the teams that it can be shared with."""

import re

import pytest

from agents.models import Agent, Team, Tool, ToolGrant
from functions.models import StoredFunction

pytestmark = pytest.mark.django_db


def choices(browser, path):
    found = re.search(r'<select id="team".*?</select>', browser.get(path).content.decode(), re.S)
    return found and re.findall(r"<option(.*?)>(.*?)</option>", found[0])


def test_its_owner_shares_a_function_with_a_team(alice, team, signed_in):
    function = StoredFunction.objects.create(name="greet", owner=alice, source="def greet() -> str:\n    return 'hi'")
    Team.objects.create(name="others")
    for path in ("/functions/greet/", "/functions/new/"):
        assert choices(signed_in(alice), path) == [(' value=""', "Nobody else"), ("", team.name)]
    StoredFunction.objects.filter(pk=function.pk).update(team=team)
    assert choices(signed_in(alice), "/functions/greet/")[1] == (" selected", team.name)


def test_who_is_in_no_team_has_nothing_to_choose(charlie, signed_in):
    assert choices(signed_in(charlie), "/functions/new/") is None


def list_names(browser, query=""):
    page = browser.get(f"/functions/{query}").content.decode()
    return re.findall(r'title="([a-z-]+)">\1</a>', page)


def test_functions_are_filtered_by_their_owner(alice, bob, team, signed_in):
    source = "def greet() -> str:\n    return 'hi'"
    StoredFunction.objects.create(name="mine", owner=alice, source=source)
    StoredFunction.objects.create(name="ours", owner=bob, team=team, source=source)
    StoredFunction.objects.create(name="site", source=source)
    browser = signed_in(alice)
    assert list_names(browser, "?whose=own") == ["mine"]
    assert list_names(browser, "?whose=team") == ["ours"]
    assert list_names(browser, "?whose=site&search=sit") == ["site"]
    assert {"mine", "ours", "site"} <= set(list_names(browser, "?whose=nonsense"))


def test_the_list_counts_the_agents_that_may_call_a_function(alice, charlie, offline, signed_in):
    function = StoredFunction.objects.create(name="greet", source="def greet() -> str:\n    return 'hi'")
    tool = Tool.objects.create(name="greet", kind=Tool.Kind.FUNCTION, source={"function": function.pk})
    for owner, name in ((alice, "one"), (alice, "two"), (charlie, "hidden")):
        agent = Agent.objects.create(name=name, owner=owner, provider=offline)
        ToolGrant.objects.create(agent=agent, tool=tool)
    assert "2 agents" in signed_in(alice).get("/functions/?search=greet").content.decode()


def test_a_new_agent_can_begin_with_a_tool(alice, offline, signed_in):
    page = signed_in(alice).get("/agents/new/?tool=greet&mode=nonsense").content.decode()
    assert 'data-tool="greet" data-mode="ask"' in page
    assert "data-tool" not in signed_in(alice).get("/agents/new/").content.decode()
