"""A run's status changes in one place, under a condition, together with the events that tell of it."""

import ast
from pathlib import Path

import pytest
from django.conf import settings
from django.db import transaction

from runs.events import record as events
from runs.models import Run, RunEvent

ROOT = Path(settings.BASE_DIR)
EXCEPT = [ROOT / "runs/models/run.py", ROOT / "runs/events/waiting.py"]  # the second fills in a row that it never saves


@pytest.fixture
def run(alice):
    return Run.objects.create(principal=alice)


@pytest.mark.django_db
def test_of_two_changes_with_one_condition_only_the_first_is_made(run):
    other = Run.objects.get(pk=run.pk)
    queued = {"status": Run.Status.QUEUED}
    with transaction.atomic():
        assert (
            events.change_run(run, Run.Status.RUNNING, [("run.started", {"attempt": 1})], where=queued, attempt=1) == []
        )
        assert events.change_run(other, Run.Status.WAITING, [("run.waiting", {})], where=queued) is None
    stored = Run.objects.get(pk=run.pk)
    assert (stored.status, stored.attempt, stored.last_event) == (run.status, run.attempt, run.last_event)
    assert (run.status, run.attempt, other.status) == ("running", 1, "queued")
    assert list(RunEvent.objects.values_list("seq", "type")) == [(1, "run.started")]


@pytest.mark.django_db
def test_a_run_that_has_ended_changes_no_more(run):
    assert run.change(Run.Status.FAILED) == []
    assert run.change(Run.Status.QUEUED) is None


@pytest.mark.django_db
def test_a_condition_may_be_that_a_column_is_empty(run):
    assert run.change(Run.Status.RUNNING, where={"after": None}) == []
    Run.objects.update(after=run)
    assert run.change(Run.Status.WAITING, where={"after": None}) is None


@pytest.mark.django_db
def test_an_update_of_rows_cannot_change_the_status(run):
    with pytest.raises(TypeError, match=r"Run\.change"):
        Run.objects.filter(pk=run.pk).update(status="running")


def test_nothing_else_writes_the_status_of_a_run():
    """`update` of the manager refuses; what would go round it is found in the source."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for app in (
            "runs",
            "gateway",
            "registry",
            "devices",
            "config",
            "functions",
            "connectors",
            "knowledge",
            "agents",
        )
        for path in sorted((ROOT / app).rglob("*.py"))
        if "migrations" not in path.parts and path not in EXCEPT
        for node in ast.walk(ast.parse(path.read_text()))
        if goes_round(node)
    ]
    assert not found, f"these change the status of a run by themselves; use Run.change: {found}"


def goes_round(node):
    """`run.status = …`, `Run._base_manager`, and `values={"status": …}` of a statement about runs."""
    if isinstance(node, ast.Assign):
        targets = [one for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Attribute)]
        return any(one.attr == "status" and ast.unparse(one.value) in ("run", "self.run", "child") for one in targets)
    if isinstance(node, ast.Attribute):
        return node.attr in ("_base_manager", "_raw_delete") and ast.unparse(node.value) == "Run"
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
        "take_numbers",
        "record_events_and_change",
    ):
        return any(one.arg == "values" and "status" in ast.unparse(one.value) for one in node.keywords)
    return False
