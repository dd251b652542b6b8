"""What a claim and an end read to find whether another run waits behind this one."""

import pytest
from django.db import connection

from runs.models import Run
from runs.queue import claims, endings
from tests.reading import amount_read

pytestmark = pytest.mark.django_db
FEW, MANY = 50, 5_000


@pytest.fixture
def run(alice, make_agent):
    return Run.objects.create(principal=alice, agent=make_agent("plain"))


def read_beside(live, run, *, in_pairs):
    """By the claim's statement and by the end's, beside so many queued runs, of which none waits behind `run`."""
    missing = live - Run.objects.exclude(pk=run.pk).count()
    rows = [Run(principal=run.principal, agent=run.agent) for _ in range(missing)]
    for row, before in zip(rows[1::2], rows[::2], strict=False) if in_pairs else ():
        row.after = before
    Run.objects.bulk_create(rows)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    claimed, found = amount_read(lambda: claims.TAKEN.first(run=run.pk))
    assert not found.is_followed
    ended, followers = amount_read(lambda: endings.FOLLOWERS.all(run=run.pk))
    assert not followers
    return claimed, ended


@pytest.mark.parametrize("in_pairs", [False, True])
def test_live_runs_are_not_read_to_find_followers(run, in_pairs):
    """By the statistics, `after` is NULL in all rows, or has a value in half of them."""
    read_beside(FEW, run, in_pairs=in_pairs)  # what is compiled or planned at first use
    few, many = (read_beside(live, run, in_pairs=in_pairs) for live in (FEW, MANY))
    for little, much in zip(few, many, strict=True):
        assert much < little * 1.2 + 20, (few, many)


def test_a_message_that_is_cancelled_when_its_turn_comes_gets_no_place(run, alice):
    follower = Run.objects.create(principal=alice, agent=run.agent, after=run)
    [found] = endings.FOLLOWERS.all(run=run.pk)
    assert endings.finish_run(follower, "cancelled")
    endings.release_follower(found, Run.objects.filter(pk=follower.pk, after=run))
    follower.refresh_from_db()
    assert (follower.status, follower.place) == ("cancelled", None)
