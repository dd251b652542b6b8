"""Fakes with the real interface. `StubOpenAI` is a loopback OpenAI server that says what a test tells it to.

Alone: `python -m tests.fakes --port 8159` serves one that calls the first tool it gets, then answers with its result.
"""

import argparse
import asyncio
import hashlib
import itertools
import json
import math
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = Any


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server on a free port of loopback (or of another address), with a thread for each connection. A client
    may leave at any time.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the stub. `cut_after` pieces the connection breaks; `silent_s` passes before the first byte."""

    text: str = ""
    calls: tuple[tuple[str, JSON], ...] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    silent_s: float = 0.0
    pause_s: float = 0.0
    raw: bytes | None = None
    finish: str = ""  # the finish reason; empty: as the rest of the answer implies
    usage: tuple[int, int] = (11, 7)

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")


def says(text: str, **more: Any) -> Turn:
    return Turn(text=text, **more)


def calls(*wanted: tuple[str, JSON], **more: Any) -> Turn:
    """Tool calls as (name, arguments); arguments given as a string are sent as they are, broken JSON included."""
    return Turn(calls=wanted, **more)


def fails(status: int, **headers: str) -> Turn:
    return Turn(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


def cut(text: str, after: int) -> Turn:
    return Turn(text=text, cut_after=after)


def use_first_tool(body: dict[str, JSON]) -> Turn:
    """What the stub does unscripted: the first tool once, then an answer that quotes its result."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return says(f"The result is {last['content']}.")
    text = join_text(last)
    tools = body.get("tools")
    if not tools:
        return says(f"You said: {text}")
    function = tools[0]["function"]
    return calls((function["name"], guess_arguments(function, text)))


def guess_arguments(function: dict[str, JSON], text: str) -> dict[str, JSON]:
    """The numbers of the text for what must be a number, in their order, and the whole text for the rest."""
    numbers = iter(re.findall(r"-?\d+(?:\.\d+)?", text))
    arguments: dict[str, JSON] = {}
    for name, rule in function["parameters"].get("properties", {}).items():
        if rule.get("type") in ("integer", "number"):
            arguments[name] = json.loads(next(numbers, "0"))
        else:
            arguments[name] = text
    return arguments


def join_text(message: dict[str, JSON]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


class StubOpenAI:
    """`with StubOpenAI() as stub: stub.script(says("hi"))`. `stub.requests` holds the bodies it got, in order
    (`stub.embedded` those for /embeddings).

    `only_response_format` refuses `tools` as many small local servers do. Embeddings are hashed bags of words.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, only_response_format: bool = False) -> None:
        self.host = host
        self.port = port
        self.only_response_format = only_response_format
        self.requests: list[dict[str, JSON]] = []
        self.embedded: list[dict[str, JSON]] = []
        self.headers: list[dict[str, str]] = []
        self.turns: list[Turn] = []
        self.otherwise: Callable[[dict[str, JSON]], Turn] = use_first_tool
        self.open_connections = 0
        self._ids = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/v1"

    def script(self, *turns: Turn) -> "StubOpenAI":
        self.turns.extend(turns)
        return self

    def __enter__(self) -> "StubOpenAI":
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self.serve(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: Any) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    async def serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, self.host, self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the stub is being stopped
        finally:
            self.open_connections -= 1
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        headers = parse_headers(lines[1:])
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        body = json.loads(content or b"{}")
        self.headers.append(headers)
        path = lines[0].split()[1]
        if path.endswith("/embeddings"):
            self.embedded.append(body)
            return await self._send(writer, 200, embeddings(body))
        if path.endswith("/models"):
            return await self._send(writer, 200, {"object": "list", "data": [{"id": "stub", "object": "model"}]})
        self.requests.append(body)
        if path.endswith("/messages"):
            turn = self.turns.pop(0) if self.turns else says("Hello.")
            return await self._say_as_anthropic(writer, body, turn)
        if self.only_response_format and body.get("tools"):
            return await self._send(writer, 400, error_body("this server knows no tools"))
        turn = self.turns.pop(0) if self.turns else self.otherwise(body)
        return await self._answer(writer, body, turn)

    async def _say_as_anthropic(self, writer: asyncio.StreamWriter, body: dict[str, JSON], turn: Turn) -> bool:
        """The same turns in the shape of Anthropic's messages."""
        if turn.silent_s:
            await asyncio.sleep(turn.silent_s)
        if turn.status != 200:
            return await self._send(writer, turn.status, error_body(f"status {turn.status}"), turn.headers)
        if turn.raw is not None:
            writer.write(turn.raw)
            await writer.drain()
            return False
        blocks: list[dict[str, JSON]] = [{"type": "text", "text": turn.text}] if turn.text else []
        for name, arguments in turn.calls:
            blocks.append({"type": "tool_use", "id": f"toolu_{next(self._ids)}", "name": name, "input": arguments})
        usage = {"input_tokens": turn.usage[0], "output_tokens": turn.usage[1]}
        whole = {"id": f"msg_{next(self._ids)}", "type": "message", "role": "assistant", "model": body["model"]}
        whole |= {
            "stop_reason": turn.finish or ("tool_use" if turn.calls else "end_turn"),
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream"):
            return await self._send(writer, 200, {**whole, "content": blocks})
        events: list[dict[str, JSON]] = [
            {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
        ]
        for index, word in enumerate(re.findall(r"\S+\s*", turn.text)):
            if index == 0:
                start = {"type": "text", "text": ""}
                events.append({"type": "content_block_start", "index": 0, "content_block": start})
            delta = {"type": "text_delta", "text": word}
            events.append({"type": "content_block_delta", "index": 0, "delta": delta})
        events.append({"type": "content_block_stop", "index": 0})
        ended = {"stop_reason": "end_turn", "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": turn.usage[1]}})
        events.append({"type": "message_stop"})
        return await self._send_events(writer, events, turn)

    async def _send_events(self, writer: asyncio.StreamWriter, events: list[dict[str, JSON]], turn: Turn) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number, event in enumerate(events):
            if turn.cut_after is not None and number >= turn.cut_after:
                return False
            write_chunk(writer, f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            await writer.drain()
        write_chunk(writer, b"")
        await writer.drain()
        return True

    async def _answer(self, writer: asyncio.StreamWriter, body: dict[str, JSON], turn: Turn) -> bool:
        if turn.silent_s:
            await asyncio.sleep(turn.silent_s)
        if turn.status != 200:
            return await self._send(writer, turn.status, error_body(f"status {turn.status}"), turn.headers)
        if turn.raw is not None:
            writer.write(turn.raw)
            await writer.drain()
            return False
        if body.get("stream"):
            return await self._stream(writer, body, turn)
        return await self._send(writer, 200, self._completion(body, turn), turn.headers)

    async def _send(
        self, writer: asyncio.StreamWriter, status: int, body: JSON, headers: dict[str, str] | None = None
    ) -> bool:
        content = json.dumps(body).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n{more}\r\n"
        writer.write(head.encode() + content)
        await writer.drain()
        return True

    def _completion(self, body: dict[str, JSON], turn: Turn) -> dict[str, JSON]:
        message: dict[str, JSON] = {"role": "assistant", "content": turn.text or None}
        if turn.calls:
            message["tool_calls"] = [self._call(name, arguments) for name, arguments in turn.calls]
        return {
            "id": f"chatcmpl-{next(self._ids)}", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": turn.finish_reason}],
            "usage": usage_of(turn),
        }  # fmt: skip

    def _call(self, name: str, arguments: JSON) -> dict[str, JSON]:
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return {
            "id": f"call_{next(self._ids)}",
            "type": "function",
            "function": {"name": name, "arguments": written},
        }

    async def _stream(self, writer: asyncio.StreamWriter, body: dict[str, JSON], turn: Turn) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number, piece in enumerate(self._pieces(body, turn)):
            if turn.cut_after is not None and number >= turn.cut_after:
                return False
            if turn.pause_s and number:
                await asyncio.sleep(turn.pause_s)
            write_chunk(writer, b"data: " + json.dumps(piece).encode() + b"\n\n")
            await writer.drain()
        write_chunk(writer, b"data: [DONE]\n\n")
        write_chunk(writer, b"")
        await writer.drain()
        return True

    def _pieces(self, body: dict[str, JSON], turn: Turn) -> list[dict[str, JSON]]:
        common = {"id": f"chatcmpl-{next(self._ids)}", "object": "chat.completion.chunk", "created": 0}
        common["model"] = body["model"]

        def piece(delta: dict[str, JSON], finish: str | None = None) -> dict[str, JSON]:
            return {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        words = re.findall(r"\S+\s*", turn.text)
        pieces = [piece({"role": "assistant", "content": ""}), *(piece({"content": word}) for word in words)]
        for index, (name, arguments) in enumerate(turn.calls):
            call = self._call(name, arguments)
            written = call["function"]["arguments"]
            half = len(written) // 2
            first = {**call, "index": index, "function": {"name": name, "arguments": written[:half]}}
            pieces.append(piece({"tool_calls": [first]}))
            pieces.append(piece({"tool_calls": [{"index": index, "function": {"arguments": written[half:]}}]}))
        pieces.append(piece({}, turn.finish_reason))
        if (body.get("stream_options") or {}).get("include_usage"):
            pieces.append({**common, "choices": [], "usage": usage_of(turn)})
        return pieces


def parse_headers(lines: list[str]) -> dict[str, str]:
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return headers


def write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def usage_of(turn: Turn) -> dict[str, int]:
    read, written = turn.usage
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def error_body(message: str) -> dict[str, JSON]:
    return {"error": {"message": message, "type": "stub", "code": None}}


def embeddings(body: dict[str, JSON]) -> dict[str, JSON]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = [{"object": "embedding", "index": i, "embedding": embed(text)} for i, text in enumerate(texts)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": body.get("model", "stub"), "data": data, "usage": usage}


def embed(text: str, size: int = 256) -> list[float]:
    """Word stems hashed into buckets, of length one: texts that share words lie near each other."""
    vector = [0.0] * size
    for word in re.findall(r"[a-z]+", text.lower()):
        digest = hashlib.sha256(word[:5].encode()).digest()
        bucket = int.from_bytes(digest[:4], "big") % size
        vector[bucket] += 1.0
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / length for value in vector]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8159)
    parser.add_argument("--silent", type=float, default=0.0, help="seconds before each answer")
    options = parser.parse_args()
    stub = StubOpenAI(port=options.port)
    stub.otherwise = lambda body: replace(use_first_tool(body), silent_s=options.silent)
    stub.requests = stub.headers = Forgetful()  # a benchmark must not fill the memory
    asyncio.run(stub.serve())


class Forgetful(list):
    def append(self, _: Any) -> None:
        return


if __name__ == "__main__":
    main()
