"""The page of a function: the teams that it can be shared with."""

import re

import pytest

from agents.models import Team
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
