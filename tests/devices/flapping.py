"""A network that cannot be relied upon: a proxy that drops connections, stalls them, and refuses new ones."""

import asyncio
import random
import threading
from typing import Any


class FlappingProxy:
    """`with FlappingProxy(port) as proxy:` connect to `proxy.url`; calm until `flap()`, and after `calm()`."""

    def __init__(self, target: int, seed: int = 7) -> None:
        self.target = target
        self.random = random.Random(seed)
        self.is_flapping = False
        self.is_stalled = False
        self.drops = 0
        self.writers: set[asyncio.StreamWriter] = set()
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()

    def __enter__(self) -> "FlappingProxy":
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self.serve(),), daemon=True)
        self.thread.start()
        assert self.ready.wait(60)
        return self

    def __exit__(self, *_: Any) -> None:
        self.loop.call_soon_threadsafe(self.stopped.set)
        self.thread.join(60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def flap(self) -> None:
        self.is_flapping = True

    def calm(self) -> None:
        self.is_flapping = self.is_stalled = False

    async def serve(self) -> None:
        self.stopped = asyncio.Event()
        server = await asyncio.start_server(self.connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        weather = asyncio.create_task(self.weather())
        self.ready.set()
        await self.stopped.wait()
        weather.cancel()
        server.close()
        self.drop_all()
        await asyncio.sleep(0.1)

    async def weather(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.2, 1.5))
            self.is_stalled = self.is_flapping and self.random.random() < 0.4
            if self.is_flapping and not self.is_stalled:
                self.drop_all()

    def drop_all(self) -> None:
        for writer in list(self.writers):
            self.drops += 1
            writer.transport.abort()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            below, above = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self.writers |= {writer, above}
        await asyncio.gather(self.pipe(reader, above), self.pipe(below, writer), return_exceptions=True)
        self.writers -= {writer, above}

    async def pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(4096):
                while self.is_stalled:
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
