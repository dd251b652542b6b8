"""Resources: a person's files, among them those that runs made, the records of the runs, and functions that are
resources (`own_resources.py`).
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import orjson

from agents import storage
from agents.models import StoredFile
from runs.api.messages import RUN_JOINS
from runs.api.serializers.runs import EventSerializer, RunSerializer
from runs.models import Run, RunEvent

from . import cards, own_resources
from .content import SCHEME, contents
from .protocol import NO_RESOURCE, PARAMS, Asked, Fault

JSON = Any
LARGEST = 16 << 20  # bytes of a file that is sent in one answer
MOST_EVENTS = 500
FILES, RUNS = "messages:read", "runs:read"  # the scopes
TEMPLATES = [
    {"uriTemplate": f"{SCHEME}files/{{file}}", "name": "file", "title": "A file", "scope": FILES,
     "description": "A file that you uploaded or that one of your runs made."},
    {"uriTemplate": f"{SCHEME}runs/{{run}}", "name": "run", "title": "A run", "scope": RUNS,
     "description": "The record of one of your runs: status, reply, usage.", "mimeType": "application/json"},
    {"uriTemplate": f"{SCHEME}runs/{{run}}/events", "name": "run-events", "title": "The events of a run",
     "scope": RUNS, "description": f"What happened in a run: its first {MOST_EVENTS} events.",
     "mimeType": "application/json"},
]  # fmt: skip


def files(asked: Asked) -> Any:
    return StoredFile.objects.visible_to(asked.user) if asked.may(FILES) else StoredFile.objects.none()


def runs(asked: Asked) -> Any:
    return Run.objects.visible_to(asked.user).select_related(*RUN_JOINS) if asked.may(RUNS) else Run.objects.none()


def templates(asked: Asked) -> list[dict[str, JSON]]:
    own = [one.described() for one in own_resources.listed(asked) if one.is_template]
    ours = [one for one in TEMPLATES if asked.may(one["scope"])]
    return [{name: value for name, value in one.items() if name != "scope"} for one in ours] + own


def page(asked: Asked, after: str | None, size: int) -> tuple[list[dict[str, JSON]], str | None]:
    """Files, then runs that no other run started, each newest first; and the place where the page ends.

    Before them, on the first page, functions that are resources.
    """
    own = [] if after else [one.described() for one in own_resources.listed(asked) if not one.is_template]
    section, _, last = (after or "files:").partition(":")
    if section not in ("files", "runs") or (last and id_in(last) is None):
        raise Fault(PARAMS, "Invalid cursor")
    found: list[tuple[str, dict[str, JSON]]] = []
    if section == "files":
        found += [(f"files:{row.pk}", file_json(row)) for row in below(files(asked), last)[: size + 1]]
        last = ""
    if len(found) <= size:
        rows = below(runs(asked).filter(parent=None), last)[: size + 1 - len(found)]
        found += [(f"runs:{row.pk}", run_json(row)) for row in rows]
    return own + [one for _, one in found[:size]], found[size - 1][0] if len(found) > size else None


def newest(asked: Asked) -> list[JSON]:
    """What has changed when there is another file or run."""
    rows = files(asked), runs(asked).filter(parent=None)
    return [below(one, "").values_list("pk", flat=True).first() for one in rows]


def below(rows: Any, last: str) -> Any:
    return (rows.filter(pk__lt=last) if last else rows).order_by("-pk")


def file_json(row: StoredFile) -> dict[str, JSON]:
    return {
        "uri": f"{SCHEME}files/{row.pk}", "name": row.name, "mimeType": row.media_type, "size": row.size,
        "annotations": {"lastModified": row.created_at.isoformat()},
    }  # fmt: skip


def run_json(row: Run) -> dict[str, JSON]:
    what = row.agent.name if row.agent else row.chain_version.chain.name if row.chain_version else "run"
    return {
        "uri": f"{SCHEME}runs/{row.pk}", "name": f"{what} ({row.status})", "mimeType": "application/json",
        "annotations": {"lastModified": (row.finished_at or row.created_at).isoformat()},
    }  # fmt: skip


def read(asked: Asked) -> dict[str, JSON]:
    """The content of a resource. Raises Fault."""
    uri = asked.text("uri")
    found: list[dict[str, JSON]] | None
    if uri == cards.URI:
        found = [{"uri": uri, **cards.page()}]
    elif not uri.startswith(SCHEME):
        found = own_resources.read(asked, uri)
    else:
        content = read_ours(asked, uri)
        found = [{"uri": uri, **content}] if content else None
    if found is None:
        raise missing(asked, uri)
    return {"contents": found}


def missing(asked: Asked, uri: str) -> Fault:
    return Fault(PARAMS if asked.is_modern else NO_RESOURCE, "Resource not found", data={"uri": uri})


def read_ours(asked: Asked, uri: str) -> dict[str, JSON] | None:
    kind, _, rest = uri.removeprefix(SCHEME).partition("/")
    id, _, part = rest.partition("/")
    reader, pk = READERS.get((kind, part)), id_in(id)
    return reader(asked, pk) if reader and pk else None


def id_in(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def read_file(asked: Asked, pk: UUID) -> dict[str, JSON] | None:
    row = files(asked).filter(pk=pk).first()
    if row is None:
        return None
    if row.size > LARGEST:
        raise Fault(PARAMS, f"The file has {row.size} bytes; {LARGEST} can be sent. GET /api/v1/files/{row.pk}/content")
    content = storage.read(row)
    return None if content is None else contents(f"{SCHEME}files/{pk}", row.media_type, content)


def read_run(asked: Asked, pk: UUID) -> dict[str, JSON] | None:
    row = runs(asked).filter(pk=pk).first()
    return as_json(RunSerializer(row).data) if row else None


def read_events(asked: Asked, pk: UUID) -> dict[str, JSON] | None:
    if not runs(asked).filter(pk=pk).exists():
        return None
    rows = RunEvent.objects.filter(run_id=pk).order_by("seq")[:MOST_EVENTS]
    return as_json(EventSerializer(rows, many=True).data)


def as_json(value: JSON) -> dict[str, JSON]:
    return {"mimeType": "application/json", "text": orjson.dumps(value, default=str).decode()}


READERS: dict[tuple[str, str], Callable[[Asked, UUID], dict[str, JSON] | None]] = {
    ("files", ""): read_file, ("runs", ""): read_run, ("runs", "events"): read_events,
}  # fmt: skip


def completed(asked: Asked, uri: str, argument: str, begun: str) -> list[str]:
    """Ids of the newest files or runs that begin like this, or values of a function's argument. Raises Fault."""
    if (values := own_resources.completed(asked, uri, argument, begun)) is not None:
        return values
    name = next((one["name"] for one in TEMPLATES if one["uriTemplate"] == uri), None)
    if name is None:
        raise Fault(PARAMS, "There is no such template.")
    rows = files(asked) if name == "file" else runs(asked)
    ids = map(str, rows.order_by("-pk").values_list("pk", flat=True)[:1000])
    return [id for id in ids if id.startswith(begun.lower())]
