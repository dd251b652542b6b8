"""Reads and writes definition files. A definition contains what an author types, as YAML: no ids,
no secrets, no history.

Each kind of row says how it is read and written (`Kind`). settings.DEFINITION_KINDS lists the kinds
so that each only refers to earlier ones; this module imports no app above it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml
from django.conf import settings
from django.db import transaction
from django.utils.module_loading import import_string

from agents.documents import Plain, portions
from agents.exceptions import Invalid, MusterError, TooLarge
from agents.models import Starter
from agents.models.team import check_name
from agents.schema import check_schema, hash_json
from agents.unknown import refuse_unknown_fields
from plumbing.untrusted import parse_in_child

Definition = dict[str, Any]
# Characters that are read in one go; a second of CPU time suffices for several times as many.
AT_ONCE = 50_000
# Definitions in one text of a user.
MOST = 500


class Kind(Protocol):
    """How one kind of row becomes a definition and back. `owner` None means the site.

    `unknown` names the fields that such a definition does not have (agents/unknown.py), and
    `faults` those of another type (agents/definitions/shapes.py). A kind may have `prepare`: what
    must be tried before the transaction, since it takes long, and `abandon`, which undoes that when
    nothing is written. A kind whose `read` is expensive has `state`: what `normal` is compared with.
    """

    name: str

    def unknown(self, definition: Definition) -> dict[str, str]: ...

    def faults(self, definition: Definition) -> list[dict[str, str]]: ...

    def rows(self, owner: Any) -> Iterable[Any]: ...

    def find(self, owner: Any, name: str) -> Any | None: ...

    def read(self, row: Any) -> Definition: ...

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Any | None) -> Any: ...


class Site:
    """The actor when a command sets up the site's own rows."""

    pk = None
    is_authenticated = True
    is_superuser = True

    def has_perm(self, permission: str) -> bool:
        return True

    def get_username(self) -> str:
        return "site"


@dataclass(frozen=True, slots=True)
class Change:
    """The result of applying one definition: create, change or nothing."""

    kind: str
    name: str
    verb: str
    fields: list[str] = field(default_factory=list)
    definition: Definition = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        line = f"{self.verb:8} {self.kind} {self.name}"
        if not self.fields:
            return line
        return f"{line} ({', '.join(self.fields)})"


def kinds() -> dict[str, Kind]:
    instances = [import_string(path)() for path in settings.DEFINITION_KINDS]
    return {kind.name: kind for kind in instances}


# -- files ------------------------------------------------------------------------------------------------------------


def load_definition_files(path: Path) -> list[Definition]:
    """Every definition of a YAML file or folder, ordered so that each refers to earlier ones."""
    files = [path]
    if not path.is_file():
        files = sorted(file for file in path.rglob("*") if file.suffix in (".yaml", ".yml"))
    definitions: list[Definition] = []
    for file in files:
        definitions += parse_definition_file(file)
    return order_definitions(definitions)


def order_definitions(definitions: list[Definition]) -> list[Definition]:
    """The kinds in their order, and within them what others need first. Raises Invalid for a name that occurs twice."""
    names = Counter((definition["kind"], definition["name"]) for definition in definitions)
    for (kind, name), count in names.items():
        if count > 1:
            raise Invalid(f"The {kind} {name} is defined twice.", code="duplicate")
    order = list(kinds())
    by_kind = sorted(definitions, key=lambda definition: order.index(definition["kind"]))
    return needed_first(by_kind)


def needed_first(definitions: list[Definition]) -> list[Definition]:
    """A minion's tool needs its agent, and an agent needs its granted tools: each comes after what
    it needs.
    """
    waiting = {(definition["kind"], definition["name"]): definition for definition in definitions}
    missing = {key: needs(definition) & waiting.keys() for key, definition in waiting.items()}
    ordered: list[Definition] = []
    while waiting:
        ready = [key for key in waiting if not missing[key]]
        # A circle is written as it is: the rows report what is missing.
        if not ready:
            return ordered + list(waiting.values())
        for key in ready:
            ordered.append(waiting.pop(key))
        for key in waiting:
            missing[key].difference_update(ready)
    return ordered


def needs(definition: Definition) -> set[tuple[str, str]]:
    """(kind, name) of everything that the definition may mean; several kinds, where a name may be of any of them."""
    targets: set[tuple[str, str]] = set()
    live = definition.get("live") or {}
    for grant in [*definition.get("grants", []), *live.get("grants", [])]:
        name = grant if isinstance(grant, str) else grant.get("tool", "")
        targets |= {(kind, name) for kind in ("function", "skill", "tool", "agent", "chain")}
    # A minion's tool names its agent or chain itself, a chain in its steps.
    for part in [definition, *(definition.get("steps") or [])]:
        for kind in ("agent", "chain"):
            name = part.get(kind, "") if isinstance(part, dict) else ""
            if isinstance(name, str):
                targets.add((kind, name))
    targets.discard((definition["kind"], definition["name"]))
    return targets


def parse_definition_file(file: Path) -> Iterator[Definition]:
    try:
        documents = list(yaml.load_all(file.read_text(), Loader=Plain))  # noqa: S506  (a SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Invalid(f"{file}: {error}", code="unreadable")
    return each(documents, file)


def read_definitions(text: str) -> list[Definition]:
    """Every definition of a text from a user, in order. It is read in a process with limits, some
    documents at a time. Raises Invalid with the line, TooLarge.
    """
    definitions: list[Definition] = []
    for lines_above, portion in portions(text, AT_ONCE):
        try:
            documents = parse_in_child.run_reader_task("definitions", portion)
        except parse_in_child.TooMuch as error:
            raise TooLarge(f"These definitions take too long to read: {error}.", hint="Send fewer at a time.")
        except parse_in_child.Refused as error:
            line = error.line + lines_above
            detail = {"message": str(error), "line": line, "column": error.column}
            raise Invalid(f"Line {line}: {error}", code="unreadable", details=[detail])
        definitions += each(documents, "the text")
        if len(definitions) > MOST:
            raise TooLarge(f"These are more than {MOST} definitions.", hint="Send fewer at a time.")
    return order_definitions(definitions)


def each(documents: list[Any], source: Any) -> Iterator[Definition]:
    """A document is one definition, or a list of them."""
    for document in documents:
        entries = document if isinstance(document, list) else [document]
        for definition in entries:
            # An empty document, such as after a last `---`.
            if definition is not None:
                yield check_definition(definition, source)


def check_definition(definition: Any, file: Any) -> Definition:
    """Refuses what is no definition, or has fields or types that its kind does not have. Raises Invalid."""
    kinds_by_name = kinds()
    if not isinstance(definition, dict) or definition.get("kind") not in kinds_by_name:
        raise Invalid(
            f"{file}: a definition must be a mapping whose kind is one of {', '.join(kinds_by_name)}.",
            code="unknown_kind",
        )
    kind = definition["kind"]
    name = definition.get("name")
    if not isinstance(name, str):
        raise Invalid(f"{file}: a {kind} has no name.", code="nameless")
    refuse_unknown(definition, f"{file}: ")
    faults = kinds_by_name[kind].faults(definition)
    if faults:
        message = f"{file}: {kind} {name} has a value of the wrong type."
        raise Invalid(message, hint="See details.", details=faults)
    # Built-in tools use the reserved names.
    if definition.get("builtin") != name:
        check_name(name)
    return definition


def refuse_unknown(definition: Definition, place: str = "") -> None:
    """Raises Invalid, naming each field that such a definition does not have."""
    unknown = kinds()[definition["kind"]].unknown(definition)
    refuse_unknown_fields(unknown, f"{place}{definition['kind']} {definition['name']} has a field that does not exist.")


def dump_definitions(definitions: Iterable[Definition]) -> str:
    """YAML as a person would write it: long texts as blocks, keys in the order of the form."""
    return yaml.dump_all(definitions, Dumper=Readable, sort_keys=False, allow_unicode=True, width=110)


class Readable(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Equal lists are written out, not referred to."""
        return True


def block_text(dumper: Readable, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


Readable.add_representer(str, block_text)


# -- plan and apply ---------------------------------------------------------------------------------------------------


def export_definitions(owner: Any, *, only: str | None = None) -> list[Definition]:
    """All of one owner's rows (None: the site's) as definitions."""
    definitions: list[Definition] = []
    for name, kind in kinds().items():
        if only in (None, name):
            definitions += [kind.read(row) for row in kind.rows(owner)]
    return definitions


def plan_changes(definitions: list[Definition], *, owner: Any) -> list[Change]:
    """The changes that would be made, without making them."""
    kinds_by_name = kinds()
    return [compare(kinds_by_name[definition["kind"]], definition, owner) for definition in definitions]


def compare(kind: Kind, definition: Definition, owner: Any) -> Change:
    name = definition["name"]
    row = kind.find(owner, name)
    if row is None:
        return Change(kind.name, name, "create", definition=definition)
    now = kind.state(row, definition) if hasattr(kind, "state") else kind.read(row)
    fields = differing(kind, definition, now, owner)
    verb = "change" if fields else "same"
    return Change(kind.name, name, verb, fields, definition)


def differing(kind: Kind, definition: Definition, now: Definition, owner: Any) -> list[str]:
    """The fields in which file and row differ; a kind with `normal` expands a file to its full
    meaning.
    """
    normal = getattr(kind, "normal", None)
    if normal is None:
        return [key for key, value in definition.items() if now.get(key) != value]
    expectation = normal(definition, owner)
    left_open: set[str] = kind.left_open(definition) if hasattr(kind, "left_open") else set()
    fields = []
    for key in {**expectation, **now}:
        if key not in left_open and expectation.get(key) != now.get(key):
            fields.append(key)
    return fields


def apply_changes(
    changes: list[Change], *, owner: Any, actor: Any, check: Callable[[Definition, Any], None] | None = None
) -> int:
    """Apply a plan in one transaction: everything or nothing. Returns how many rows were written.

    `check` gets each definition and its row (or None) before it is written, when all that it refers
    to is there.
    """
    kinds_by_name = kinds()
    to_write = [change for change in changes if change.verb != "same"]
    try:
        # What takes long is tried before the transaction.
        for change in to_write:
            prepare = getattr(kinds_by_name[change.kind], "prepare", None)
            if prepare is not None:
                with naming(change):
                    prepare(change.definition, owner=owner, actor=actor)
        write_all(to_write, kinds_by_name, owner=owner, actor=actor, check=check)
    except Exception:
        for kind in kinds_by_name.values():
            abandon = getattr(kind, "abandon", None)
            if abandon is not None:
                abandon()
        raise
    return len(to_write)


@transaction.atomic
def write_all(
    changes: list[Change],
    kinds_by_name: dict[str, Kind],
    *,
    owner: Any,
    actor: Any,
    check: Callable[[Definition, Any], None] | None,
) -> None:
    for change in changes:
        kind = kinds_by_name[change.kind]
        row = kind.find(owner, change.name)
        with naming(change):
            if check:
                check(change.definition, row)
            kind.write(change.definition, owner=owner, actor=actor, row=row)


@contextmanager
def naming(change: Change) -> Iterator[None]:
    """A refusal says which definition it is about."""
    try:
        yield
    except MusterError as error:
        error.args = (f"{change.kind} {change.name}: {error}",)
        raise


def install_starters(folder: Path, *, actor: Any) -> list[Change]:
    """The starters of a new database. Written if new, or if newer and not edited since."""
    changes: list[Change] = []
    kinds_by_name = kinds()
    for definition in load_definition_files(folder):
        kind = kinds_by_name[definition["kind"]]
        change = starter_change(kind, definition)
        if change is None:
            continue
        name = definition["name"]
        with transaction.atomic():
            row = kind.write(definition, owner=None, actor=actor, row=kind.find(None, name))
            # How it was written, to tell later whether somebody edited it.
            hashes = {"file_sha256": hash_json(definition), "row_sha256": hash_json(kind.read(row))}
            Starter.objects.update_or_create(kind=kind.name, name=name, defaults=hashes)
        changes.append(change)
    return changes


def starter_change(kind: Kind, definition: Definition) -> Change | None:
    name = definition["name"]
    installed = Starter.objects.filter(kind=kind.name, name=name).first()
    row = kind.find(None, name)
    if installed is None:
        return Change(kind.name, name, "create") if row is None else None
    # An administrator deleted it, or nothing has changed.
    if row is None or installed.file_sha256 == hash_json(definition):
        return None
    # An author edited it, so it is theirs now.
    if hash_json(kind.read(row)) != installed.row_sha256:
        return None
    return Change(kind.name, name, "change")


# -- what the kinds have in common ------------------------------------------------------------------------------------


def without_defaults(values: Definition, model: Any) -> Definition:
    """Only values that differ from the column's default: files stay short, and a new column changes
    no file.
    """
    special: Definition = {}
    for name, value in values.items():
        is_empty = value in (None, "", [], {})
        if not is_empty and value != default_value(model, name):
            special[name] = value
    return special


def default_value(model: Any, name: str) -> Any:
    return model._meta.get_field(name).get_default()


def set_columns(row: Any, definition: Definition, columns: Iterable[str]) -> None:
    """Columns named in the definition get its value, the others their default."""
    for name in columns:
        value = definition.get(name, default_value(type(row), name))
        setattr(row, name, value)


def check_schemas(definition: Definition, *fields: str) -> None:
    """Raises Invalid with the problems of the schemas in these fields."""
    details = []
    for name in fields:
        if definition.get(name):
            details += [{"field": name, **problem} for problem in check_schema(definition[name])]
    if details:
        raise Invalid(f"{definition['name']}: a schema is not valid.", details=details)
