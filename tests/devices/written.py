"""What agents write into records, for tests: `agent_call(alice, "create_task", title="…")`."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from agents.tools import ToolCall, ToolContext
from devices.client.tools import TOOLS
from devices.records.tools import run_tool


@pytest.fixture
def agent_call() -> Callable[..., Any]:
    """The answer of an agent's call of a records tool on the server."""

    def call(
        person: Any, tool: str, *, untrusted: bool = False, id: str = "", run: str | None = None, **arguments: Any
    ):
        context = ToolContext(person.pk, agent="clerk", run_id=run, is_untrusted=untrusted)
        request = ToolCall(id or str(uuid.uuid4()), tool, arguments)
        result = run_tool(TOOLS[tool], request, context)
        return result.value

    return call
