"""Files ↔ rows. A definition is what an author would type, as YAML: no ids, no secrets, no history.

Each kind of row says how it is read and written (`Kind`); settings.DEFINITION_KINDS names them in the order in which
they may refer to each other, so that this module knows no app above it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from .exceptions import Invalid, MusterError
from .models import Agent, AuditEvent, Provider, Starter, Team, Tool, ToolGrant
from .models.agent import provider_changed, tool_changed
from .models.team import check_name
from .schema import check_schema, sha256_of
from .spec import AgentSpec

Definition = dict[str, Any]


class Kind(Protocol):
    """How one kind of row becomes a definition and back. `owner` None is the site."""

    name: str

    def rows(self, owner: Any) -> Iterable[Any]: ...

    def find(self, owner: Any, name: str) -> Any | None: ...

    def read(self, row: Any) -> Definition: ...

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Any | None) -> Any: ...


class Site:
    """Who acts when a command sets up the site's own rows."""

    pk = None
    is_authenticated = True
    is_superuser = True

    def has_perm(self, permission: str) -> bool:
        return True

    def get_username(self) -> str:
        return "site"


@dataclass(frozen=True, slots=True)
class Change:
    """What applying one definition would do: create, change or nothing."""

    kind: str
    name: str
    verb: str
    fields: list[str] = field(default_factory=list)
    definition: Definition = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.verb:8} {self.kind} {self.name}" + (f" ({', '.join(self.fields)})" if self.fields else "")


def kinds() -> dict[str, Kind]:
    made = [import_string(path)() for path in settings.DEFINITION_KINDS]
    return {kind.name: kind for kind in made}


# -- files ------------------------------------------------------------------------------------------------------------


def load(path: Path) -> list[Definition]:
    """Every definition of a YAML file or of a folder's, in the order in which kinds may refer to each other."""
    files = (
        [path] if path.is_file() else sorted(found for found in path.rglob("*") if found.suffix in (".yaml", ".yml"))
    )
    order = list(kinds())
    found = [definition for file in files for definition in parse(file)]
    return needed_first(sorted(found, key=lambda definition: order.index(definition["kind"])))


def needed_first(definitions: list[Definition]) -> list[Definition]:
    """A minion's tool needs its agent, and an agent the tools it is granted: each comes after what it needs."""
    waiting = {(definition["kind"], definition["name"]): definition for definition in definitions}
    ordered: list[Definition] = []
    while waiting:
        ready = [key for key, definition in waiting.items() if not needs(definition) & waiting.keys()]
        for key in ready or list(waiting):  # a ring is written as it stands: the rows say what is missing
            ordered.append(waiting.pop(key))
    return ordered


def needs(definition: Definition) -> set[tuple[str, str]]:
    entries = [*definition.get("grants", []), *(definition.get("live") or {}).get("grants", [])]
    granted = [entry if isinstance(entry, str) else entry.get("tool", "") for entry in entries]
    wanted = {(kind, name) for name in granted for kind in ("function", "tool")}
    steps = [step for step in definition.get("steps") or [] if isinstance(step, dict)]
    wanted |= {(kind, step[kind]) for step in steps for kind in ("agent", "chain") if isinstance(step.get(kind), str)}
    return wanted | {("agent", definition.get("agent", ""))}


def parse(file: Path) -> Iterator[Definition]:
    try:
        documents = list(yaml.load_all(file.read_text(), Loader=Plain))  # noqa: S506  (a SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Invalid(f"{file}: {error}", code="unreadable")
    for document in documents:
        for definition in document if isinstance(document, list) else [document]:
            if definition is not None:
                yield checked(definition, file)


class Plain(yaml.SafeLoader):
    """A SafeLoader that reads as JSON would: 2026-01-01 and 12:30 are texts, and so are yes, no, on and off."""


def plain_resolvers() -> dict[str, list[tuple[str, Any]]]:
    kept = {
        "tag:yaml.org,2002:bool": re.compile(r"^(true|True|TRUE|false|False|FALSE)$"),
        "tag:yaml.org,2002:int": re.compile(r"^[-+]?(0|[1-9][0-9]*)$"),
    }
    dropped = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value", "tag:yaml.org,2002:merge")
    found = yaml.SafeLoader.yaml_implicit_resolvers.items()
    return {
        first: [(tag, kept.get(tag, pattern)) for tag, pattern in pairs if tag not in dropped] for first, pairs in found
    }


Plain.yaml_implicit_resolvers = plain_resolvers()


def checked(definition: Any, file: Path) -> Definition:
    known = kinds()
    if not isinstance(definition, dict) or definition.get("kind") not in known:
        raise Invalid(
            f"{file}: a definition is a mapping whose kind is one of {', '.join(known)}.", code="unknown_kind"
        )
    if not isinstance(definition.get("name"), str):
        raise Invalid(f"{file}: a {definition['kind']} without a name.", code="nameless")
    if definition.get("builtin") != definition["name"]:  # built-in tools bear the words that are reserved for them
        check_name(definition["name"])
    return definition


def dump(definitions: Iterable[Definition]) -> str:
    """YAML that reads like what a person would write: text in blocks, keys in the order of the form."""
    return yaml.dump_all(definitions, Dumper=Readable, sort_keys=False, allow_unicode=True, width=110)


class Readable(yaml.SafeDumper):
    pass


def block_text(dumper: Readable, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Readable.add_representer(str, block_text)


# -- plan and apply ---------------------------------------------------------------------------------------------------


def export(owner: Any, *, only: str | None = None) -> list[Definition]:
    """All of one owner's rows (None: the site's) as definitions."""
    chosen = [kind for name, kind in kinds().items() if only in (None, name)]
    return [kind.read(row) for kind in chosen for row in kind.rows(owner)]


def plan(definitions: list[Definition], *, owner: Any) -> list[Change]:
    """What would change, without changing it."""
    known = kinds()
    return [compare(known[definition["kind"]], definition, owner) for definition in definitions]


def compare(kind: Kind, definition: Definition, owner: Any) -> Change:
    row = kind.find(owner, definition["name"])
    if row is None:
        return Change(kind.name, definition["name"], "create", definition=definition)
    fields = differing(kind, definition, kind.read(row), owner)
    return Change(kind.name, definition["name"], "change" if fields else "same", fields, definition)


def differing(kind: Kind, definition: Definition, now: Definition, owner: Any) -> list[str]:
    """The fields in which a file and a row differ; a kind with `normal` says what a file means in full."""
    normal = getattr(kind, "normal", None)
    if normal is None:
        return [key for key, value in definition.items() if now.get(key) != value]
    wanted = normal(definition, owner)
    left_open: set[str] = kind.left_open(definition) if hasattr(kind, "left_open") else set()
    return [key for key in {**wanted, **now} if wanted.get(key) != now.get(key) and key not in left_open]


@transaction.atomic
def apply(changes: list[Change], *, owner: Any, actor: Any) -> int:
    """Apply a plan in one transaction: everything or nothing. Returns how many rows were written."""
    known = kinds()
    written = [change for change in changes if change.verb != "same"]
    for change in written:
        kind = known[change.kind]
        try:
            kind.write(change.definition, owner=owner, actor=actor, row=kind.find(owner, change.name))
        except MusterError as error:
            error.args = (f"{change.kind} {change.name}: {error}",)
            raise
    return len(written)


def install_starters(folder: Path, *, actor: Any) -> list[Change]:
    """What a fresh database gets. Written when it is new, or when it is newer and nobody edited the row."""
    done: list[Change] = []
    known = kinds()
    for definition in load(folder):
        kind = known[definition["kind"]]
        if change := starter_change(kind, definition):
            with transaction.atomic():
                row = kind.write(definition, owner=None, actor=actor, row=kind.find(None, definition["name"]))
                Starter.objects.update_or_create(
                    kind=kind.name,
                    name=definition["name"],
                    defaults={"file_sha256": sha256_of(definition), "row_sha256": sha256_of(kind.read(row))},
                )
            done.append(change)
    return done


def starter_change(kind: Kind, definition: Definition) -> Change | None:
    installed = Starter.objects.filter(kind=kind.name, name=definition["name"]).first()
    row = kind.find(None, definition["name"])
    if installed is None:
        return Change(kind.name, definition["name"], "create") if row is None else None
    if row is None or installed.file_sha256 == sha256_of(definition):
        return None  # an administrator deleted it, or nothing is new
    if sha256_of(kind.read(row)) != installed.row_sha256:
        return None  # an author edited it: theirs now
    return Change(kind.name, definition["name"], "change")


# -- the kinds of this app --------------------------------------------------------------------------------------------


def without_defaults(values: Definition, model: Any) -> Definition:
    """Only what differs from the column's default: files stay short, and a new column changes no file."""
    return {
        name: value
        for name, value in values.items()
        if value not in (None, "", [], {}) and value != default(model, name)
    }


def default(model: Any, name: str) -> Any:
    return model._meta.get_field(name).get_default()


def set_columns(row: Any, definition: Definition, columns: Iterable[str]) -> None:
    """Columns named in the definition get its value, the others their default."""
    for name in columns:
        setattr(row, name, definition.get(name, default(type(row), name)))


def check_schemas(definition: Definition, *fields: str) -> None:
    problems = [
        {"field": name, **(problem if isinstance(problem, dict) else problem.__dict__)}
        for name in fields
        if definition.get(name)
        for problem in check_schema(definition[name])
    ]
    if problems:
        raise Invalid(f"{definition['name']}: a schema is not valid.", details=problems)


class ProviderKind:
    name = "provider"
    columns = ("kind", "base_url", "tool_calling", "prices", "enabled")

    def rows(self, owner: Any) -> Iterable[Provider]:
        return Provider.objects.filter(owner=owner).order_by("name")

    def find(self, owner: Any, name: str) -> Provider | None:
        return Provider.objects.filter(owner=owner, name=name).first()

    def read(self, row: Provider) -> Definition:
        values = {name: getattr(row, name) for name in self.columns if name != "kind"}
        return {"kind": self.name, "name": row.name, "llm": row.kind, **without_defaults(values, Provider)}

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Provider | None) -> Provider:
        """The key never comes from a file; a changed address drops the one that is kept."""
        row = row or Provider(owner=owner, name=definition["name"])
        before = row.base_url
        set_columns(row, {**definition, "kind": definition["llm"]}, self.columns)
        if row.base_url != before:
            row.api_key = ""
        row.full_clean(exclude=["owner", "team"])
        row.save()
        provider_changed(row)
        return row


class ToolKind:
    """Tools that are rows of their own: minions, builtins. The others come from functions, connectors, devices."""

    name = "tool"
    columns = ("description", "input_schema", "output_schema", "effect", "enabled", "untrusted", "deadline_s")
    own = (Tool.Kind.AGENT, Tool.Kind.BUILTIN)

    def rows(self, owner: Any) -> Iterable[Tool]:
        return Tool.objects.filter(owner=owner, kind__in=self.own).order_by("name")

    def find(self, owner: Any, name: str) -> Tool | None:
        return Tool.objects.filter(owner=owner, name=name).first()

    def read(self, row: Tool) -> Definition:
        values = without_defaults({name: getattr(row, name) for name in self.columns}, Tool)
        return {"kind": self.name, "name": row.name, **self.source_of(row), **values}

    def source_of(self, row: Tool) -> Definition:
        if row.kind == Tool.Kind.AGENT:
            agent = Agent.objects.filter(pk=row.source.get("agent")).first()
            return {"agent": agent.name if agent else None}
        return {"builtin": row.source.get("builtin")}

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Tool | None) -> Tool:
        check_schemas(definition, "input_schema", "output_schema")
        row = row or Tool(owner=owner, name=definition["name"])
        set_columns(row, definition, self.columns)
        if name := definition.get("agent"):
            agent = (
                Agent.objects.filter(owner=owner, name=name).first()
                or Agent.objects.filter(owner=None, name=name).first()
            )
            if agent is None:
                raise Invalid(f"There is no agent “{name}”.")
            row.kind, row.source = Tool.Kind.AGENT, {"agent": agent.pk}
        else:
            row.kind, row.source = Tool.Kind.BUILTIN, {"builtin": definition.get("builtin", definition["name"])}
        row.freeze_hash()
        row.save()
        tool_changed(row)
        return row


AGENT_COLUMNS = (
    "description", "system_prompt", "model_name", "model_params", "fallback_models", "input_schema", "output_schema",
    "capabilities", "examples", "delegates_to", "max_steps", "timeout", "max_chain_depth", "max_agent_depth",
    "session_context", "context_messages", "context_tokens", "enabled",
)  # fmt: skip
GRANT_DEFAULTS = {
    "mode": "allow",
    "pinned_version": None,
    "deadline_s": None,
    "offline": "fail",
    "allow_after_untrusted": False,
}


def read_grants(grants: Any) -> list[Any]:
    """A grant with nothing special is its tool's name; the others are mappings."""
    shown: list[Any] = []
    for grant in grants.select_related("tool").order_by("pk"):
        usual = usual_grant(grant.tool)
        special = {key: getattr(grant, key) for key, value in usual.items() if getattr(grant, key) != value}
        shown.append({"tool": grant.tool.name, **special} if special else grant.tool.name)
    return shown


def plain_grant(entry: Any, owner: Any) -> Any:
    """A grant as read_grants shows it."""
    given = {"tool": entry} if isinstance(entry, str) else entry
    usual = usual_grant(tool_named(given["tool"], owner))
    special = {key: given[key] for key, value in usual.items() if given.get(key, value) != value}
    return {"tool": given["tool"], **special} if special else given["tool"]


def usual_grant(tool: Tool | None) -> dict[str, Any]:
    """What a grant says that a file says nothing more about."""
    return GRANT_DEFAULTS if tool is None else {**GRANT_DEFAULTS, "mode": tool.mode_when_granted}


def tool_named(name: str, owner: Any) -> Tool | None:
    """The owner's tool of this name, else the site's."""
    mine = Tool.objects.filter(name=name, owner=owner).first() if owner else None
    return mine or Tool.objects.filter(name=name, owner=None).first()


def sharing(row: Any) -> Definition:
    """The team it is shared with, and whether it was never published."""
    team = {"team": row.team.name} if row.team else {}
    return team if row.published_id else {**team, "draft": True}


def team_named(name: str | None) -> Team | None:
    if name is None:
        return None
    found = Team.objects.filter(name=name).first()
    if found is None:
        raise Invalid(f"There is no team “{name}”.")
    return found


def write_grants(subject: dict[str, Any], wanted: list[Any], *, owner: Any) -> None:
    """Replace the grants of an agent or a chain ({"agent": row} or {"chain": row})."""
    ToolGrant.objects.filter(**subject).delete()
    for entry in wanted:
        given = {"tool": entry} if isinstance(entry, str) else entry
        tool = tool_named(given["tool"], owner)
        if tool is None:
            raise Invalid(f"There is no tool “{given['tool']}” to grant.")
        values = {key: given.get(key, value) for key, value in usual_grant(tool).items()}
        ToolGrant.objects.create(tool=tool, **subject, **values)


class AgentKind:
    name = "agent"

    def rows(self, owner: Any) -> Iterable[Agent]:
        related = ("provider", "published", "owner", "team")
        return Agent.objects.filter(owner=owner).select_related(*related).order_by("name")

    def find(self, owner: Any, name: str) -> Agent | None:
        return Agent.objects.filter(owner=owner, name=name).select_related("provider").first()

    def read(self, row: Agent) -> Definition:
        values = {name: getattr(row, name) for name in AGENT_COLUMNS}
        draft = short_agent(row.provider.name, values, read_grants(row.grants))
        return {"kind": self.name, "name": row.name, **draft, **live_agent(row, draft), **sharing(row)}

    def normal(self, definition: Definition, owner: Any) -> Definition:
        values = {name: definition.get(name, default(Agent, name)) for name in AGENT_COLUMNS}
        grants = [plain_grant(entry, owner) for entry in definition.get("grants", [])]
        named = ("kind", "name", "provider", "team", "draft", "live")
        kept = {name: definition[name] for name in named if definition.get(name)}
        return {**kept, **without_defaults(values, Agent), **({"grants": grants} if grants else {})}

    def left_open(self, definition: Definition) -> set[str]:
        """What the site fills in where a file leaves it to it."""
        named = {"provider"} if definition.get("provider", "default") == "default" else set()
        return named | ({"model_name"} if not definition.get("model_name") else set())

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Agent | None) -> Agent:
        """The working row and its published version at once; `live` is published first, and the draft then kept."""
        row = row or Agent(owner=owner, name=definition["name"])
        live = definition.get("live")
        if live:
            self.keep(row, {**{name: definition.get(name) for name in ("name", "team")}, **live}, owner)
            row.publish(author=actor if actor.pk else None, note="from a definition file")
        self.keep(row, definition, owner)
        if not definition.get("draft") and not live:
            row.publish(author=actor if actor.pk else None, note="from a definition file")
        AuditEvent.record("agent.applied", row, actor=actor, source="definitions")
        return row

    def keep(self, row: Agent, definition: Definition, owner: Any) -> None:
        """The working row with its grants. “default” is whatever provider the site prefers."""
        check_schemas(definition, "input_schema", "output_schema")
        set_columns(row, definition, AGENT_COLUMNS)
        row.provider = provider_named(definition.get("provider", "default"), owner)
        if row.provider.kind != Provider.Kind.OFFLINE and not row.model_name:
            row.model_name = DEFAULT_MODELS.get(row.provider.kind, "")
        row.team = team_named(definition.get("team"))
        row.full_clean(exclude=["owner", "team", "published"])
        row.save()
        write_grants({"agent": row}, definition.get("grants", []), owner=owner)


def short_agent(provider: str, values: Definition, grants: list[Any]) -> Definition:
    """What an author decides about an agent, without defaults."""
    return {"provider": provider, **without_defaults(values, Agent), **({"grants": grants} if grants else {})}


def live_agent(row: Agent, draft: Definition) -> Definition:
    """What is published, where the draft has moved on; whether it is enabled is no matter of versions."""
    if row.published is None:
        return {}
    spec = row.published.read_spec()
    values = {**spec.model_dump(mode="json"), "timeout": spec.timeout_s}
    values["model_params"] = spec.model_params.model_dump(exclude_none=True)
    kept = {name: values[name] for name in AGENT_COLUMNS if name in values}
    provider = Provider.objects.filter(pk=spec.provider_id).values_list("name", flat=True).first() or spec.provider
    live = short_agent(provider, kept, live_grants(row, spec))
    return {} if live == {name: value for name, value in draft.items() if name != "enabled"} else {"live": live}


def live_grants(row: Agent, spec: AgentSpec) -> list[Any]:
    """As read_grants shows them, under the names that the tools bear today."""
    names = dict(Tool.objects.filter(pk__in=[grant.tool_id for grant in spec.grants]).values_list("pk", "name"))
    after_untrusted = set(row.grants.filter(allow_after_untrusted=True).values_list("tool_id", flat=True))
    return [
        plain_grant(
            grant.model_dump() | {"tool": name, "allow_after_untrusted": grant.tool_id in after_untrusted}, row.owner
        )
        for grant in spec.grants
        if (name := names.get(grant.tool_id))
    ]


DEFAULT_MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5", "google": "gemini-2.5-flash"}


def provider_named(name: str, owner: Any) -> Provider:
    """“default”: the first enabled provider of the site that is a real model, else the offline one."""
    if name == "default":
        enabled = Provider.objects.filter(owner=None, enabled=True).order_by("pk")
        found = enabled.exclude(kind=Provider.Kind.OFFLINE).first() or enabled.first()
    else:
        found = (
            Provider.objects.filter(owner=owner, name=name).first()
            or Provider.objects.filter(owner=None, name=name).first()
        )
    if found is None:
        raise Invalid(f"There is no provider “{name}”.")
    return found
