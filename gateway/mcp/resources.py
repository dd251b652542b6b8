"""Resources: a person's files, among them those that runs made, the records of the runs, and functions that are
resources (`own_resources.py`).
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from agents import storage
from agents.http.pagination import read_page
from agents.models import StoredFile
from plumbing import json_values
from runs.models import Run, RunEvent
from runs.models.run import RUN_JOINS
from runs.serializers.runs import EventSerializer, RunSerializer

from . import cards, own_resources
from .content import SCHEME, contents
from .protocol import NO_RESOURCE, PARAMS, Fault, RpcRequest

JSON = Any
LARGEST = 16 << 20  # bytes of a file that is sent in one answer
MOST_EVENTS = 500
IN_LISTS = ("status", "created_at", "finished_at", "agent__name", "chain_version__chain__name")  # of runs
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


def files(rpc: RpcRequest) -> Any:
    return StoredFile.objects.visible_to(rpc.user) if rpc.may(FILES) else StoredFile.objects.none()


def runs(rpc: RpcRequest) -> Any:
    return Run.objects.visible_to(rpc.user).select_related(*RUN_JOINS) if rpc.may(RUNS) else Run.objects.none()


def templates(rpc: RpcRequest) -> list[dict[str, JSON]]:
    own = [one.described() for one in own_resources.list_readable_sources(rpc) if one.is_template]
    ours = [one for one in TEMPLATES if rpc.may(one["scope"])]
    return [{name: value for name, value in one.items() if name != "scope"} for one in ours] + own


def build_resource_page(rpc: RpcRequest, after: str | None, size: int) -> tuple[list[dict[str, JSON]], str | None]:
    """Files, then runs that no other run started, each newest first; and the place where the page ends.

    Before them, on the first page, functions that are resources.
    """
    own = [] if after else [one.described() for one in own_resources.list_readable_sources(rpc) if not one.is_template]
    section, _, last = (after or "files:").partition(":")
    if section not in ("files", "runs") or (last and parse_resource_id(last) is None):
        raise Fault(PARAMS, "Invalid cursor")
    entries: list[tuple[str, dict[str, JSON]]] = []
    if section == "files":
        entries += [(f"files:{row.pk}", file_json(row)) for row in below(files(rpc), last)[: size + 1]]
        last = ""
    if len(entries) <= size:
        rows = below(runs(rpc).filter(parent=None), last).select_related(None)
        rows = rows.select_related("agent", "chain_version__chain").only(*IN_LISTS)[: size + 1 - len(entries)]
        entries += [(f"runs:{row.pk}", run_json(row)) for row in rows]
    return own + [entry for _, entry in entries[:size]], entries[size - 1][0] if len(entries) > size else None


def newest(rpc: RpcRequest) -> list[JSON]:
    """What has changed when there is another file or run."""
    rows = files(rpc), runs(rpc).filter(parent=None)
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


def read_mcp_resource(rpc: RpcRequest) -> dict[str, JSON]:
    """The content of a resource. Raises Fault."""
    uri = rpc.text("uri")
    entries: list[dict[str, JSON]] | None
    if uri == cards.URI:
        entries = [{"uri": uri, **cards.build_card_resource()}]
    elif not uri.startswith(SCHEME):
        entries = own_resources.read_function_resource(rpc, uri)
    else:
        content = read_ours(rpc, uri)
        entries = [{"uri": uri, **content}] if content else None
    if entries is None:
        raise refuse_missing_resource(rpc, uri)
    return {"contents": entries}


def refuse_missing_resource(rpc: RpcRequest, uri: str) -> Fault:
    return Fault(PARAMS if rpc.is_modern else NO_RESOURCE, "Resource not found", data={"uri": uri})


def read_ours(rpc: RpcRequest, uri: str) -> dict[str, JSON] | None:
    kind, _, rest = uri.removeprefix(SCHEME).partition("/")
    id, _, part = rest.partition("/")
    reader, pk = READERS.get((kind, part)), parse_resource_id(id)
    return reader(rpc, pk) if reader and pk else None


def parse_resource_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def read_file_resource(rpc: RpcRequest, pk: UUID) -> dict[str, JSON] | None:
    row = files(rpc).filter(pk=pk).first()
    if row is None:
        return None
    if row.size > LARGEST:
        raise Fault(PARAMS, f"The file has {row.size} bytes; {LARGEST} can be sent. GET /api/v1/files/{row.pk}/content")
    content = storage.read_stored_file(row)
    return None if content is None else contents(f"{SCHEME}files/{pk}", row.media_type, content)


def read_run(rpc: RpcRequest, pk: UUID) -> dict[str, JSON] | None:
    row = runs(rpc).filter(pk=pk).first()
    return build_json_contents(RunSerializer(row).data) if row else None


def read_events(rpc: RpcRequest, pk: UUID) -> dict[str, JSON] | None:
    if not runs(rpc).filter(pk=pk).exists():
        return None
    page, _ = read_page(RunEvent.objects.filter(run_id=pk).order_by("seq"), MOST_EVENTS)
    return build_json_contents(EventSerializer(page, many=True).data)


def build_json_contents(value: JSON) -> dict[str, JSON]:
    return {"mimeType": "application/json", "text": json_values.dump_json(value).decode()}


READERS: dict[tuple[str, str], Callable[[RpcRequest, UUID], dict[str, JSON] | None]] = {
    ("files", ""): read_file_resource, ("runs", ""): read_run, ("runs", "events"): read_events,
}  # fmt: skip


def list_resource_values(rpc: RpcRequest, uri: str, argument: str, begun: str) -> list[str]:
    """Ids of the newest files or runs that begin like this, or values of a function's argument. Raises Fault."""
    if (values := own_resources.find_variable_values(rpc, uri, argument, begun)) is not None:
        return values
    name = next((one["name"] for one in TEMPLATES if one["uriTemplate"] == uri), None)
    if name is None:
        raise Fault(PARAMS, "There is no such template.")
    rows = files(rpc) if name == "file" else runs(rpc)
    ids = map(str, rows.order_by("-pk").values_list("pk", flat=True)[:1000])
    return [id for id in ids if id.startswith(begun.lower())]
