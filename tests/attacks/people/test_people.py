"""Random people take random steps through random doors. Each seed that once found something is walked again."""

import time
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Q

from agents.http.pagination import Cursor
from agents.models import Membership, team
from gateway.a2a import operations
from plumbing.statements.queries import Statement
from runs.models import Run, approval
from tests.attacks.people.fuzzer import Hole, Walk
from tests.matrices import each, is_exhaustive

pytestmark = pytest.mark.django_db
KEPT = Path(__file__).with_name("seeds.txt").read_text().splitlines()
SEEDS = [int(line.split()[0]) for line in KEPT if line[:1].isdigit()]
SHORT, LONG = 100, 400  # steps of one walk
WITHIN_S = 60  # of CPU; a planted hole is found


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    """There is no worker that would end what is cancelled."""
    monkeypatch.setattr(operations, "CANCEL_WAIT_S", 0.01)


def walk(seed: int, steps: int) -> None:
    """One walk in a world of its own, of which nothing stays."""
    with transaction.atomic():
        try:
            Walk(seed).go(steps)
        finally:
            transaction.set_rollback(True)


@pytest.mark.parametrize("seed", SEEDS)
def test_people_may_do_what_the_model_says_and_no_more(seed):
    walk(seed, LONG if is_exhaustive() else SHORT)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)  # a minute of CPU, which a busy machine may give in ten
def test_ten_thousand_steps_of_new_people():
    """The seed depends on the day, so that each day tries other people."""
    first = int(time.time()) // 86_400 * 1_000
    for seed in range(first, first + 10_000 // LONG):
        walk(seed, LONG)


# -- planted holes ----------------------------------------------------------------------------------------------------


def open_every_team(patch: Any) -> None:
    """What a team shares is seen by people who are in none."""
    everything = Q(team__isnull=False) | Q(owner=None)
    patch.setattr(team.OwnedQuerySet, "visible_to", lambda rows, user: rows.filter(everything | Q(owner_id=user.pk)))


def let_viewers_act(patch: Any) -> None:
    """Viewers of a team use what they should only see."""
    patch.setattr(team.OwnedQuerySet, "usable_by", team.OwnedQuerySet.visible_to)
    patch.setattr(team.Owned, "may_use", lambda row, user: type(row).objects.visible_to(user).contains(row))


def forget_scopes(patch: Any) -> None:
    """A key opens what its scopes do not name."""
    patch.setattr("agents.http.authentication.find_scope", lambda request, view: None)


def show_all_runs(patch: Any) -> None:
    """Runs of other people are found by their id."""
    patch.setattr(type(Run.objects.all()), "visible_to", lambda rows, user: rows)


def decide_after_unsharing(patch: Any) -> None:
    """Others decide though the agent is shared with them no longer."""
    patch.setattr(approval, "still_shared", lambda: Q(pk__isnull=False))


def count_hidden_rows(patch: Any) -> None:
    """A page of a list says how many rows there are, with those of other people."""
    answer = Cursor.get_paginated_response

    def with_count(page: Any, data: Any) -> Any:
        response = answer(page, data)
        response.data["count"] = page.queryset_of.model._base_manager.count()
        return response

    def keep(page: Any, rows: Any, *args: Any, **more: Any) -> Any:
        page.queryset_of = rows
        return paginate(page, rows, *args, **more)

    paginate = Cursor.paginate_queryset
    patch.setattr(Cursor, "paginate_queryset", keep)
    patch.setattr(Cursor, "get_paginated_response", with_count)


def let_team_mates_delete(patch: Any) -> None:
    """Whoever may use what a team shares may also change and delete it."""
    patch.setattr(team.OwnedQuerySet, "editable_by", team.OwnedQuerySet.usable_by)


def remember_teams(patch: Any) -> None:
    """The teams of a person are kept, also when they have left one."""
    kept: dict[tuple[Any, ...], list[int]] = {}

    def find_open(user: Any, roles: Any) -> Q:
        key = (user.pk, user.date_joined, ",".join(roles))
        if key not in kept:
            mine = Membership.objects.filter(user=user.pk, role__in=key[2].split(","))
            kept[key] = list(mine.values_list("team", flat=True))
        return Q(owner_id=user.pk) | Q(owner=None, team=None) | Q(team__in=kept[key])

    patch.setattr(team, "filter_open_rows", find_open)


HOLES = [
    open_every_team, let_viewers_act, forget_scopes, show_all_runs, decide_after_unsharing, count_hidden_rows,
    let_team_mates_delete, remember_teams,
]  # fmt: skip
QUICK = (open_every_team, let_viewers_act, forget_scopes)  # to find


@pytest.mark.parametrize("plant", each(HOLES, *QUICK))
def test_a_planted_hole_is_found_within_a_minute(plant, monkeypatch):
    plant(monkeypatch)
    monkeypatch.setattr(Statement, "compiled", lambda statement, db: statement.compile(db))  # keep none with the hole
    began = time.process_time()
    found = None
    seed = 0
    while found is None and time.process_time() < began + WITHIN_S:
        seed += 1
        try:
            walk(seed, LONG)
        except Hole as hole:
            found = hole
    assert found is not None


def test_the_model_can_be_read_at_once():
    source = Path(__file__).with_name("model.py").read_text()
    rules = source[source.index("    def may(") : source.index("    def find_visible_marks(")]
    assert len([line for line in rules.splitlines() if line.strip()]) <= 50
