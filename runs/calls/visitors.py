"""Which of its tools are closed to a run that serves a visitor. Read from the embed on each turn."""

from collections.abc import Mapping

from agents.tools import ToolSpec
from runs.models import Embed, Run
from runs.rules import visitors


def find_tools_closed_to_visitors(run: Run, tools: Mapping[str, ToolSpec]) -> frozenset[str]:
    """Names. With an embed that was deleted or switched off all are closed, except what the runner offers itself."""
    if run.embed is None:
        return frozenset()
    opened = Embed.objects.filter(pk=run.embed, enabled=True).values_list("tools", flat=True).first() or ()
    granted = {name: tool for name, tool in tools.items() if tool.id}
    return frozenset(
        name for name, tool in granted.items() if not visitors.is_open(name, tool.kind, tool.source, opened)
    )
