"""How much work a schema can make, known before it is compiled. Plain Python.

`estimate_cost(schema)` bounds the steps that checking a value takes, for each byte of the value. The bound holds
because each subschema meets each part of a value once: those that look at the same part (`anyOf`, `not` …) are added
up, those that share its parts out among themselves (`properties`, `items` …) are not. Where that cannot be shown (a
definition that refers to itself, `unevaluatedItems`, a pattern whose program may be large) the cost is infinite.
"""

import math
import re

# The parser's own opcodes: there is no public name for them.
import re._constants as sre
import re._parser as sre_parser
from typing import Any

from plumbing import json_values

JSON = Any

# These look at the value that the schema itself looks at; a failing branch is visited again for its error.
SAME_VALUE_ONE = ("not", "if", "then", "else", "contains", "propertyNames")
SAME_VALUE_MANY = ("allOf", "anyOf", "oneOf")
# Of these, one at most looks at each part of the value.
PARTS_ONE = ("items", "additionalProperties")
# Keywords that may follow other rules than ours, or compute more than can be bounded here.
UNBOUNDED = frozenset(
    ("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor")
    + ("$id", "$anchor", "id", "contentSchema", "contentMediaType", "dependencies", "additionalItems", "extends")
)
UNBOUNDED_FORMATS = frozenset(("regex", "idn-hostname", "idn-email"))
# Characters of a pattern.
MAX_PATTERN = 200
# Parts of all the patterns of a schema, after their repeats are written out.
MAX_PROGRAM = 5_000
# A class that holds most characters compiles to about so many parts.
WIDE = 10


def estimate_cost(schema: JSON) -> float:
    """Steps for each byte of a value; infinite where no bound is known."""
    cost = Cost(schema)
    try:
        steps = cost.of(schema)
    except RecursionError:  # references in a long row
        return math.inf
    return math.inf if cost.program > MAX_PROGRAM else steps


class Cost:
    """Walks a schema once; definitions are remembered, and one that refers to itself is unbounded."""

    def __init__(self, root: JSON) -> None:
        self.root = root
        self.program = 0.0
        self.definitions: dict[str, float] = {}

    def of(self, schema: JSON) -> float:
        if not isinstance(schema, dict):
            return 1.0
        if not UNBOUNDED.isdisjoint(schema) or schema.get("format") in UNBOUNDED_FORMATS:
            return math.inf
        return max(self.own(schema), self.parts(schema)) + self.same_value(schema)

    def own(self, schema: dict[str, JSON]) -> float:
        """The keywords that hold no schemas: lists and constants are compared with, and copied into errors."""
        steps = 1.0
        for word in ("required", "enum", "const", "dependentRequired"):
            if word in schema:
                steps += measure_json(schema[word]) / 4
        for word in ("format", "uniqueItems", "multipleOf"):
            if word in schema:
                steps += 20.0
        if "pattern" in schema:
            steps += self.pattern(schema["pattern"])
        return steps

    def pattern(self, pattern: JSON) -> float:
        size = program_size(pattern) if isinstance(pattern, str) else math.inf
        self.program += size
        return size / 10

    def parts(self, schema: dict[str, JSON]) -> float:
        """The keywords that share out the value's parts: the largest of their schemas counts."""
        items = schema.get("items")
        if isinstance(items, list):
            return math.inf
        properties = schema.get("properties")
        parts = list(properties.values()) if isinstance(properties, dict) else []
        named_count = len(parts)
        first_items = schema.get("prefixItems")
        if isinstance(first_items, list):
            parts += first_items
        parts += [schema[word] for word in PARTS_ONE if word in schema]
        largest = max((self.of(part) for part in parts), default=0.0)
        return max(largest, float(named_count)) + self.by_pattern(schema)

    def by_pattern(self, schema: dict[str, JSON]) -> float:
        """Several patterns may fit one name, and each name is tried with all of them."""
        named = schema.get("patternProperties")
        pairs = named.items() if isinstance(named, dict) else ()
        return sum(self.pattern(pattern) + self.of(part) for pattern, part in pairs)

    def same_value(self, schema: dict[str, JSON]) -> float:
        """The keywords that look at the value again: all of their schemas count, and twice, for their errors."""
        parts = [schema[word] for word in SAME_VALUE_ONE if word in schema]
        for word in SAME_VALUE_MANY:
            branches = schema.get(word)
            if isinstance(branches, list):
                parts += branches
        dependent = schema.get("dependentSchemas")
        if isinstance(dependent, dict):
            parts += dependent.values()
        steps = 2 * sum(self.of(part) for part in parts)
        if "$ref" in schema:
            steps += self.definition(schema["$ref"])
        return steps

    def definition(self, reference: JSON) -> float:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return math.inf
        if reference not in self.definitions:
            # Holds while we are inside it.
            self.definitions[reference] = math.inf
            self.definitions[reference] = self.of(resolve_pointer(self.root, reference))
        return self.definitions[reference]


def resolve_pointer(schema: JSON, reference: str) -> JSON:
    """What a reference like #/$defs/name names; {} where there is nothing, which the compiler reports."""
    for step in reference.removeprefix("#/").split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and step.isdigit() and int(step) < len(schema):
            schema = schema[int(step)]
        elif isinstance(schema, dict) and step in schema:
            schema = schema[step]
        else:
            return {}
    return schema


def measure_json(value: JSON) -> float:
    """Bytes of a value as JSON; infinite where it has none."""
    try:
        return float(len(json_values.dump_json(value)))
    except (TypeError, ValueError, RecursionError):  # deeper than a thousand levels
        return math.inf


def program_size(pattern: str) -> float:
    """How many parts a pattern has once its repeats are written out; infinite where that is unknown."""
    if len(pattern) > MAX_PATTERN:
        return math.inf
    try:
        tree = sre_parser.parse(pattern)
    except (re.error, OverflowError, RecursionError):
        # Unicode classes among others: they compile to thousands of parts.
        return math.inf
    wide = WIDE if tree.state.flags & re.IGNORECASE else 1
    return wide * pattern_tree_size(tree)


def pattern_tree_size(tree: Any) -> float:
    sizes = [part_size(operation, argument) for operation, argument in tree]
    return 1.0 + sum(sizes)


def part_size(operation: Any, argument: Any) -> float:
    """How many parts one part of a pattern's tree compiles to."""
    if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, high, body = argument
        times = low + 1 if high is sre.MAXREPEAT else high
        return float(max(times, 1) * pattern_tree_size(body))
    if operation is sre.SUBPATTERN:
        _group, flags, _removed_flags, body = argument
        factor = WIDE if flags & re.IGNORECASE else 1
        return factor * pattern_tree_size(body)
    if operation is sre.BRANCH:
        _none, branches = argument
        return sum(pattern_tree_size(branch) for branch in branches)
    if operation is sre.IN:
        return sum(class_size(*part) for part in argument)
    if operation in (sre.LITERAL, sre.AT):
        return 2.0
    return float(WIDE)


def class_size(operation: Any, argument: Any) -> float:
    if operation is sre.LITERAL:
        return 2.0
    # A range of ASCII letters is one byte; others are several in UTF-8.
    if operation is sre.RANGE and argument[1] < 128:
        return 2.0
    return float(WIDE)
