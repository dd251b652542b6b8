"""Executes one call of one version: validate the input, run it in the sandbox, validate the output,
store the execution.
"""

import json
import math
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached
from django.core.cache import cache
from django.db import IntegrityError
from redis import RedisError

from agents.exceptions import Invalid, TooLarge
from agents.models import AuditEvent
from agents.schema import hash_json, validate
from functions import catalogue, sandbox, slots
from functions.host import Host
from functions.models import Execution, FunctionVersion
from functions.spec import FunctionSpec, defaults
from functions.watching import watch
from plumbing import json_values
from plumbing.statements import insert_rows
from plumbing.waits import run_blocking

MAX_ARGUMENT_BYTES = 1_048_576
Callback = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a function: the user, the run and the available callbacks. `data` is visible to
    the function as ctx.
    """

    user_id: int | None
    run: str | None = None
    call: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    grants: Mapping[str, Callback] = field(default_factory=dict)
    host: Host | None = None
    is_cancelled: Callable[[], bool] | None = None
    most_s: float = math.inf  # the time the caller has left


@dataclass(frozen=True, slots=True)
class Ready:
    """The immutable data needed to run a version, read once."""

    id: int | None
    function_id: int | None
    number: int | None
    name: str
    sha256: str
    source: str
    spec: FunctionSpec


def bytes_of_version(version: Ready) -> int:
    """A parsed schema uses about ten times the memory of its text."""
    return 4_000 + len(version.source) + 10 * len(version.spec.model_dump_json())


@cached(LRUCache(64 << 20, bytes_of_version), lock=Lock())
def ready(version_id: int, sha256: str) -> Ready:
    """The version with this id. The hash identifies the expected content, so the cache cannot
    return a wrong version.
    """
    version = FunctionVersion.objects.get(pk=version_id, sha256=sha256)
    spec = FunctionSpec.model_validate(version.spec)
    return Ready(version.pk, version.function_id, version.number, spec.name, sha256, version.source, spec)


def execute_function(version: Ready, arguments: dict[str, Any], caller: Caller) -> Execution:
    """Run the version and store the Execution, regardless of how it ended. Raises Invalid if the
    arguments break the schema.
    """
    execution = perform(version, arguments, caller)
    store_execution(version, execution)
    return execution


def perform(version: Ready, arguments: dict[str, Any], caller: Caller) -> Execution:
    """Run the version; the caller stores the Execution. Raises Invalid if the arguments break the
    schema.
    """
    arguments = check_arguments(version.spec, arguments)
    key = cache_key(version, arguments)
    kept = read_cache(key)
    if kept is not None:
        return build_execution(version, arguments, caller, kept, is_cached=True)
    outcome = run_blocking(run_in_sandbox, version, arguments, caller)
    if outcome.ok and key:
        write_cache(key, outcome, version.spec.cache_ttl)
    return build_execution(version, arguments, caller, outcome)


def check_arguments(spec: FunctionSpec, arguments: Any) -> dict[str, Any]:
    """The arguments with the schema's defaults filled in. Raises Invalid (one detail per problem)
    or TooLarge.
    """
    if not isinstance(arguments, dict):
        raise Invalid(
            "Arguments must be an object.", code="invalid_arguments", hint='Send {"arguments": {"name": value}}.'
        )
    values = {**defaults(spec.input_schema), **normalize_names(arguments, spec.input_schema)}
    try:
        size = len(json.dumps(values, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"The arguments are not valid JSON: {error}.",
            code="invalid_arguments",
            hint="Send only text, finite numbers, true, false, null, lists and objects.",
        )
    if size > MAX_ARGUMENT_BYTES:
        raise TooLarge(
            f"The arguments have {size} bytes; the maximum is {MAX_ARGUMENT_BYTES}.", hint="Send less data in one call."
        )
    problems = validate(spec.input_schema, values)
    if problems:
        details = [{"code": "invalid_arguments", "field": f"arguments{one['path']}", **one} for one in problems]
        raise Invalid(
            f"The arguments do not match the input schema of {spec.name}.",
            code="invalid_arguments",
            hint="See the details and the function's input_schema.",
            details=details,
        )
    return values


def normalize_names(arguments: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments under the names of the parameters: Python normalises identifiers (NFKC), and
    some clients send “ö” as two characters.
    """
    parameters = schema.get("properties") or {}
    named = {}
    for name, value in arguments.items():
        normal = unicodedata.normalize("NFKC", name)
        is_free = normal not in arguments and normal not in named  # a second spelling must not replace the first
        is_the_same = name not in parameters and normal in parameters and is_free
        named[normal if is_the_same else name] = value
    return named


def run_in_sandbox(version: Ready, arguments: dict[str, Any], caller: Caller) -> sandbox.Outcome:
    """The sandbox's outcome, with the result checked against the output schema and secrets removed."""
    spec = version.spec
    with slots.take_slot_if_free(version.function_id or 0, spec.max_concurrency, spec.timeout) as is_free:
        if not is_free:
            message = f"{spec.name} already has {spec.max_concurrency} calls in progress; try again shortly"
            return sandbox.Outcome(status="busy", error=sandbox.FunctionError("Busy", message))
        outcome = in_sandbox(version, arguments, caller)
    outcome = with_valid_output(spec, outcome)
    return caller.host.redacted(outcome) if caller.host else outcome


def in_sandbox(version: Ready, arguments: dict[str, Any], caller: Caller) -> sandbox.Outcome:
    """The outcome of one child, which is killed if the run is cancelled or the caller's time is up."""
    spec, limits = version.spec, version.spec.limits()
    if caller.most_s < limits.timeout_s:
        limits = replace(limits, timeout_s=caller.most_s)
    with watch.over(caller.is_cancelled) if caller.is_cancelled else nullcontext() as cancellation:
        return sandbox.execute(
            version.source, arguments, entry=spec.entry, allowed_imports=tuple(spec.allowed_imports),
            safe_mode=spec.safe_mode, limits=limits, min_isolation=spec.min_isolation,
            context=dict(caller.data), grants=caller.grants, host=caller.host,
            reuse=caller.run if spec.reuse == "run" else None, owner=str(caller.user_id), cancellation=cancellation,
        )  # fmt: skip


def with_valid_output(spec: FunctionSpec, outcome: sandbox.Outcome) -> sandbox.Outcome:
    if not (outcome.ok and spec.output_schema):
        return outcome
    problems = validate(spec.output_schema, outcome.result)
    if not problems:
        return outcome
    places = "; ".join(f"{one['path'] or 'result'}: {one['message']}" for one in problems[:5])
    error = sandbox.FunctionError("InvalidOutput", f"the result does not match output_schema: {places}")
    return replace(outcome, status="error", result=None, error=error)


def build_execution(
    version: Ready, arguments: dict[str, Any], caller: Caller, outcome: sandbox.Outcome, *, is_cached: bool = False
) -> Execution:
    """The Execution of this call, not stored yet."""
    return Execution(
        function_id=version.function_id,
        version_id=version.id,
        function_name=version.name,
        version_number=version.number,
        principal_id=caller.user_id,
        run=caller.run,
        call=caller.call,
        status=outcome.status,
        arguments=clean_result(arguments),
        result=clean_result(outcome.result),
        error=read_outcome_error(outcome),
        printed=read_printed_text(outcome),
        wall_ms=0.0 if is_cached else outcome.wall_ms,
        cpu_ms=0.0 if is_cached else outcome.cpu_ms,
        peak_kb=outcome.peak_kb,
        isolation=outcome.isolation,
        is_cached=is_cached,
        requests=caller.host.requests if caller.host and not is_cached else [],
    )


def store_execution(version: Ready, execution: Execution) -> None:
    """Store the execution, even if its function was deleted during the call, and report a
    violation.

    Inside a transaction, the database detects a deleted function only at commit; in that case call
    this again without a transaction.
    """
    try:
        insert_rows(execution)
    except IntegrityError:
        execution.function_id = execution.version_id = None
        insert_rows(execution)
    if execution.status == "violation":
        report_violation(version, execution)


def report_violation(version: Ready, execution: Execution) -> None:
    """A forbidden system call, which honest code never makes, also withdraws the version. A broken
    protocol does not, because it may be an accident.
    """
    facts: dict[str, Any] = {"version": version.number, "function": version.name}
    AuditEvent.record("function.violation", execution, **facts)
    is_attack = (execution.error or {}).get("type") == "SystemCall"
    if is_attack and version.function_id and version.id and catalogue.withdraw_version(version.function_id, version.id):
        AuditEvent.record("function.withdrawn", execution, **facts)


def read_outcome_error(outcome: sandbox.Outcome) -> dict[str, Any] | None:
    if outcome.error is None:
        return None
    return {"type": outcome.error.type, "message": outcome.error.message.replace("\0", "�"), "line": outcome.error.line}


def clean_result(value: Any) -> Any:
    """The same JSON as every database can store it (plumbing/json_values.py)."""
    return json_values.clean_json(value)


def read_printed_text(outcome: sandbox.Outcome) -> str:
    """The text without NUL characters, which PostgreSQL cannot store."""
    text = outcome.printed.replace("\0", "�")
    return f"{text}\n… (cut)" if outcome.printed_cut else text


def cache_key(version: Ready, arguments: dict[str, Any]) -> str:
    """The cache key of a version and its input; empty if the result may not be cached.

    Cached results are shared between users, so a version that can see its caller, use secrets or
    reach hosts is never cached.
    """
    spec = version.spec
    is_personal = spec.requires_context or spec.secrets or spec.allowed_hosts or not spec.safe_mode
    if not (spec.is_pure and spec.cache_ttl) or is_personal or version.id is None:
        return ""
    return f"function-result:{version.id}:{version.sha256}:{hash_json(arguments)}"


def read_cache(key: str) -> sandbox.Outcome | None:
    if not key:
        return None
    try:
        kept = cache.get(key)
    except (RedisError, OSError):
        return None
    return sandbox.Outcome(status="ok", **json.loads(kept)) if kept else None


def write_cache(key: str, outcome: sandbox.Outcome, seconds: int) -> None:
    kept = {"result": outcome.result, "printed": outcome.printed, "isolation": outcome.isolation}
    try:
        cache.set(key, json.dumps(kept), seconds)
    except (RedisError, OSError):
        return  # a result that was not cached is computed again
