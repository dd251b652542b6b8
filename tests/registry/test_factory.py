"""Live agents are kept by what they are built from."""

import pytest

from agents.models import Agent, Provider
from agents.models.agent import provider_changed, tool_changed
from registry.exceptions import CannotBuild
from registry.factory import live_agent

pytestmark = pytest.mark.django_db


def test_a_second_look_costs_no_query(make_agent, make_tool, django_assert_num_queries):
    agent = make_agent(tools=[make_tool()])
    first = live_agent(agent)
    with django_assert_num_queries(0):
        assert live_agent(agent) is first


def test_the_first_look_costs_three(make_agent, make_tool, django_assert_num_queries):
    agent = make_agent(tools=[make_tool()])
    with django_assert_num_queries(3):
        live_agent(agent)


def test_publishing_builds_anew_and_rolling_back_finds_the_old_one(make_agent):
    agent = make_agent()
    old = live_agent(agent)
    Agent.objects.filter(pk=agent.pk).update(system_prompt="You hinder.")
    agent = Agent.objects.get(pk=agent.pk)
    agent.publish()
    agent.refresh_from_db()
    assert live_agent(agent).spec.system_prompt == "You hinder."
    agent.rollback(1)
    assert live_agent(agent) is old


def test_a_pinned_older_version_is_built_as_it_was(make_agent):
    agent = make_agent()
    Agent.objects.filter(pk=agent.pk).update(system_prompt="You hinder.")
    agent = Agent.objects.get(pk=agent.pk)
    agent.publish()
    agent.refresh_from_db()
    first = agent.versions.get(number=1)
    assert live_agent(agent, first).spec.system_prompt == "You help."
    assert live_agent(agent, first) is live_agent(agent, first)


def test_a_changed_tool_is_seen_at_once(make_agent, make_tool):
    tool = make_tool()
    agent = make_agent(tools=[tool])
    live_agent(agent)
    tool.description = "Add two numbers, slowly"
    tool.freeze_hash()
    tool.save()
    tool_changed(tool)
    assert live_agent(Agent.objects.get(pk=agent.pk)).tools["add"].description == "Add two numbers, slowly"


def test_a_disabled_tool_is_not_offered(make_agent, make_tool):
    tool = make_tool()
    agent = make_agent(tools=[tool])
    live_agent(agent)
    tool.enabled = False
    tool.save()
    tool_changed(tool)
    assert live_agent(Agent.objects.get(pk=agent.pk)).tools == {}


def test_a_disabled_provider_is_refused_at_once(make_agent):
    agent = make_agent()
    live_agent(agent)
    Provider.objects.update(enabled=False)
    provider_changed(agent.provider)
    with pytest.raises(CannotBuild) as refusal:
        live_agent(Agent.objects.get(pk=agent.pk))
    assert refusal.value.code == "provider_disabled"


def test_an_unpublished_agent_is_refused(alice, make_agent):
    provider = make_agent().provider
    draft = Agent.objects.create(owner=alice, name="draft", provider=provider)
    with pytest.raises(CannotBuild) as refusal:
        live_agent(draft)
    assert refusal.value.code == "not_published"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"kind": "openai"}, "provider_key_missing"),
        ({"kind": "anthropic"}, "provider_key_missing"),
        ({"kind": "openai-compatible"}, "base_url_missing"),
        ({"kind": "openai-compatible", "base_url": "http://192.168.1.4/v1"}, "private_address"),
        ({"kind": "openai-compatible", "base_url": "https://models.invalid/v1"}, "model_unreachable"),
        ({"kind": "ollama", "base_url": "https://models.invalid"}, "model_unreachable"),
    ],
)
def test_a_provider_that_lacks_something_says_what(alice, make_agent, fields, code):
    provider = Provider.objects.create(owner=alice, name="p", **fields)
    with pytest.raises(CannotBuild) as refusal:
        live_agent(make_agent(provider=provider))
    assert refusal.value.code == code


def test_agents_with_one_account_share_its_client(make_agent):
    assert live_agent(make_agent("one")).model is live_agent(make_agent("two")).model


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("http://192.168.1.4/v1", 422),
        ("http://127.0.0.1:11434/v1", 422),
        ("http://169.254.169.254/latest", 422),
        ("https://8.8.8.8/v1", 201),
    ],
)
def test_a_private_address_is_refused_when_a_provider_is_saved(alice_api, url, answer):
    body = {"name": "mine", "kind": "openai-compatible", "base_url": url}
    assert alice_api.post("/api/v1/providers/", body).status_code == answer


def test_an_allowed_private_address_is_taken(alice_api, settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.0/8"]
    body = {"name": "mine", "kind": "openai-compatible", "base_url": "http://127.0.0.1:11434/v1"}
    assert alice_api.post("/api/v1/providers/", body).status_code == 201
