"""Chains survive: two workers at once, workers that vanish at every state, kill -9 of the real thing."""

import os
import signal
import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from agents.models import Tool
from agents.tools import ToolResult
from runs.chains import advance as chains
from runs.events import record as events
from runs.intake import messages as intake
from runs.models import Run, RunEvent, StepRun, ToolCallRecord
from runs.queue import carriers, claims, fair_queue
from runs.worker import recovery
from runs.worker.dispatcher import Work
from tests.live import Live, copy_prepared, data_directory, database_of, wait_for
from tests.worker import Silent

V1 = "/api/v1"


class Vanished(BaseException):
    """The worker dies here: nothing after this line of it happens."""


def vanish(call, context):
    raise Vanished


def ok(call, context):
    return ToolResult(ok=True, value=call.arguments.get("n", call.name))


def start(worker, chain, input=None):
    with worker.capture(execute=True):
        return intake.start_chain(user=chain.owner, chain=chain, input=input)


def die_at_work(worker):
    """Take the next message with a worker that vanishes in a tool call."""
    with pytest.raises(Vanished):
        worker.work(limit=500)


def leases_run_out(worker, run):
    """Time passes: recovery finds what nobody holds any more."""
    past = timezone.now() - timedelta(seconds=1)
    StepRun.objects.filter(run=run, lease_expires_at__isnull=False).update(lease_expires_at=past)
    Run.objects.filter(pk=run.pk).exclude(lease_expires_at=None).update(lease_expires_at=past)
    Run.objects.filter(pk=run.pk, status="waiting").update(wake_at=past)
    with worker.capture(execute=True):
        recovery.tick_recovery()
    worker.work(limit=500)
    return Run.objects.get(pk=run.pk)


@pytest.mark.parametrize(
    ("effect", "status", "calls"), [("read", "succeeded", 3), ("idempotent", "succeeded", 3), ("write", "failed", 2)]
)
def test_a_worker_that_vanished_in_a_call_is_not_repeated_silently(
    make_chain, make_tool, worker, functions, effect, status, calls
):
    make_tool("two", input_schema={"type": "object"}, effect=effect)
    chain = make_chain({"key": "a", "tool": "one"}, {"key": "b", "tool": "two", "needs": ["a"]})
    functions.answers += [ok, vanish, ok]
    run = start(worker, chain)
    die_at_work(worker)
    run = leases_run_out(worker, run)
    assert run.status == status, run.error
    assert len(functions.asked) == calls
    assert len({call_id for name, _, call_id in functions.asked if name == "two"}) == 1
    if status == "failed":
        assert run.error["code"] == "outcome_unknown"


def test_a_vanished_branch_is_taken_up_while_its_sibling_is_done(make_chain, worker, functions):
    Tool.objects.all()
    chain = make_chain(
        {"key": "a", "tool": "one"}, {"key": "b", "tool": "two"}, {"key": "c", "tool": "last", "needs": ["a", "b"]}
    )
    Tool.objects.update(effect="read")
    for tool in Tool.objects.all():
        tool.freeze_hash()
        tool.save()
    functions.answers += [vanish, ok, ok, ok]
    run = start(worker, chain)
    die_at_work(worker)
    run = leases_run_out(worker, run)
    assert run.status == "succeeded", run.error
    assert sorted(name for name, *_ in functions.asked) == ["last", "one", "one", "two"]


def test_items_of_a_vanished_worker_are_taken_up(make_chain, worker, functions):
    chain = make_chain(
        {"key": "each", "tool": "one", "for_each": "input.n", "input": {"n": "item"}, "on_error": "continue"}
    )
    Tool.objects.update(effect="idempotent")
    functions.answers += [ok, ok, vanish, *[ok] * 20]
    run = start(worker, chain, {"n": list(range(12))})
    die_at_work(worker)
    worker.sent.clear()
    run = leases_run_out(worker, run)
    assert (run.status, run.output) == ("succeeded", list(range(12))), run.error
    assert ToolCallRecord.objects.filter(run=run).count() == 12


@pytest.mark.parametrize("items", [[], [1, 2]])
def test_a_worker_that_vanishes_as_a_step_of_many_items_ends_loses_no_event(
    make_chain, worker, functions, monkeypatch, items
):
    functions.answers.extend([ok] * len(items))
    run = start(worker, make_chain({"key": "a", "tool": "one", "for_each": "input.items"}), {"items": items})
    record_many = events.record_many

    def vanish_at_the_end(run, entries):
        if any(type == "step.finished" for type, _ in entries):
            raise Vanished
        record_many(run, entries)

    with monkeypatch.context() as patch:
        patch.setattr(events, "record_many", vanish_at_the_end)
        die_at_work(worker)
    assert leases_run_out(worker, run).status == "succeeded"
    assert list(RunEvent.objects.filter(run=run, type="step.finished").values_list("data__key", flat=True)) == ["a"]


def test_a_broker_that_lost_every_message_stops_nothing(make_chain, worker, functions):
    chain = make_chain(
        {"key": "a", "tool": "one"}, {"key": "b", "tool": "two"}, {"key": "c", "tool": "x", "for_each": "input.n"}
    )
    run = start(worker, chain, {"n": [1, 2, 3]})
    worker.work(limit=1)
    worker.sent.clear()
    for _ in range(4):
        run = leases_run_out(worker, run)
    assert run.status == "succeeded", run.error
    assert len(functions.asked) == 5


@pytest.mark.django_db(transaction=True)
def test_two_workers_on_one_run_do_each_step_once(make_chain, functions, monkeypatch):
    monkeypatch.setattr(carriers, "current", Silent)
    functions.answers += [ok] * 50
    keys = [f"s{n}" for n in range(6)]
    chain = make_chain(*({"key": key, "tool": key} for key in keys))
    run = intake.start_chain(user=chain.owner, chain=chain, input={})
    while fair_queue.waiting_pools(["default"]):
        at_once([lambda: Work().do("default", lambda: None)] * 4)  # more often than there are rows
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    assert sorted(name for name, *_ in functions.asked) == keys


@pytest.mark.django_db(transaction=True)
def test_advance_called_twice_at_once_is_safe(make_chain, make_agent, functions, monkeypatch):
    """Two workers that both believe they hold the run: children are still started once."""
    monkeypatch.setattr(carriers, "current", Silent)
    make_agent("helper")
    chain = make_chain({"key": "a", "agent": "helper"}, {"key": "b", "agent": "helper"}, {"key": "c", "tool": "one"})
    run = intake.start_chain(user=chain.owner, chain=chain, input={})
    claimed = claims.take_run(run.pk, "worker:1")

    def advance():
        from runs.exceptions import RunWaits
        from runs.queue.leases import Lease

        mine = Run.objects.select_related("chain_version", "principal").get(pk=claimed.pk)
        try:
            chains.advance(mine, Lease(mine))
        except RunWaits:
            pass

    at_once([advance] * 3)
    assert Run.objects.filter(parent=run).count() == 2
    assert StepRun.objects.filter(run=run).count() == 3


def at_once(works):
    barrier = threading.Barrier(len(works))
    failures = []

    def go(work):
        barrier.wait()
        try:
            work()
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=go, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.live
@pytest.mark.timeout(600)
def test_kill_9_of_the_worker_in_the_middle_of_a_fan_out_loses_nothing(prepared, request):
    with data_directory() as directory:
        copy_prepared(prepared, directory)
        live = Live(directory, "--no-greeting", MUSTER_LEASE="3", **database_of(request.config))
        try:
            kill_in_the_middle(live)
        finally:
            live.stop()


def kill_in_the_middle(live):
    function = {"name": "noop", "source": "def noop(n: int) -> int:\n    return n\n", "effect": "read"}
    assert live.http.post(f"{V1}/functions/", json=function).status_code == 201
    assert live.http.post(f"{V1}/functions/noop/publish", json={}).status_code == 200
    step = {"key": "each", "tool": "noop", "for_each": "input.n", "input": {"n": "item"}}
    assert live.http.post(f"{V1}/chains/", json={"name": "many", "steps": [step]}).status_code == 201
    assert live.http.post(f"{V1}/chains/many/publish", json={}).status_code == 200
    run = live.http.post(f"{V1}/chains/many/runs", json={"input": {"n": list(range(300))}}).json()["id"]

    def done():
        rows = live.http.get(f"{V1}/runs/{run}/steps/?limit=1").json()["results"]
        return rows and rows[0]["done"]

    wait_for(lambda: (done() or 0) > 10, within=120)
    os.kill(live.programs()["worker"].pid, signal.SIGKILL)
    wait_for(
        lambda: live.http.get(f"{V1}/runs/{run}").json()["status"] not in ("queued", "running", "waiting"), within=200
    )
    ended = live.http.get(f"{V1}/runs/{run}").json()
    assert ended["status"] == "succeeded", ended["error"]
    assert ended["output"] == list(range(300))
