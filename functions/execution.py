"""Executes one call of one version: validate the input, run it in the sandbox, validate the output,
store the execution.
"""

import json
import math
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached
from django.core.cache import cache
from django.db import IntegrityError
from redis import RedisError

from agents.exceptions import Invalid, TooLarge
from agents.http.room import check_room, note_made
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
    # The time the caller has left.
    most_s: float = math.inf


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
    spec_size = len(version.spec.model_dump_json())
    return 4_000 + len(version.source) + 10 * spec_size


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
    arguments break the schema, Conflict (quota_exceeded).
    """
    check_room(caller.user_id)
    execution = perform(version, arguments, caller)
    store_execution(version, execution)
    note_made(caller.user_id, execution.size)
    return execution


def perform(version: Ready, arguments: dict[str, Any], caller: Caller) -> Execution:
    """Run the version; the caller stores the Execution. Raises Invalid if the arguments break the
    schema.
    """
    arguments = check_arguments(version.spec, arguments)
    key = cache_key(version, arguments, caller.user_id)
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
    values = defaults(spec.input_schema)
    values |= normalize_names(arguments, spec.input_schema)
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
    if not problems:
        return values
    details = [{"code": "invalid_arguments", "field": f"arguments{one['path']}", **one} for one in problems]
    raise Invalid(
        f"The arguments do not match the input schema of {spec.name}.",
        code="invalid_arguments",
        hint="See the details and the function's input_schema.",
        details=details,
    )


def normalize_names(arguments: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments under the names of the parameters: Python normalises identifiers (NFKC), and
    some clients send “ö” as two characters.
    """
    parameters = schema.get("properties") or {}
    named = {}
    for name, value in arguments.items():
        normal = unicodedata.normalize("NFKC", name)
        # A second spelling must not replace the first.
        is_free = normal not in arguments and normal not in named
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
    if caller.host:
        return caller.host.redacted(outcome)
    return outcome


def in_sandbox(version: Ready, arguments: dict[str, Any], caller: Caller) -> sandbox.Outcome:
    """The outcome of one child, which is killed if the run is cancelled or the caller's time is up."""
    spec = version.spec
    limits = spec.limits()
    if caller.most_s < limits.timeout_s:
        limits = replace(limits, timeout_s=caller.most_s)
    reuse = None
    if spec.reuse == "run":
        reuse = caller.run
    watched: AbstractContextManager[Any] = nullcontext()
    if caller.is_cancelled:
        watched = watch.over(caller.is_cancelled)
    with watched as cancellation:
        return sandbox.execute(
            version.source,
            arguments,
            entry=spec.entry,
            allowed_imports=tuple(spec.allowed_imports),
            safe_mode=spec.safe_mode,
            limits=limits,
            min_isolation=spec.min_isolation,
            context=dict(caller.data),
            grants=caller.grants,
            host=caller.host,
            reuse=reuse,
            owner=str(caller.user_id),
            cancellation=cancellation,
        )


def with_valid_output(spec: FunctionSpec, outcome: sandbox.Outcome) -> sandbox.Outcome:
    if not (outcome.ok and spec.output_schema):
        return outcome
    problems = validate(spec.output_schema, outcome.result)
    if not problems:
        return outcome
    places = []
    for problem in problems[:5]:
        path = problem["path"] or "result"
        places.append(f"{path}: {problem['message']}")
    message = f"the result does not match output_schema: {'; '.join(places)}"
    error = sandbox.FunctionError("InvalidOutput", message)
    return replace(outcome, status="error", result=None, error=error)


def build_execution(
    version: Ready, arguments: dict[str, Any], caller: Caller, outcome: sandbox.Outcome, *, is_cached: bool = False
) -> Execution:
    """The Execution of this call, not stored yet."""
    wall_ms = outcome.wall_ms
    cpu_ms = outcome.cpu_ms
    requests = []
    if caller.host:
        requests = caller.host.requests
    if is_cached:
        # These were the figures of the call whose result was kept.
        wall_ms = 0.0
        cpu_ms = 0.0
        requests = []
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
        wall_ms=wall_ms,
        cpu_ms=cpu_ms,
        peak_kb=outcome.peak_kb,
        isolation=outcome.isolation,
        is_cached=is_cached,
        requests=requests,
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
    error = execution.error or {}
    is_attack = error.get("type") == "SystemCall"
    # A draft has no version to withdraw.
    if not (is_attack and version.function_id and version.id):
        return
    if catalogue.withdraw_version(version.function_id, version.id):
        AuditEvent.record("function.withdrawn", execution, **facts)


def read_outcome_error(outcome: sandbox.Outcome) -> dict[str, Any] | None:
    error = outcome.error
    if error is None:
        return None
    message = error.message.replace("\0", "�")
    return {"type": error.type, "message": message, "line": error.line}


def clean_result(value: Any) -> Any:
    """The same JSON as every database can store it (plumbing/json_values.py)."""
    return json_values.clean_json(value)


def read_printed_text(outcome: sandbox.Outcome) -> str:
    """The text without NUL characters, which PostgreSQL cannot store."""
    text = outcome.printed.replace("\0", "�")
    if outcome.printed_cut:
        return f"{text}\n… (cut)"
    return text


def cache_key(version: Ready, arguments: dict[str, Any], user_id: Any) -> str:
    """The cache key of a version and its input; empty if the result may not be cached.

    Each person has their own: from a result that is there already, others would learn what somebody asked. A version
    that can see its caller, use secrets or reach hosts is never cached.
    """
    spec = version.spec
    if version.id is None or not spec.is_pure or not spec.cache_ttl:
        return ""
    if spec.requires_context or spec.secrets or spec.allowed_hosts or not spec.safe_mode:
        return ""
    return f"function-result:{version.id}:{version.sha256}:{user_id}:{hash_json(arguments)}"


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
        # A result that was not cached is computed again.
        return
