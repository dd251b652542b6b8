"""What a message costs the web process over each protocol, in statements: as many as over REST, and a few more."""

from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db.backends.utils import CursorWrapper

from agents.models import Tool
from plumbing.threads import in_thread
from runs.events import waiting
from runs.models import Run
from tests.fakes import calls, says
from tests.functions.library import publish

pytestmark = pytest.mark.django_db(transaction=True)
TEXT = "Add the numbers a = 40 and b = 2"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
MCP = {
    "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
    "Mcp-Name": "adder",
}  # fmt: skip
HUMAN = {"input": {"messages": [{"role": "user", "content": TEXT}]}, "assistant_id": "adder"}
SAID = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": TEXT}]}
TOOL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "adder", "arguments": {"task": TEXT}, "_meta": META}}  # fmt: skip
REST = 7


@pytest.fixture
def adder(alice, make_agent, stub_provider):
    publish(alice)
    return make_agent("adder", tools=[Tool.objects.get(name="add")], provider=stub_provider)


class Counter:
    """The statements of all threads but for BEGIN, while it counts."""

    def __init__(self):
        self.statements, self.is_counting = [], False

    def watch(self, execute):
        def watched(cursor, sql, params=None):
            if self.is_counting and not sql.startswith("BEGIN"):
                self.statements.append(sql)
            return execute(cursor, sql, params)

        return watched


@pytest.fixture
def counter(worker, monkeypatch):
    """The worker does its work where the request waits for the end of the run; that does not count."""
    made = Counter()
    monkeypatch.setattr(CursorWrapper, "execute", made.watch(CursorWrapper.execute))

    def wait(end):
        made.is_counting = False
        worker.work()
        news = waiting.read_end(end.run_id)
        made.is_counting = True
        return news

    async def come(end):
        return await in_thread(wait, end)

    monkeypatch.setattr(waiting.End, "wait", wait)
    monkeypatch.setattr(waiting.End, "come", come)
    return made


def asked(api, path, body, **headers):
    answer = api.post(path, body, headers=headers)
    content = async_to_sync(whole)(answer) if answer.streaming else answer.content
    assert answer.status_code == 200 and b"42" in content, content
    return content


async def whole(answer):
    return b"".join([piece async for piece in answer.streaming_content])


@pytest.mark.parametrize(
    ("path", "body", "headers", "most"),
    [
        ("/api/v1/agents/adder/messages", {"message": TEXT}, {}, REST),
        ("/langgraph/runs/wait", HUMAN, {}, REST + 5),
        ("/a2a/adder/message:send", {"message": SAID}, {"A2A-Version": "1.0"}, REST + 7),
        ("/mcp", TOOL, MCP, REST + 5),
    ],
    ids=["REST", "LangGraph", "A2A", "MCP"],
)
def test_a_message_costs_the_web_process_so_many_statements(alice_api, adder, stub, counter, path, body, headers, most):
    for _ in range(2):  # what is kept between messages is kept after the first
        stub.script(calls(("add", {"a": 40, "b": 2})), says("It is 42"))
        body = {**body, "message": {**SAID, "messageId": str(uuid4())}} if path.startswith("/a2a") else body
        counter.statements, counter.is_counting = [], True
        asked(alice_api, path, body, **headers)
        counter.is_counting = False
    assert Run.objects.latest("id").status == "succeeded"
    assert len(counter.statements) <= most, "\n".join(counter.statements)
