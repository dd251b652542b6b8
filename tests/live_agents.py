"""Agents behind the stub of an OpenAI server, and what its tests ask."""

import pytest

from agents.models import Agent, Provider, Tool, ToolGrant
from registry import factory
from registry.llm import attempts, llms
from tests.fakes import StubOpenAI

ADD_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}


@pytest.fixture(autouse=True)
def fresh_caches():
    """Keys count from one again in every test; what another test built must not answer."""
    factory._live.clear()
    factory.tool_spec.cache_clear()
    factory.share_provider.cache_clear()
    llms.make_model.cache_clear()


@pytest.fixture
def stub(settings, monkeypatch):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    monkeypatch.setattr(attempts, "BACKOFF_S", 0.01)
    with StubOpenAI() as server:
        yield server


@pytest.fixture
def make_tool(alice):
    def make(name="add", **fields):
        fields = {"kind": "function", "description": "Add two numbers", "input_schema": ADD_SCHEMA, **fields}
        tool = Tool(owner=alice, name=name, **fields)
        tool.freeze_hash()
        tool.save()
        return tool

    return make


@pytest.fixture
def make_agent(alice):
    """A published agent with these tools; its provider is offline unless one is given."""

    def make(name="helper", *, tools=(), provider=None, **fields):
        provider = provider or Provider.objects.get_or_create(owner=None, name="offline", kind="offline")[0]
        fields = {"model_name": "stub", "system_prompt": "You help.", **fields}
        agent = Agent.objects.create(owner=alice, name=name, provider=provider, **fields)
        for tool in tools:
            ToolGrant.objects.create(agent=agent, tool=tool)
        agent.publish(author=alice)
        return Agent.objects.get(pk=agent.pk)

    return make


@pytest.fixture
def stub_provider(alice, stub):
    return Provider.objects.create(
        owner=alice, name="local", kind="openai-compatible", base_url=stub.url, api_key="sk-stub"
    )


def user(text):
    return [{"role": "user", "content": text}]
