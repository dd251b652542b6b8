"""Runs hostile cases in plain CPython, each in a fork with little time and memory: is it a threat at all?

    python tests/corpus/prove.py < cases.json > verdicts.json

A case that achieves nothing even here would prove nothing by being stopped in the sandbox.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from django.conf import settings

MEMORY = 300 << 20
LIFE_S = 0.3
LONG_LIFE_S = 15.0  # for those that end by themselves but first import half a framework


def prove(case: dict) -> str:
    """Why it is a threat; empty when it is none."""
    report_read, report_write = os.pipe()
    job_read, job_write = os.pipe()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(report_read)
        report_write = os.dup2(report_write, 60)
        os.dup2(job_write, 3)
        live(case, report_write)
    os.close(report_write)
    os.close(job_write)
    told = read_until(report_read, began + 2 * LONG_LIFE_S)
    arrived = read_until(job_read, began + 2 * LIFE_S) if case["kind"] == "fd3" else b""
    if arrived or told:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _, status = os.waitpid(pid, 0)
    os.close(report_read)
    os.close(job_read)
    return verdict(case, told.decode(errors="replace"), arrived, status, time.monotonic() - began)


def verdict(case: dict, told: str, arrived: bytes, status: int, took: float) -> str:
    if case["kind"] in ("steal", "twice"):
        return "stole the secret" if case["secret"] in told else ""
    if case["kind"] == "fd3":
        return "wrote to the socket" if arrived or took > LIFE_S / 2 else ""
    if told.startswith("harmless"):
        return ""
    return told[:100] or f"ended with status {status} after {took:.1f} s"


def live(case: dict, report: int) -> None:
    signal.setitimer(signal.ITIMER_REAL, LONG_LIFE_S if case["kind"] in ("steal", "twice") else LIFE_S)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    try:
        told = attempt(case)
    except MemoryError:  # what it made did not fit: whether that or the clock comes first is the machine's affair
        told = "stole nothing" if case["kind"] in ("steal", "twice", "fd3") else f"took more than {MEMORY >> 20} MB"
    except BaseException as error:
        told = f"raised {type(error).__name__}" if case["kind"] not in ("steal", "twice", "fd3") else "raised"
        if case["kind"] == "large" and len(str(error)) < 1 << 20:
            told = "harmless error"
    os.write(report, told.encode("utf-8", "replace")[:60000])
    os._exit(0)


def attempt(case: dict) -> str:
    if case["kind"] == "source":
        return compile_cost(case["source"])
    settings.configure(SECRET_KEY=case["secret"], DATABASES={"default": {"ENGINE": "", "PASSWORD": case["secret"]}})
    namespace = {"__name__": "stored_function"}
    exec(compiled := compile(case["source"], "<function>", "exec", dont_inherit=True), namespace)
    if case["kind"] == "twice":
        namespace["main"](STEP=1)
        exec(compiled, again := {"__name__": "stored_function"})
        return str(again["main"](STEP=2))
    result = namespace["main"]()
    if case["kind"] == "large":
        return "large result" if len(json.dumps(result)) > 1 << 20 else "harmless"
    if case["kind"] == "shape":
        text = json.dumps(result, ensure_ascii=False, allow_nan=False).encode().decode()
        return "forged or unstorable" if case["secret"] in text or "\\u0000" in text else "harmless"
    return f"harmless {result}" if case["kind"] in ("ends", "spend") else str(result)


def compile_cost(source: str) -> str:
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    compile(source, "<function>", "exec", dont_inherit=True)
    grown, took = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, time.process_time() - began
    if took > 0.01 or grown > 4096:
        return f"costs {took:.3f} s and {grown} kB for {len(source)} characters"
    return "harmless"


def read_until(descriptor: int, deadline: float) -> bytes:
    data = b""
    while (left := deadline - time.monotonic()) > 0 and select.select([descriptor], [], [], left)[0]:
        part = os.read(descriptor, 65536)
        if not part or len(data) > 1 << 20:
            break
        data += part
        if descriptor and data:
            break
    return data


if __name__ == "__main__":
    sys.setrecursionlimit(1000)
    with ThreadPoolExecutor(2) as threads:
        print(json.dumps(list(threads.map(prove, json.load(sys.stdin)))))
