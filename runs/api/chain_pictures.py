"""Pictures of chains and of their runs in their current state."""

from django.utils.safestring import SafeString, mark_safe

from agents.spec import ChainSpec
from plumbing.site_paths import add_site_prefix
from runs.models import Run, StepRun

from . import chain_graph
from .chain_graph import StepState


def draw_run_chain(run: Run, *, is_alone: bool = True) -> SafeString:
    """The chain of a run with the state of each step, and links to the pages of child runs."""
    assert run.chain_version is not None
    spec = run.chain_version.read_spec()
    states = load_step_states(run)
    links = find_child_links(run)
    return safe(chain_graph.draw(spec, states, links=links, is_alone=is_alone))


def of_draft(spec: ChainSpec, *, is_alone: bool = True) -> SafeString:
    picture = chain_graph.draw(spec, is_alone=is_alone)
    return safe(picture)


def safe(picture: str) -> SafeString:
    return mark_safe(picture)  # noqa: S308 (chain_graph.draw escapes every name in it; tests/runs/api/test_chain_graph.py)


def load_step_states(run: Run) -> dict[str, StepState]:
    # Inputs and outputs may be large, and are not drawn.
    rows = StepRun.objects.filter(run=run, item=-1).defer("input", "output")
    return {row.key: build_step_state(row) for row in rows}


def build_step_state(row: StepRun) -> StepState:
    took_s = None
    if row.started_at and row.finished_at:
        took_s = (row.finished_at - row.started_at).total_seconds()
    return StepState(row.status, row.total, row.done, row.failed, took_s, row.pinned)


def find_child_links(run: Run) -> dict[str, str]:
    """The page of each step's child run."""
    rows = StepRun.objects.filter(run=run, item=-1, child__isnull=False).values_list("key", "child_id")
    return {key: add_site_prefix(f"/runs/{child}/") for key, child in rows}
