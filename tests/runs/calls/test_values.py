import pytest

from runs.calls import values
from runs.calls.values import RunValues
from runs.models import Run, RunValue, ToolCallRecord


def run_of(person):
    return Run.objects.create(principal=person)


def kept(run, key, value):
    RunValues(run, ToolCallRecord()).set(key, value)


def test_a_value_comes_back_and_is_replaced(alice):
    run = run_of(alice)
    kept(run, "a", {"b": [1]})
    kept(run, "a", [2])
    assert RunValues(run, ToolCallRecord()).get("a") == [2]
    assert RunValue.objects.get().size == 3


def test_the_values_of_a_run_are_bounded_in_bytes(alice):
    run = run_of(alice)
    for _ in range(3):
        kept(run, "same key", "x" * 600_000)
    with pytest.raises(ValueError, match="values of a run can have at most 1024 kB"):
        kept(run, "another", "x" * 600_000)
    kept(run_of(alice), "another run", "x" * 600_000)


def test_the_values_of_a_run_are_bounded_in_number(alice):
    run = run_of(alice)
    RunValue.objects.bulk_create([RunValue(run=run, key=str(number), value=1, size=1) for number in range(1000)])
    with pytest.raises(ValueError, match="1000 values"):
        kept(run, "more", 1)
    kept(run, "7", 2)


def test_the_values_of_all_runs_of_a_person_are_bounded(alice, bob, monkeypatch):
    monkeypatch.setattr(values, "MAX_VALUES_OF_PERSON", 1 << 20)
    kept(run_of(alice), "a", "x" * 600_000)
    with pytest.raises(ValueError, match="a user's runs may have 1 MB"):
        kept(run_of(alice), "a", "x" * 600_000)
    kept(run_of(bob), "a", "x" * 600_000)


def test_runs_that_have_ended_do_not_count(alice, monkeypatch):
    monkeypatch.setattr(values, "MAX_VALUES_OF_PERSON", 1 << 20)
    kept(Run.objects.create(principal=alice, status=Run.Status.SUCCEEDED), "a", "x" * 600_000)
    kept(run_of(alice), "a", "x" * 600_000)
