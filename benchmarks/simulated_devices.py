"""Many devices in one process: `python -m benchmarks.simulated_devices FILE URL…`. FILE holds their credentials.

They answer at once, keep their journals in memory, and go round the servers when one falls. With `--hold` a call is
answered only after the socket has fallen once.
"""

import argparse
import asyncio
import json
import random
import time
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, WebSocketException

TOOLS = [{"name": "list_tasks", "hash": ""}]


class Device:
    def __init__(self, credential: str, urls: list[str], *, hold: bool) -> None:
        self.credential = credential
        self.urls = urls
        self.hold = hold
        self.journal: dict[str, str] = {}
        self.ran: dict[str, int] = {}

    async def live(self) -> None:
        turn = random.randrange(len(self.urls))
        while True:
            try:
                await self.converse(self.urls[turn % len(self.urls)])
            except (OSError, InvalidHandshake, WebSocketException, TimeoutError):
                pass
            turn += 1
            await asyncio.sleep(random.uniform(0.2, 1.5))

    async def converse(self, url: str) -> None:
        headers = {"Authorization": f"Bearer {self.credential}"}
        async with connect(url, additional_headers=headers, ping_interval=None, compression=None) as socket:
            unfinished = [{"id": id, "state": "done"} for id in list(self.journal)[-200:]]
            hello = {"type": "device_hello", "protocol": 1, "journal_id": "j", "tools": TOOLS, "unfinished": unfinished}
            await socket.send(json.dumps(hello))
            beating = asyncio.create_task(beat(socket))
            try:
                async for text in socket:
                    await self.take(socket, json.loads(text))
            finally:
                beating.cancel()
                self.hold = False

    async def take(self, socket: object, frame: dict) -> None:
        if frame["type"] == "hello_ack":
            self.credential = frame.get("credential", self.credential)
            for id in frame.get("resend", []):
                await socket.send(self.journal[id])  # type: ignore[attr-defined]
        elif frame["type"] == "tool_call":
            id = frame["id"]
            if id not in self.journal:
                self.ran[id] = self.ran.get(id, 0) + 1
                self.journal[id] = json.dumps(
                    {"type": "tool_result", "id": id, "ok": True, "result": {"at": time.time()}}
                )
            if not self.hold:
                await socket.send(json.dumps({"type": "tool_ack", "id": id}))  # type: ignore[attr-defined]
                await socket.send(self.journal[id])  # type: ignore[attr-defined]


async def beat(socket: object) -> None:
    while True:
        await asyncio.sleep(random.uniform(11, 14))
        await socket.send('{"type": "ping"}')  # type: ignore[attr-defined]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("urls", nargs="+")
    parser.add_argument("--hold", action="store_true")
    options = parser.parse_args()
    devices = [Device(one, options.urls, hold=options.hold) for one in json.loads(options.file.read_text())]
    tasks = []
    for device in devices:
        tasks.append(asyncio.create_task(device.live()))
        await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main())
