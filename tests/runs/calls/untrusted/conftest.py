"""An agent that reads strangers' mail, and tools with every effect."""

import pytest

from tests.fakes import calls, says
from tests.runs.calls.untrusted.mails import OPEN


@pytest.fixture
def tools(make_tool):
    return {
        "read_mail": make_tool("read_mail", effect="read", untrusted=True, input_schema=OPEN),
        "send": make_tool("send", effect="sends_out", input_schema=OPEN),
        "post": make_tool("post", effect="write", input_schema=OPEN),
        "fetch": make_tool("fetch", effect="read_out", untrusted=True, input_schema=OPEN),
        "delete": make_tool("delete", effect="destructive", input_schema=OPEN),
        "echo": make_tool("echo", effect="read", input_schema=OPEN),
    }


@pytest.fixture
def helper(make_agent, tools, stub_provider):
    agent = make_agent(tools=tools.values(), provider=stub_provider)
    agent.grants.update(mode="allow")
    return agent


@pytest.fixture
def say(worker, alice, helper, stub, functions):
    """One message; the scripted model makes these calls one after the other. The run as it stands afterwards."""

    def send(text, *turns, **more):
        stub.script(*(calls(turn) for turn in turns), says("done"))
        run = worker.send_message(alice, text, more.pop("agent", helper), **more)
        stub.turns.clear()
        return run

    return send
