"""Random bytes against the host's reader, random programs against the policy."""

from __future__ import annotations

import base64
import dis
import json
import marshal
import random
import re
import socket
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.sandbox import wire
from functions.sandbox.callbacks import Callbacks
from functions.sandbox.conversation import _checked_reply
from functions.sandbox.inside import compiler, names
from functions.sandbox.limits import Limits

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("ok", "kind", "error", "printed", "result", "cut"), JSON)
    | {"ok": st.booleans(), "printed": st.text(), "kind": st.sampled_from(["error", "memory", "nothing"])},
)
PAYLOAD = st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()) | FIELDS.map(
    lambda value: json.dumps(value).encode()
)  # fmt: skip
FRAME = st.tuples(st.sampled_from([b"R", b"C", b"N", b"A", b"J", b"\0"]), PAYLOAD).map(lambda pair: wire.frame(*pair))


def read_all(data: bytes) -> None:
    """What a call does with whatever arrives: understand it, or call it hostile; nothing else."""
    ours, theirs = socket.socketpair()
    theirs.sendall(data)
    theirs.close()
    ours.setblocking(False)
    frames = wire.Frames(ours.fileno(), largest_reply=100_000, largest_call=100_000)
    callbacks = Callbacks({"f": lambda arguments: arguments}, None, Limits(max_calls=50))
    try:
        while not frames.ended:
            for kind, payload in frames.read():
                if kind == wire.REPLY:
                    reply = _checked_reply(payload, Limits())
                    json.dumps(reply, ensure_ascii=False, allow_nan=False).encode()
                elif kind == wire.CALLS:
                    answers = callbacks.serve(wire.read_json(payload))
                    assert answers is None or json.loads(answers)
                else:
                    callbacks.notice(wire.read_json(payload))
    except wire.HostileFrame:
        pass
    finally:
        callbacks.close()
        ours.close()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_hostile_or_understood(data):
    read_all(data)


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAME, max_size=4).map(b"".join))
def test_random_frames_are_hostile_or_understood(data):
    read_all(data)


@settings(max_examples=150, deadline=None)
@given(st.lists(FRAME, min_size=1, max_size=3).map(b"".join), st.data())
def test_frames_cut_or_changed_anywhere_are_hostile_or_understood(data, draw):
    position = draw.draw(st.integers(0, len(data) - 1))
    read_all(data[:position])
    changed = bytearray(data)
    changed[position] ^= draw.draw(st.integers(1, 255))
    read_all(bytes(changed))


NAMES = names.split_words("""
    x x x x y y y y self self self str str main _p é print getattr type json os __import__ __builtins__ _getattr_ eval
    open __name__ gi_frame super
""")
ATTRIBUTES = names.split_words("""
    a a a a b_ b_ b_ b_ append _c format format_map mro __class__ __globals__ __dict__ gi_frame tb_frame f_back __init__
    __subclasses__ __name__ __setattr__ cr_frame
""")
EXPRESSIONS = (
    "E.A", "N(E)", "(E + E)", "E[E]", "[E for N in E]", "(lambda N: E)", "f'{N.A}'", "(N := E)", "(await E)",
    "(yield E)", "{**E}", "(E if E else E)", "(*E,)", "getattr(E, 'A')", "E.A(E)",
)  # fmt: skip
LEAVES = ("N", "N", "1", "'t'", "None", "[]", "{}", "'__class__'")
STATEMENTS = (
    "N = E", "N.A = E", "E", "N += E", "N: E = 1", "import N", "from json import N", "import json as N", "del N",
    "global N", "nonlocal N", "return E", "raise E", "if E:B", "for N in E:B", "while E:B", "with E as N:B",
    "def N(P):B", "class N(str):B", "class N(metaclass=type):B", "class N:B", "try:Bexcept E as N:B",
    "try:Bexcept* ValueError:B", "match E:\n    case M:\n        N = E\n", "async with E as N:B", "async for N in E:B",
    "async def N(P):B", "@E\ndef N():B",
)  # fmt: skip
PARAMETERS = ("", "", "N", "*, N=1", "*N", "**N", "N, /", "N=E")
PATTERNS = ("N", "[*N]", "{**N}", "object(A=x)", "str() as N", "1 | 2", "{'a': N}")


class Programs:
    """Makes one program from a seed: valid Python most of the time, dangerous names all of the time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def program(self) -> str:
        top = "x = y = self = _p = é = os = None\n" + "".join(
            self.statement(2) for _ in range(self.random.randint(0, 2))
        )
        body = "".join(self.statement(3) for _ in range(self.random.randint(1, 4)))
        is_async = self.random.choice(("", "async "))
        return f"{top}{is_async}def main({self.filled(self.random.choice(PARAMETERS), 1)}):\n{indented(body)}"

    def statement(self, depth: int) -> str:
        choices = STATEMENTS if depth else STATEMENTS[:12]
        return self.filled(self.random.choice(choices), depth).rstrip("\n") + "\n"

    def filled(self, template: str, depth: int) -> str:
        """The template with each capital replaced by something of its kind."""
        return re.sub(
            r"(?<![A-Za-z])[ENPAM](?![A-Za-z])|B(?=except|$)", lambda found: self.part(found[0], depth), template
        )

    def part(self, kind: str, depth: int) -> str:
        if kind == "B":
            return "\n" + indented(self.statement(depth - 1))
        if kind == "E":
            return self.filled(self.random.choice(EXPRESSIONS if depth > 0 else LEAVES), depth - 1)
        choices = {"N": NAMES, "A": ATTRIBUTES, "P": PARAMETERS, "M": PATTERNS}[kind]
        chosen = self.random.choice(choices)
        return self.filled(chosen, 0) if kind in "PM" else chosen


def indented(block: str) -> str:
    return "".join(f"    {line}\n" for line in block.splitlines())


def all_code(code: types.CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_code(constant)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_ten_thousand_programs_get_a_verdict_with_a_line():
    accepted = refused = 0
    order = {"entry": "main", "imports": ["json"], "safe_mode": True, "libraries": {}, "expect": {}}
    for seed in range(10_000):
        source = Programs(seed).program()
        answer = json.loads(compiler.answer(order | {"source": source}))
        for refusal in answer["refusals"]:
            assert 1 <= refusal["line"] <= source.count("\n") + 1, source
            assert refusal["hint"], source
            assert refusal["message"], source
        if answer["refusals"]:
            refused += 1
            continue
        accepted += 1
        for code in all_code(marshal.loads(base64.b64decode(answer["bytecode"]))):
            assert_harmless(code, source)
    assert accepted > 200
    assert refused > 5000


def assert_harmless(code: types.CodeType, source: str) -> None:
    """Accepted code reads and writes no attribute that the policy forbids, and binds no reserved name."""
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR"):
            assert names.attribute_refusal(name) is None, source
            assert name not in names.RISKY_ATTRIBUTES or instruction.opname == "STORE_ATTR", source
        if instruction.opname.startswith("STORE_") and isinstance(name, str):
            assert name not in names.STOCK_HOOKS, source
