"""Requests to the MCP server of a running Muster, and what its answers hold."""

import itertools
import json
from contextlib import asynccontextmanager
from time import monotonic

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from connectors.mcp import session as ours
from connectors.mcp.http import HttpTransport
from connectors.mcp.messages import MODERN

NUMBERS = itertools.count(1)
BOTH = "application/json, text/event-stream"


class Site:
    def __init__(self, live, key):
        self.live = live
        self.key = key
        self.url = f"{live.url}/mcp"

    def modern(self, method, params=None, *, key=None, capabilities=None, headers=None, version=MODERN):
        """The HTTP answer to a request of 2026-07-28."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities or {},
        }
        params = params or {}
        all_headers = {"MCP-Protocol-Version": version, "Mcp-Method": method}
        name = params.get("name") or params.get("uri")
        if name:
            all_headers["Mcp-Name"] = name
        all_headers |= headers or {}
        meta |= params.get("_meta", {})
        message = {"method": method, "params": {**params, "_meta": meta}, "id": next(NUMBERS)}
        return self.post(message, all_headers, key=key)

    def post(self, message, headers=None, *, key=None):
        """The HTTP answer. `key` "" sends none."""
        all_headers = {"Accept": BOTH}
        if key != "":
            all_headers["Authorization"] = f"Bearer {key or self.key}"
        all_headers |= headers or {}
        return httpx.post(self.url, json={"jsonrpc": "2.0", **message}, headers=all_headers, timeout=60)

    @asynccontextmanager
    async def reference(self, **more):
        """A session of the reference client."""
        headers = {"Authorization": f"Bearer {self.key}"}
        async with (
            httpx.AsyncClient(headers=headers, timeout=60) as http,
            streamable_http_client(self.url, http_client=http) as (reading, writing, *_),
            ClientSession(reading, writing, **more) as session,
        ):
            self.hello = await session.initialize()
            yield session

    def ours(self, era):
        def make():
            return HttpTransport(self.url, {"Authorization": f"Bearer {self.key}"}, ["127.0.0.1"])

        return ours.open_server_session(make, monotonic() + 60, era)


def messages(answer):
    """The JSON-RPC messages of a stream."""
    assert answer.status_code == 200, answer.text
    lines = answer.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: "]


def result(answer):
    """What a request was answered with: as one JSON text, or as the last message of a stream."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        return messages(answer)[-1]["result"]
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]
