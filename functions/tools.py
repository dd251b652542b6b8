"""Stored functions as tools of the runner: one tool call is one execution."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model

from agents.exceptions import Invalid, TooLarge
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec
from functions.execution import Caller, Ready, perform, ready, store_execution
from functions.host import Host
from functions.models import Execution, FunctionVersion

CODES = {
    "error": "function_error",
    "timeout": "timeout",
    "cpu": "timeout",
    "memory": "out_of_memory",
    "violation": "violation",
    "crash": "function_crashed",
    "refused": "refused",
    "busy": "busy",
    "cancelled": "cancelled",
}


class FunctionToolset:
    """Executes tools of kind function."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        version = find_called_version(tool)
        try:
            caller = build_caller(tool, version, call, context)
            execution = perform(version, call.arguments, caller)
        except (Invalid, TooLarge) as error:
            raise RetryTool(describe_invalid_arguments(error), details=error.details)
        keep = partial(store_execution, version, execution)
        return build_function_result(execution, untrusted=tool.untrusted, keep=keep)


def find_called_version(tool: ToolSpec) -> Ready:
    """The pinned version, else the version in the catalogue, so that a live agent and its tools
    match.
    """
    source = tool.source
    if tool.pinned_version and tool.pinned_version != source.get("version"):
        return find_pinned_function(source, tool.pinned_version)
    try:
        return ready(source["id"], source["sha256"])
    except (KeyError, FunctionVersion.DoesNotExist):
        raise ToolFailed(f"The function of the tool “{tool.name}” was deleted.", code="unknown_function")


def find_pinned_function(source: dict[str, Any], number: int) -> Ready:
    rows = FunctionVersion.objects.filter(function_id=source.get("function"), number=number)
    version = rows.values_list("pk", "sha256").first()
    if version is None:
        raise ToolFailed(f"The grant pins version {number}, which the function does not have.", code="unknown_version")
    return ready(*version)


def build_caller(tool: ToolSpec, version: Ready, call: ToolCall, context: ToolContext) -> Caller:
    spec = version.spec
    data: dict[str, Any] = {}
    if spec.requires_context:
        data = {
            "run": context.run_id,
            "agent": context.agent,
            "user": context.user_id,
            "session": context.session_id,
            "chain": context.chain,
            "step": context.step,
            "metadata": context.metadata,
        }
    grants: dict[str, Any] = {}
    if context.call_tool:
        for name in context.tool_names:
            # A function cannot call itself.
            if name != tool.name:
                grants[name] = callback(context, name)
    # The person is needed for secrets alone, so other functions cost no query.
    user = None
    if spec.secrets:
        user = load_person(context.user_id)
    host = Host(
        user=user,
        function=version.function_id,
        allowed_hosts=tuple(spec.allowed_hosts),
        secret_names=tuple(spec.secrets),
        emit=context.emit,
        values=context.values,
        files=context.save_file,
        call_id=call.id,
    )
    is_cancelled = None
    if context.run_id:
        is_cancelled = context.is_cancelled
    return Caller(
        user_id=context.user_id,
        run=context.run_id,
        call=call.id,
        data=data,
        grants=grants,
        host=host,
        is_cancelled=is_cancelled,
        most_s=time_left(tool, context),
    )


def time_left(tool: ToolSpec, context: ToolContext) -> float:
    """The lowest of the tool's limit, the limit of the grant or step, and the remaining time of the
    run.
    """
    seconds = context.seconds_left(tool.deadline_s)
    if seconds <= 0:
        raise ToolFailed("The time limit for this call has passed.", code="timeout")
    return seconds


def load_person(user_id: int) -> Any:
    return get_user_model().objects.get(pk=user_id)


def callback(context: ToolContext, name: str) -> Any:
    """ctx.call(name, …) of the function is recorded as a call under the same policy."""

    def call_tool(arguments: dict[str, Any]) -> Any:
        assert context.call_tool is not None
        return context.call_tool(name, arguments)

    return call_tool


def build_function_result(execution: Execution, *, untrusted: bool, keep: Callable[[], None]) -> ToolResult:
    details = {
        "execution": str(execution.pk),
        "version": execution.version_number,
        "isolation": execution.isolation,
        "cpu_ms": execution.cpu_ms,
        "peak_kb": execution.peak_kb,
        "cached": execution.is_cached,
    }
    is_ok = execution.status == "ok"
    value = None
    error = None
    if is_ok:
        value = execution.result
    else:
        code = CODES.get(execution.status, "function_error")
        error = {"code": code, **(execution.error or {})}
    return ToolResult(
        ok=is_ok,
        value=value,
        error=error,
        printed=execution.printed,
        untrusted=untrusted,
        details=details,
        keep=keep,
    )


def describe_invalid_arguments(error: Invalid | TooLarge) -> str:
    """The error for the model: which argument is invalid, and why."""
    reasons = []
    for detail in error.details:
        if "message" in detail:
            path = detail.get("path") or "arguments"
            reasons.append(f"{path}: {detail['message']}")
    return "; ".join([str(error), *reasons[:5]])
