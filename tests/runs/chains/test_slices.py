"""How slots share the items of a for_each: alone, beside another chain, with calls that wait."""

from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Tool
from agents.tools import CallPending, ToolResult
from devices.models import DeviceCall
from registry import toolsets
from runs.chains import slices
from runs.chains.slices import Crew
from runs.intake import messages as intake
from runs.models import Run, StepRun, ToolCallRecord
from runs.queue import endings

EACH = {"key": "each", "for_each": "input.n", "input": {"n": "item"}}


def begin(worker, chain, items):
    with worker.capture(execute=True):
        return intake.start_chain(user=chain.owner, chain=chain, input={"n": list(range(items))})


def test_the_first_item_goes_alone_and_quick_ones_by_the_batch():
    crew = Crew(most=64)
    sizes = []
    for _ in range(4):
        sizes.append(crew.size)
        crew.learn(crew.size, 0.001 * crew.size, [0.001] * crew.size)
    assert sizes == [1, 4, 16, 64]
    crew.learn(64, 64.0, [1.0] * 64)
    assert crew.size == 1


def test_slots_stay_while_calls_are_slow_and_leave_when_they_are_quick():
    crew = Crew(most=64)
    for _ in range(8):
        crew.join()
    crew.learn(1, 2.0, [2.0])
    assert not crew.spare()
    crew.learn(1, 0.001, [0.001])
    assert [crew.spare() for _ in range(8)] == [True] * 6 + [False] * 2
    assert crew.at_work == 2


def test_calls_that_must_not_be_repeated_are_recorded_few_at_a_time(make_chain, run_chain, functions):
    in_doubt = []

    def count_open(call, context):
        open_calls = ToolCallRecord.objects.filter(run=context.run_id, outcome="", attempt__gt=0)
        in_doubt.append(open_calls.count())
        return ToolResult(ok=True, value=1)

    functions.answers += [count_open] * 100
    chain = make_chain({**EACH, "tool": "one"})
    Tool.objects.update(effect="write")
    Tool.objects.get(name="one").freeze_hash()
    assert run_chain(chain, {"n": list(range(100))}).status == "succeeded"
    assert max(in_doubt) <= slices.UNSURE_BATCH


@pytest.fixture
def one_batch_a_turn(monkeypatch):
    """However long it takes: a machine that stalls makes no batch smaller."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    monkeypatch.setattr(slices, "MOMENT_S", 1e6)


def test_two_chains_side_by_side_move_on_alike(make_chain, worker, functions, one_batch_a_turn):
    first = make_chain({**EACH, "tool": "one"}, name="first")
    second = make_chain({**EACH, "tool": "two"}, name="second")
    runs = [begin(worker, first, 200), begin(worker, second, 200)]
    while any(not Run.objects.get(pk=run.pk).is_done for run in runs):
        worker.work(limit=1)
        asked = Counter(name for name, *_ in functions.asked)
        if max(asked.values(), default=0) == 200:
            break
    assert min(asked["one"], asked["two"]) > 100
    worker.work(limit=1000)
    assert [Run.objects.get(pk=run.pk).status for run in runs] == ["succeeded", "succeeded"]
    assert len(functions.asked) == 400


class Away:
    """A device that is away, then back: its calls stay open until then."""

    def __init__(self):
        self.asked = []

    def call(self, tool, call, context):
        self.asked.append(call.id)
        deadline = timezone.now() + timedelta(days=1)
        row, _ = DeviceCall.objects.get_or_create(
            pk=call.id, defaults={"owner_id": context.user_id, "tool": tool.name, "deadline": deadline}
        )
        if row.finished_at is None:
            raise CallPending("device", until=deadline)
        return ToolResult(ok=True, value=call.arguments["n"] * 2)

    def answer_all(self):
        DeviceCall.objects.filter(finished_at=None).update(finished_at=timezone.now(), state="done")


@pytest.fixture
def device(monkeypatch):
    away = Away()
    monkeypatch.setitem(toolsets.TOOLSETS, "device", away)
    return away


def test_items_wait_for_a_device_no_more_than_may_be_at_work(make_chain, make_tool, worker, device):
    make_tool("read_file", kind="device", input_schema={"type": "object"})
    chain = make_chain({**EACH, "tool": "read_file", "max_parallel": 3})
    run = begin(worker, chain, 10)
    worker.work(limit=500)
    run.refresh_from_db()
    assert (run.status, StepRun.objects.filter(run=run, status="waiting").count()) == ("waiting", 3)
    with worker.capture(execute=True):
        endings.wake(run.pk, waiting_for="device")  # some other call was answered: these three are not asked again
    worker.work(limit=500)
    assert len(device.asked) == 3
    for _ in range(4):
        device.answer_all()
        with worker.capture(execute=True):
            endings.wake(run.pk, waiting_for="device")
        worker.work(limit=500)
    run.refresh_from_db()
    assert (run.status, run.output) == ("succeeded", [n * 2 for n in range(10)]), run.error
    assert len(set(device.asked)) == ToolCallRecord.objects.filter(run=run).count() == 10
