"""The life cycle of a stored function: check, store, test, publish, roll back, deprecate and
delete.
"""

from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext_noop as _

from agents.exceptions import Conflict, Forbidden, Invalid
from agents.models import AuditEvent
from agents.models.version import find_earlier_version, next_number
from agents.sharing import remove_unshared_uses
from functions import catalogue, checks, testing
from functions.execution import Ready
from functions.models import Execution, FunctionVersion, StoredFunction
from functions.spec import FunctionSpec

accepted: dict[str, None] = {}


def save_function(
    function: StoredFunction, *, user: Any, source: str = "", note: str = "", expected: str = "", **expectations: Any
) -> StoredFunction:
    """Check a working row and store it. Raises Invalid with one detail per problem, Forbidden for a
    raised limit.

    `expected` is the sha256 of the draft that the author edited: Conflict if the draft has changed
    since. Without it, changes that another user made during the check are still not overwritten.
    """
    before = None
    seen = ""
    if function.pk:
        before = StoredFunction.objects.filter(pk=function.pk).first()
    if before:
        seen = draft_hash(before)
        require_edit(before, user)
        if expected and expected != seen:
            raise_changed(function)
        forget_derived(function, before)
    if before is None or before.name != function.name:
        catalogue.require_free_name(function)
    raised = checks.require_permissions(function, before, user)
    refusals = checks.check_function(function, user=user, **expectations)
    refuse_function(refusals, "was not stored")
    try:
        with transaction.atomic():
            if before:
                # The check took a while; somebody may have stored the function meanwhile.
                stored = StoredFunction.objects.select_for_update().get(pk=function.pk)
                if draft_hash(stored) != seen:
                    raise_changed(function)
            function.save()
            audit_saved_function(function, before, user, source, note=note, raised=raised)
        remember_checked_source(draft_hash(function))
    except IntegrityError:
        raise Conflict(
            _("A function named “%(function)s” already exists.") % {"function": function.name},
            code="name_taken",
            hint=_("Choose another name, or change the existing function."),
        )
    return function


def audit_saved_function(
    function: StoredFunction,
    before: StoredFunction | None,
    user: Any,
    source: str,
    *,
    note: str,
    raised: list[dict[str, Any]],
) -> None:
    """What was stored, and beside it what an administrator looks for: deprecations and raised limits."""
    facts = {"sha256": draft_hash(function)}
    if note:
        facts["note"] = note
    verb = "changed" if before else "created"
    audit_function(verb, function, user, source, **facts)
    if before and before.is_deprecated != function.is_deprecated:
        verb = "deprecated" if function.is_deprecated else "undeprecated"
        audit_function(verb, function, user, source)
    for limit in raised:
        audit_function("limit_raised", function, user, source, **limit)


def require_edit(function: StoredFunction, user: Any) -> None:
    """Raises Forbidden. A superuser may change any user's functions in the admin, which shows them
    all.
    """
    if not user.is_superuser:
        function.require_edit(user)


def remember_checked_source(sha256: str) -> None:
    """Remember content that this process has checked, so that publishing need not check it again."""
    accepted[sha256] = None
    while len(accepted) > 1000:
        accepted.pop(next(iter(accepted)), None)


def forget_derived(function: StoredFunction, before: StoredFunction) -> None:
    """Derive values again that came from the old source; values set by an author are kept."""
    if function.source == before.source and function.entry == before.entry:
        return
    try:
        old = checks.read_signature(before.source, before.entry)
    except checks.SourceProblem:
        return
    if function.input_schema == old.input_schema:
        function.input_schema = {}
    if function.description == old.description:
        function.description = ""
    if function.entry == old.entry and old.entry not in checks.list_top_functions(function.source):
        function.entry = ""


def refuse_function(refusals: list[checks.Refusal], what: str) -> None:
    if not refusals:
        return
    first = refusals[0]
    hint = first["hint"]
    if first.get("field", "source") != "source":
        raise Invalid(
            f"The function {what}: {first['field']}: {first['message']}", code="refused", hint=hint, details=refusals
        )
    raise Invalid(
        f"The function {what}: line {first['line']}: {first['message']}", code="refused", hint=hint, details=refusals
    )


def draft_hash(function: StoredFunction) -> str:
    return FunctionSpec.of(function).content_hash(function.source)


def draft(function: StoredFunction) -> Ready:
    """The working row, ready to run."""
    spec = FunctionSpec.of(function)
    sha256 = spec.content_hash(function.source)
    return Ready(None, function.pk, None, function.name, sha256, function.source, spec)


def publish_function(
    function: StoredFunction,
    *,
    user: Any,
    note: str = "",
    override: bool = False,
    expected: str = "",
    source: str = "",
    is_tested: bool = False,
) -> FunctionVersion:
    """Check, test and create an immutable version. Equal content is the same version again.
    `is_tested`: the tests of this content have just passed.

    A failed test refuses publishing, unless `override` is set and the user has the permission
    publish_red. `expected` is the sha256 of the draft that the author read: Conflict if the draft
    has changed, before or while the tests ran.
    """
    require_edit(function, user)
    tested = draft_hash(function)
    if expected and expected != tested:
        raise_changed(function)
    if tested not in accepted:
        refuse_function(checks.check_function(function, user=user), "was not published")
    tests = [] if is_tested else function.tests.all()
    red = [verdict for verdict in testing.run_tests(draft(function), tests, user) if not verdict.ok]
    if red:
        require_override(function, red, override, user)
    try:
        with transaction.atomic():
            version = freeze(function, tested, user, note)
            make_version_live(function, version)
            audit_function("published", function, user, source, version=version.number, sha256=version.sha256)
            if red:
                audit_function(
                    "published_red", function, user, source, version=version.number, tests=[one.test for one in red]
                )
    except IntegrityError:
        raise_changed(function)
    return version


def require_override(function: StoredFunction, red: list[testing.Verdict], override: bool, user: Any) -> None:
    if not override:
        refuse_red(function, red)
    if not user.has_perm("functions.publish_red"):
        raise Forbidden(
            _("Publishing despite a failed test requires a permission."),
            code="needs_permission",
            hint=_("Ask an administrator for functions.publish_red."),
            details=list_test_failures(red),
        )


def refuse_red(function: StoredFunction, verdicts: list[testing.Verdict]) -> None:
    """Raises Invalid with one detail for each failed test."""
    red = [verdict for verdict in verdicts if not verdict.ok]
    if not red:
        return
    hint = _("Fix the function or its tests; the details list each failed test.")
    details = list_test_failures(red)
    if len(red) > 1:
        raise Invalid(
            f"“{function}” was not published: {len(red)} tests failed.", code="tests_failed", hint=hint, details=details
        )
    raise Invalid(f"“{function}” was not published: one test failed.", code="tests_failed", hint=hint, details=details)


def list_test_failures(red: list[testing.Verdict]) -> list[dict[str, Any]]:
    failures = []
    for verdict in red:
        message = f"{verdict.test}: {verdict.reason}"
        failures.append({"code": "test_failed", "field": "tests", "message": message, **verdict.as_dict()})
    return failures


def raise_changed(function: StoredFunction) -> None:
    raise Conflict(
        _("Another user changed “%(function)s” in the meantime.") % {"function": function},
        code="changed_meanwhile",
        hint=_("Reload it, compare the changes, then try again."),
    )


def freeze(function: StoredFunction, tested: str, user: Any, note: str) -> FunctionVersion:
    locked = StoredFunction.objects.select_for_update().get(pk=function.pk)
    if draft_hash(locked) != tested:
        raise_changed(function)
    # The same content is the same version.
    version = locked.versions.filter(sha256=tested).first()
    if version is not None:
        return version
    # The site itself is no row.
    author = user if getattr(user, "pk", None) else None
    spec = FunctionSpec.of(locked).model_dump(mode="json")
    return FunctionVersion.objects.create(
        function=locked,
        number=next_number(locked.versions),
        sha256=tested,
        source=locked.source,
        spec=spec,
        author=author,
        note=note,
    )


def make_version_live(function: StoredFunction, version: FunctionVersion) -> None:
    """Make a version the live one: update the published version and the tool that agents see."""
    catalogue.save_function_tool(function, version)
    function.published = version
    StoredFunction.objects.filter(pk=function.pk).update(published=version, updated_at=timezone.now())


def rollback_function(function: StoredFunction, number: int, *, user: Any, source: str = "") -> FunctionVersion:
    """Publish an earlier version again; the working row does not change."""
    require_edit(function, user)
    version = find_earlier_version(function, number)
    with transaction.atomic():
        make_version_live(function, version)
        audit_function("rolled_back", function, user, source, version=number, sha256=version.sha256)
    return version


def delete_function(function: StoredFunction, *, user: Any, source: str = "") -> None:
    """Delete a function that is not in use. Its executions and their function name are kept. Raises
    Conflict if it is in use.
    """
    require_edit(function, user)
    remove_unshared_uses(function)
    users = catalogue.find_function_uses(function, user)
    if users:
        names = []
        for one in users[:5]:
            name = one["name"] or "that you cannot see"
            names.append(f"{one['kind']} {name}")
        raise Conflict(
            _("“%(function)s” is in use by %(names)s.") % {"function": function, "names": ", ".join(names)},
            code="in_use",
            hint=_("Remove the grants and steps first, or deprecate it."),
            details=users,
        )
    with transaction.atomic():
        hashes = list(function.versions.values_list("sha256", flat=True))
        audit_function("deleted", function, user, source, versions=hashes)
        Execution.objects.filter(function=function).update(function=None, version=None)
        catalogue.unlist_tool(function)
        StoredFunction.objects.filter(pk=function.pk).update(published=None)
        function.versions.all().delete()
        function.delete()


def deprecate(function: StoredFunction, is_deprecated: bool, *, user: Any, source: str = "") -> None:
    """Mark the function as not recommended for new use; existing users can continue to use it."""
    require_edit(function, user)
    function.is_deprecated = is_deprecated
    with transaction.atomic():
        function.save(update_fields=["is_deprecated", "updated_at"])
        audit_function("deprecated" if is_deprecated else "undeprecated", function, user, source)


def audit_function(verb: str, function: StoredFunction, user: Any, source: str, **details: Any) -> None:
    AuditEvent.record(f"function.{verb}", function, actor=user, source=source, **details)
