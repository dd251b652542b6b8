"""A run's key-value store, as the functions of its calls see it."""

from typing import Any

from runs.models import Run, RunValue, ToolCallRecord


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
        mark = self.run.has_untrusted or self.record.untrusted
        RunValue.objects.update_or_create(run=self.run, key=key[:200], defaults={"value": value, "untrusted": mark})
