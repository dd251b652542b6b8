"""Traps that the design of the sandbox names, each as a test."""

from __future__ import annotations

import json
import select
import time
from pathlib import Path

import pytest

from functions import sandbox
from functions.sandbox import conversation
from functions.sandbox import servers as fork_servers
from functions.sandbox.inside import modules


def run(source, *imports, **options):
    return sandbox.execute(source, allowed_imports=imports, **options)


def test_c_code_may_import_for_itself_what_the_author_may_not():
    source = "import datetime\ndef main():\n    return datetime.date(2024, 1, 2).strftime('%d.%m.')\n"
    assert run(source, "datetime").result == "02.01."
    assert run("import time\ndef main(): pass", "datetime").refusals[0].code == "import-not-allowed"


@pytest.mark.parametrize(
    "expression",
    ["'é'.encode('cp1252').hex()", "'ü.de'.encode('idna').decode()", "b'\\xff\\xfeA\\0'.decode('utf-16')",
     "unicodedata.name('é')", "str(zoneinfo.ZoneInfo('Pacific/Auckland'))",
     "hashlib.new('sha512', b'').hexdigest()[:4]",
     "hashlib.sha3_256(b'').hexdigest()[:4]", "hashlib.blake2b(b'').hexdigest()[:4]", "time.tzname[0]",
     "'\\N{GREEK SMALL LETTER ALPHA}'", "hashlib.pbkdf2_hmac('sha256', b'p', b's', 10).hex()[:4]"],
)  # fmt: skip
def test_nothing_lazy_is_missing_after_the_lock_down(expression):
    source = f"import unicodedata, zoneinfo, hashlib, time\ndef main():\n    return {expression}\n"
    outcome = run(source, "unicodedata", "zoneinfo", "hashlib", "time")
    assert outcome.ok, outcome.error
    assert outcome.result


@pytest.mark.parametrize(
    ("module", "expression"),
    [("functools", "m.singledispatch(len)([1])"), ("re", "m.match('\\N{LATIN SMALL LETTER A}', 'a')[0]"),
     ("collections", "dict(m.UserDict(a=1).copy())"), ("datetime", "str(m.datetime.strptime('2024', '%Y'))")],
)  # fmt: skip
def test_the_core_profile_alone_lacks_nothing_that_its_modules_load_late(module, expression):
    outcome = run(f"import {module} as m\ndef main():\n    return {expression}\n", module)
    assert outcome.ok, outcome.error


def test_every_exported_name_is_there_and_no_other():
    for name, exports in modules.EXPORTS.items():
        if name == "__future__":
            continue
        source = f"import {name} as m\ndef main():\n    return sorted(dir(m))\n"
        outcome = run(source, name)
        assert outcome.ok, (name, outcome.error)
        allowed = set(exports) | {part.rpartition(".")[2] for part in modules.EXPORTS if part.startswith(f"{name}.")}
        assert set(outcome.result) <= allowed, name


def test_zygotes_are_rotated_and_no_call_is_lost(pool, monkeypatch):
    monkeypatch.setattr(fork_servers, "_ROTATE_CALLS", 3)
    servers = set()
    for n in range(10):
        assert pool.execute("def main(n): return n", {"n": n}).result == n
        servers.add(pool._servers.by_profile.get("core"))
    assert len(servers) >= 3


def test_a_zygote_is_rotated_by_age_as_well(pool, monkeypatch):
    pool.execute("def main(): return 1")
    first = pool._servers.by_profile["core"]
    monkeypatch.setattr(fork_servers, "_ROTATE_S", 0)
    assert pool.execute("def main(): return 2").result == 2
    assert first.is_closed
    assert pool.execute("def main(): return 3").result == 3


def test_a_call_does_not_wait_for_another_profiles_server_to_start():
    pool = sandbox.Pool(spares=0)
    with pool._servers._start_of("extended+pandas"):  # held as long as that fork server starts
        assert pool.execute("def main(): return 1").result == 1
    pool.close()


def test_spares_are_ordered_after_the_answer_and_several_at_a_time():
    pool = sandbox.Pool(spares=4)
    source, ordered = "def main(ctx): return ctx.call('look')", []
    grants = {"look": lambda arguments: ordered.append(pool._servers.by_profile["core"]._ordered)}
    for _ in range(4):
        pool.execute(source, grants=grants)
        ordered.append(pool._servers.by_profile["core"]._ordered)
    pool.close()
    assert ordered == [0, 4, 3, 3, 2, 4, 3, 3]  # while a call runs, and after it


def test_two_children_of_one_zygote_do_not_draw_the_same_numbers():
    source = "import random, uuid\ndef main(): return [random.random(), str(uuid.uuid4())]\n"
    first, second = (run(source, "random", "uuid").result for _ in range(2))
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_an_alarm_during_the_reply_never_breaks_a_frame():
    source = "def main(n):\n    return ['x' * 50] * n\n"
    for n in (1000, 20000, 60000):
        limits = sandbox.Limits(timeout_s=0.02, output_kb=4096)
        assert run(source, arguments={"n": n}, limits=limits).status in ("ok", "timeout")


def test_every_memory_breach_is_typed_as_one():
    source = "def main(n):\n    x = []\n    while True:\n        x.append(bytearray(n))\n"
    statuses = {run(source, arguments={"n": 10 ** (n % 5 + 3)}, limits=sandbox.Limits(memory_mb=24)).status
                for n in range(40)}  # fmt: skip
    assert statuses == {"memory"}


def test_a_closed_control_socket_is_a_shutdown_not_a_crash(pool):
    pool.execute("def main(): return 1")
    server = pool._servers.by_profile["core"]
    server.order(16)
    pool.close()
    assert server._process.returncode == 0


def test_user_ids_are_real_numbers_inside():
    outcome = run(
        "import os\ndef main(): return [os.getuid(), os.geteuid(), os.getgid(), os.getpid() > 0]\n", safe_mode=False
    )
    assert -1 not in outcome.result
    assert 0 not in outcome.result[:3]
    assert outcome.result[3]


def test_threads_get_a_sentence_instead_of_a_stack_trace():
    source = "import asyncio\nasync def main():\n    return await asyncio.to_thread(len, 'x')\n"
    assert "no threads" in run(source, "asyncio").error.message


def test_class_keywords_are_refused_not_dropped():
    source = "class A(object, metaclass=type): pass\nclass B(object, **{'a': 1}): pass\ndef main(): pass\n"
    assert [refusal.code for refusal in run(source).refusals] == ["class-keyword", "class-keyword"]


def test_all_refusals_come_at_once_with_places_and_hints():
    source = "import os\nimport socket\ndef main():\n    eval('1')\n    x.__globals__\n    return undefined\n"
    refusals = sandbox.check(source)
    assert [refusal.line for refusal in refusals] == [1, 2, 4, 5, 5, 6]
    assert all(refusal.hint and refusal.column >= 1 and refusal.end_line >= refusal.line for refusal in refusals)
    assert json.dumps([refusal.as_dict() for refusal in refusals])


@pytest.mark.parametrize(
    ("source", "expectation", "code"),
    [
        ("async def main(): pass", {"is_async": False}, "async-flag"),
        ("def main(): pass", {"is_async": True}, "async-flag"),
        ("def main(): pass", {"requires_context": True}, "no-ctx"),
        ("def main(ctx): pass", {"requires_context": False}, "ctx-not-required"),
        ("def main(a): pass", {"input_schema": {"type": "object", "properties": {}}}, "signature"),
        ("def main(): pass", {"input_schema": {"type": "object", "properties": {"b": {}}}}, "signature"),
        ("def other(): pass", {}, "no-entry"),
        ("def main(a, *rest): pass", {}, "nameless-arguments"),
    ],
)
def test_the_source_is_compared_with_what_is_said_of_it(source, expectation, code):
    assert [refusal.code for refusal in sandbox.check(source, **expectation)] == [code]


def test_a_late_kill_hits_nobody_else(pool):
    server, child = pool._servers.take("core")
    child.close()
    other = pool._servers.take("core")[1]  # has the same descriptors now
    assert other.pidfd == child.pidfd
    child.kill()
    assert not select.select([other.pidfd], [], [], 0)[0]
    other.close()


def test_what_was_too_much_for_a_busy_machine_is_tried_again(pool, monkeypatch):
    source = "def main(): return 1\n"
    monkeypatch.setattr(conversation, "GRACE_S", -60)  # the compiler's time is over before it begins
    assert pool.execute(source).refusals[0].code == "compile-limit"
    monkeypatch.undo()
    assert pool.execute(source).ok


def test_a_function_that_logs_without_end_is_not_listened_to(pool):
    class Host:
        lines = 0

        def log(self, **line):
            Host.lines += 1

    outcome = pool.execute("def main(ctx):\n    for n in range(10_100): ctx.log('x')\n    return 1\n", host=Host())
    assert (outcome.result, Host.lines) == (1, 2000)


def test_the_kernel_prefers_a_functions_process_when_memory_is_short(pool):
    pool.execute("def main(): return 1")
    launcher = pool._servers.by_profile["core"]._process.pid
    assert Path(f"/proc/{launcher}/oom_score_adj").read_text() == "1000\n"


def test_the_context_is_read_only():
    for change in ("ctx.run_id = 2", "ctx.metadata['a'] = 1", "del ctx.run_id", "ctx['run_id'] = 1"):
        outcome = run(f"def main(ctx):\n    {change}\n", context={"run_id": 1, "metadata": {"a": 0}})
        assert outcome.status == "error", change
    assert run("def main(ctx): return ctx.metadata", context={"metadata": {"a": [1]}}).result == {"a": [1]}


def test_a_function_that_calls_too_often_is_told():
    source = "def main(ctx):\n    for n in range(20): ctx.call('f')\n"
    outcome = run(source, grants={"f": lambda arguments: 1}, limits=sandbox.Limits(max_calls=10))
    assert "can make at most 10 calls" in outcome.error.message


def test_a_demand_for_full_isolation_is_kept():
    pool = sandbox.Pool(without_layers=["landlock"])
    assert pool.execute("def main(): return 1", reuse="r").ok
    for reuse in (None, "r"):
        outcome = pool.execute("def main(): return 1", min_isolation="full", reuse=reuse)
        assert (outcome.status, outcome.error.type) == ("refused", "Isolation")
    pool.close()


SIDE_DOORS = {
    "format in a class pattern": "match '{0.__class__.__mro__}':\n  case str(format=f): return f(1)",
    "format by position": "class S(str): __match_args__ = ('format',)\n match S('{0.__doc__.__mro__}'):\n  case S(f): return f(1)",
    "format of super": "class S(str):\n  def f(self): return super().format(1)\n return S('{0.__class__.__mro__}').f()",
    "format of vars": "return vars(str)['format']('{0.__class__.__mro__}', 1)",
    "type of a class": "return type(int)('A', (), {})",
    "class of a class": "return int.__class__('A', (), {})",
    "class by getattr": "return getattr(int, '__class__')('A', (), {})",
    "class in a pattern": "match int:\n  case object(__class__=t): return t('A', (), {})",
    "class of an abstract class": "return type(ABC)('A', (), {})",
    "alias of type": "return type[int]('A', (), {})",
    "class method bound to a class": "return classmethod(lambda c: c).__get__(int)()('A', (), {})",
    "class method of its class": "return classmethod.__get__(classmethod(lambda c: c), int)()('A', (), {})",
    "class method of super": "class M(classmethod):\n  def f(self): return super().__get__(int)\n return M(lambda c: c).f()()('A', (), {})",
    "partial class method": "return partialmethod(classmethod(lambda c: c)).__get__(int)()('A', (), {})",
    "cached property": "c = cached_property(len)\n c.attrname = '__getattribute__'\n return c.__get__(object)((), '__class__')",
    "dispatch": "@singledispatch\n def f(x): pass\n @f.register\n def g(x: 'print(1)'): pass",
    "field names": "return dataclass(TypedDict('T', {'a=print(1)': int}))",
    "forward references": "return dataclass(NamedTuple('N', [('a', 'print(1)')]))",
}


@pytest.mark.parametrize("door", SIDE_DOORS)
def test_the_language_layer_has_no_side_door(door):
    head = "from abc import ABC\nfrom dataclasses import dataclass\nfrom typing import NamedTuple, TypedDict\n"
    head += "from functools import cached_property, partialmethod, singledispatch\n"
    outcome = run(f"{head}def main():\n {SIDE_DOORS[door]}\n", *modules.EXPORTS)
    assert (outcome.status, outcome.printed) in {("refused", ""), ("error", "")}, outcome


def test_what_honest_code_does_next_to_a_side_door_works():
    source = """
from __future__ import annotations
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Literal

@singledispatch
def kind(x) -> Literal["other"]: return "other"
@kind.register
def number(x: int | float) -> dict[str, int]: return "number"
@kind.register(list)
def many(x): return "list"

class Upper:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, one, owner=None): return getattr(one, self.name)
    def __set__(self, one, text): setattr(one, self.name, text.upper())

@dataclass(frozen=True)
class Report:
    format: str
    @cached_property
    def length(self) -> int: return len(self.format)

class Sheet:
    title = Upper()
    def bound(self): return (lambda self: self.title).__get__(self)()

def main():
    sheet = Sheet()
    sheet.title = "a"
    r = Report("pdf")
    same = type(int) is type and isinstance(r, r.__class__) and type(r) is Report
    return [kind(1), kind([]), kind(""), sheet.bound(), r.length, r.length, vars(r)["format"], r.format, same]
"""
    expected = ["number", "list", "other", "A", 3, 3, "pdf", "pdf", True]
    assert run(source, "dataclasses", "functools").result == expected


@pytest.mark.parametrize("kind", ["N", "C"])
def test_a_process_that_floods_the_host_with_frames_is_killed(pool, kind):
    """Only code that writes to the socket itself gets so far: the sandbox's own counts first."""
    row = '["log",{"message":"x"}]' if kind == "N" else '[[1,"kv_get",{"key":"x"}]]'
    source = f"""
import os, struct
def main():
    payload = {row!r}.encode()
    frame = struct.pack("<cI", {kind!r}.encode(), len(payload)) + payload
    while True:
        os.write(3, frame * 10)
"""
    began = time.thread_time()
    outcome = pool.execute(source, safe_mode=False, limits=sandbox.Limits(timeout_s=3))
    if kind == "N":
        assert (outcome.status, outcome.error.type) == ("violation", "Protocol")
        assert "too many log lines" in outcome.error.message
    else:  # it does not read its answers, so that the host stops reading its calls
        assert outcome.status in ("violation", "timeout")
    assert time.thread_time() - began < 2


def test_a_process_that_sends_megabytes_is_killed(pool):
    source = """
import os, struct
def main():
    payload = b'["log",{"message":"' + b"x" * 200_000 + b'"}]'
    while True:
        os.write(3, struct.pack("<cI", b"N", len(payload)) + payload)
"""
    outcome = pool.execute(source, safe_mode=False, limits=sandbox.Limits(timeout_s=60))
    assert (outcome.status, outcome.error.type) == ("violation", "Protocol")


@pytest.mark.parametrize(
    "body",
    ["return 7 ** 100_000", "return {'a': [10 ** 4300]}", "ctx.log('x', a=10 ** 5000)", "ctx.kv_set('x', 10 ** 5000)"],
)
def test_a_number_that_the_host_cannot_read_is_an_error_and_no_violation(body):
    source = f"import sys\ndef main(ctx):\n    sys.set_int_max_str_digits(0)\n    {body}\n"
    outcome = sandbox.execute(source, allowed_imports=("sys",), context={})
    assert (outcome.status, outcome.error.type) == ("error", "ValueError")
