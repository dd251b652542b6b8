"""The sandbox through its public interface: results, endings told apart, limits kept."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from functions import sandbox

FAST = sandbox.Limits(timeout_s=0.3, memory_mb=64)


def test_it_calls_the_entry_with_keywords_and_returns_json():
    outcome = sandbox.execute("def main(a, b=2):\n    print('hi')\n    return {'sum': a + b}\n", {"a": 40})
    assert outcome.status == "ok"
    assert outcome.result == {"sum": 42}
    assert outcome.printed == "hi\n"
    assert outcome.cpu_ms > 0
    assert outcome.peak_kb > 1000
    assert outcome.isolation in ("full", "reduced")


def test_it_runs_another_entry_and_an_async_one():
    source = "async def helper(x):\n    return x + 1\nasync def other(x):\n    return await helper(x)\n"
    assert sandbox.execute(source, {"x": 1}, entry="other").result == 2


def test_it_names_the_line_that_raised():
    outcome = sandbox.execute("def main():\n    a = 1\n    raise ValueError('no good')\n")
    assert (outcome.status, outcome.error.type, outcome.error.message, outcome.error.line) == (
        "error", "ValueError", "no good", 3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("while True:\n        pass", "timeout"),
        ("try:\n        while True: pass\n    except BaseException:\n        return 1", "timeout"),
        ("return len(bytearray(10**10))", "memory"),
        ("x = []\n    while True:\n        x.append('a' * 100000)", "memory"),
        ("raise SystemExit(3)", "error"),
        ("return main()", "error"),
        ("return 1j", "error"),
        ("return {(1, 2): 3}", "error"),
        ("return float('nan')", "error"),
        ("x = []\n    x.append(x)\n    return x", "error"),
        ("return 'x' * 10**6", "error"),
        ("f = filter(None, [])\n    for _ in range(10**6): f = filter(None, f)\n    return list(f)", "crash"),
    ],
)
def test_every_ending_has_its_name(body, status):
    limits = sandbox.Limits(timeout_s=0.3 if status == "timeout" else 60, memory_mb=512 if status == "crash" else 64)
    outcome = sandbox.execute(f"def main():\n    {body}\n", limits=limits)
    assert outcome.status == status
    assert outcome.error.message or outcome.error.type == "SystemExit"


def test_cpu_time_is_limited_apart_from_wall_time():
    outcome = sandbox.execute(
        "def main():\n    while True:\n        pass\n", limits=sandbox.Limits(timeout_s=60, cpu_s=1)
    )
    assert (outcome.status, outcome.error.line) in (("cpu", 3), ("cpu", 2))


@pytest.mark.parametrize("body", ["while True: pass", "return 10 ** 10 ** 8", "return [0] * 3 and sum(range(10**11))"])
def test_a_timeout_is_kept_within_the_grace(body):
    sandbox.execute("def main(): return 1")
    began = time.monotonic()
    outcome = sandbox.execute(f"def main():\n    {body}\n", limits=FAST)
    assert outcome.status == "timeout"
    assert time.monotonic() - began < 0.3 + 60  # generous: the promised 0.3 s is measured by the benchmark


def test_printed_text_is_cut_and_says_so():
    limits = sandbox.Limits(printed_kb=1)
    outcome = sandbox.execute("def main():\n    print('x' * 5000)\n    return 1\n", limits=limits)
    assert outcome.result == 1
    assert len(outcome.printed) == 1024
    assert outcome.printed_cut


def test_arguments_that_are_not_json_are_refused_in_words():
    assert sandbox.execute("def main(a): return a", {"a": {1}}).error.type == "BadArguments"
    assert sandbox.execute("def main(a): return a", {"a": "x" * 2_000_000}).error.type == "BadArguments"


def test_the_environment_of_the_host_is_not_there(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "very secret")
    outcome = sandbox.execute("import os\ndef main():\n    return dict(os.environ)\n", safe_mode=False)
    assert set(outcome.result) == {"TZ", "LC_ALL", "LD_BIND_NOW"}


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        ("return open('/etc/passwd').read()", {"error"}),
        ("return os.listdir('/')", {"error"}),
        ("os.fork()", {"error"}),
        ("os.kill(os.getppid(), 9)", {"error"}),
        ("os.execv('/bin/sh', ['sh'])", {"violation"}),
        ("import socket; socket.socket()", {"violation", "error"}),
        ("os.write(3, b'nonsense' * 100)", {"violation"}),
        ("os._exit(0)", {"crash"}),
        ("os.abort()", {"crash"}),
    ],
)
def test_with_the_language_layer_off_the_kernel_holds(body, statuses):
    outcome = sandbox.execute(f"import os\ndef main():\n    {body}\n", safe_mode=False)
    assert outcome.status in statuses
    assert sandbox.execute("def main(): return 1").result == 1


def test_a_function_calls_what_it_was_granted_and_nothing_else():
    source = "def main(ctx, n):\n    return [ctx.call('double', n=n), ctx.run_id]\n"
    grants = {"double": lambda arguments: arguments["n"] * 2}
    outcome = sandbox.execute(source, {"n": 4}, context={"run_id": "r1"}, grants=grants)
    assert outcome.result == [8, "r1"]
    refused = sandbox.execute(source, {"n": 4}, context={"run_id": "r1"}, grants={"other": len})
    assert refused.status == "error"
    assert "not granted" in refused.error.message


def test_what_json_cannot_hold_fails_in_the_function_that_sends_it():
    source = (
        "def main(ctx):\n    try:\n        ctx.call('f', x={value})\n    except {error} as e:\n        return str(e)\n"
    )
    for value, error in (("float('nan')", "ValueError"), ("{1}", "TypeError")):
        outcome = sandbox.execute(source.format(value=value, error=error), grants={"f": dict})
        assert "JSON" in outcome.result


def test_gather_runs_its_calls_at_once_in_the_host():
    together = threading.Barrier(5, timeout=60)
    source = (
        "import asyncio\n"
        "async def main(ctx):\n"
        "    return await asyncio.gather(*[ctx.call('meet', n=n) for n in range(5)])\n"
    )

    def meet(arguments):
        together.wait()
        return arguments["n"]

    outcome = sandbox.execute(source, allowed_imports=["asyncio"], grants={"meet": meet})
    assert outcome.result == [0, 1, 2, 3, 4]


class Diary:
    """A host with the real interface."""

    def __init__(self):
        self.lines, self.values = [], {}

    def log(self, message, level, fields):
        self.lines.append((level, message, fields))

    def progress(self, done, total, message):
        self.lines.append((done, total, message))

    def kv_get(self, key):
        return self.values.get(key)

    def kv_set(self, key, value):
        self.values[key] = value

    def http(self, request):
        return {"status": 200, "headers": {}, "text": json.dumps({"url": request["url"]}), "url": request["url"]}


def test_log_progress_values_and_http_reach_the_host():
    source = (
        "def main(ctx):\n"
        "    ctx.log('start', level='warning', part=1)\n"
        "    ctx.progress(1, 2, 'half')\n"
        "    ctx.kv_set('seen', [1])\n"
        "    return [ctx.kv_get('seen'), ctx.kv_get('none', 7), ctx.http('https://example.org').json()]\n"
    )
    diary = Diary()
    outcome = sandbox.execute(source, host=diary)
    assert outcome.result == [[1], 7, {"url": "https://example.org"}]
    assert diary.lines == [("warning", "start", {"part": 1}), (1, 2, "half")]


def test_many_threads_share_one_pool():
    results = []

    def work(number):
        outcome = sandbox.execute("def main(n): return n * n", {"n": number})
        results.append((number, outcome.result))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(n, n * n) for n in range(24)]


def test_calls_leave_no_descriptor_behind():
    sandbox.execute("def main(): return 1")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        sandbox.execute("def main(ctx): return 1", grants={"f": len})
    assert len(os.listdir("/proc/self/fd")) < before + 10  # one of each call would be twenty


@pytest.mark.parametrize("text", ["x" * (1 << 20), "é" * (1 << 19), "\U0001f600" * (1 << 18)])
def test_an_answer_of_a_megabyte_reaches_the_function(text):
    source = "def main(ctx):\n    text = ctx.call('fetch')\n    return [len(text), text[-1]]\n"
    outcome = sandbox.execute(source, context={}, grants={"fetch": lambda arguments: text})
    assert (outcome.error, outcome.result) == (None, [len(text), text[-1]])
