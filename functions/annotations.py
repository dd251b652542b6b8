"""Converts annotations to JSON Schema by reading the syntax tree. Nothing is imported or executed.

Arguments reach a function as JSON, so a `date` is a string in date format, and a dataclass or
TypedDict is an object. An annotation that cannot be understood allows any value: a wrong guess
would reject valid input.
"""

import ast
from typing import Any

Schema = dict[str, Any]

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
}
# How the sandbox converts these types to JSON when a function returns them (functions/sandbox/inside/conversions.py).
RESULTS: dict[str, Schema] = {
    "Decimal": {"type": "string", "description": "a decimal number"},
    "Fraction": {"type": "string", "description": "a fraction, such as 1/3"},
    "complex": {},
    "bytearray": {"type": "string", "contentEncoding": "base64"},
    "PurePath": {"type": "string"},
    "PurePosixPath": {"type": "string"},
    "DataFrame": {"type": "array", "items": {"type": "object"}, "description": "one object per row"},
    "Series": {"type": "array"},
    "ndarray": {"type": "array"},
    "range": {"type": "array", "items": {"type": "integer"}},
    "SimpleNamespace": {"type": "object"},
}
LISTS = frozenset(
    ("list", "List", "set", "Set", "frozenset", "FrozenSet", "Sequence", "MutableSequence", "Iterable", "Iterator")
    + ("Collection", "deque", "Deque", "AbstractSet", "MutableSet", "Generator")
)
DICTS = frozenset(["dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict", "DefaultDict", "Counter"])
WRAPPERS = frozenset(["Annotated", "Required", "NotRequired", "ReadOnly", "Final", "ClassVar", "Awaitable"])
SETS = frozenset(["set", "Set", "frozenset", "FrozenSet", "AbstractSet", "MutableSet"])
RECORDS = frozenset(["TypedDict", "NamedTuple", "BaseModel"])
ENUMS = frozenset(["Enum", "IntEnum", "StrEnum"])
MAX_DEPTH = 12
MAX_PARTS = 1_000  # per source: classes that refer to each other would otherwise multiply


class Annotations:
    """Reads the annotations of one module; resolves its classes and type aliases by name."""

    def __init__(self, module: ast.Module, *, of_results: bool = False) -> None:
        self.plain = PLAIN | RESULTS if of_results else PLAIN
        self.of_results = of_results
        self.classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
        self.budget = MAX_PARTS
        self.inside: list[str] = []
        self.aliases = dict(alias for node in module.body if (alias := alias_in(node)))

    def schema(self, node: ast.expr | None, depth: int = 0) -> Schema:
        """The schema of an annotation; {} if it contains nothing that JSON can check."""
        self.budget -= 1
        if node is None or depth > MAX_DEPTH or self.budget < 0:
            return {}
        if isinstance(node, ast.Constant):
            return self.of_constant(node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return either([self.schema(node.left, depth + 1), self.schema(node.right, depth + 1)])
        if isinstance(node, ast.Subscript):
            return self.of_generic(last_name(node.value), arguments_of(node), depth)
        return self.of_name(last_name(node), depth)

    def of_constant(self, node: ast.Constant, depth: int) -> Schema:
        if node.value is None:
            return dict(PLAIN["None"])
        if not isinstance(node.value, str):
            return {}
        try:
            return self.schema(ast.parse(node.value, mode="eval").body, depth + 1)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}

    def of_name(self, name: str, depth: int) -> Schema:
        if name in self.classes:
            return self.of_class(self.classes[name], depth)
        if name in self.aliases:
            return self.schema(self.aliases[name], depth + 1)
        if name in self.plain:
            return dict(self.plain[name])
        if self.of_results and name in SETS:
            return {"type": "array", "uniqueItems": True}
        if name in LISTS or name in ("tuple", "Tuple"):
            return {"type": "array"}
        return {"type": "object"} if name in DICTS else {}

    def of_generic(self, name: str, inner: list[ast.expr], depth: int) -> Schema:
        if name == "Literal":
            return of_values([value for node in inner for value in literal(node)])
        if name in ("Union", "Optional"):
            options = [self.schema(node, depth + 1) for node in inner]
            return either(options + ([dict(PLAIN["None"])] if name == "Optional" else []))
        if name == "Annotated":
            return with_note(self.schema(inner[0], depth + 1), inner[1:])
        if name in WRAPPERS:
            return self.schema(inner[0], depth + 1)
        if name in ("tuple", "Tuple"):
            return self.of_tuple(inner, depth)
        if name in LISTS:
            items = self.schema(inner[0], depth + 1)
            unique = {"uniqueItems": True} if self.of_results and name in SETS else {}
            return {"type": "array", **({"items": items} if items else {}), **unique}
        if name in DICTS:
            values = self.schema(inner[-1], depth + 1) if len(inner) > 1 else {}
            return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
        return {}

    def of_tuple(self, inner: list[ast.expr], depth: int) -> Schema:
        if isinstance(inner[-1], ast.Constant) and inner[-1].value is Ellipsis:
            items = self.schema(inner[0], depth + 1)
            return {"type": "array", "items": items} if items else {"type": "array"}
        parts = [self.schema(node, depth + 1) for node in inner]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}

    def of_class(self, node: ast.ClassDef, depth: int) -> Schema:
        if node.name in self.inside:
            return {"type": "object"}
        bases = {last_name(base) for base in node.bases}
        if bases & ENUMS:
            return of_values(enum_values(node))
        is_dataclass = any(last_name(word) == "dataclass" for word in node.decorator_list)
        if not (bases & RECORDS or is_dataclass):
            return {}
        self.inside.append(node.name)
        schema = self.of_record(node, depth)
        self.inside.pop()
        return as_array(schema) if self.of_results and "NamedTuple" in bases else schema

    def of_record(self, node: ast.ClassDef, depth: int) -> Schema:
        is_total = not any(word.arg == "total" and is_false(word.value) for word in node.keywords)
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for field in node.body:
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            properties[field.target.id] = self.schema(field.annotation, depth + 1)
            wrapper = last_name(field.annotation.value) if isinstance(field.annotation, ast.Subscript) else ""
            if wrapper == "Required" or (is_total and field.value is None and wrapper != "NotRequired"):
                required.append(field.target.id)
        schema: Schema = {"type": "object", "properties": properties}
        return {**schema, "required": required} if required else schema


def as_array(record: Schema) -> Schema:
    """A named tuple is a tuple, which JSON represents as an array."""
    fields = list(record["properties"].values())
    return {"type": "array", "prefixItems": fields, "minItems": len(fields), "maxItems": len(fields)}


def alias_in(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """`Number = int | float`, `Rows: TypeAlias = list[dict]`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id, node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.target.id, node.value
    return None


def last_name(node: ast.expr) -> str:
    """`typing.List` → List; `dataclass(frozen=True)` → dataclass."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def arguments_of(node: ast.Subscript) -> list[ast.expr]:
    nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return list(nodes) or [ast.Constant(value=None)]


def literal(node: ast.expr) -> list[Any]:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return []
    return [value] if isinstance(value, str | int | bool | None) else []


def of_values(values: list[Any]) -> Schema:
    """An enum of these values, with their type if they share one, which models understand better."""
    if not values:
        return {}
    kinds = {type(value) for value in values}
    named = {str: "string", int: "integer", bool: "boolean"}.get(kinds.pop()) if len(kinds) == 1 else None
    return {"type": named, "enum": values} if named else {"enum": values}


def enum_values(node: ast.ClassDef) -> list[Any]:
    assigned = [line.value for line in node.body if isinstance(line, ast.Assign)]
    return [value for expression in assigned for value in literal(expression)]


def either(schemas: list[Schema]) -> Schema:
    """One of several schemas: `int | None` becomes {"type": ["integer", "null"]}; anything more
    complex becomes an anyOf.
    """
    if any(not schema for schema in schemas):
        return {}
    flat = [inner for schema in schemas for inner in (schema["anyOf"] if set(schema) == {"anyOf"} else [schema])]
    unique = [schema for index, schema in enumerate(flat) if schema not in flat[:index]]
    if all(set(schema) == {"type"} for schema in unique):
        kinds = [kind for schema in unique for kind in as_list(schema["type"])]
        unique_kinds = list(dict.fromkeys(kinds))
        return {"type": unique_kinds[0] if len(unique_kinds) == 1 else unique_kinds}
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


def with_note(schema: Schema, notes: list[ast.expr]) -> Schema:
    """Annotated[int, "how many"]: the first text is its description."""
    for note in notes:
        if isinstance(note, ast.Constant) and isinstance(note.value, str):
            return {**schema, "description": note.value}
    return schema


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
