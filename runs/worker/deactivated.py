"""Stops the runs of deactivated accounts."""

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import OuterRef, Subquery
from django.utils.translation import gettext_noop as _

from agents.models import SiteHold
from plumbing.statements import Select
from runs.exceptions import RunFinished
from runs.models import Run
from runs.queue import endings

BATCH = 500
REASON = _("The account of its user was deactivated.")


def stop_deactivated_accounts() -> int:
    """Cancel the live runs of people whose accounts were deactivated; how many. Like every cancelled run, one that is
    at work ends before its next call of a model or tool, and closes its open calls, approvals and children.
    """
    if SiteHold.current():
        return 0
    stopped = 0
    for (account,) in DEACTIVATED.all():
        for run in to_stop(account)[:BATCH]:
            stopped += cancel_deactivated_run(run)
    return stopped


def query_deactivated(_: Any) -> Any:
    """Deactivated accounts that have runs to stop. There are few, and a subquery finds a run of each in an index;
    joined, the two tables may be read from the other end, which is every run of a backlog.
    """
    accounts = get_user_model()._default_manager.filter(is_active=False).order_by()
    run = Subquery(to_stop(OuterRef("pk")).order_by().values("pk")[:1])
    return accounts.annotate(run=run).filter(run__isnull=False).values_list("pk")


def to_stop(account: Any) -> Any:
    """Parents come first: their children end with them."""
    rows = Run.objects.live().filter(principal=account, cancel_requested_at=None)
    return rows.order_by("depth", "pk")


DEACTIVATED = Select(query_deactivated)


def cancel_deactivated_run(run: Run) -> bool:
    try:
        endings.cancel_run(run, by=None, reason=REASON)
    except RunFinished:
        # Meanwhile, perhaps with its parent.
        return False
    return True
