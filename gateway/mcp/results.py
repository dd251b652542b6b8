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
    error = execution.error or {}
    return str(error.get("message") or execution.status)


def of_value(target: Target, value: JSON, files: Iterable[dict[str, JSON]] = ()) -> dict[str, JSON]:
    """The result of a chain or function; one in MCP's own form is sent as it is."""
    own = content.in_their_form(value, "content")
    if own:
        return {"content": [*own, *files]}
    result: dict[str, JSON] = {"content": [text(render_result_value(value)), *files]}
    structured = target.structured(value) if target.output_schema else None
    if structured is not None:
        result["structuredContent"] = structured
    return result


def build_run_result(target: Target, run: Run, end: dict[str, JSON]) -> dict[str, JSON]:
    """`end`: the data of the event run.finished."""
    artifacts = SHOWN.all(run=run.pk, user=run.principal_id)
    files = content.of_stored(artifact.file for artifact in artifacts)
    reply = end.get("reply") or {}
    output = end.get("output")
    meta = {"muster/run": str(run.pk), "muster/status": end["status"]}
    cut = name_cut(reply.get("finish") or "")
    if cut:
        meta["muster/finish"] = cut
    if end["status"] not in WELL:
        error = end.get("error") or {}
        message = error.get("message") or f"The run ended as {end['status']}."
        return {"content": [text(message), *files], "isError": True, "_meta": meta}
    if target.kind != AGENT:
        return {**of_value(target, output, files), "_meta": meta}
    reply_text = reply.get("text")
    structured = {"reply": reply_text or "", "run": str(run.pk), "session": end["session"]}
    if target.spec.output_schema and output is not None:
        structured["output"] = output
    words = text(reply_text or render_result_value(output))
    return {"content": [words, *files], "structuredContent": structured, "_meta": meta}
