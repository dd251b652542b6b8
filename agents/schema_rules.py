"""What may stand in a schema that a person sends: no remote references, no patterns that run away, bounded work.

Plain Python. It runs in the serving process for small schemas and in a process of its own for the others: see
agents/schema.py.
"""

import re

# The parser's own opcodes: there is no public name for them.
import re._constants as sre
import re._parser as sre_parser
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs

from agents.schema_cost import resolve_pointer
from plumbing import json_values

JSON = Any
Problem = dict[str, str]

# Subschemas visited for one value when every reference is followed.
MAX_SCHEMA_WORK = 20_000
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
DRAFT_HOSTS = ("https://json-schema.org/", "http://json-schema.org/")


def find_problems(schema: dict[str, JSON]) -> list[Problem]:
    """Everything that is wrong with a schema of an acceptable size; empty when nothing is."""
    problems: list[Problem] = []
    for path, part in subschemas(schema):
        problems += check_subschema(path, part)
    # Each check assumes that the ones before found nothing.
    return problems or metaschema_problems(schema) or work_problems(schema) or compile_problems(schema)


def describe_error(error: Any) -> dict[str, str]:
    message = str(error.message)
    if len(message) > 300:
        message = f"{message[:140]} … {message[-140:]}"
    return {"path": pointer(error.instance_path), "message": message}


def pointer(path: Any) -> str:
    """A path as a JSON pointer: `["a/b", 0]` → `/a~1b/0`."""
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in path]
    return "".join(f"/{step}" for step in steps)


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
        if isinstance(branches, list):
            for index, branch in enumerate(branches):
                yield from subschemas(branch, f"{path}/{keyword}/{index}")
    for keyword in NAMED:
        named = schema.get(keyword)
        if isinstance(named, dict):
            for name, part in named.items():
                yield from subschemas(part, f"{path}/{keyword}{pointer([name])}")


def check_subschema(path: str, schema: dict[str, JSON]) -> Iterator[Problem]:
    for keyword in REFERENCES:
        reference = schema.get(keyword)
        if isinstance(reference, str) and not reference.startswith("#"):
            message = f"“{reference[:200]}” points outside the schema."
            hint = "Copy what it names into $defs and refer to #/$defs/name."
            yield problem(f"{path}/{keyword}", "remote_ref", message, hint)
    draft = str(schema.get("$schema", DRAFT))
    is_outermost = not path
    if is_outermost and not draft.startswith(DRAFT_HOSTS):
        hint = f"Leave $schema out, or write {DRAFT}."
        yield problem("/$schema", "unknown_draft", "Only JSON Schema's own drafts are known.", hint)
    for place, pattern in find_patterns(schema):
        reason = pattern_problem(pattern)
        if reason:
            hint = "Write a simpler pattern: no lookaround, no back-references, no repeat of a repeat."
            yield problem(f"{path}/{place}", "bad_pattern", reason, hint)


def find_patterns(schema: dict[str, JSON]) -> Iterator[tuple[str, str]]:
    """(place, pattern) of each pattern of this schema, not of those inside it."""
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        yield "pattern", pattern
    named = schema.get("patternProperties")
    if isinstance(named, dict):
        for name in named:
            if isinstance(name, str):
                yield f"patternProperties{pointer([name])}", name


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
    """Whether the body of a repeat can match one text in several ways, which multiply with every repeat."""
    parts = list(body)
    # A group alone is its content.
    while len(parts) == 1 and parts[0][0] is sre.SUBPATTERN:
        parts = list(parts[0][1][-1])
    needed = [part for part in parts if width(part)[0] > 0]
    long_repeats = [part for part in parts if part[0] in REPEATS and part[1][1] >= MANY_TIMES]
    # (a+)+ and (a*b*)*: nothing stands between one round and the next.
    if long_repeats:
        is_only_needed = len(needed) == 1 and needed[0] is long_repeats[0]
        if not needed or is_only_needed:
            return True
    if len(parts) == 1 and parts[0][0] is sre.BRANCH:
        _none, branches = parts[0][1]
        return any(is_ambiguous(branch) for branch in branches)
    # (a|a)*: two branches are the same.
    for operation, argument in parts:
        if operation is sre.BRANCH:
            branches = [str(branch) for branch in argument[1]]
            if len(set(branches)) < len(branches):
                return True
    # (a|aa)+: several lengths of one letter.
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
    problems = []
    for error in islice(metaschema().iter_errors(schema), MAX_ERRORS):
        violation = describe_error(error)
        problems.append(problem(violation["path"], "not_a_schema", violation["message"], hint))
    return problems


@lru_cache(maxsize=1)
def metaschema() -> Any:
    return jsonschema_rs.Draft202012Validator({"$ref": DRAFT})


def work_problems(schema: dict[str, JSON]) -> list[Problem]:
    """References that multiply: thirty lines of $defs can ask for 2**30 checks of one value."""
    if Work(schema).of("#") <= MAX_SCHEMA_WORK:
        return []
    message = f"Following its references takes more than {MAX_SCHEMA_WORK} steps."
    hint = "Let each definition refer to another once, not several times."
    return [problem("", "too_much_work", message, hint)]


class Work:
    """How many subschemas one validation may visit, references followed; a cycle counts once."""

    def __init__(self, schema: dict[str, JSON]) -> None:
        self.schema = schema
        self.counts: dict[str, int] = {}

    def of(self, reference: str) -> int:
        """How many subschemas are visited where this reference leads to."""
        if reference not in self.counts:
            # Holds while we are inside it: a cycle ends here.
            self.counts[reference] = 1
            target = resolve(self.schema, reference)
            steps = sum(self.steps(part) for _path, part in subschemas(target))
            self.counts[reference] = 1 + steps
        return self.counts[reference]

    def steps(self, part: dict[str, JSON]) -> int:
        references = [part.get(word) for word in REFERENCES]
        return 1 + sum(self.of(reference) for reference in references if isinstance(reference, str))


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
        place = pointer(getattr(error, "instance_path", []))
        # “Pointer … does not exist” and “failed to retrieve”: the library has one class for both kinds of errors.
        is_reference = "ointer" in message or "retriev" in message
        code = "bad_ref" if is_reference else "not_a_schema"
        hint = "References must point at something inside the schema; patterns may use no lookaround."
        return [problem(place, code, message[:300], hint)]
    return []


def cache_key(schema: JSON) -> bytes:
    """The schema as text with sorted keys: equal schemas have equal keys."""
    return json_values.dump_json(schema, sort_keys=True)


def compile_schema(key: bytes) -> Any:
    """A validator with the engine of linear-time patterns, and no way to fetch anything. Raises ValueError."""
    return jsonschema_rs.Draft202012Validator(
        key.decode(), offline=True, validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=2_000_000, dfa_size_limit=200_000),
    )  # fmt: skip
