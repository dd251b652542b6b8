"""The same message over each protocol: CPU as a ratio to REST, and how long after the model a streamed text arrives.

`python -m benchmarks.gateway [--db postgres] [--count 100] [--rounds 3]`. CPU is that of all processes of Muster. The
rounds take the protocols in turn, so that what else the machine does meets all of them.
"""

import argparse
import statistics
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.load import cpu_of
from benchmarks.message import made, muster
from tests.fakes import StubOpenAI, Turn, says, use_first_tool

TEXT = "Add the numbers a = 40 and b = 2"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
STREAMED = {"Accept": "text/event-stream"}
SPEAKER = {"name": "speaker", "description": "Speaks", "provider": "stub", "model_name": "stub"}


@dataclass(frozen=True, slots=True)
class Call:
    path: str
    body: dict[str, Any]
    headers: dict[str, str]


class TimedStub(StubOpenAI):
    """Notes when it sends the first word."""

    first_word: float = 0.0

    def _pieces(self, body: Any, turn: Turn) -> Iterator[Any]:  # type: ignore[override]
        for number, piece in enumerate(super()._pieces(body, turn)):
            yield piece
            if number == 1:
                self.first_word = time.perf_counter()


def calls_to(agent: str) -> tuple[dict[str, Call], dict[str, Call]]:
    """(those that wait for the answer, those that stream it), by protocol."""
    human = {"input": {"messages": [{"role": "user", "content": TEXT}]}, "assistant_id": agent}
    chat = {"model": agent, "messages": [{"role": "user", "content": TEXT}]}
    responses = {"model": agent, "input": TEXT}
    mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
           "params": {"name": agent, "arguments": {"task": TEXT}, "_meta": META}}  # fmt: skip
    own = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": agent,
           "Accept": "application/json, text/event-stream"}  # fmt: skip
    message = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": TEXT}]}}
    agui = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": TEXT}]}
    a2a = {"A2A-Version": "1.0"}
    waiting = {
        "REST": Call(f"/api/v1/agents/{agent}/messages", {"message": TEXT}, {}),
        "OpenAI chat completions": Call("/v1/chat/completions", chat, {}),
        "OpenAI responses": Call("/v1/responses", responses, {}),
        "MCP tools/call": Call("/mcp", mcp, own),
        "LangGraph runs/wait": Call("/langgraph/runs/wait", human, {}),
        "A2A SendMessage": Call(f"/a2a/{agent}/message:send", message, a2a),
    }
    streamed = {
        "REST": Call(f"/api/v1/agents/{agent}/messages", {"message": TEXT}, STREAMED),
        "OpenAI chat completions": Call("/v1/chat/completions", {**chat, "stream": True}, {}),
        "OpenAI responses": Call("/v1/responses", {**responses, "stream": True}, {}),
        "AG-UI": Call(f"/agui/{agent}", agui, STREAMED),
        "LangGraph runs/stream": Call("/langgraph/runs/stream", {**human, "stream_mode": ["messages-tuple"]}, {}),
        "A2A SendStreamingMessage": Call(f"/a2a/{agent}/message:stream", message, a2a),
    }
    return waiting, streamed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--count", type=int, default=100, help="messages of a protocol in a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with (
        TimedStub() as stub,
        tempfile.TemporaryDirectory(prefix="muster-bench-") as folder,
        muster(Path(folder), options.db, stub.url) as (base, key, pid),
        httpx2.Client(base_url=base, headers={"Authorization": f"Bearer {key}"}, timeout=60) as http,
    ):
        made(http.post("/api/v1/agents/", json=SPEAKER))
        made(http.post("/api/v1/agents/speaker/publish", json={}))
        waiting, streamed = calls_to("adder")
        for title, calls in (("One answer", waiting), ("Streamed", streamed)):
            report(title, cpu_of_each(http, pid, calls, options.count, options.rounds))
        first_tokens(http, stub, calls_to("speaker")[1], options.count // 4)


def cpu_of_each(
    http: httpx2.Client, pid: int, calls: dict[str, Call], count: int, rounds: int
) -> dict[str, list[float]]:
    """CPU milliseconds a message, one value for each round."""
    for call in calls.values():
        sent(http, call)
    costs: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, call in calls.items():
            before = cpu_of(pid)
            for _ in range(count):
                sent(http, call)
            costs[name].append((cpu_of(pid) - before) * 1000 / count)
    return costs


def sent(http: httpx2.Client, call: Call) -> None:
    """Each message begins a conversation; AG-UI's clients name theirs."""
    body = {**call.body, "threadId": uuid.uuid4().hex} if "threadId" in call.body else call.body
    answer = http.post(call.path, json=body, headers=call.headers)
    if answer.status_code != 200 or "42" not in answer.text:
        raise SystemExit(f"{call.path}: {answer.status_code} {answer.text[:2000]}")


def report(title: str, costs: dict[str, list[float]]) -> None:
    print(f"\n{title}: CPU of Muster a message")
    of_rest = costs["REST"]
    for name, values in costs.items():
        ratios = [mine / rest for mine, rest in zip(values, of_rest, strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(
            f"{name:26} {statistics.median(values):6.1f} ms   x {statistics.median(ratios):.2f} ({spread})", flush=True
        )


def first_tokens(http: httpx2.Client, stub: TimedStub, calls: dict[str, Call], count: int) -> None:
    """How long after the model has sent the first word the caller has it; the next one follows 0.2 s later."""
    stub.otherwise = lambda body: says("Alpha beta", silent_s=0.1, pause_s=0.2)
    print("\nFirst word, after the model sent it")
    for name, call in calls.items():
        late = sorted(lateness(http, stub, call) for _ in range(max(count, 5)))
        print(f"{name:26} p50 {statistics.median(late):5.1f} ms   the slowest {late[-1]:5.1f} ms", flush=True)
    stub.otherwise = use_first_tool


def lateness(http: httpx2.Client, stub: TimedStub, call: Call) -> float:
    text, got = "", 0.0
    with http.stream("POST", call.path, json=call.body, headers=call.headers) as answer:
        for piece in answer.iter_text():
            text += piece
            if not got and "Alpha" in text:
                got = time.perf_counter()
    if not got:
        raise SystemExit(f"{call.path}: {answer.status_code} {text[:2000]}")
    return (got - stub.first_word) * 1000


if __name__ == "__main__":
    main()
