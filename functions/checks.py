"""Checks whether a source with its limits and schemas is acceptable. Each problem has a place, a
reason and a fix.
"""

from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any

from django.conf import settings

from agents.exceptions import Forbidden, Unavailable
from agents.schema import check_schema
from functions import sandbox
from functions.models import StoredFunction
from functions.reading import MAX_SOURCE_BYTES, read_signature
from functions.signature import Signature, SourceProblem
from functions.spec import defaults

Refusal = dict[str, Any]
FREE_LIMITS = {"timeout": 30.0, "memory_limit": 512, "max_concurrency": 1000}
LABELS = {"timeout": "seconds", "memory_limit": "MB", "max_concurrency": "concurrent calls"}


def check_function(
    function: StoredFunction,
    *,
    user: Any = None,
    is_async: bool | None = None,
    requires_context: bool | None = None,
) -> list[Refusal]:
    """All problems of a working row; empty if there are none.

    Derives entry, flags, description and schema from the source if the author did not set them. If
    the two flags are given, they are compared with the source. Compiling counts towards the share
    of the sandbox that `user` has.
    """
    if len(function.source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        message = f"The source is larger than the maximum of {MAX_SOURCE_BYTES // 1024} kB."
        hint = "Split it into several functions that call each other."
        return [build_refusal("too_large", message, hint)]
    try:
        signature = read_signature(function.source, function.entry)
    except SourceProblem as problem:
        return unread(function, problem, user)
    field_refusals = [*schema_refusals(function), *limit_refusals(function), *cache_refusals(function, signature)]
    schema = None
    if function.input_schema and not field_refusals:
        schema = require_defaults(function.input_schema)
    refusals = ask_sandbox(
        function,
        signature.entry,
        user,
        input_schema=schema,
        is_async=is_async,
        requires_context=requires_context,
    )
    fill_from_signature(function, signature)
    return [*(refusal.as_dict() for refusal in refusals), *field_refusals]


def ask_sandbox(function: StoredFunction, entry: str, user: Any, **expect: Any) -> list[sandbox.Refusal]:
    imports = allowed_imports(function)
    owner = str(user.pk) if user else None
    try:
        return sandbox.check(function.source, imports, entry, safe_mode=function.safe_mode, owner=owner, **expect)
    except sandbox.NoChild:
        raise Unavailable(
            "The sandbox is busy.", code="busy", hint="Try again in a moment.", headers={"Retry-After": "2"}
        )
    except sandbox.SandboxUnavailable as error:
        raise Unavailable(
            f"The sandbox cannot be used: {error}.", code="sandbox_unavailable", hint="Run `manage.py doctor`."
        )


def require_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the arguments the entry actually receives: properties with a default are always
    present.
    """
    with_default = defaults(schema)
    if not with_default:
        return schema
    required = {*schema.get("required", []), *with_default}
    return {**schema, "required": sorted(required)}


def unread(function: StoredFunction, problem: SourceProblem, user: Any) -> list[Refusal]:
    """The problems of a source without a readable signature; a refusal by the sandbox for the same
    line takes precedence.
    """
    refusals = ask_sandbox(function, function.entry or "main", user)
    if not function.entry:
        # Its entry is not known yet, so it cannot be missing.
        refusals = [refusal for refusal in refusals if refusal.code != "no-entry"]
    described = [refusal.as_dict() for refusal in refusals]
    if any(refusal.line == problem.line for refusal in refusals):
        return described
    return [problem.as_refusal(), *described]


def fill_from_signature(function: StoredFunction, signature: Signature) -> None:
    function.entry = signature.entry
    function.is_async = signature.is_async
    function.requires_context = signature.requires_context
    function.requires = list(signature.requires)
    function.description = function.description or signature.description
    function.input_schema = function.input_schema or signature.input_schema


def build_refusal(code: str, message: str, hint: str, field: str = "source", line: int = 1) -> Refusal:
    return {
        "severity": "error",
        "code": code,
        "message": message,
        "hint": hint,
        "field": field,
        "line": line,
        "column": 1,
        "end_line": line,
        "end_column": 1,
    }


def schema_refusals(function: StoredFunction) -> list[Refusal]:
    refusals = []
    for field in ("input_schema", "output_schema"):
        schema = getattr(function, field)
        if not schema:
            continue
        for problem in check_schema(schema):
            message = f"{problem['path'] or '/'}: {problem['message']}"
            refusals.append(build_refusal(problem["code"], message, problem["hint"], field))
        if field == "input_schema" and not refusals and schema.get("type") != "object":
            refusals.append(
                build_refusal("not_an_object", "Arguments must be an object.", 'Use {"type": "object"}.', field)
            )
    return refusals


def limit_refusals(function: StoredFunction) -> list[Refusal]:
    """Limits that exceed the maximum of this site."""
    most = {"timeout": settings.MAX_FUNCTION_TIMEOUT_S, "memory_limit": settings.MAX_FUNCTION_MEMORY_MB}
    refusals = []
    for field, limit in most.items():
        number = getattr(function, field)
        if number > limit:
            message = f"{field} is {number:g}; this site allows at most {limit:g} {LABELS[field]}."
            refusals.append(build_refusal("over_the_maximum", message, f"Write {limit:g} or less.", field))
    for name in function.allowed_imports:
        if name not in sandbox.IMPORTABLE:
            message = f"“{name}” cannot be imported in a function."
            hint = f"Remove it. {sandbox.import_hint(name)}"
            refusals.append(build_refusal("import-unknown", message, hint, "allowed_imports"))
    refusals += site_refusals(function, "allowed_imports", settings.FUNCTION_IMPORTS)
    refusals += site_refusals(function, "allowed_hosts", settings.FUNCTION_HOSTS)
    return refusals


def site_refusals(function: StoredFunction, field: str, allowed: Sequence[str]) -> list[Refusal]:
    """Names in this field that match none of the site's patterns."""
    refusals = []
    for name in getattr(function, field):
        if any(fnmatch(str(name).lower(), pattern.lower()) for pattern in allowed):
            continue
        message = f"“{name}” is not allowed on this site."
        hint = f"Remove it, or ask an administrator. Allowed: {', '.join(allowed) or 'none'}."
        refusals.append(build_refusal("not_on_this_site", message, hint, field))
    return refusals


def cache_refusals(function: StoredFunction, signature: Signature) -> list[Refusal]:
    """A cached result is returned to every user who sends the same input."""
    if not function.cache_ttl:
        return []
    if not function.is_pure:
        hint = "Set is_pure if the same input always gives the same result; otherwise set cache_ttl to 0."
        return [build_refusal("not_pure", "Only results of pure functions can be cached.", hint, "cache_ttl")]
    personal = {"ctx": signature.requires_context, "secrets": function.secrets, "hosts": function.allowed_hosts}
    used = [name for name, is_used in personal.items() if is_used]
    if not used and function.safe_mode:
        return []
    message = f"A result that depends on {' and '.join(used) or 'plain Python'} cannot be cached for other users."
    return [build_refusal("not_pure", message, "Set cache_ttl to 0.", "cache_ttl")]


def allowed_imports(function: StoredFunction) -> tuple[str, ...]:
    names = {str(name) for name in function.allowed_imports}
    return tuple(sorted(names))


def require_permissions(function: StoredFunction, before: StoredFunction | None, user: Any) -> list[dict[str, Any]]:
    """The limits that this change raises, for the audit log; each requires a permission. Raises
    Forbidden.
    """
    was_safe = before is None or before.safe_mode
    if was_safe and not function.safe_mode and not user.has_perm("functions.run_unsafe"):
        raise Forbidden(
            "Switching safe_mode off requires a permission.",
            code="needs_permission",
            hint="Ask an administrator for functions.run_unsafe.",
        )
    raised = []
    for field, free in FREE_LIMITS.items():
        # What was allowed before stays allowed.
        was = free
        if before:
            was = max(free, getattr(before, field))
        now = getattr(function, field)
        if now > was:
            raised.append({"limit": field, "from": was, "to": now})
    if raised and not user.has_perm("functions.raise_limits"):
        first = raised[0]
        message = f"Raising {first['limit']} above {first['from']:g} {LABELS[first['limit']]} requires a permission."
        raise Forbidden(
            message,
            code="needs_permission",
            hint="Stay within the limit, or ask an administrator for functions.raise_limits.",
            details=raised,
        )
    return raised


def list_top_functions(source: str) -> tuple[str, ...]:
    """The top-level functions of the source; empty if it cannot be parsed."""
    try:
        return read_signature(source).functions
    except SourceProblem:
        return ()
