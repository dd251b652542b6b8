"""The agents, chains and functions that a person may use, as tools, with `search` and `fetch` over collections.

A tool has the name of its row. Where an agent, a chain and a function share a name, each has its
kind before it (`chain.report`), so a name never changes its meaning silently.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from django.db import models

from agents.models import Agent, AgentSpec, Chain, Tool
from agents.models.agent import minion_schema
from connectors.mcp.messages import LEGACY
from functions.models import StoredFunction
from functions.spec import FunctionSpec
from plumbing.statements import Select
from runs.models import Run

from . import documents
from .protocol import ORIGIN, PARAMS, Fault, RpcRequest

JSON = Any
AGENT, CHAIN, FUNCTION = "agent", "chain", "function"
MODELS: dict[str, Any] = {AGENT: Agent, CHAIN: Chain, FUNCTION: StoredFunction}
SCOPES = {AGENT: "messages:write", CHAIN: "runs:write", FUNCTION: "functions:execute"}
SESSION = {"type": "string", "description": "The “session” of an earlier result, to continue that conversation."}
READS, REACHES, LOSES = (
    (Tool.Effect.READ, Tool.Effect.READ_OUT),
    (Tool.Effect.READ_OUT, Tool.Effect.SENDS_OUT),
    (Tool.Effect.WRITE, Tool.Effect.DESTRUCTIVE),
)
NESTED = (Tool.Kind.AGENT, Tool.Kind.CHAIN)


@dataclass(frozen=True, slots=True)
class Target:
    """What a tool's name stands for: a row with its published version."""

    name: str
    kind: str
    row: Any
    spec: Any

    @property
    def input_schema(self) -> dict[str, JSON]:
        if self.kind == AGENT:
            schema = minion_schema(self.spec)
            return {**schema, "properties": {**schema["properties"], "session": SESSION}}
        if self.kind == CHAIN and not self.spec.takes_arguments:
            return build_wrapper_schema("input", self.spec.input_schema)
        return {"type": "object", **(self.spec.input_schema or {})}

    @property
    def output_schema(self) -> dict[str, JSON] | None:
        own = self.spec.output_schema
        if self.kind == AGENT:
            return build_agent_output_schema(own)
        if own is None or own.get("type") == "object":
            return own
        return build_wrapper_schema("result", own)

    def structured(self, value: JSON) -> dict[str, JSON] | None:
        """The result of a chain or function as `output_schema` describes it."""
        schema = self.spec.output_schema
        is_object = schema is None or schema.get("type") == "object"
        if not is_object:
            return {"result": value}
        return value if isinstance(value, dict) else None


def build_agent_output_schema(own: JSON) -> dict[str, JSON]:
    """What each call of an agent returns, and the output of one with a schema of its own."""
    schema: dict[str, JSON] = {"type": "object"}
    if own:
        schema = build_wrapper_schema("output", own, optional=True)
    names = ["reply", "run", "session"]
    properties = {name: {"type": "string"} for name in names}
    properties.update(schema.get("properties", {}))
    return {**schema, "properties": properties, "required": names}


def build_wrapper_schema(name: str, schema: JSON, *, optional: bool = False) -> dict[str, JSON]:
    """An object with one property of this schema, whose definitions stay where its references find them."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    wrapper: dict[str, JSON] = {"type": "object", "properties": {name: inner}}
    if not optional:
        wrapper["required"] = [name]
    if "$defs" in schema:
        wrapper["$defs"] = schema["$defs"]
    return wrapper


def find_tool_entries(rpc: RpcRequest, only: str | None = None) -> dict[str, tuple[str, int]]:
    """Tool name → kind and id of its row, sorted; `only` those whose row has this name."""
    kinds_by_name: dict[str, dict[str, int]] = {}
    for kind, model in MODELS.items():
        if not rpc.may(SCOPES[kind]):
            continue
        if only is None:
            rows = build_names_query(rpc.user, model)
        else:
            rows = by_name(kind).all(user=rpc.user.pk, name=only)
        # The nearest of several rows with one name comes first.
        for name, pk in rows:
            kinds_by_name.setdefault(name, {}).setdefault(kind, pk)
    for name in documents.list_document_tools(rpc, only):
        kinds_by_name.setdefault(name, {})[documents.KIND] = 0
    entries = {}
    for name, kinds in sorted(kinds_by_name.items()):
        for kind, pk in kinds.items():
            # A name that an agent and a function share, for example, says which of them is meant.
            tool_name = name if len(kinds) == 1 else f"{kind}.{name}"
            entries[tool_name] = (kind, pk)
    return entries


def state(rpc: RpcRequest) -> dict[str, list[JSON]]:
    """By kind, what has changed when the list of tools has."""
    by_kind: dict[str, list[JSON]] = {documents.KIND: documents.list_document_tools(rpc)}
    for kind, model in MODELS.items():
        by_kind[kind] = []
        if rpc.may(SCOPES[kind]):
            rows = build_published_query(rpc.user, model)
            by_kind[kind] = sorted(rows.values_list("pk", "name", "published_id"))
    return by_kind


def load_schema_marks(ids: list[int], mark: str) -> dict[int, JSON]:
    """Those of these functions whose published input schema has this keyword, with its value."""
    path = f"published__spec__input_schema__{mark}"
    rows = StoredFunction.objects.filter(pk__in=ids, published__spec__input_schema__has_key=mark)
    return dict(rows.values_list("pk", path))


def build_names_query(user: Any, model: Any, **only: Any) -> Any:
    rows = build_published_query(user, model).filter(**only)
    return rows.nearest_first(user).values_list("name", "pk")


@cache
def by_name(kind: str) -> Select:
    """Every call looks for its tool: compiled once."""

    def rows(at: Any) -> Any:
        person = SimpleNamespace(pk=at.user, is_authenticated=True)
        return build_names_query(person, MODELS[kind], name=at.name)

    return Select(rows, user=models.IntegerField(), name=models.CharField())


def build_published_query(user: Any, model: Any) -> Any:
    rows = model.objects.usable_by(user).filter(published__isnull=False)
    # A function cannot be switched off.
    if model is StoredFunction:
        return rows
    return rows.filter(enabled=True)


def load_targets(chosen: dict[str, tuple[str, int]]) -> list[Target]:
    """The rows of these tools with their specs, in the same order."""
    rows: dict[tuple[str, int], Any] = {}
    for kind in MODELS:
        ids = [pk for one, pk in chosen.values() if one == kind]
        for row in load_target_rows(kind, ids):
            rows[kind, row.pk] = row
    targets = []
    for name, (kind, pk) in chosen.items():
        row = rows.get((kind, pk))
        if row is not None:
            targets.append(Target(name, kind, row, get_target_spec(row)))
    return targets


def load_target_rows(kind: str, ids: list[int]) -> Any:
    if not ids:
        return []
    # As for every call: by a compiled statement.
    if len(ids) == 1:
        return by_pk(kind).all(pk=ids[0])
    return build_targets_query(kind).filter(pk__in=ids)


def build_targets_query(kind: str) -> Any:
    """The rows of a kind with what a call needs of them."""
    rows = MODELS[kind].objects
    if kind == FUNCTION:
        return rows.select_related("published").defer("source", "published__source")
    if kind == AGENT:
        return rows.select_related("published", "provider").defer("provider__api_key")
    return rows.select_related("published")


@cache
def by_pk(kind: str) -> Select:
    """Every call loads its tool: compiled once."""

    def rows(at: Any) -> Any:
        return build_targets_query(kind).filter(pk=at.pk)

    return Select(rows, pk=models.BigIntegerField())


def get_target_spec(row: Any) -> Any:
    if isinstance(row, StoredFunction):
        return FunctionSpec.model_validate(row.published.spec)
    return row.published.read_spec()


def target(rpc: RpcRequest, name: str) -> Target | None:
    """None is a tool of collections (documents.py). Raises Fault for a name that no tool of this person has."""
    bare_name = name.rpartition(".")[2]
    entries = find_tool_entries(rpc, bare_name)
    if name not in entries:
        hint = f" Use one of {', '.join(entries)}." if entries else ""
        raise Fault(PARAMS, f"Unknown tool: {name[:200]}.{hint}")
    kind, pk = entries[name]
    if kind == documents.KIND:
        return None
    return load_targets({name: (kind, pk)})[0]


def build_started_runs_query(rpc: RpcRequest) -> Any:
    """The runs that calls of this person have started, of the kinds that this key may call."""
    rows = Run.objects.visible_to(rpc.user).filter(parent=None, metadata__has_key=ORIGIN)
    if not rpc.may(SCOPES[AGENT]):
        rows = rows.exclude(chain_version=None)
    if not rpc.may(SCOPES[CHAIN]):
        rows = rows.filter(chain_version=None)
    return rows


def build_run_target(run: Run) -> Target:
    """What a run was started as: its own version, whatever is published now."""
    kind: str = AGENT
    row: Any = run.agent
    version: Any = run.version
    if run.chain_version is not None:
        kind = CHAIN
        row = run.chain_version.chain
        version = run.chain_version
    spec = version.read_spec() if version else AgentSpec(name="")
    origin = run.metadata.get(ORIGIN) or {}
    tool_name = str(origin.get("tool", ""))
    return Target(tool_name, kind, row, spec)


def serialize_mcp_tools(targets: Iterable[Target], version: str, card: JSON = None) -> list[dict[str, JSON]]:
    """Descriptions of tools as `tools/list` gives them. `card`: what links agents and chains to an MCP App."""
    targets = list(targets)
    effects = load_call_effects(targets)
    return [serialize_mcp_tool(one, version, card, effects[one.name]) for one in targets]


def serialize_mcp_tool(target: Target, version: str, card: JSON, effects: set[str] | None) -> dict[str, JSON]:
    """One tool of `tools/list`. `card`: the mark of tools whose calls may end with an approval card, for clients that
    show such.
    """
    title = target.row.name
    tool: dict[str, JSON] = {
        "name": target.name,
        "title": title,
        "description": target.spec.description or f"The {target.kind} “{title}”.",
        "inputSchema": target.input_schema,
        "annotations": {"title": title, **hints(effects)},
    }
    schema = find_promised_schema(target, bool(card))
    if schema:
        tool["outputSchema"] = schema
    if target.kind == FUNCTION:
        return tool
    if version == LEGACY:
        tool["execution"] = {"taskSupport": "optional"}
    if card:
        tool["_meta"] = card
    return tool


def find_promised_schema(target: Target, may_wait: bool) -> dict[str, JSON] | None:
    """The output schema of each result; a chain that waits for an approval has no output yet."""
    if may_wait and target.kind == CHAIN:
        return None
    return target.output_schema


def load_call_effects(targets: list[Target]) -> dict[str, set[str] | None]:
    """Tool name → the effects that a call may have; None where agents below it decide."""
    ids: set[int] = set()
    for target in targets:
        if target.kind != FUNCTION:
            ids.update(list_granted_tools(target))
    tools = Tool.objects.filter(pk__in=ids).values_list("pk", "kind", "effect")
    rows = {pk: (kind, effect) for pk, kind, effect in tools}
    # A tool that was deleted may have been anything.
    missing = (Tool.Kind.AGENT, "")
    effects: dict[str, set[str] | None] = {}
    for target in targets:
        if target.kind == FUNCTION:
            effects[target.name] = {target.spec.real_effect}
            continue
        granted = [rows.get(pk, missing) for pk in list_granted_tools(target)]
        is_open = goes_deeper(target) or any(kind in NESTED for kind, _ in granted)
        effects[target.name] = None if is_open else {effect for _, effect in granted}
    return effects


def list_granted_tools(target: Target) -> list[int]:
    ids = [grant.tool_id for grant in target.spec.grants if grant.mode != "deny"]
    for step in getattr(target.spec, "steps", ()):
        if step.target_kind == "tool" and step.target_id:
            ids.append(step.target_id)
    return ids


def goes_deeper(target: Target) -> bool:
    """Whether other agents or chains work below it."""
    if getattr(target.spec, "delegates_to", ()):
        return True
    steps = getattr(target.spec, "steps", ())
    return any(step.target_kind != "tool" for step in steps)


def hints(effects: set[str] | None) -> dict[str, bool]:
    """Annotations; none where the effects are unknown, which means the worst by the specification."""
    if effects is None:
        return {}
    is_read_only = effects <= set(READS)
    annotations = {"readOnlyHint": is_read_only, "openWorldHint": not effects.isdisjoint(REACHES)}
    if not is_read_only:
        annotations["destructiveHint"] = not effects.isdisjoint(LOSES)
        annotations["idempotentHint"] = effects <= {*READS, Tool.Effect.IDEMPOTENT}
    return annotations
