"""Results of calls: of functions, and of runs with the files that they made."""

from collections.abc import Iterable
from typing import Any

from functions.models import Execution
from gateway.reading import render_result_value
from registry.llm.answer_builder import name_cut
from runs.models import Run
from runs.models.file import SHOWN

from . import content
from .catalogue import AGENT, Target
from .content import text

JSON = Any
WELL = (Run.Status.SUCCEEDED, Run.Status.PARTIAL)


def failure(message: str) -> dict[str, JSON]:
    """A call that failed: the model reads why."""
    return {"content": [text(message)], "isError": True}


def of_execution(target: Target, execution: Execution, files: Iterable[dict[str, JSON]] = ()) -> dict[str, JSON]:
    """`files`: what the function saved, as content."""
    if execution.status != "ok":
        return failure(describe_failed_execution(execution))
    return of_value(target, execution.result, files)


def describe_failed_execution(execution: Execution) -> str:
    return str((execution.error or {}).get("message") or execution.status)


def of_value(target: Target, value: JSON, files: Iterable[dict[str, JSON]] = ()) -> dict[str, JSON]:
    """The result of a chain or function; one in MCP's own form is sent as it is."""
    if own := content.in_their_form(value, "content"):
        return {"content": [*own, *files]}
    structured = target.structured(value) if target.output_schema else None
    shown = {"structuredContent": structured} if structured is not None else {}
    return {"content": [text(render_result_value(value)), *files], **shown}


def build_run_result(target: Target, run: Run, end: dict[str, JSON]) -> dict[str, JSON]:
    """`end`: the data of the event run.finished."""
    files = content.of_stored(artifact.file for artifact in SHOWN.all(run=run.pk, user=run.principal_id))
    facts = {"muster/run": str(run.pk), "muster/status": end["status"]}
    if cut := name_cut((end.get("reply") or {}).get("finish") or ""):
        facts["muster/finish"] = cut
    meta = {"_meta": facts}
    if end["status"] not in WELL:
        error = end.get("error") or {}
        message = error.get("message") or f"The run ended as {end['status']}."
        return {**failure(message), "content": [text(message), *files], **meta}
    reply, output = (end.get("reply") or {}).get("text"), end.get("output")
    if target.kind != AGENT:
        return {**of_value(target, output, files), **meta}
    structured = {"reply": reply or "", "run": str(run.pk), "session": end["session"]}
    structured |= {"output": output} if target.spec.output_schema and output is not None else {}
    return {"content": [text(reply or render_result_value(output)), *files], "structuredContent": structured, **meta}
