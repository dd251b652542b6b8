"""Converts annotations to JSON Schema, and to the readers of their values, by reading the syntax
tree. Nothing is imported or executed.

Arguments reach the sandbox as JSON: a `date` is a string in date format, and a dataclass or
TypedDict is an object. The schema says so, and the reader tells the sandbox's child what to make of
it before it calls the function (functions/sandbox/inside/arguments.py). Both come from the same
tables. An annotation that cannot be understood allows any value and leaves it as it is: a wrong
guess would reject valid input.
"""

import ast
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

Schema = dict[str, Any]
# JSON: the name of a type, or [kind, …]; functions/sandbox/inside/arguments.py reads it.
Reader = Any

AS_IT_IS = "Any"

# The schema of each type by its name. The reader of each has the same name.
PLAIN: dict[str, Schema] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "complex": {"type": "number"},
    "Number": {"type": "number"},
    "Decimal": {"type": ["string", "number"]},
    "Fraction": {"type": ["string", "number"]},
    "str": {"type": "string"},
    "LiteralString": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
    "NoneType": {"type": "null"},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "timedelta": {"type": "string", "format": "duration"},
    "UUID": {"type": "string", "format": "uuid"},
    "Path": {"type": "string"},
    "PurePath": {"type": "string"},
    "PurePosixPath": {"type": "string"},
    "ZoneInfo": {"type": "string"},
    "bytearray": {"type": "string", "contentEncoding": "base64"},
}
# How the sandbox converts these types to JSON when a function returns them (functions/sandbox/inside/conversions.py).
RESULTS: dict[str, Schema] = {
    "Decimal": {"type": "string", "description": "a decimal number"},
    "Fraction": {"type": "string", "description": "a fraction, such as 1/3"},
    "complex": {},
    "DataFrame": {"type": "array", "items": {"type": "object"}, "description": "one object per row"},
    "Series": {"type": "array"},
    "ndarray": {"type": "array"},
    "range": {"type": "array", "items": {"type": "integer"}},
    "SimpleNamespace": {"type": "object"},
}
# What is made of a JSON array, and of a JSON object.
LISTS = {
    "list": "list", "List": "list", "Sequence": "list", "MutableSequence": "list", "Iterable": "list",
    "Collection": "list", "Iterator": "iterator", "Generator": "iterator", "deque": "deque", "Deque": "deque",
    "set": "set", "Set": "set", "AbstractSet": "set", "MutableSet": "set", "frozenset": "frozenset",
    "FrozenSet": "frozenset",
}  # fmt: skip
DICTS = {
    "dict": "dict", "Dict": "dict", "Mapping": "dict", "MutableMapping": "dict", "OrderedDict": "OrderedDict",
    "defaultdict": "defaultdict", "DefaultDict": "defaultdict", "Counter": "Counter",
}  # fmt: skip
WRAPPERS = frozenset(["Annotated", "Required", "NotRequired", "ReadOnly", "Final", "InitVar", "Awaitable"])
SETS = frozenset(name for name, how in LISTS.items() if how in ("set", "frozenset"))
# How an object becomes a value of a class with one of these bases: its fields are passed by name, it
# stays a dict, or the class checks it itself.
RECORDS = {"NamedTuple": "call", "TypedDict": "dict", "BaseModel": "model"}
ENUMS = frozenset(["Enum", "IntEnum", "StrEnum"])
MAX_DEPTH = 12
# Per source: classes that refer to each other would otherwise multiply.
MAX_PARTS = 1_000


class Kind(NamedTuple):
    """What an annotation means: the schema of its JSON, and the reader that makes a value of it."""

    schema: Schema
    reader: Reader


ANYTHING = Kind({}, AS_IT_IS)
NULL = Kind({"type": "null"}, "None")


class Annotations:
    """Reads the annotations of one module; resolves its classes and type aliases by name.

    `class_readers` has the readers of the classes that were met; other readers name them.
    """

    def __init__(self, module: ast.Module, *, of_results: bool = False) -> None:
        self.plain = PLAIN
        if of_results:
            self.plain = PLAIN | RESULTS
        self.of_results = of_results
        self.classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
        self.budget = MAX_PARTS
        self.inside: list[str] = []
        self.aliases: dict[str, ast.expr] = {}
        for node in module.body:
            alias = find_type_alias(node)
            if alias:
                name, value = alias
                self.aliases[name] = value
        self.imported = find_import_aliases(module)
        self.class_readers: dict[str, Reader] = {}

    def schema(self, node: ast.expr | None) -> Schema:
        """The schema of an annotation; {} if it contains nothing that JSON can check."""
        return self.read_kind(node).schema

    def read_kind(self, node: ast.expr | None, depth: int = 0) -> Kind:
        """What an annotation means; anything if it is too deep, or if the source has too many parts."""
        self.budget -= 1
        if node is None or depth > MAX_DEPTH or self.budget < 0:
            return ANYTHING
        if isinstance(node, ast.Constant):
            return self.read_constant(node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            left = self.read_kind(node.left, depth + 1)
            right = self.read_kind(node.right, depth + 1)
            return join_kinds([left, right])
        if isinstance(node, ast.Subscript):
            name = self.find_type_name(node.value)
            return self.read_generic(name, list_type_arguments(node), depth)
        if isinstance(node, ast.Call) and find_last_name(node) == "NewType" and len(node.args) == 2:
            return self.read_kind(node.args[1], depth + 1)
        name = self.find_type_name(node)
        return self.read_name(name, depth)

    def find_type_name(self, node: ast.expr) -> str:
        """The name of the type: with `from datetime import datetime as dt`, `dt` is a datetime."""
        name = find_last_name(node)
        if isinstance(node, ast.Name):
            return self.imported.get(name, name)
        return name

    def read_constant(self, node: ast.Constant, depth: int) -> Kind:
        if node.value is None:
            return NULL
        if not isinstance(node.value, str):
            return ANYTHING
        try:
            return self.read_kind(ast.parse(node.value, mode="eval").body, depth + 1)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ANYTHING

    def read_name(self, name: str, depth: int) -> Kind:
        if name in self.classes:
            return self.read_class(self.classes[name], depth)
        if name in self.aliases:
            return self.read_kind(self.aliases[name], depth + 1)
        if name in self.plain:
            return Kind(dict(self.plain[name]), name)
        if name in ("tuple", "Tuple"):
            return Kind({"type": "array"}, ["list", "tuple", AS_IT_IS])
        if name in LISTS:
            schema = self.make_list_schema(name, {})
            return Kind(schema, ["list", LISTS[name], AS_IT_IS])
        if name in DICTS:
            return Kind({"type": "object"}, ["dict", DICTS[name], AS_IT_IS, AS_IT_IS])
        return ANYTHING

    def make_list_schema(self, name: str, items: Schema) -> Schema:
        schema: Schema = {"type": "array", **make_items_schema(items)}
        # A set among the results has no item twice; as an argument it may, because a list is sent.
        if self.of_results and name in SETS:
            schema["uniqueItems"] = True
        return schema

    def read_generic(self, name: str, inner: list[ast.expr], depth: int) -> Kind:
        if name == "Literal":
            return self.read_literals(inner)
        if name in ("Union", "Optional"):
            options = [self.read_kind(node, depth + 1) for node in inner]
            if name == "Optional":
                options.append(NULL)
            return join_kinds(options)
        if name == "Annotated":
            schema, reader = self.read_kind(inner[0], depth + 1)
            return Kind(add_description(schema, inner[1:]), reader)
        if name in WRAPPERS:
            return self.read_kind(inner[0], depth + 1)
        if name in ("tuple", "Tuple"):
            return self.read_tuple(inner, depth)
        if name in LISTS:
            items, reader = self.read_kind(inner[0], depth + 1)
            schema = self.make_list_schema(name, items)
            return Kind(schema, ["list", LISTS[name], reader])
        if name in DICTS:
            return self.read_dict(name, inner, depth)
        return ANYTHING

    def read_literals(self, inner: list[ast.expr]) -> Kind:
        values: list[Any] = []
        for node in inner:
            values += read_literal(node)
        if not values:
            return Kind(make_enum_schema(values), AS_IT_IS)
        return Kind(make_enum_schema(values), ["values", values])

    def read_dict(self, name: str, inner: list[ast.expr], depth: int) -> Kind:
        key_reader = self.read_kind(inner[0], depth + 1).reader
        if name == "Counter":
            values, value_reader = Kind(dict(PLAIN["int"]), "int")
        elif len(inner) > 1:
            values, value_reader = self.read_kind(inner[-1], depth + 1)
        else:
            values, value_reader = ANYTHING
        schema: Schema = {"type": "object"}
        if values:
            schema["additionalProperties"] = values
        return Kind(schema, ["dict", DICTS[name], key_reader, value_reader])

    def read_tuple(self, inner: list[ast.expr], depth: int) -> Kind:
        last = inner[-1]
        # `tuple[int, ...]` has any length.
        if isinstance(last, ast.Constant) and last.value is Ellipsis:
            items, reader = self.read_kind(inner[0], depth + 1)
            schema = {"type": "array", **make_items_schema(items)}
            return Kind(schema, ["list", "tuple", reader])
        parts = [self.read_kind(node, depth + 1) for node in inner]
        schema = make_tuple_schema([part.schema for part in parts])
        readers = [part.reader for part in parts]
        return Kind(schema, ["tuple", readers])

    def read_class(self, node: ast.ClassDef, depth: int) -> Kind:
        reader = ["class", node.name]
        if node.name in self.inside:
            # A class that contains itself.
            return Kind({"type": "object"}, reader)
        bases = self.collect_base_names(node)
        if bases & ENUMS:
            return self.read_enum(node, bases)
        how = next((how for base, how in RECORDS.items() if base in bases), "")
        is_dataclass = any(find_last_name(word) == "dataclass" for word in node.decorator_list)
        if not (how or is_dataclass):
            return ANYTHING
        self.inside.append(node.name)
        schema, fields = self.read_fields(node, depth)
        self.inside.pop()
        self.class_readers.setdefault(node.name, [how or "call", fields, schema.get("required", [])])
        if self.of_results:
            if "NamedTuple" in bases:
                schema = convert_record_to_array(schema)
            return Kind(schema, reader)
        if how in ("", "call"):
            # Another field cannot be passed.
            schema = {**schema, "additionalProperties": False}
        return Kind(schema, reader)

    def read_enum(self, node: ast.ClassDef, bases: set[str]) -> Kind:
        members = list_enum_members(node, bases)
        values = [member.json for member in members]
        # What a result contains is the value; a member whose value is not in the source may be anything.
        if self.of_results and not all(member.is_value for member in members):
            values = []
        return Kind(make_enum_schema(values), ["enum", node.name])

    def collect_base_names(self, node: ast.ClassDef) -> set[str]:
        """The names of the class's bases, and of the bases of those that the module defines."""
        names: set[str] = set()
        for ancestor in self.collect_lineage(node):
            names.update(map(self.find_type_name, ancestor.bases))
        return names

    def collect_lineage(self, node: ast.ClassDef) -> list[ast.ClassDef]:
        """The classes of this module from which it inherits, and then the class itself."""
        collected = [node]
        # The list grows while it is read, so that the bases of bases are found too.
        for one in collected:
            for base in one.bases:
                parent = self.classes.get(find_last_name(base))
                if parent is not None and parent not in collected:
                    collected.append(parent)
        return collected[::-1]

    def read_fields(self, node: ast.ClassDef, depth: int) -> tuple[Schema, dict[str, Reader]]:
        """The schema of a record, and the reader of each of its fields."""
        properties: dict[str, Schema] = {}
        readers: dict[str, Reader] = {}
        is_required: dict[str, bool] = {}
        for one in self.collect_lineage(node):
            # `class Options(TypedDict, total=False)`: every field may be left out.
            is_total = not any(word.arg == "total" and is_false(word.value) for word in one.keywords)
            for name, annotation, value in list_fields(one):
                properties[name], readers[name] = self.read_kind(annotation, depth + 1)
                wrapper = find_outer_name(annotation)
                is_needed = is_total and not has_default(value) and wrapper != "NotRequired"
                is_required[name] = wrapper == "Required" or is_needed
        schema: Schema = {"type": "object", "properties": properties}
        required = [name for name, is_needed in is_required.items() if is_needed]
        if required:
            schema["required"] = required
        return schema, readers


def find_import_aliases(module: ast.Module) -> dict[str, str]:
    """`from datetime import datetime as dt`: {"dt": "datetime"}."""
    aliases: dict[str, str] = {}
    for node in ast.walk(module):
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            if alias.asname:
                aliases[alias.asname] = alias.name
    return aliases


def list_fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr, ast.expr | None]]:
    """(name, annotation, default) of each field that whoever creates the record may set."""
    for line in node.body:
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        if {find_outer_name(line.annotation), find_last_name(line.annotation)} & {"ClassVar", "KW_ONLY"}:
            continue
        # The options of `field(…)`.
        options: list[ast.keyword] = []
        if isinstance(line.value, ast.Call):
            options = line.value.keywords
        if any(option.arg == "init" and is_false(option.value) for option in options):
            continue
        name = line.target.id
        alias = find_alias(options)
        if alias is not None:
            name = alias
        yield name, line.annotation, line.value


def find_alias(options: list[ast.keyword]) -> str | None:
    """The name under which a pydantic field is sent, if it has another one there."""
    for option in options:
        if option.arg == "alias" and isinstance(option.value, ast.Constant):
            return str(option.value.value)
    return None


def has_default(value: ast.expr | None) -> bool:
    """Whether a field may be left out: not with `field(repr=False)` or pydantic's `Field(gt=0)`."""
    if not isinstance(value, ast.Call) or find_last_name(value) not in ("field", "Field"):
        return value is not None
    if any(option.arg in ("default", "default_factory") for option in value.keywords):
        return True
    if not value.args:
        return False
    # `Field(...)`: the field is required.
    first = value.args[0]
    return not (isinstance(first, ast.Constant) and first.value is Ellipsis)


def find_outer_name(annotation: ast.expr) -> str:
    """`Required` of `Required[int]`; empty for a plain name."""
    if not isinstance(annotation, ast.Subscript):
        return ""
    return find_last_name(annotation.value)


def make_items_schema(items: Schema) -> Schema:
    if not items:
        return {}
    return {"items": items}


def make_tuple_schema(schemas: list[Schema]) -> Schema:
    count = len(schemas)
    return {"type": "array", "prefixItems": schemas, "minItems": count, "maxItems": count}


def convert_record_to_array(record: Schema) -> Schema:
    """A named tuple is a tuple, which JSON represents as an array."""
    fields = list(record["properties"].values())
    return make_tuple_schema(fields)


def find_type_alias(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """`Number = int | float`, `Rows: TypeAlias = list[dict]`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign):
        target = node.target
    else:
        return None
    if not isinstance(target, ast.Name) or node.value is None:
        return None
    return target.id, node.value


def find_last_name(node: ast.expr) -> str:
    """`typing.List` → List; `dataclass(frozen=True)` → dataclass."""
    if isinstance(node, ast.Call):
        return find_last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def list_type_arguments(node: ast.Subscript) -> list[ast.expr]:
    """`dict[str, int]`: str and int. At least one: `[()]` has None."""
    if not isinstance(node.slice, ast.Tuple):
        return [node.slice]
    return list(node.slice.elts) or [ast.Constant(value=None)]


def read_literal(node: ast.expr) -> list[Any]:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return []
    if not isinstance(value, str | int | float | bool | None):
        return []
    return [value]


def make_enum_schema(values: list[Any]) -> Schema:
    """An enum of these values, with their type if they share one, which models understand better."""
    if not values:
        return {}
    kinds = {type(value) for value in values}
    if len(kinds) == 1:
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        name = names.get(kinds.pop())
        if name:
            return {"type": name, "enum": values}
    return {"enum": values}


class Member(NamedTuple):
    """How JSON names a member of an enum: by its value, or by its name if the value is not plain."""

    json: Any
    is_value: bool


def list_enum_members(node: ast.ClassDef, bases: set[str]) -> list[Member]:
    members: list[Member] = []
    for line in node.body:
        if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name):
            continue
        name = line.targets[0].id
        if isinstance(line.value, ast.Call) and find_last_name(line.value) == "auto":
            value = compute_auto_value(name, members, bases)
            members.append(Member(value, True))
            continue
        if name.startswith("_"):
            continue
        literals = read_literal(line.value)
        if literals:
            members.append(Member(literals[0], True))
        else:
            # Its value is known only when the source runs; it is sent by its name.
            members.append(Member(name, False))
    return members


def compute_auto_value(name: str, members: list[Member], bases: set[str]) -> Any:
    """The value that `auto()` gives to this member."""
    if "StrEnum" in bases:
        return name.lower()
    numbers = [member.json for member in members if type(member.json) is int]
    return max(numbers, default=0) + 1


def join_kinds(kinds: list[Kind]) -> Kind:
    """The kind of a union: a value is of one of these kinds."""
    readers: list[Reader] = []
    for kind in kinds:
        options = [kind.reader]
        if kind.reader[0] == "either":
            # Of a union within a union.
            options = kind.reader[1]
        readers += [option for option in options if option not in readers]
    schema = join_schemas([kind.schema for kind in kinds])
    return Kind(schema, ["either", readers])


def join_schemas(schemas: list[Schema]) -> Schema:
    """`int | None` becomes {"type": ["integer", "null"]}; anything more complex becomes an anyOf."""
    unique: list[Schema] = []
    for schema in schemas:
        if not schema:
            # One of them accepts everything, so the union does.
            return {}
        options = [schema]
        if set(schema) == {"anyOf"}:
            options = schema["anyOf"]
        for option in options:
            if option not in unique:
                unique.append(option)
    if all(set(schema) == {"type"} for schema in unique):
        return {"type": join_types(unique)}
    if len(unique) == 1:
        return unique[0]
    return {"anyOf": unique}


def join_types(schemas: list[Schema]) -> Any:
    kinds: dict[str, None] = {}
    for schema in schemas:
        kinds.update(dict.fromkeys(wrap_in_list(schema["type"])))
    names = list(kinds)
    if len(names) == 1:
        return names[0]
    return names


def add_description(schema: Schema, notes: list[ast.expr]) -> Schema:
    """Annotated[int, "how many"]: the first text is its description."""
    for note in notes:
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            return {**schema, "description": note.value}
    return schema


def wrap_in_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [value]


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


# -- how the arguments of one function are read

Function = ast.FunctionDef | ast.AsyncFunctionDef
NEEDS_NOTHING = frozenset([AS_IT_IS, "str", "LiteralString", "bool", "None", "NoneType", "Number"])


def make_readers(function: Function, module: ast.Module) -> dict[str, Any]:
    """The readers of a function's arguments; {} if the JSON of each already is what its annotation says.

    A default that is plain JSON may be sent like an argument: it stays what it is if it cannot be
    read, as with `when: date = ""`.
    """
    annotations = Annotations(module)
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    readers = {}
    for arg in parameters:
        reader = annotations.read_kind(arg.annotation).reader
        if not needs_nothing(reader):
            readers[arg.arg] = reader
    # Of `**kwargs`.
    more: Reader = AS_IT_IS
    if function.args.kwarg:
        more = annotations.read_kind(function.args.kwarg.annotation).reader
    if not readers and needs_nothing(more):
        return {}
    defaults = {}
    for name, node in find_defaults(function).items():
        value = read_json_value(node)
        if value and name in readers:
            defaults[name] = value[0]
    names = sorted(arg.arg for arg in parameters)
    return {
        "parameters": readers,
        "defaults": defaults,
        "classes": annotations.class_readers,
        "more": more,
        "named": names,
    }


def needs_nothing(reader: Reader) -> bool:
    """Whether the JSON is the value already."""
    match reader:
        case str():
            return reader in NEEDS_NOTHING
        case ["list", "list", inner]:
            return needs_nothing(inner)
        case ["dict", "dict", "str" | "Any", inner]:
            return needs_nothing(inner)
        case ["either", options]:
            return all(needs_nothing(option) for option in options)
        case ["values", values]:
            return all(isinstance(value, str | bool | None) for value in values)
    return False


def find_defaults(function: Function) -> dict[str, ast.expr]:
    """The default of each parameter that has one."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    # The defaults are those of the last positional parameters.
    values = arguments.defaults
    with_default = positional[len(positional) - len(values) :]
    defaults = {}
    for arg, value in zip(with_default, values, strict=True):
        defaults[arg.arg] = value
    for arg, keyword_value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        # The tree has None for a parameter without a default.
        if keyword_value is not None:
            defaults[arg.arg] = keyword_value
    return defaults


def read_json_value(node: ast.expr) -> list[Any]:
    """[value] of an expression that is plain JSON data, else []."""
    try:
        value = ast.literal_eval(node)
        return [json.loads(json.dumps(value, allow_nan=False))]
    except (ValueError, TypeError, RecursionError, MemoryError):
        return []
