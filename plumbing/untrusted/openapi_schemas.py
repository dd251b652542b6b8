"""The schemas of an OpenAPI document as JSON Schema 2020-12, as a request needs them."""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

# Characters of the schemas copied into one operation.
MAX_COPIED = 256 * 1024
# Characters; of a larger schema titles, descriptions, defaults and examples are left out.
MAX_SCHEMA = 60_000
MAX_DEPTH = 60
# References that lead to one another.
MAX_REFERENCES = 16
JSON = Any


class Unusable(ValueError):
    """Why an operation cannot become a tool."""


class Document:
    """Follows references inside a document."""

    def __init__(self, value: dict[str, JSON]) -> None:
        self.value = value
        # From OpenAPI 3.1 on, what stands beside a $ref counts.
        self.has_siblings = not str(value.get("openapi", "")).startswith("3.0")

    def resolve(self, entry: JSON) -> dict[str, JSON]:
        """The object itself, or what its reference names, with what stands beside the reference. Raises Unusable."""
        beside: dict[str, JSON] = {}
        for _ in range(MAX_REFERENCES):
            if not isinstance(entry, dict):
                raise Unusable("It is not an object, and not a reference to an object.")
            reference = entry.get("$ref")
            if not isinstance(reference, str):
                return {**entry, **beside}
            # What stands beside the first reference counts most.
            others = {key: value for key, value in entry.items() if key != "$ref"}
            beside = {**others, **beside}
            entry = self.find(reference)
        raise Unusable("Its references lead in a circle.")

    def find(self, reference: str) -> JSON:
        """What a reference names. Raises Unusable."""
        if reference != "#" and not reference.startswith("#/"):
            raise Unusable(f"It refers to “{reference[:200]}”, which is outside of the document.")
        value: JSON = self.value
        for step in reference.removeprefix("#").split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
                value = value[int(key)]
            else:
                raise Unusable(f"It refers to “{reference[:200]}”, which the document does not have.")
        return value

    def find_properties(self, schema: JSON, depth: int = 0) -> dict[str, JSON]:
        """The properties of an object's schema, those of its parts (allOf) included."""
        if not isinstance(schema, dict) or depth > MAX_REFERENCES:
            return {}
        facts = self.resolve(schema)
        properties: dict[str, JSON] = {}
        for part in facts.get("allOf") or []:
            properties |= self.find_properties(part, depth + 1)
        return properties | (facts.get("properties") or {})

    def find_required(self, schema: JSON, depth: int = 0) -> list[str]:
        if not isinstance(schema, dict) or depth > MAX_REFERENCES:
            return []
        facts = self.resolve(schema)
        names = list(facts.get("required") or [])
        for part in facts.get("allOf") or []:
            names += self.find_required(part, depth + 1)
        return names


def is_text(value: JSON) -> bool:
    return isinstance(value, str)


def is_flag(value: JSON) -> bool:
    return isinstance(value, bool)


def is_number(value: JSON) -> bool:
    # For Python, true and false are numbers.
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float)


def is_count(value: JSON) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return value >= 0


def is_filled_list(value: JSON) -> bool:
    return isinstance(value, list) and bool(value)


def is_anything(value: JSON) -> bool:
    return True


ONE = frozenset(
    ["not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
     "unevaluatedProperties"]
)  # fmt: skip
MANY = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
NAMED = frozenset(["properties", "patternProperties", "dependentSchemas"])
# Other keywords that are kept, if their value is one: documents in use hold `required: true` and `minimum: "0"`.
PLAIN: dict[str, Callable[[JSON], bool]] = {
    "enum": is_filled_list, "const": is_anything, "format": is_text, "pattern": is_text, "minimum": is_number,
    "maximum": is_number, "exclusiveMinimum": is_number, "exclusiveMaximum": is_number,
    "multipleOf": lambda value: is_number(value) and value > 0, "minLength": is_count, "maxLength": is_count,
    "minItems": is_count, "maxItems": is_count, "minProperties": is_count, "maxProperties": is_count,
    "minContains": is_count, "maxContains": is_count, "uniqueItems": is_flag, "contentEncoding": is_text,
    "contentMediaType": is_text,
}  # fmt: skip
WORDS: dict[str, Callable[[JSON], bool]] = {
    "title": is_text, "description": is_text, "default": is_anything, "examples": is_filled_list, "deprecated": is_flag,
    "writeOnly": is_flag,
}  # fmt: skip
# How a base schema chooses among those that extend it.
CHOICES = ("oneOf", "anyOf", "discriminator")
TYPES = frozenset(["null", "boolean", "object", "array", "number", "string", "integer"])
# Keywords that may exclude null although the type allows it.
ELSEWHERE = ("$ref", "allOf", "anyOf", "oneOf", "const")


class Schemas:
    """The schemas of a document, each translated once in full and once without words."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.names: dict[tuple[str, bool], str] = {}
        self.full = Translations(self, has_words=True)
        self.short = Translations(self, has_words=False)

    def make_object_schema(self, properties: dict[str, JSON], required: list[str]) -> dict[str, JSON]:
        """The schema of an object with these properties; referenced schemas are copied into $defs. Raises Unusable."""
        schema = self.full.make_object_schema(properties, required)
        if len(json.dumps(schema, default=str)) > MAX_SCHEMA:
            schema = self.short.make_object_schema(properties, required)
        return schema

    def name_schema(self, reference: str, is_own: bool) -> str:
        """Under which name a schema stands in $defs."""
        key = (reference, is_own)
        if key in self.names:
            return self.names[key]
        last = read_last_step(reference).replace("~1", "_").replace("~0", "_")
        base = re.sub(r"[^A-Za-z0-9._-]+", "_", last) or "Schema"
        if is_own:
            base += "_own"
        name = base
        number = 2
        while name in self.names.values():
            name = f"{base}_{number}"
            number += 1
        self.names[key] = name
        return name


# Where it points; whether only the schema's own part is meant.
Reference = tuple[str, bool]


class Translations:
    """`has_words`: with titles, descriptions, defaults and examples."""

    def __init__(self, schemas: Schemas, *, has_words: bool) -> None:
        self.schemas = schemas
        self.document = schemas.document
        self.plain = {**PLAIN, **WORDS} if has_words else PLAIN
        self.done: dict[Reference, tuple[JSON, list[Reference], int]] = {}

    def make_object_schema(self, properties: dict[str, JSON], required: list[str]) -> dict[str, JSON]:
        references: list[Reference] = []
        converted = {name: self.convert(one, references, 1) for name, one in properties.items()}
        schema: dict[str, JSON] = {
            "type": "object",
            "properties": converted,
            "required": required,
            "additionalProperties": False,
        }
        definitions: dict[str, JSON] = {}
        room = MAX_COPIED
        while references:
            reference = references.pop()
            name = self.schemas.name_schema(*reference)
            if name in definitions:
                continue
            definitions[name], more, size = self.translate(reference)
            references += more
            room -= size
            if room < 0:
                raise Unusable(f"The schemas that it refers to have more than {MAX_COPIED} characters.")
        if definitions:
            schema["$defs"] = definitions
        return schema

    def translate(self, reference: Reference) -> tuple[JSON, list[Reference], int]:
        """The schema, the references in it, and its size as JSON."""
        if reference in self.done:
            return self.done[reference]
        pointer, is_own = reference
        value = self.document.find(pointer)
        if is_own and isinstance(value, dict):
            value = {key: one for key, one in value.items() if key not in CHOICES}
        more: list[Reference] = []
        schema = self.convert(value, more, 1)
        size = len(json.dumps(schema, default=str))
        self.done[reference] = schema, more, size
        return schema, more, size

    def convert(
        self, value: JSON, references: list[Reference], depth: int, hidden: frozenset[str] = frozenset()
    ) -> JSON:
        """`hidden`: properties that an outer part says are only read; requests neither have nor need them."""
        if depth > MAX_DEPTH:
            raise Unusable("Its schemas are nested too deeply.")
        if isinstance(value, bool):
            return value
        if not isinstance(value, dict):
            return {}
        value = convert_bounds(value)
        if "$ref" in value and not self.document.has_siblings:
            value = {key: one for key, one in value.items() if key in ("$ref", "description", "nullable")}
        hidden |= self.find_read_only(value)
        schema: dict[str, JSON] = {}
        for key, one in value.items():
            if key in ONE and isinstance(one, dict | bool):
                schema[key] = self.convert(one, references, depth + 1)
            elif key == "items" and isinstance(one, list) and one:
                schema["prefixItems"] = [self.convert(part, references, depth + 1) for part in one]
            elif key in MANY and isinstance(one, list) and one:
                schema[key] = [self.convert_part(part, references, depth + 1, hidden, key) for part in one]
            elif key in NAMED and isinstance(one, dict):
                left_out = hidden if key == "properties" else frozenset()
                named = {name: part for name, part in one.items() if name not in left_out}
                schema[key] = {name: self.convert(part, references, depth + 1) for name, part in named.items()}
            elif key in self.plain and self.plain[key](one):
                schema[key] = one
        self.add_reference(value, schema, references)
        add_type(value, schema)
        add_required(value, schema, hidden)
        self.add_choice(value, schema, references, depth)
        if value.get("nullable") is True:
            return allow_null(schema)
        return schema

    def convert_part(
        self, part: JSON, references: list[Reference], depth: int, hidden: frozenset[str], keyword: str
    ) -> JSON:
        """One of several schemas. A part that refers to a base schema means its own properties, not the choice among
        those that extend it: this one is among them.
        """
        if keyword != "allOf":
            return self.convert(part, references, depth)
        reference = part.get("$ref") if isinstance(part, dict) else None
        if isinstance(reference, str):
            target = self.document.find(reference)
            if isinstance(target, dict) and "discriminator" in target:
                references.append((reference, True))
                name = self.schemas.name_schema(reference, True)
                return {"$ref": f"#/$defs/{name}"}
        return self.convert(part, references, depth, hidden)

    def add_reference(self, value: dict[str, JSON], schema: dict[str, JSON], references: list[Reference]) -> None:
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return
        # Raises Unusable if there is nothing.
        self.document.find(reference)
        references.append((reference, False))
        name = self.schemas.name_schema(reference, False)
        schema["$ref"] = f"#/$defs/{name}"

    def add_choice(
        self, value: dict[str, JSON], schema: dict[str, JSON], references: list[Reference], depth: int
    ) -> None:
        """A choice by discriminator names the value that goes with each branch. Values that fit several branches are
        left to the service: its own check decides, and documents in use have many such.
        """
        if "oneOf" in schema:
            choice = schema.pop("oneOf")
            if "anyOf" in schema:
                schema.setdefault("allOf", []).append({"anyOf": choice})
            else:
                schema["anyOf"] = choice
        facts = value.get("discriminator")
        if not isinstance(facts, dict):
            return
        name = facts.get("propertyName")
        if not isinstance(name, str):
            return
        mapping = facts.get("mapping")
        if not isinstance(mapping, dict):
            mapping = {}
        branches = value.get("oneOf") or value.get("anyOf")
        if not branches:
            branches = [{"$ref": target} for target in mapping.values() if str(target).startswith("#/")]
        if not isinstance(branches, list):
            return
        schema_branches = []
        for branch in branches:
            part = self.convert(branch, references, depth + 1)
            reference = branch.get("$ref") if isinstance(branch, dict) else None
            if isinstance(reference, str):
                last = read_last_step(reference)
                words = [word for word, target in mapping.items() if read_last_step(str(target)) == last]
                rule = {"properties": {name: {"enum": words or [last]}}, "required": [name]}
                part = {"allOf": [part, rule]}
            schema_branches.append(part)
        if schema_branches:
            schema["anyOf"] = schema_branches

    def find_read_only(self, value: dict[str, JSON], depth: int = 0) -> frozenset[str]:
        """The properties that only answers have."""
        if depth > MAX_REFERENCES:
            return frozenset()
        names: set[str] = set()
        properties = value.get("properties")
        if isinstance(properties, dict):
            for name, one in properties.items():
                if isinstance(one, dict) and self.is_read_only(one):
                    names.add(name)
        parts = value.get("allOf")
        if isinstance(parts, list):
            for part in parts:
                if isinstance(part, dict):
                    facts = self.document.resolve(part)
                    names |= self.find_read_only(facts, depth + 1)
        return frozenset(names)

    def is_read_only(self, schema: dict[str, JSON]) -> bool:
        if schema.get("readOnly") is True:
            return True
        return "$ref" in schema and self.document.resolve(schema).get("readOnly") is True


def read_last_step(reference: str) -> str:
    return unquote(reference).rpartition("/")[2]


def convert_bounds(value: dict[str, JSON]) -> dict[str, JSON]:
    """OpenAPI 3.0's boolean bounds as JSON Schema's numbers."""
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(value.get(bound), bool):
            is_exclusive = value[bound]
            value = {key: one for key, one in value.items() if key != bound}
            if is_exclusive and limit in value:
                value[bound] = value.pop(limit)
    return value


def add_type(value: dict[str, JSON], schema: dict[str, JSON]) -> None:
    kind = value.get("type")
    if kind == "file":
        schema["type"] = "string"
    elif isinstance(kind, str) and kind in TYPES:
        schema["type"] = kind
    elif isinstance(kind, list) and (types := [one for one in kind if one in TYPES]):
        schema["type"] = types


def add_required(value: dict[str, JSON], schema: dict[str, JSON], hidden: frozenset[str]) -> None:
    names = value.get("required")
    if isinstance(names, list):
        needed = [name for name in dict.fromkeys(map(str, names)) if name not in hidden]
        if needed:
            schema["required"] = needed


def allow_null(schema: dict[str, JSON]) -> dict[str, JSON]:
    """OpenAPI 3.0's `nullable`."""
    may_exclude_null = any(key in schema for key in ELSEWHERE)
    if may_exclude_null or not isinstance(schema.get("type"), str):
        return {"anyOf": [schema, {"type": "null"}]}
    nullable = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema and None not in schema["enum"]:
        nullable["enum"] = [*schema["enum"], None]
    return nullable
