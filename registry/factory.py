"""Builds live agents from rows. A cache hit costs no query; a miss costs one for the tools, and one
for each other row.
"""

from threading import Lock
from typing import Any

from cachetools import LRUCache, cached

from agents.models import Agent, AgentSpec, AgentVersion, Provider, Tool
from agents.models.agent import live_definition
from agents.schema import hash_json
from agents.spec import GrantSpec
from agents.tools import ToolSpec
from functions.catalogue import as_pinned
from knowledge.skills import store as skills
from registry.llm.llms import chat_model

from .agents import LiveAgent
from .exceptions import CannotBuild

# Live agents kept per process; 5 to 10 kB each, since tools and providers are shared.
KEPT = 16_384
_live: LRUCache[str, LiveAgent] = LRUCache(KEPT)
_lock = Lock()


def live_agent(agent: Agent, version: AgentVersion | None = None) -> LiveAgent:
    """The agent as published, or in the given version. Raises CannotBuild.

    The cache key is `Agent.live_hash`, which covers everything that the agent is built from, so a
    cached agent cannot be stale in any process.
    """
    if version is None or version.pk == agent.published_id:
        return _published(agent)
    return _older(agent, version)


def loaded_hashes() -> list[str]:
    """The agents that this process has built and kept."""
    with _lock:
        return list(_live)


def _published(agent: Agent) -> LiveAgent:
    if not agent.live_hash or agent.published_id is None:
        raise CannotBuild("not_published", f"The agent “{agent.name}” is not published.", "Publish it first.")
    return build_published(agent)


@cached(_live, key=lambda agent: agent.live_hash, lock=_lock)
def build_published(agent: Agent) -> LiveAgent:
    version = agent.published
    assert version is not None
    spec = version.read_spec()
    is_provider_of_row = spec.provider_id in (None, agent.provider_id)
    if is_provider_of_row and Agent.provider.is_cached(agent):
        # The row was loaded together with its provider: no query.
        provider = agent.provider
    else:
        provider = find_spec_provider(spec, agent.provider_id)
    rows = tool_rows(spec.grants)
    return assemble(spec, agent.live_hash, rows, provider)


def _older(agent: Agent, version: AgentVersion) -> LiveAgent:
    spec = version.read_spec()
    rows = tool_rows(spec.grants)
    provider = find_spec_provider(spec, agent.provider_id)
    tools = sorted((row.pk, live_definition(row)) for row in rows.values())
    key = hash_json([version.sha256, tools, provider.pk, provider.revision])
    return assemble_once(spec, key, rows, provider)


def build(spec: AgentSpec, key: str = "", *, fallback_provider: int | None = None) -> LiveAgent:
    """A live agent built from a spec and not cached. Raises CannotBuild."""
    rows = tool_rows(spec.grants)
    provider = find_spec_provider(spec, fallback_provider)
    return assemble(spec, key or spec.sha256(), rows, provider)


def assemble(spec: AgentSpec, key: str, rows: dict[int, Tool], provider: Provider) -> LiveAgent:
    tools: dict[str, ToolSpec] = {}
    shared_provider = share_provider(provider)
    model = chat_model(shared_provider, spec.model_params)
    for grant in spec.grants:
        row = rows.get(grant.tool_id)
        if row is not None:
            tool = tool_spec(row, grant)
            tools[tool.name] = tool
    return LiveAgent(spec=spec, hash=key, tools=tools, provider=shared_provider, model=model)


assemble_once = cached(_live, key=lambda spec, key, rows, provider: key, lock=_lock)(assemble)


@cached(LRUCache(512), key=lambda provider: (provider.pk, provider.revision), lock=Lock())
def share_provider(provider: Provider) -> Provider:
    """One object for all agents that use this revision."""
    return provider


def tool_rows(grants: list[GrantSpec]) -> dict[int, Tool]:
    """The granted tools that are enabled, by id. A deleted or disabled tool is not offered."""
    if not grants:
        return {}
    ids = [grant.tool_id for grant in grants]
    rows = Tool.objects.filter(pk__in=ids, enabled=True)
    return {row.pk: row for row in rows}


def find_spec_provider(spec: AgentSpec, fallback: int | None) -> Provider:
    row = Provider.objects.filter(pk=spec.provider_id or fallback or 0).first()
    if row is None:
        raise CannotBuild(
            "provider_missing",
            f"The provider “{spec.provider}” does not exist any more.",
            "Choose another provider and publish.",
        )
    return row


def key_of_tool(row: Tool, grant: GrantSpec) -> tuple[Any, ...]:
    marks = (row.untrusted, *row.record_fields)
    settings = (grant.deadline_s, grant.pinned_version, grant.offline, tuple(grant.context))
    return (row.pk, row.definition_hash, marks, row.deadline_s, settings)


@cached(LRUCache(KEPT), key=key_of_tool, lock=Lock())
def tool_spec(row: Tool, grant: GrantSpec) -> ToolSpec:
    """The tool as this grant gives it; agents with the same grant share one object."""
    deadline_s = grant.deadline_s or row.deadline_s
    tool = make_tool_spec(row, grant, deadline_s)
    return pin_tool(tool)


def pin_tool(tool: ToolSpec) -> ToolSpec:
    version = tool.pinned_version
    if not version:
        return tool
    if tool.kind == Tool.Kind.SKILL:
        return skills.as_pinned(tool, version)
    return as_pinned(tool, version)


def make_tool_spec(row: Tool, grant: GrantSpec, deadline_s: float) -> ToolSpec:
    return ToolSpec(
        id=row.pk,
        name=row.name,
        kind=row.kind,
        description=row.description,
        input_schema=row.input_schema,
        output_schema=row.output_schema,
        effect=row.effect,
        source=row.source,
        definition_hash=row.definition_hash,
        untrusted=row.untrusted,
        record_fields=tuple(row.record_fields),
        deadline_s=deadline_s,
        granted_s=grant.deadline_s,
        context=tuple(source.model_dump() for source in grant.context),
        pinned_version=grant.pinned_version,
        offline=grant.offline,
    )
