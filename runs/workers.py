"""Which worker processes there are, and what each has loaded. A worker that is silent for an hour is forgotten."""

from datetime import datetime, timedelta

from django.utils import timezone

from registry import factory

from .models import Worker

FORGOTTEN = timedelta(hours=1)
MOST = 500  # hashes a row names: those used last

_reported: tuple[str, list[str]] | None = None
STARTED = timezone.now()


def report(name: str, *, runs: int, now: datetime | None = None) -> None:
    """This process is alive, with these agents in hand. The list is written only when it changed."""
    global _reported
    now = now or timezone.now()
    loaded = factory.loaded_hashes()[-MOST:]
    fields: dict[str, object] = {"seen_at": now, "runs": runs}
    if _reported != (name, loaded):
        fields["loaded"] = loaded
    if not Worker.objects.filter(name=name).update(**fields):
        Worker.objects.update_or_create(name=name, defaults={**fields, "loaded": loaded, "started_at": STARTED})
        Worker.objects.filter(seen_at__lt=now - FORGOTTEN).delete()
    _reported = (name, loaded)
