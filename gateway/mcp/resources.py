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
# Bytes of a file that is sent in one answer.
LARGEST = 16 << 20
MOST_EVENTS = 500
# The columns of runs that a list needs.
IN_LISTS = ("status", "created_at", "finished_at", "agent__name", "chain_version__chain__name")
# The scopes of files and of runs.
FILES, RUNS = "messages:read", "runs:read"
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
    """The person's files, if the key may read them."""
    if not rpc.may(FILES):
        return StoredFile.objects.none()
    return StoredFile.objects.visible_to(rpc.user)


def runs(rpc: RpcRequest) -> Any:
    """The person's runs, if the key may read them."""
    if not rpc.may(RUNS):
        return Run.objects.none()
    return Run.objects.visible_to(rpc.user).select_related(*RUN_JOINS)


def templates(rpc: RpcRequest) -> list[dict[str, JSON]]:
    """`resources/templates/list`: those of Muster that the key may read, and those of its functions."""
    sources = own_resources.list_readable_sources(rpc)
    rows = []
    for template in TEMPLATES:
        if rpc.may(template["scope"]):
            rows.append({name: value for name, value in template.items() if name != "scope"})
    rows += [source.described() for source in sources if source.is_template]
    return rows


def build_resource_page(rpc: RpcRequest, after: str | None, size: int) -> tuple[list[dict[str, JSON]], str | None]:
    """Files, then runs that no other run started, each newest first; and the place where the page ends.

    Before them, on the first page, functions that are resources.
    """
    page: list[dict[str, JSON]] = []
    if not after:
        sources = own_resources.list_readable_sources(rpc)
        page += [source.described() for source in sources if not source.is_template]
    section, _, last = (after or "files:").partition(":")
    if section not in ("files", "runs") or (last and parse_resource_id(last) is None):
        raise Fault(PARAMS, "Invalid cursor")
    # One more than the page holds says whether another one follows.
    entries: list[tuple[str, dict[str, JSON]]] = []
    if section == "files":
        for file in below(files(rpc), last)[: size + 1]:
            entries.append((f"files:{file.pk}", file_json(file)))
        last = ""
    room = size + 1 - len(entries)
    if room > 0:
        rows = below(runs(rpc).filter(parent=None), last).select_related(None)
        rows = rows.select_related("agent", "chain_version__chain").only(*IN_LISTS)
        for run in rows[:room]:
            entries.append((f"runs:{run.pk}", run_json(run)))
    page += [entry for _, entry in entries[:size]]
    end = entries[size - 1][0] if len(entries) > size else None
    return page, end


def newest(rpc: RpcRequest) -> list[JSON]:
    """What has changed when there is another file or run."""
    file_ids = below(files(rpc), "").values_list("pk", flat=True)
    run_ids = below(runs(rpc).filter(parent=None), "").values_list("pk", flat=True)
    return [file_ids.first(), run_ids.first()]


def below(rows: Any, last: str) -> Any:
    """The rows after this one, newest first; all of them after none."""
    if last:
        rows = rows.filter(pk__lt=last)
    return rows.order_by("-pk")


def file_json(row: StoredFile) -> dict[str, JSON]:
    return {
        "uri": f"{SCHEME}files/{row.pk}",
        "name": row.name,
        "mimeType": row.media_type,
        "size": row.size,
        "annotations": {"lastModified": row.created_at.isoformat()},
    }


def run_json(row: Run) -> dict[str, JSON]:
    name = "run"
    if row.agent:
        name = row.agent.name
    elif row.chain_version:
        name = row.chain_version.chain.name
    changed_at = row.finished_at or row.created_at
    return {
        "uri": f"{SCHEME}runs/{row.pk}",
        "name": f"{name} ({row.status})",
        "mimeType": "application/json",
        "annotations": {"lastModified": changed_at.isoformat()},
    }


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
    code = PARAMS if rpc.is_modern else NO_RESOURCE
    return Fault(code, "Resource not found", data={"uri": uri})


def read_ours(rpc: RpcRequest, uri: str) -> dict[str, JSON] | None:
    """The content at an address of Muster, or None."""
    kind, _, rest = uri.removeprefix(SCHEME).partition("/")
    id, _, part = rest.partition("/")
    reader = READERS.get((kind, part))
    pk = parse_resource_id(id)
    if reader is None or pk is None:
        return None
    return reader(rpc, pk)


def parse_resource_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def read_file_resource(rpc: RpcRequest, pk: UUID) -> dict[str, JSON] | None:
    """The content of a file of this person; None if there is none. Raises Fault for a file that is too large."""
    row = files(rpc).filter(pk=pk).first()
    if row is None:
        return None
    # The protocol has no pages for one file.
    if row.size > LARGEST:
        raise Fault(PARAMS, f"The file has {row.size} bytes; {LARGEST} can be sent. GET /api/v1/files/{row.pk}/content")
    content = storage.read_stored_file(row)
    if content is None:
        return None
    return contents(f"{SCHEME}files/{pk}", row.media_type, content)


def read_run(rpc: RpcRequest, pk: UUID) -> dict[str, JSON] | None:
    row = runs(rpc).filter(pk=pk).first()
    if row is None:
        return None
    return build_json_contents(RunSerializer(row).data)


def read_events(rpc: RpcRequest, pk: UUID) -> dict[str, JSON] | None:
    if not runs(rpc).filter(pk=pk).exists():
        return None
    events = RunEvent.objects.filter(run_id=pk).order_by("seq")
    page, _ = read_page(events, MOST_EVENTS)
    return build_json_contents(EventSerializer(page, many=True).data)


def build_json_contents(value: JSON) -> dict[str, JSON]:
    text = json_values.dump_json(value).decode()
    return {"mimeType": "application/json", "text": text}


READERS: dict[tuple[str, str], Callable[[RpcRequest, UUID], dict[str, JSON] | None]] = {
    ("files", ""): read_file_resource, ("runs", ""): read_run, ("runs", "events"): read_events,
}  # fmt: skip


def list_resource_values(rpc: RpcRequest, uri: str, argument: str, begun: str) -> list[str]:
    """Ids of the newest files or runs that begin like this, or values of a function's argument. Raises Fault."""
    values = own_resources.find_variable_values(rpc, uri, argument, begun)
    if values is not None:
        return values
    names = [template["name"] for template in TEMPLATES if template["uriTemplate"] == uri]
    if not names:
        raise Fault(PARAMS, "There is no such template.")
    rows = files(rpc) if names == ["file"] else runs(rpc)
    ids = [str(pk) for pk in rows.order_by("-pk").values_list("pk", flat=True)[:1000]]
    return [id for id in ids if id.startswith(begun.lower())]
