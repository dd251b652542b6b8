"""Debian's Firefox for Playwright: `python firefox.py /usr/bin/firefox-esr ARGUMENTS…` in place of the program.

Playwright drives an unchanged Firefox over WebDriver BiDi, and sends a command that the ESR release does not know yet
(emulation.setMediaFeaturesOverride). This starts Firefox and a relay in front of its socket, which answers that command itself.
"""

import asyncio
import json
import re
import signal
import sys
from typing import Any

import websockets

UNKNOWN = "emulation.setMediaFeaturesOverride"
SAYS_WHERE = re.compile(r"WebDriver BiDi listening on (ws://\S+)")


async def main(command: list[str]) -> int:
    firefox = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, limit=1 << 20)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, firefox.terminate)
    relay = None
    async for line in firefox.stderr:
        told = SAYS_WHERE.search(line.decode(errors="replace"))
        if told and relay is None:
            relay = await websockets.serve(lambda client, at=told[1]: pair(client, at), "127.0.0.1", 0, max_size=None)
            port = relay.sockets[0].getsockname()[1]
            line = f"WebDriver BiDi listening on ws://127.0.0.1:{port}\n".encode()
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
    return await firefox.wait()


async def pair(client: Any, address: str) -> None:
    path = client.request.path
    async with websockets.connect(address + path, max_size=None, compression=None) as firefox:
        await asyncio.wait(
            [asyncio.create_task(to_firefox(client, firefox)), asyncio.create_task(to_client(firefox, client))],
            return_when=asyncio.FIRST_COMPLETED,
        )


async def to_firefox(client: Any, firefox: Any) -> None:
    async for message in client:
        if UNKNOWN in message and (asked := json.loads(message))["method"] == UNKNOWN:
            await client.send(json.dumps({"type": "success", "id": asked["id"], "result": {}}))
        else:
            await firefox.send(message)


async def to_client(firefox: Any, client: Any) -> None:
    async for message in firefox:
        await client.send(message)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
