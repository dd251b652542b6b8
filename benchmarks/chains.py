"""What chains and schedules cost: a step's CPU, 1,000 items side by side, 500 schedules due at once, the picture.

`python -m benchmarks.chains [--items 1000] [--schedules 10000] [--due 500] [--port 8160]` starts a Muster of its own
(`manage.py serve`, SQLite unless DB=postgres) in a temporary directory and works through its API and its tables.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).resolve().parent.parent
NOOP = "def noop(n: int) -> int:\n    return n\n"
V1 = "/api/v1"


def main() -> None:
    options = read_options()
    home = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    server = serve(home, options.port)
    try:
        wait_until_ready(server)
        use_database(home)
        draw_fifty()
        key = (home / "secrets" / "development_key").read_text().strip()
        api = httpx2.Client(
            base_url=f"http://127.0.0.1:{options.port}", headers={"Authorization": f"Bearer {key}"}, timeout=60
        )
        prepare(api)
        steps_in_a_row(50)
        fan_out(api, options.items)
        crowd(options.schedules, options.due)
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(home, ignore_errors=True)


def read_options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--due", type=int, default=500)
    parser.add_argument("--port", type=int, default=8160)
    return parser.parse_args()


def serve(home: Path, port: int) -> subprocess.Popen:
    command = [sys.executable, "manage.py", "serve", "--port", str(port), "--data-dir", str(home)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_until_ready(server: subprocess.Popen) -> None:
    assert server.stdout is not None
    for line in server.stdout:
        if "Ctrl-C" in line:
            threading.Thread(target=lambda: [None for _ in server.stdout], daemon=True).start()
            return
    raise SystemExit("serve did not become ready")


def use_database(home: Path) -> None:
    """This process reads and writes the same tables as the server's."""
    os.environ |= {"MUSTER_DATA_DIR": str(home), "DJANGO_SETTINGS_MODULE": "config.settings"}
    import django

    django.setup()


def prepare(api: httpx2.Client) -> None:
    """A stored no-op and a chain that calls it for each number."""
    function = {"name": "noop", "source": NOOP, "effect": "read", "reuse": "run"}
    must(api.post(f"{V1}/functions/", json=function))
    must(api.post(f"{V1}/functions/noop/publish", json={}))
    step = {"key": "each", "tool": "noop", "for_each": "input.n", "input": {"n": "item"}, "max_parallel": 8}
    must(api.post(f"{V1}/chains/", json={"name": "many", "steps": [step]}))
    must(api.post(f"{V1}/chains/many/publish", json={}))


def must(answer: httpx2.Response) -> Any:
    if answer.status_code >= 300:
        raise SystemExit(f"{answer.request.url}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


def draw_fifty() -> None:
    from agents.spec import ChainSpec, StepSpec
    from runs.api.chain_graph import StepState, draw

    needs = {n: [f"s{n - 1}", f"s{n // 2}"] if n > 1 else [] for n in range(50)}
    spec = ChainSpec(name="fifty", steps=[StepSpec(key=f"s{n}", target="t", needs=needs[n]) for n in needs])
    states = {f"s{n}": StepState("succeeded") for n in needs}
    tell("picture of 50 steps", f"{timed(lambda: draw(spec, states), 30) * 1000:.1f} ms", "≤ 50 ms")


def timed(work: Any, times: int) -> float:
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def steps_in_a_row(length: int) -> None:
    """CPU of the engine alone: the tool answers at once, in this process; every row and event is written."""
    from django.contrib.auth import get_user_model

    from agents.models import Chain, Tool, ToolGrant
    from agents.tools import ToolResult
    from registry import toolsets
    from runs.intake import messages as intake
    from runs.queue import wakeups
    from runs.worker import runner

    class Instant:
        def call(self, tool: Any, call: Any, context: Any) -> ToolResult:
            return ToolResult(ok=True, value=1)

    toolsets.TOOLSETS["builtin"] = Instant()  # type: ignore[assignment]
    wakeups.ring = lambda *_: None  # type: ignore[assignment]
    owner = get_user_model().objects.filter(is_superuser=True).first()
    tool = Tool(owner=owner, name="instant", kind="builtin", input_schema={"type": "object"}, effect="read")
    tool.freeze_hash()
    tool.save()
    chain = Chain.objects.create(owner=owner, name="row", strategy="sequential")
    steps = [{"key": f"s{n}", "tool": "instant", "input": {"n": {"value": n}}} for n in range(length)]
    chain.replace_steps(steps)
    ToolGrant.objects.create(chain=chain, tool=tool)
    chain.publish()
    spent, wall = [], []
    for _ in range(3):
        run = intake.start_chain(user=owner, chain=Chain.objects.get(pk=chain.pk), input={})
        began, cpu = time.perf_counter(), time.thread_time()
        runner.execute_run(str(run.pk))
        spent.append((time.thread_time() - cpu) / length * 1000)
        wall.append((time.perf_counter() - began) / length * 1000)
        run.refresh_from_db()
        assert run.status == "succeeded", run.error
    tell("CPU of a chain step", f"{statistics.median(spent):.1f} ms ({statistics.median(wall):.1f} ms wall)", "≤ 8 ms")


def fan_out(api: httpx2.Client, items: int) -> None:
    began = time.perf_counter()
    run = must(api.post(f"{V1}/chains/many/runs", json={"input": {"n": list(range(items))}}))
    while (now := must(api.get(f"{V1}/runs/{run['id']}")))["status"] in ("queued", "running", "waiting"):
        time.sleep(0.1)
    spent = time.perf_counter() - began
    assert now["status"] == "succeeded", now["error"]
    assert now["output"] == list(range(items)), "results are out of order"
    from runs.models import RunEvent

    moves = RunEvent.objects.filter(run=run["id"], type="chain.progress").count()
    tell(f"fan-out of {items:,} no-op calls", f"{spent:.1f} s, {moves} moves of the bar", "≤ 12 s")


def crowd(many: int, due: int) -> None:
    """Most schedules sleep; `due` of them come due in the same second, under two beats."""
    from django.contrib.auth import get_user_model
    from django.utils import timezone
    from django_celery_beat.models import CrontabSchedule

    from agents.models import Chain
    from runs.models import Schedule, ScheduleOccurrence
    from runs.schedules import tick as schedules

    owner = get_user_model().objects.filter(is_superuser=True).first()
    chain = Chain.objects.get(name="many")
    crontab = CrontabSchedule.objects.create(minute="0", hour="3", timezone="Europe/Berlin")
    later = timezone.now() + timedelta(days=1)
    common = {"owner": owner, "chain": chain, "input": {"n": []}, "crontab": crontab, "timezone": "Europe/Berlin"}
    Schedule.objects.bulk_create(
        [Schedule(name=f"s{n}", next_due_at=later, **common) for n in range(many)], batch_size=1000
    )
    moment = timezone.now().replace(microsecond=0) + timedelta(seconds=3)
    Schedule.objects.filter(name__in=[f"s{n}" for n in range(due)]).update(next_due_at=moment)
    stop = threading.Event()
    second = threading.Thread(target=lambda: beat(schedules, stop), daemon=True)
    second.start()
    started = ScheduleOccurrence.objects.filter(due_at=moment, run__isnull=False)
    until = time.monotonic() + 90
    while started.count() < due and time.monotonic() < until:
        time.sleep(0.2)
    spent = (timezone.now() - moment).total_seconds()
    stop.set()
    second.join()
    runs = started.values("run").distinct().count()
    per_schedule = ScheduleOccurrence.objects.filter(due_at=moment).values("schedule").distinct().count()
    assert ScheduleOccurrence.objects.filter(due_at=moment).count() == per_schedule, "one was started twice"
    tell(f"{due} of {many:,} schedules due at once, two beats", f"{runs} started in {spent:.1f} s", "≤ 10 s")


def beat(schedules: Any, stop: threading.Event) -> None:
    from django.db import connection

    while not stop.wait(1.0):
        schedules.tick_schedules()
    connection.close()


def tell(what: str, figure: str, promised: str) -> None:
    print(f"{what:48} {figure:>34}   {promised}", flush=True)


if __name__ == "__main__":
    main()
