"""Parses untrusted input in the sandbox: signatures, and the tasks of plumbing/untrusted/parse_in_child.py."""

from operator import itemgetter
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached

from agents.exceptions import Unavailable
from functions import sandbox
from functions.signature import Signature, SourceProblem
from plumbing.untrusted import parse_in_child
from plumbing.waits import run_blocking

MAX_SOURCE_BYTES = 64 * 1024


def read_apart(task: str, parts: tuple[Any, ...], owner: str | None) -> Any:
    """Run one task in a child. Raises TooMuch, Refused, Unavailable."""
    try:
        answer = run_blocking(sandbox.read, task, parts, owner)
    except sandbox.BadArguments:
        raise parse_in_child.TooMuch("it is too large or not valid JSON") from None
    except sandbox.NoChild:
        raise Unavailable(
            "The sandbox is busy.", code="busy", hint="Try again in a moment.", headers={"Retry-After": "2"}
        ) from None
    except sandbox.SandboxUnavailable as error:
        raise Unavailable(
            f"The sandbox cannot be used: {error}.", code="sandbox_unavailable", hint="Run `manage.py doctor`."
        ) from None
    if answer is None:
        raise parse_in_child.TooMuch("it needs more than 1 s of CPU time or 256 MB of memory")
    if "refused" in answer:
        raise build_refused(answer["refused"])
    return answer["value"]


def build_refused(facts: dict[str, Any]) -> parse_in_child.Refused:
    return parse_in_child.Refused(
        facts["message"],
        code=facts.get("code") or "",
        hint=facts.get("hint") or "",
        line=facts.get("line") or 1,
        column=facts.get("column") or 1,
    )


def read_signature(source: str, entry: str = "") -> Signature:
    """The signature of `entry`, or of the last top-level def. Raises SourceProblem, Unavailable."""
    answer, _ = read_in_child(source, entry)
    if isinstance(answer, SourceProblem):
        raise answer.with_traceback(None)
    return answer


@cached(LRUCache(16 << 20, itemgetter(1)), lock=Lock())
def read_in_child(source: str, entry: str) -> tuple[Signature | SourceProblem, int]:
    """The answer, and about how many bytes it takes with its source."""
    size = 2_000 + 4 * len(source)
    try:
        facts = parse_in_child.run_reader_task("signature", source, entry)
    except parse_in_child.Refused as error:
        return SourceProblem(error.code or "syntax", str(error), error.hint, error.line, error.column), size
    except parse_in_child.TooMuch:
        hint = "Split long expressions into several lines, and simplify the docstring."
        raise SourceProblem(
            "too_complex", "Parsing the source needs more than 1 s of CPU time or 256 MB of memory.", hint
        ) from None
    tuples = {name: tuple(facts[name]) for name in ("imports", "functions", "requires")}
    return Signature(**{**facts, **tuples}), size + 8 * len(str(facts))
