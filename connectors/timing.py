"""How long a call may take."""

from django.utils import timezone

from agents.tools import ToolContext, ToolFailed, ToolSpec


def seconds_left(tool: ToolSpec, context: ToolContext) -> float:
    """Seconds until the tool's deadline or the run's, whichever comes first. Raises ToolFailed when it is over."""
    seconds = tool.deadline_s
    if context.deadline is not None:
        seconds = min(seconds, (context.deadline - timezone.now()).total_seconds())
    if seconds <= 0:
        raise ToolFailed("The time for this call is over.", code="timeout")
    return seconds
