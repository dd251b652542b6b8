"""What may stand in a schema that a person sends: no remote references, no patterns that run away, bounded work.

Plain Python. It runs in the serving process for small schemas and in a process of its own for the others: see
agents/schema.py.
"""

import re
import re._constants as sre  # the parser's own opcodes: there is no public name for them
import re._parser as sre_parser
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs

from agents.schema_cost import resolve_pointer
from plumbing import json_values

JSON = Any
Problem = dict[str, str]

MAX_SCHEMA_WORK = 20_000  # subschemas visited for one value when every reference is followed
MAX_PATTERN_LENGTH = 1_000
MAX_ERRORS = 50

# Which keywords hold schemas, and how: everything else is data and is not searched for references.
ONE = (
    "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema",
)  # fmt: skip
MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def find_problems(schema: dict[str, JSON]) -> list[Problem]:
    """Everything that is wrong with a schema of an acceptable size; empty when nothing is."""
    problems = [problem for path, part in subschemas(schema) for problem in check_subschema(path, part)]
    return problems or metaschema_problems(schema) or work_problems(schema) or compile_problems(schema)


def describe_error(error: Any) -> dict[str, str]:
    message = str(error.message)
    if len(message) > 300:
        message = f"{message[:140]} … {message[-140:]}"
    return {"path": pointer(error.instance_path), "message": message}


def pointer(path: Any) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def problem(path: str, code: str, message: str, hint: str) -> Problem:
    return {"path": path, "code": code, "message": message, "hint": hint}


def subschemas(schema: JSON, path: str = "") -> Iterator[tuple[str, dict[str, JSON]]]:
    """Every schema inside a schema, itself first. Constants, defaults, enums and examples are data, not schemas."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for keyword in ONE:
        yield from subschemas(schema.get(keyword), f"{path}/{keyword}")
    for keyword in MANY:
        branches = schema.get(keyword)
        for index, branch in enumerate(branches if isinstance(branches, list) else []):
            yield from subschemas(branch, f"{path}/{keyword}/{index}")
    for keyword in NAMED:
        named = schema.get(keyword)
        for name, part in named.items() if isinstance(named, dict) else ():
            yield from subschemas(part, f"{path}/{keyword}{pointer([name])}")


def check_subschema(path: str, schema: dict[str, JSON]) -> Iterator[Problem]:
    for keyword in REFERENCES:
        reference = schema.get(keyword)
        if isinstance(reference, str) and not reference.startswith("#"):
            yield problem(
                f"{path}/{keyword}",
                "remote_ref",
                f"“{reference[:200]}” points outside the schema.",
                "Copy what it names into $defs and refer to #/$defs/name.",
            )
    if not path and not str(schema.get("$schema", DRAFT)).startswith(
        ("https://json-schema.org/", "http://json-schema.org/")
    ):
        yield problem(
            "/$schema",
            "unknown_draft",
            "Only JSON Schema's own drafts are known.",
            f"Leave $schema out, or write {DRAFT}.",
        )
    patterns = schema.get("patternProperties")
    for at, pattern in [
        ("pattern", schema.get("pattern")),
        *((f"patternProperties{pointer([key])}", key) for key in (patterns if isinstance(patterns, dict) else ())),
    ]:
        if isinstance(pattern, str) and (reason := pattern_problem(pattern)):
            yield problem(
                f"{path}/{at}",
                "bad_pattern",
                reason,
                "Write a simpler pattern: no lookaround, no back-references, no repeat of a repeat.",
            )


def pattern_problem(pattern: str) -> str:
    """Why a pattern is refused; empty when it is fine. Other engines than ours (a model's, a client's) see it too."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        return f"The pattern is longer than {MAX_PATTERN_LENGTH} characters."
    try:
        tree = sre_parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        if r"\p{" not in pattern.lower():  # Unicode classes are JSON Schema's, not Python's: left to the compiler
            return f"The pattern cannot be read: {error}."
        return ""
    if explodes(tree):
        return "The pattern can take exponential time: it repeats what can already repeat."
    try:
        compile_schema(cache_key({"pattern": pattern}))
    except ValueError:
        return "The pattern cannot be compiled: it looks around, refers back or repeats too often."
    return ""


REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
MANY_TIMES = 16


def explodes(tree: Any) -> bool:
    """Whether some repeat's body can match the same text in several ways: (a+)+, (a|a)*, (a|aa)+, (a*)*."""
    for operation, argument in tree:
        if operation in REPEATS and argument[1] >= MANY_TIMES and is_ambiguous(argument[2]):
            return True
        if any(explodes(inner) for inner in inner_trees(operation, argument)):
            return True
    return False


def inner_trees(operation: Any, argument: Any) -> list[Any]:
    if operation in REPEATS:
        return [argument[2]]
    if operation is sre.SUBPATTERN:
        return [argument[-1]]
    if operation is sre.BRANCH:
        return list(argument[1])
    if operation in (sre.ASSERT, sre.ASSERT_NOT):
        return [argument[1]]
    return []


def is_ambiguous(body: Any) -> bool:
    parts = list(body)
    while len(parts) == 1 and parts[0][0] is sre.SUBPATTERN:
        parts = list(parts[0][1][-1])
    needed = [part for part in parts if width(part)[0] > 0]
    long = [part for part in parts if part[0] in REPEATS and part[1][1] >= MANY_TIMES]
    if long and (not needed or (len(needed) == 1 and needed[0] is long[0])):
        return True
    if len(parts) == 1 and parts[0][0] is sre.BRANCH:
        return any(is_ambiguous(branch) for branch in parts[0][1][1])
    branches = [part[1][1] for part in parts if part[0] is sre.BRANCH]
    if any(len({str(branch) for branch in choice}) < len(choice) for choice in branches):
        return True
    low, high = body.getwidth()
    return low != high and len(set(letters(body))) == 1


def width(part: Any) -> tuple[int, int]:
    tree = sre_parser.SubPattern(sre_parser.State(), [part])
    low, high = tree.getwidth()
    return int(low), int(high)


def letters(tree: Any) -> Iterator[str]:
    """The single-character parts of a pattern, as text."""
    for operation, argument in tree:
        inner = inner_trees(operation, argument)
        if not inner:
            yield f"{operation}{argument}"
        for part in inner:
            yield from letters(part)


def metaschema_problems(schema: dict[str, JSON]) -> list[Problem]:
    """What JSON Schema itself says against it, at the keyword it concerns."""
    hint = "See https://json-schema.org/draft/2020-12 for what this keyword takes."
    errors = zip(metaschema().iter_errors(schema), range(MAX_ERRORS), strict=False)
    violations = [describe_error(error) for error, _ in errors]
    return [problem(violation["path"], "not_a_schema", violation["message"], hint) for violation in violations]


@lru_cache(maxsize=1)
def metaschema() -> Any:
    return jsonschema_rs.Draft202012Validator({"$ref": DRAFT})


def work_problems(schema: dict[str, JSON]) -> list[Problem]:
    """References that multiply: thirty lines of $defs can ask for 2**30 checks of one value."""
    if Work(schema).of("#") <= MAX_SCHEMA_WORK:
        return []
    return [
        problem(
            "",
            "too_much_work",
            f"Following its references takes more than {MAX_SCHEMA_WORK} steps.",
            "Let each definition refer to another once, not several times.",
        )
    ]


class Work:
    """How many subschemas one validation may visit, references followed; a cycle counts once."""

    def __init__(self, schema: dict[str, JSON]) -> None:
        self.schema = schema
        self.counts: dict[str, int] = {}

    def of(self, reference: str) -> int:
        if reference not in self.counts:
            self.counts[reference] = 1  # holds while we are inside it: a cycle ends here
            target = resolve(self.schema, reference)
            self.counts[reference] = 1 + sum(self.steps(part) for _, part in subschemas(target) if part is not None)
        return self.counts[reference]

    def steps(self, part: dict[str, JSON]) -> int:
        return 1 + sum(self.of(part[word]) for word in REFERENCES if isinstance(part.get(word), str))


def resolve(schema: JSON, reference: str) -> JSON:
    """The subschema that a local reference points at; {} for anchors and for missing ones, which the
    compiler reports.
    """
    if reference == "#":
        return {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}
    return resolve_pointer(schema, reference)


def compile_problems(schema: dict[str, JSON]) -> list[Problem]:
    try:
        compile_schema(cache_key(schema))
    except ValueError as error:
        message = str(getattr(error, "message", error)).split("\n")[0]
        at = pointer(getattr(error, "instance_path", []))
        code = "bad_ref" if "ointer" in message or "retriev" in message else "not_a_schema"
        hint = "References must point at something inside the schema; patterns may use no lookaround."
        return [problem(at, code, message[:300], hint)]
    return []


def cache_key(schema: JSON) -> bytes:
    """The schema as text with sorted keys: equal schemas have equal keys."""
    return json_values.write(schema, sort_keys=True)


def compile_schema(key: bytes) -> Any:
    """A validator with the engine of linear-time patterns, and no way to fetch anything. Raises ValueError."""
    return jsonschema_rs.Draft202012Validator(
        key.decode(), offline=True, validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=2_000_000, dfa_size_limit=200_000),
    )  # fmt: skip
