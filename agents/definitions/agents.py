"""Providers, tools and agents as definitions: how their rows are read and written."""

from collections.abc import Iterable
from typing import Any

from django.db.models import prefetch_related_objects

from agents.exceptions import Conflict, Invalid
from agents.models import Agent, AgentSpec, AuditEvent, Chain, Provider, Team, Tool, ToolGrant
from agents.models.agent import provider_changed, tool_changed
from agents.models.options import find_options, find_options_of_kind, plain_options, stored_name, versioned_options
from agents.models.tool import MOST_GRANTS
from agents.sharing import carry, check_share
from agents.spec import ModelParams
from agents.unknown import MOST, extra, extra_in_each, extra_in_model

from . import shapes
from .files import Definition, check_schemas, default_value, set_columns, without_defaults
from .hooks import extra_in_hooks, faults_in_hooks, plain_hook, read_hooks, write_hooks
from .model_names import default_model


class ProviderKind:
    name = "provider"
    columns = ("kind", *find_options(Provider))

    def unknown(self, definition: Definition) -> dict[str, str]:
        extras = extra(definition, {"kind", "name", "llm", *self.columns})
        prices = definition.get("prices")
        if not isinstance(prices, dict):
            return extras
        for model, price in prices.items():
            extras |= extra(price, ("input", "output"), f"prices.{model}.")
            # An answer lists no more.
            if len(extras) >= MOST:
                break
        return extras

    def faults(self, definition: Definition) -> list[dict[str, str]]:
        types = {**shapes.column_shapes(Provider, self.columns), "llm": (str,)}
        return shapes.faults(definition, types)

    def rows(self, owner: Any) -> Iterable[Provider]:
        return Provider.objects.filter(owner=owner).order_by("name")

    def find(self, owner: Any, name: str) -> Provider | None:
        return Provider.objects.filter(owner=owner, name=name).first()

    def read(self, row: Provider) -> Definition:
        # “kind” is the kind of the definition, so the provider's is called “llm” in files.
        values = {name: getattr(row, name) for name in self.columns if name != "kind"}
        chosen = without_defaults(values, Provider)
        return {"kind": self.name, "name": row.name, "llm": row.kind, **chosen}

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Provider | None) -> Provider:
        """The key never comes from a file; a changed address clears the stored key."""
        row = row or Provider(owner=owner, name=definition["name"])
        before = (row.kind, row.base_url)
        set_columns(row, {**definition, "kind": definition["llm"]}, self.columns)
        if (row.kind, row.base_url) != before:
            row.api_key = ""
        row.full_clean(exclude=["owner", "team"])
        row.save()
        provider_changed(row)
        AuditEvent.record("provider.applied", row, actor=actor, source="definitions")
        return row


class ToolKind:
    """Tools with rows of their own: minions and builtins. The others come from functions,
    connectors and devices.
    """

    name = "tool"
    columns = tuple(find_options(Tool))
    own = (Tool.Kind.AGENT, Tool.Kind.CHAIN, Tool.Kind.BUILTIN)

    def unknown(self, definition: Definition) -> dict[str, str]:
        return extra(definition, {"kind", "name", "agent", "chain", "builtin", *self.columns})

    def faults(self, definition: Definition) -> list[dict[str, str]]:
        types = {**shapes.column_shapes(Tool, self.columns), "agent": (str,), "chain": (str,), "builtin": (str,)}
        lists = find_options_of_kind(Tool, "lines")
        return shapes.faults(definition, types) + shapes.not_texts(definition, lists)

    def rows(self, owner: Any) -> Iterable[Tool]:
        return Tool.objects.filter(owner=owner, kind__in=self.own).order_by("name")

    def find(self, owner: Any, name: str) -> Tool | None:
        return Tool.objects.filter(owner=owner, name=name).first()

    def read(self, row: Tool) -> Definition:
        values = {name: getattr(row, name) for name in self.columns}
        chosen = without_defaults(values, Tool)
        return {"kind": self.name, "name": row.name, **self.source_of(row), **chosen}

    def source_of(self, row: Tool) -> Definition:
        if row.kind == Tool.Kind.AGENT:
            agent = Agent.objects.filter(pk=row.source.get("agent")).first()
            return {"agent": agent.name if agent else None}
        if row.kind == Tool.Kind.CHAIN:
            chain = Chain.objects.filter(pk=row.source.get("chain")).first()
            return {"chain": chain.name if chain else None}
        return {"builtin": row.source.get("builtin")}

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Tool | None) -> Tool:
        check_schemas(definition, "input_schema", "output_schema")
        if row is not None and row.kind not in self.own:
            raise Conflict(
                f"“{row.name}” is a tool of the kind “{row.kind}”.", code="name_taken", hint="Choose another name."
            )
        row = row or Tool(owner=owner, name=definition["name"])
        set_columns(row, definition, self.columns)
        row.kind = Tool.Kind.BUILTIN
        row.source = {"builtin": definition.get("builtin", definition["name"])}
        for kind in CALLED:
            name = definition.get(kind)
            if name:
                row.kind = kind
                row.source = {str(kind): find_called_row(kind, name, owner).pk}
                break
        row.full_clean(exclude=["name", "owner", "team", "definition_hash"])
        row.freeze_hash()
        row.save()
        tool_changed(row)
        AuditEvent.record("tool.applied", row, actor=actor, source="definitions")
        return row


CALLED: dict[Any, Any] = {Tool.Kind.AGENT: Agent, Tool.Kind.CHAIN: Chain}


def find_called_row(kind: str, name: str, owner: Any) -> Any:
    """The agent or chain behind a tool: the owner's, else the site's. Raises Invalid."""
    rows = CALLED[kind].objects.filter(name=name)
    target = rows.filter(owner=owner).first() or rows.filter(owner=None).first()
    if target is None:
        raise Invalid(f"There is no {kind} “{name}”.")
    return target


VERSIONED = versioned_options(Agent, AgentSpec)
AGENT_COLUMNS = tuple(plain_options(Agent))
# of the row and of no version: `live` does not have them
OPERATIONAL = tuple(name for name in AGENT_COLUMNS if name not in VERSIONED)
GRANT_COLUMNS = [column for column in ToolGrant._meta.concrete_fields if not (column.is_relation or column.primary_key)]
GRANT_DEFAULTS = {column.name: column.get_default() for column in GRANT_COLUMNS}
# not part of any version: always as they are now
READ_LIVE = ("allow_after_untrusted", "decides", "decider_role", "not_starter")


def read_grants(grants: Any) -> list[Any]:
    """A grant with default settings is just its tool's name; others are mappings."""
    rows = list(grants.all())
    # One query, or none after an export's own.
    prefetch_related_objects(rows, "tool")
    entries: list[Any] = []
    for grant in rows:
        settings = {name: getattr(grant, name) for name in GRANT_DEFAULTS}
        entries.append(short_grant(grant.tool.name, settings, usual_grant(grant.tool)))
    return entries


def short_grant(tool_name: str, settings: dict[str, Any], usual: dict[str, Any]) -> Any:
    """The tool's name, with the settings that are not the usual ones."""
    special = {name: settings[name] for name, value in usual.items() if settings.get(name, value) != value}
    if not special:
        return tool_name
    return {"tool": tool_name, **special}


def extra_in_grants(grants: Any, place: str = "") -> dict[str, str]:
    fields = {"tool", *GRANT_DEFAULTS}
    return extra_in_each(grants, lambda grant, at: extra(grant, fields, at), f"{place}grants")


def plain_grant(entry: Any, owner: Any) -> Any:
    """A grant in the format of read_grants."""
    grant = {"tool": entry} if isinstance(entry, str) else entry
    name = grant["tool"]
    return short_grant(name, grant, usual_grant(tool_named(name, owner)))


def usual_grant(tool: Tool | None) -> dict[str, Any]:
    """The settings of a grant that a file states explicitly."""
    if tool is None:
        return GRANT_DEFAULTS
    return {**GRANT_DEFAULTS, "mode": tool.mode_when_granted}


def tool_named(name: str, owner: Any) -> Tool | None:
    """The owner's tool with this name, else the site's."""
    rows = Tool.objects.filter(name=name)
    own = rows.filter(owner=owner).first() if owner else None
    return own or rows.filter(owner=None).first()


def sharing(row: Any) -> Definition:
    """The team it is shared with, and whether it was ever published."""
    fields: Definition = {}
    if row.team:
        fields["team"] = row.team.name
    if not row.published_id:
        fields["draft"] = True
    return fields


def team_named(name: str | None, owner: Any) -> Team | None:
    """Of those that the owner sees; the site and superusers see all. Raises Invalid."""
    if name is None:
        return None
    sees_all = owner is None or owner.is_superuser
    teams = Team.objects.all() if sees_all else Team.objects.visible_to(owner)
    team = teams.filter(name=name).first()
    if team is None:
        raise Invalid(f"There is no team “{name}”.")
    return team


def share_definition(row: Any, name: str | None) -> None:
    """Set the team of a row, within its owner's rights. The site's own files may name any team."""
    team = team_named(name, row.owner)
    if row.owner is not None:
        check_share(row, row.owner, team, row.name)
    row.team = team


def write_grants(subject: dict[str, Any], entries: list[Any], *, owner: Any) -> None:
    """Replace the grants of an agent or a chain ({"agent": row} or {"chain": row})."""
    ToolGrant.objects.filter(**subject).delete()
    for entry in entries:
        fields = {"tool": entry} if isinstance(entry, str) else entry
        tool = tool_named(fields["tool"], owner)
        if tool is None:
            raise Invalid(f"There is no tool “{fields['tool']}” to grant.")
        values = {key: fields.get(key, value) for key, value in usual_grant(tool).items()}
        grant = ToolGrant(tool=tool, **subject, **values)
        grant.full_clean(validate_unique=False, validate_constraints=False)
        grant.save()


def faults_in_grants(grants: Any, place: str = "") -> list[dict[str, str]]:
    if not isinstance(grants, list):
        return []
    if len(grants) > MOST_GRANTS:
        message = f"There can be at most {MOST_GRANTS} grants."
        return [{"field": f"{place}grants", "code": "max_length", "message": message}]
    types = {"tool": (str,), **shapes.column_shapes(ToolGrant, GRANT_DEFAULTS)}
    faults: list[dict[str, str]] = []
    for number, grant in enumerate(grants):
        where = f"{place}grants.{number}"
        if isinstance(grant, dict) and "tool" in grant:
            faults += shapes.faults(grant, types, f"{where}.")
        elif not isinstance(grant, str):
            faults.append({"field": where, "code": "invalid", "message": "Write a tool's name, or {tool: name, …}."})
    return faults


class AgentKind:
    name = "agent"

    def unknown(self, definition: Definition, place: str = "") -> dict[str, str]:
        """`live` is a definition too, without what is not part of a version."""
        names = {"provider", "grants", *VERSIONED}
        is_live = bool(place)
        if not is_live:
            names |= {"kind", "name", "team", "draft", "live", "hooks", *OPERATIONAL}
        extras = extra(definition, names, place)
        extras |= extra_in_hooks(definition.get("hooks"), place)
        extras |= extra_in_model(ModelParams, definition.get("model_params"), f"{place}model_params.")
        extras |= extra_in_grants(definition.get("grants"), place)
        if isinstance(definition.get("live"), dict):
            extras |= self.unknown(definition["live"], "live.")
        return extras

    def faults(self, definition: Definition, place: str = "") -> list[dict[str, str]]:
        types = {**shapes.column_shapes(Agent, AGENT_COLUMNS), **shapes.SHARED}
        types |= {"provider": (str,), "grants": (list,), "hooks": (list,)}
        faults = shapes.faults(definition, types, place)
        faults += faults_in_hooks(definition.get("hooks"), place)
        faults += shapes.not_texts(definition, find_options_of_kind(Agent, "lines"), place)
        faults += faults_in_grants(definition.get("grants"), place)
        if isinstance(definition.get("live"), dict):
            faults += self.faults(definition["live"], "live.")
        return faults

    def rows(self, owner: Any) -> Iterable[Agent]:
        related = ("provider", "published", "owner", "team")
        rows = Agent.objects.filter(owner=owner).select_related(*related).order_by("name")
        return rows.prefetch_related("grants__tool", "hooks__tool")

    def find(self, owner: Any, name: str) -> Agent | None:
        own = Agent.objects.filter(owner=owner, name=name)
        return own.select_related("provider").first()

    def read(self, row: Agent) -> Definition:
        values = {name: getattr(row, name) for name in AGENT_COLUMNS}
        draft = short_agent(row.provider.name, values, read_grants(row.grants))
        entries = read_hooks(row)
        hooks = {"hooks": entries} if entries else {}
        return {"kind": self.name, "name": row.name, **draft, **hooks, **live_agent(row, draft), **sharing(row)}

    def normal(self, definition: Definition, owner: Any) -> Definition:
        values = {name: definition.get(name, default_value(Agent, name)) for name in AGENT_COLUMNS}
        result: Definition = {}
        for name in ("kind", "name", "provider", "team", "draft", "live"):
            if definition.get(name):
                result[name] = definition[name]
        result |= without_defaults(values, Agent)
        grants = [plain_grant(entry, owner) for entry in definition.get("grants", [])]
        hooks = [plain_hook(entry) for entry in definition.get("hooks", [])]
        if grants:
            result["grants"] = grants
        if hooks:
            result["hooks"] = hooks
        return result

    def left_open(self, definition: Definition) -> set[str]:
        """Settings that the site fills in when a file leaves them out."""
        names: set[str] = set()
        if definition.get("provider", "default") == "default":
            names.add("provider")
        if not definition.get("model_name"):
            names.add("model_name")
        return names

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Agent | None) -> Agent:
        """The working row and its published version together; `live` is published first, then the
        draft is stored.
        """
        row = row or Agent(owner=owner, name=definition["name"])
        live = definition.get("live")
        if live:
            self.keep(row, {**{name: definition.get(name) for name in ("name", "team")}, **live}, owner)
            row.publish(author=actor if actor.pk else None, note="from a definition file")
        self.keep(row, definition, owner)
        write_hooks(row, definition.get("hooks", []), owner=owner)
        if not definition.get("draft") and not live:
            row.publish(author=actor if actor.pk else None, note="from a definition file")
        AuditEvent.record("agent.applied", row, actor=actor, source="definitions")
        return row

    def keep(self, row: Agent, definition: Definition, owner: Any) -> None:
        """The working row with its grants. “default” is the provider that the site prefers."""
        check_schemas(definition, "input_schema", "output_schema")
        set_columns(row, definition, AGENT_COLUMNS)
        row.provider = find_definition_provider(definition.get("provider", "default"), owner)
        if row.provider.kind != Provider.Kind.OFFLINE and not row.model_name:
            row.model_name = default_model(row.provider)
        share_definition(row, definition.get("team"))
        row.full_clean(exclude=["owner", "team", "published"])
        row.save()
        carry(row)
        write_grants({"agent": row}, definition.get("grants", []), owner=owner)


def short_agent(provider: str, values: Definition, grants: list[Any]) -> Definition:
    """An author's settings of an agent, without defaults."""
    short = {"provider": provider, **without_defaults(values, Agent)}
    if grants:
        short["grants"] = grants
    return short


def live_agent(row: Agent, draft: Definition) -> Definition:
    """{"live": the published definition}, if the draft differs."""
    if row.published is None:
        return {}
    spec = row.published.read_spec()
    stored = spec.model_dump(mode="json")
    values = {name: stored[stored_name(column)] for name, column in VERSIONED.items()}
    values["model_params"] = spec.model_params.model_dump(exclude_none=True)
    # The provider may have another name by now.
    names = Provider.objects.filter(pk=spec.provider_id).values_list("name", flat=True)
    provider = names.first() or spec.provider
    live = short_agent(provider, values, live_grants(row, spec))
    versioned_draft = {name: value for name, value in draft.items() if name not in OPERATIONAL}
    if live == versioned_draft:
        return {}
    return {"live": live}


def live_grants(row: Agent, spec: AgentSpec) -> list[Any]:
    """In the format of read_grants, under the tools' current names."""
    tool_ids = [grant.tool_id for grant in spec.grants]
    names = dict(Tool.objects.filter(pk__in=tool_ids).values_list("pk", "name"))
    live_settings = {grant["tool_id"]: grant for grant in row.grants.values("tool_id", *READ_LIVE)}
    entries: list[Any] = []
    for grant in spec.grants:
        name = names.get(grant.tool_id)
        # A tool that was deleted cannot be granted again.
        if name:
            settings = {**grant.model_dump(), **live_settings.get(grant.tool_id, {}), "tool": name}
            entries.append(plain_grant(settings, row.owner))
    return entries


def find_definition_provider(name: str, owner: Any) -> Provider:
    """The owner's provider of this name, else the site's. “default”: the site's first enabled one with a real model,
    else the offline one. Raises Invalid.
    """
    if name == "default":
        enabled = Provider.objects.filter(owner=None, enabled=True).order_by("pk")
        provider = enabled.exclude(kind=Provider.Kind.OFFLINE).first() or enabled.first()
    else:
        rows = Provider.objects.filter(name=name)
        provider = rows.filter(owner=owner).first() or rows.filter(owner=None).first()
    if provider is None:
        raise Invalid(f"There is no provider “{name}”.")
    return provider
