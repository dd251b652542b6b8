"""Stored tests, and replay: the results of another version for recorded inputs."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from django.utils.translation import gettext_noop as _

from agents.exceptions import MusterError
from agents.schema import hash_json, validate
from functions import sandbox
from functions.execution import Caller, Ready, check_arguments, run_in_sandbox
from functions.host import Host
from functions.models import Execution, FunctionTest, StoredFunction
from plumbing.untrusted import parse_in_child

AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one test; `reason` explains a failure."""

    test: str
    ok: bool
    reason: str = ""
    status: str = ""
    result: Any = None
    error: dict[str, Any] | None = None
    wall_ms: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_tests(version: Ready, tests: Iterable[FunctionTest], user: Any) -> list[Verdict]:
    """Run each test in its own sandbox child, a few at a time, within this user's share of the
    sandbox.

    There is no run and there are no callbacks; nothing is stored.
    """
    tests = list(tests)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="function-test") as pool:
        return list(pool.map(lambda test: run_test(version, test, user), tests))


def run_test(version: Ready, test: FunctionTest, user: Any) -> Verdict:
    try:
        with parse_in_child.count_user_reading(person_id(user)):
            arguments = check_arguments(version.spec, test.arguments)
            outcome = run_in_sandbox(version, arguments, alone(user))
    except MusterError as error:
        refusal = sandbox.FunctionError("InvalidArguments", format_error(error))
        outcome = sandbox.Outcome(status="refused", error=refusal)
    failure = None
    if outcome.error:
        failure = outcome.error.as_dict()
    reason = why_not(test, outcome)
    return Verdict(test.name, not reason, reason, outcome.status, outcome.result, failure, outcome.wall_ms)


def alone(user: Any) -> Caller:
    return Caller(user_id=person_id(user), host=Host())


def person_id(user: Any) -> Any:
    """The user's id; None for the system itself, which publishes a site's initial functions."""
    return getattr(user, "pk", None)


def format_error(error: MusterError) -> str:
    texts = [str(error)]
    for detail in error.details[:3]:
        texts.append(str(detail.get("message", "")))
    return "; ".join(texts)


def why_not(test: FunctionTest, outcome: sandbox.Outcome) -> str:
    """Why the outcome differs from the test's expectation; empty if it does not."""
    if test.expects == FunctionTest.Expects.ERROR:
        return why_other_error(test.expected, outcome)
    if not outcome.ok:
        error = outcome.error
        if error is None:
            return _("it ended in %(status)s") % {"status": outcome.status}
        words = {"status": outcome.status, "type": error.type, "message": error.message}
        return _("it ended in %(status)s: %(type)s: %(message)s") % words
    if test.expects == FunctionTest.Expects.SCHEMA:
        problems = validate(test.expected or {}, outcome.result)
        return "; ".join(f"{problem['path'] or 'result'}: {problem['message']}" for problem in problems[:3])
    return difference(test.expected, outcome.result, test.tolerance)


def why_other_error(expected: Any, outcome: sandbox.Outcome) -> str:
    """Compare the error. `expected` is an error type (or a status such as timeout), or {"type",
    "message"} with a part of the message.
    """
    if outcome.ok:
        return _("it returned a result, but an error was expected")
    rule = expected if isinstance(expected, dict) else {"type": expected}
    error = outcome.error or sandbox.FunctionError(outcome.status, "")
    if rule.get("type") and rule["type"] not in (error.type, outcome.status):
        words = {"type": error.type, "wanted": rule["type"], "message": error.message}
        return _("it ended in %(type)s instead of %(wanted)s: %(message)s") % words
    if rule.get("message") and rule["message"] not in error.message:
        return _("the error message is “%(message)s”") % {"message": error.message}
    return ""


def difference(expected: Any, got: Any, tolerance: float, path: str = "result") -> str:
    """The first place where two values differ by more than the tolerance; empty if there is none."""
    if is_number(expected) and is_number(got):
        is_same = abs(expected - got) <= tolerance
        return "" if is_same else other_value(path, got, expected)
    if type(expected) is not type(got):
        return other_value(path, got, expected)
    if isinstance(expected, dict):
        if expected.keys() != got.keys():
            keys = {"path": path, "got": sorted(got), "expected": sorted(expected)}
            return _("%(path)s has the keys %(got)s, not %(expected)s") % keys
        for key, value in expected.items():
            text = difference(value, got[key], tolerance, f"{path}.{key}")
            if text:
                return text
        return ""
    if isinstance(expected, list):
        if len(expected) != len(got):
            numbers = {"path": path, "got": len(got), "expected": len(expected)}
            return _("%(path)s has %(got)s items, not %(expected)s") % numbers
        for number, (expected_item, item) in enumerate(zip(expected, got, strict=True)):
            text = difference(expected_item, item, tolerance, f"{path}[{number}]")
            if text:
                return text
        return ""
    if expected == got:
        return ""
    return other_value(path, got, expected)


def other_value(path: str, got: Any, expected: Any) -> str:
    words = {"path": path, "got": format_short_value(got), "expected": format_short_value(expected)}
    return _("%(path)s is %(got)s, but %(expected)s was expected") % words


def is_number(value: Any) -> bool:
    # True is an int in Python.
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_short_value(value: Any) -> str:
    text = repr(value)
    if len(text) > 120:
        text = f"{text[:117]}…"
    return text


def build_test(execution: Execution, name: str) -> FunctionTest:
    """An unsaved test that expects the result of this execution."""
    test = FunctionTest(name=name, arguments=execution.arguments)
    test.function_id = execution.function_id  # type: ignore[assignment]  # null only for a deleted function's history
    if execution.status == "ok":
        test.expects = FunctionTest.Expects.VALUE
        test.expected = execution.result
        # Sums of floats may differ in their last digits.
        test.tolerance = 1e-9
    else:
        error = execution.error or {}
        test.expects = FunctionTest.Expects.ERROR
        test.expected = error.get("type") or execution.status
    return test


def replay(function: StoredFunction, version: Ready, user: Any, limit: int) -> dict[str, Any]:
    """Run this user's most recent different inputs against a version; callbacks and ctx.http are
    not available.

    Returns {"version", "replayed", "same", "differing": [{execution, arguments, before, after,
    reason}]}.
    """
    inputs = recent_inputs(function, user, limit)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="function-replay") as pool:
        answers = list(pool.map(lambda execution: replay_execution(version, execution, user), inputs))
    # None stands for the same result.
    differing = [answer for answer in answers if answer]
    same = len(inputs) - len(differing)
    return {"version": version.number, "replayed": len(inputs), "same": same, "differing": differing}


def recent_inputs(function: StoredFunction, user: Any, limit: int) -> list[Execution]:
    # How these ended says nothing about the function.
    rows = Execution.objects.visible_to(user).filter(function=function).exclude(status__in=["busy", "cancelled"])
    different: dict[str, Execution] = {}
    for execution in rows.order_by("-id")[: limit * 5]:
        different.setdefault(hash_json(execution.arguments), execution)
        if len(different) == limit:
            break
    return list(different.values())


def replay_execution(version: Ready, execution: Execution, user: Any) -> dict[str, Any] | None:
    test = build_test(execution, str(execution.pk))
    verdict = run_test(version, test, user)
    if verdict.ok:
        return None
    before = {"status": execution.status, "result": execution.result, "error": execution.error}
    after = {"status": verdict.status, "result": verdict.result, "error": verdict.error}
    return {
        "execution": str(execution.pk),
        "arguments": execution.arguments,
        "before": before,
        "after": after,
        "reason": verdict.reason,
    }
