"""The pages of embeds, by their owner and by others."""

import pytest

from agents.models import AuditEvent
from runs.models import Budget, Embed

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(make_agent, make_tool):
    return make_agent("clerk", tools=[make_tool(), make_tool("screen", kind="device")])


@pytest.fixture
def embed(agent, alice):
    return Embed.objects.create(owner=alice, agent=agent)


def test_one_is_made_switched_on_and_shows_its_line(signed_in, alice, agent):
    browser = signed_in(alice)
    made = browser.post("/clients/embeds/", {"agent": "clerk"})
    embed = Embed.objects.get()
    assert made["Location"] == f"/clients/embeds/{embed.pk}/" and not embed.enabled
    form = browser.get(made["Location"])
    assert 'value="add"' in form.content.decode() and 'value="screen"' not in form.content.decode()
    assert f"data-key=&quot;{embed.key}&quot;" in form.content.decode()
    fields = {
        "enabled": "on", "title": "Shop", "origins": "https://a.example\r\nhttps://b.example", "tools": ["add"],
        "suggestions": "Prices?", "colour": "#123456", "per_visitor": 3, "per_minute": 30, "max_characters": 500,
        "daily_cost": "2.5", "monthly_cost": "",
    }  # fmt: skip
    assert browser.post(made["Location"], fields).status_code == 302
    embed.refresh_from_db()
    assert (embed.enabled, embed.origins, embed.tools) == (True, ["https://a.example", "https://b.example"], ["add"])
    assert str(Budget.objects.get().max_cost) == "2.5000"
    assert AuditEvent.objects.filter(action__startswith="embed.").count() == 2
    refused = browser.post(made["Location"], {**fields, "origins": "*"})
    assert refused.status_code == 422 and "is not an origin" in refused.content.decode()
    old = embed.key
    browser.post(f"{made['Location']}rotate")
    embed.refresh_from_db()
    assert embed.key != old and browser.get("/clients/embeds/").status_code == 200
    browser.post(f"{made['Location']}delete")
    assert not Embed.objects.exists()


def test_a_page_without_one_says_what_to_do(signed_in, charlie):
    assert b"No agent is open to visitors" in signed_in(charlie).get("/clients/embeds/").content


@pytest.mark.parametrize("person", ["bob", "charlie"])
def test_neither_a_team_mate_nor_a_stranger_opens_it(signed_in, request, embed, agent, team, person):
    agent.team = team
    agent.save()
    browser = signed_in(request.getfixturevalue(person))
    for path in ("", "rotate", "delete"):
        assert browser.post(f"/clients/embeds/{embed.pk}/{path}", {}).status_code == 404
    browser.post("/clients/embeds/", {"agent": "clerk"})
    assert Embed.objects.get().key == embed.key
