"""Results of calls: of functions, and of runs with the files that they made."""

from typing import Any

from functions.models import Execution
from gateway.reading import as_text
from runs.models import Artifact, Run

from .catalogue import AGENT, Target

JSON = Any
WELL = (Run.Status.SUCCEEDED, Run.Status.PARTIAL)


def text(value: str) -> dict[str, JSON]:
    return {"type": "text", "text": value}


def failure(message: str) -> dict[str, JSON]:
    """A call that failed: the model reads why."""
    return {"content": [text(message)], "isError": True}


def of_execution(target: Target, execution: Execution) -> dict[str, JSON]:
    if execution.status != "ok":
        error = execution.error or {}
        return failure(error.get("message") or str(execution.status))
    structured = target.structured(execution.result) if target.output_schema else None
    shown = {"structuredContent": structured} if structured is not None else {}
    return {"content": [text(as_text(execution.result))], **shown}


def of_run(target: Target, run: Run, end: dict[str, JSON]) -> dict[str, JSON]:
    """`end`: the data of the event run.finished."""
    links = [link(artifact.file) for artifact in Artifact.objects.shown(run, run.principal)]
    meta = {"_meta": {"muster/run": str(run.pk), "muster/status": end["status"]}}
    if end["status"] not in WELL:
        error = end.get("error") or {}
        message = error.get("message") or f"The run ended as {end['status']}."
        return {**failure(message), "content": [text(message), *links], **meta}
    reply, output = (end.get("reply") or {}).get("text"), end.get("output")
    if target.kind == AGENT:
        structured = {"reply": reply or "", "run": str(run.pk), "session": end["session"]}
        structured |= {"output": output} if target.spec.output_schema and output is not None else {}
        return {"content": [text(reply or as_text(output)), *links], "structuredContent": structured, **meta}
    found = target.structured(output) if target.output_schema else None
    shown = {"structuredContent": found} if found is not None else {}
    return {"content": [text(as_text(output)), *links], **shown, **meta}


def link(file: Any) -> dict[str, JSON]:
    return {
        "type": "resource_link", "uri": f"muster://files/{file.pk}", "name": file.name, "mimeType": file.media_type,
        "size": file.size,
    }  # fmt: skip
