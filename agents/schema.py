"""JSON Schema (Draft 2020-12), canonical JSON and hashes. Plain Python.

Schemas and values are user data, and checking them holds the interpreter lock. So `check_schema`
and `validate` only run here if the cost is known to be small (agents/schema_cost.py); everything
else is sent to a process with limits of memory and time (plumbing/untrusted/parse_in_child.py). Even an unchecked
schema can neither fetch anything nor block.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached

from agents.schema_cost import estimate_cost, measure_json, resolve_pointer
from agents.schema_rules import MAX_ERRORS, Problem, cache_key, compile_schema, describe_error, find_problems, problem
from plumbing.untrusted import parse_in_child

JSON = Any

MAX_SCHEMA_BYTES = 64 * 1024
MAX_SCHEMA_DEPTH = 32
MAX_VALUE_DEPTH = 64
# Largest schema, in bytes, that may be read in a serving process.
SMALL_SCHEMA = 8 * 1024
# Steps of a check in a serving process: about 20 ms at worst.
SMALL_WORK = 1_000_000
# Below this cost all errors are listed; above it only the first.
FEW_STEPS = 20_000
# Bytes of validators in this process.
KEPT_BYTES = 32 << 20
# Largest size of one compiled pattern.
PATTERN_BYTES = 200_000
CONTAINERS = (dict, list)
TOO_MUCH = "It needs more than 1 s of CPU time or 256 MB of memory."


def canonical_json(value: JSON) -> str:
    """Sorted keys, no spaces, UTF-8: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hash_json(value: JSON) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def check_schema(schema: JSON) -> list[Problem]:
    """Problems that make this schema unusable; empty if there are none.

    Each problem is {path, code, message, hint}; `path` is a JSON pointer into the schema.
    """
    problems = list(outer_problems(schema))
    if problems:
        return problems
    if make_plan(cache_key(schema)).cost < math.inf:
        return find_problems(schema)
    try:
        answer: list[Problem] = parse_in_child.run_reader_task("check_schema", schema)
    except parse_in_child.TooMuch:
        hint = "Use fewer and simpler patterns, branches and references."
        return [problem("", "too_much_work", f"The schema cannot be compiled. {TOO_MUCH}", hint)]
    return answer


def drop_unusable_patterns(schema: dict[str, JSON]) -> dict[str, JSON]:
    """A foreign schema without the patterns that cannot be checked here; descriptions name them instead.

    JavaScript and PCRE have patterns that our library does not know. The service that described the tool checks its
    patterns itself.
    """
    if not has_keyword(schema, "pattern") and not has_keyword(schema, "patternProperties"):
        return schema
    # Some problems are found only when the others are gone.
    for _ in range(2):
        paths = [problem["path"] for problem in check_schema(schema)]
        pattern_paths = [path for path in paths if is_about_pattern(path)]
        if not pattern_paths:
            return schema
        # A copy: the caller keeps its own.
        schema = json.loads(canonical_json(schema))
        for path in pattern_paths:
            drop_pattern(schema, path)
    return schema


def has_keyword(value: JSON, keyword: str) -> bool:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if keyword in part:
                return True
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False


def is_about_pattern(path: str) -> bool:
    return path.endswith("/pattern") or "/patternProperties" in path


def drop_pattern(schema: dict[str, JSON], place: str) -> None:
    """`place` is the JSON pointer of a `pattern`, or of one among `patternProperties`."""
    if place.endswith("/pattern"):
        keyword = "pattern"
        owner_pointer = place.removesuffix("/pattern")
    else:
        keyword = "patternProperties"
        owner_pointer = place.partition("/patternProperties")[0]
    owner = resolve_pointer(schema, "#" + owner_pointer) if owner_pointer else schema
    if not isinstance(owner, dict) or not isinstance(owner.get(keyword), str | dict):
        return
    pattern = owner.pop(keyword)
    if not isinstance(pattern, str):
        return
    # The model can still follow the pattern if the description names it.
    words = f"Must match the pattern {pattern[:300]}"
    description = owner.get("description")
    owner["description"] = f"{description} {words}" if description else words


def outer_problems(schema: JSON) -> Iterator[Problem]:
    """Its kind, its depth and its size: what can be seen without reading it."""
    if not isinstance(schema, dict):
        hint = 'Write {"type": "object", "properties": {…}}.'
        yield problem("", "not_a_schema", "A schema must be a JSON object.", hint)
    elif measure_depth(schema, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH:
        message = f"The schema is nested deeper than {MAX_SCHEMA_DEPTH} levels."
        yield problem("", "too_deep", message, "Flatten it, or use $defs with $ref.")
    else:
        yield from size_problems(schema)


def size_problems(schema: dict[str, JSON]) -> Iterator[Problem]:
    try:
        size = len(canonical_json(schema).encode())
    except (TypeError, ValueError) as error:
        hint = "Use objects, arrays, text, finite numbers, true, false, null."
        yield problem("", "not_json", f"The schema is not JSON: {error}.", hint)
        return
    if size > MAX_SCHEMA_BYTES:
        message = f"The schema has {size} bytes; at most {MAX_SCHEMA_BYTES} are allowed."
        yield problem("", "too_large", message, "Leave out what is not needed to check a value.")


def validate(schema: dict[str, JSON] | bool, value: JSON) -> list[dict[str, str]]:
    """Violations of the schema: [{path, message}], all of them if that is cheap, else the first.

    Empty if the value is valid.
    """
    if measure_depth(value, MAX_VALUE_DEPTH) > MAX_VALUE_DEPTH:
        return [{"path": "", "message": f"The value is nested deeper than {MAX_VALUE_DEPTH} levels."}]
    key = cache_key(schema)
    steps = make_plan(key).cost * measure_json(value)
    if steps <= SMALL_WORK:
        return validate_here(key, value, all_errors=steps <= FEW_STEPS)
    try:
        violations: list[dict[str, str]] = parse_in_child.run_reader_task("validate", schema, value)
    except parse_in_child.TooMuch:
        return [{"path": "", "message": f"The value cannot be checked against its schema. {TOO_MUCH}"}]
    return violations


def validate_here(key: bytes, value: JSON, *, all_errors: bool) -> list[dict[str, str]]:
    validator = find_validator(key)
    if validator.is_valid(value):
        return []
    if all_errors:
        errors = islice(validator.iter_errors(value), MAX_ERRORS)
        return [describe_error(error) for error in errors]
    try:
        validator.validate(value)
    except ValueError as error:
        return [describe_error(error)]
    return []


def measure_depth(value: JSON, limit: int) -> int:
    """The depth of a value; stops counting beyond `limit`."""
    # Layer by layer, not by recursion: the value may be deeper than Python's stack.
    depth = 0
    layer: list[Any] = [value] if isinstance(value, CONTAINERS) else []
    while layer and depth <= limit:
        depth += 1
        next_layer: list[Any] = []
        for outer in layer:
            for part in outer.values() if isinstance(outer, dict) else outer:
                if isinstance(part, CONTAINERS):
                    next_layer.append(part)
        layer = next_layer
    return depth


@dataclass(slots=True)
class Plan:
    """The cached cost of a schema (steps for each byte of a value), and its validator once it was needed.

    `bytes` is the memory that both take, with the key.
    """

    cost: float
    bytes: int
    validator: Any = None


@cached(LRUCache(KEPT_BYTES, attrgetter("bytes")), lock=Lock())
def make_plan(key: bytes) -> Plan:
    cost = math.inf
    if len(key) <= SMALL_SCHEMA:
        cost = estimate_cost(json.loads(key))
    if cost == math.inf:
        return Plan(cost, len(key) + 500)
    # A validator takes some twenty times its text, a pattern's caches up to 200 kB.
    pattern_count = key.count(b'"pattern')
    return Plan(cost, 2_000 + 20 * len(key) + PATTERN_BYTES * pattern_count)


def find_validator(key: bytes) -> Any:
    """The validator for a schema. Raises ValueError (jsonschema_rs) for an invalid schema."""
    plan = make_plan(key)
    if plan.validator is None:
        plan.validator = compile_schema(key)
    return plan.validator
