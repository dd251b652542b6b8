"""The key-value store of a run, bounded in bytes for the run and for the person it runs for."""

import json
from typing import Any

from django.db.models import Count, Q, Sum

from functions.host import check_room
from runs.models import Run, RunValue, ToolCallRecord

MAX_VALUES_OF_PERSON = 64 << 20  # bytes, of all runs that have not ended


class RunValues:
    """The run's key-value store as the function of one call sees it. A value keeps the mark of who set it."""

    def __init__(self, run: Run, record: ToolCallRecord) -> None:
        self.run = run
        self.record = record

    def get(self, key: str) -> Any:
        row = RunValue.objects.filter(run=self.run, key=key).first()
        if row is not None and row.untrusted:
            self.record.untrusted = True
        return row.value if row else None

    def set(self, key: str, value: Any) -> None:
        """Store a JSON value. Raises ValueError if the values of the run or of the user are too
        many.

        Two concurrent writes may both fit: the limits can be exceeded by one value per call at
        most.
        """
        size = len(json.dumps(value))
        others = RunValue.objects.filter(run__principal_id=self.run.principal_id, run__status__in=Run.LIVE)
        others = others.exclude(run=self.run, key=key)
        mine = Q(run=self.run)
        totals = others.aggregate(keys=Count("pk", filter=mine), bytes=Sum("size", filter=mine), all=Sum("size"))
        check_room(totals["keys"], totals["bytes"] or 0, size, "run")
        if (totals["all"] or 0) + size > MAX_VALUES_OF_PERSON:
            raise ValueError(f"the values of a user's runs may have {MAX_VALUES_OF_PERSON >> 20} MB of JSON in total")
        mark = self.run.has_untrusted or self.record.untrusted
        kept = {"value": value, "size": size, "untrusted": mark}
        RunValue.objects.update_or_create(run=self.run, key=key, defaults=kept)
