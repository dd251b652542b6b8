"""A fault of Muster or of a package is told as such; what Python says of it stays in the log."""

import pytest

from registry.llm.langchain_models import classify_langchain_error
from runs.loop.conversation import Conversation
from runs.models import ToolCallRecord
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db
TELLTALE = "unsupported operand /srv/secret.py 10.1.2.3"


def test_a_run_that_breaks_says_nothing_of_python(worker, alice, make_agent, stub_provider, stub, monkeypatch):
    def hold(self):
        raise TypeError(TELLTALE)

    monkeypatch.setattr(Conversation, "hold", hold)
    run = worker.send_message(alice, "Hello", make_agent(provider=stub_provider))
    assert run.error["code"] == "internal_error"
    assert TELLTALE not in str(run.error) and "TypeError" not in str(run.error)


def test_a_tool_that_breaks_says_nothing_of_python(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions
):
    functions.answers.append(TypeError(TELLTALE))
    agent = make_agent(tools=[make_tool("add")], provider=stub_provider)
    stub.script(calls(("add", {"a": 1, "b": 2})), says("It failed."))
    worker.send_message(alice, "Add", agent)
    error = ToolCallRecord.objects.get().error
    assert error["code"] == "tool_broken" and "TypeError" not in str(error) and TELLTALE not in str(error)


@pytest.mark.parametrize("kind", [ValueError, ConnectionError, TimeoutError])
def test_a_provider_s_package_that_breaks_says_nothing_of_python(kind):
    told = str(classify_langchain_error(kind(TELLTALE)))
    assert TELLTALE not in told and kind.__name__ not in told
