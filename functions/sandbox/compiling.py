"""The orders for our own programs in a child (compiler and reader), and the validation of their
answers.
"""

from __future__ import annotations

import base64
import marshal
from functools import cache
from typing import Any

from .codecache import Compiled
from .libraries import CORE, FILES, NONE, Libraries, build_profile_name
from .limits import Limits
from .orders import encode_order
from .outcome import Refusal

COMPILER = Compiled(profile="compiler", order=b'"operation": "compile"')
COMPILE_LIMITS = Limits(timeout_s=10, cpu_s=3, memory_mb=256, output_kb=2048, printed_kb=1)
READER = Compiled(profile="reader", order=b'"operation": "read"')
READ_LIMITS = Limits(timeout_s=6, cpu_s=1, memory_mb=256, output_kb=4096, printed_kb=1)
# OpenAPI documents of 13 MB are in use (GitHub's).
DOCUMENT_LIMITS = Limits(timeout_s=10, cpu_s=2, memory_mb=384, input_kb=32 << 10, output_kb=8 << 10, printed_kb=1)
UNPACK_LIMITS = Limits(timeout_s=10, cpu_s=2, memory_mb=384, input_kb=12 << 10, output_kb=12 << 10, printed_kb=1)
_INTERPRETER = """
from inside import interpreter

def main(ctx, code, inputs):
    return interpreter.run(ctx, code, inputs)
"""
_TOO_MUCH = "compile-limit"


@cache
def interpreter(libraries: frozenset[str]) -> Compiled:
    """Our program for a child of the files profile with these libraries: the code to interpret is
    an argument of each call.
    """
    order = {
        "operation": "run",
        "entry": "main",
        "imports": [],
        "safe_mode": False,
        "is_async": False,
        "takes_ctx": True,
    }
    bytecode = marshal.dumps(compile(_INTERPRETER, "<interpreter>", "exec"))
    profile = build_profile_name(libraries, FILES)
    return Compiled((), bytecode, profile, encode_order(order)[1:-1])


def is_too_much(answer: Compiled) -> bool:
    """Whether the compiler reached its limits."""
    return bool(answer.refusals) and answer.refusals[0].code == _TOO_MUCH


def too_much(status: str) -> Compiled:
    """The refusal if the compiler did not answer."""
    hint = "Split the source into smaller functions."
    return Compiled(
        refusals=(_whole(_TOO_MUCH, f"compiling the source took too much time or memory ({status})", hint),)
    )


def unreadable(why: str) -> Compiled:
    """The refusal if the source cannot be sent."""
    refusal = _whole("syntax", f"the source cannot be read: {why}", "Send the source as text.")
    return Compiled(refusals=(refusal,))


def parse_compiled(reply: Any, question: dict[str, Any], libraries: Libraries = NONE) -> Compiled:
    """The compiler child's answer, converted to our own types. Its bytecode stays bytes and is
    never loaded here.
    """
    try:
        refusals = tuple(_refusal(row) for row in reply["refusals"])
        if refusals:
            return Compiled(refusals=refusals)
        bytecode = base64.b64decode(reply["bytecode"], validate=True)
        required = [str(name) for name in reply["requires"]]
        packages = libraries.modules_of(required)
    except (TypeError, ValueError, LookupError):
        return Compiled(refusals=(_whole(_TOO_MUCH, "the compiler's answer is not valid", "Simplify the source."),))
    profile = CORE
    if reply.get("profile") == "extended":
        profile = "extended"
    order = dict(question)
    if required:
        profile = build_profile_name(required)
        order["imports"] = [*question["imports"], *packages]
    # Whatever else the child says is not true.
    order["is_async"] = reply.get("is_async") is True
    order["takes_ctx"] = reply.get("takes_ctx") is True
    readers = reply.get("readers")
    if readers and isinstance(readers, dict):
        order["readers"] = readers
    order["operation"] = "run"
    return Compiled((), bytecode, profile, encode_order(order)[1:-1])


def _refusal(row: Any) -> Refusal:
    line = max(int(row["line"]), 1)
    column = max(int(row["column"]), 1)
    end_line = max(int(row["end_line"]), 1)
    end_column = max(int(row["end_column"]), 1)
    code = str(row["code"])
    message = str(row["message"])
    hint = str(row["hint"])
    return Refusal(code, message, hint, line, column, end_line, end_column)


def _whole(code: str, message: str, hint: str) -> Refusal:
    return Refusal(code, message, hint, 1, 1, 1, 1)
