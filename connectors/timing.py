"""How long a call may take."""

from agents.tools import ToolContext, ToolFailed, ToolSpec


def seconds_left(tool: ToolSpec, context: ToolContext) -> float:
    """Seconds until the tool's deadline or the run's, whichever comes first. Raises ToolFailed when
    it has passed.
    """
    seconds = context.seconds_left(tool.deadline_s)
    if seconds <= 0:
        raise ToolFailed("The time limit for this call has passed.", code="timeout")
    return seconds
