"""What is sent waits for its reader: a slow one gets everything, one that reads nothing is let go."""

import asyncio
import subprocess
import sys

import pytest
import websockets

from tests.loops import in_a_loop
from tests.supervisor.endless import MANY, PIECE

WHOLE = MANY * len(PIECE)


@pytest.fixture
def endless():
    """`endless(stalled_s)` → (port, told): a line of `told` for each reader that left or got everything."""
    made = []

    def start(stalled_s):
        command = [sys.executable, "-m", "tests.supervisor.endless", str(stalled_s)]
        made.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return int(made[-1].stdout.readline().split()[1]), made[-1].stdout

    yield start
    for process in made:
        process.stdin.close()
        process.wait(60)


async def connect(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return reader, writer


def test_a_stream_is_not_kept_in_memory_for_who_does_not_read(endless):
    async def stall():
        port, told = endless(0.3)
        _, writer = await connect(port)
        sent = int((await asyncio.to_thread(told.readline)).split()[1])
        writer.close()
        return sent

    assert in_a_loop(stall()) < MANY / 2


def test_a_socket_is_not_kept_in_memory_for_who_does_not_read(endless):
    async def stall():
        port, told = endless(0.3)
        async with websockets.connect(f"ws://127.0.0.1:{port}/", max_queue=1):
            return int((await asyncio.to_thread(told.readline)).split()[1])

    assert in_a_loop(stall()) < MANY / 2


def test_who_goes_on_reading_gets_everything(endless):
    async def read():
        port, told = endless(30)
        reader, writer = await connect(port)
        read = len(await reader.readexactly(WHOLE))
        sent = int((await asyncio.to_thread(told.readline)).split()[1])
        writer.close()
        return read, sent

    assert in_a_loop(read()) == (WHOLE, MANY)
