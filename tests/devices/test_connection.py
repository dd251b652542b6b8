"""The reference client and a server that refuses, replaces and loses: when it comes again, and when it gives up."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from websockets.asyncio.server import serve

from devices.client import connection
from devices.client.exceptions import Fatal
from devices.client.home import Config, Home, Identity
from devices.protocol import prove_refusal

REFUSED = "refused"  # by the server itself
FORGED = "forged"  # by somebody who has heard an older refusal
IDENTITY = Identity("", "d", "first", "alice", "laptop")


class Server:
    """Answers handshakes with the statuses it was given, one after the other; then lets everybody in. Each answer but
    REFUSED is a proxy's.
    """

    def __init__(self, *statuses):
        self.statuses, self.credentials, self.renewed = list(statuses), [], "second"
        self.came = asyncio.Event()
        self.close_code = None
        self.refusals = {}

    def handshake(self, socket, request):
        self.credentials.append(request.headers["Authorization"].removeprefix("Bearer "))
        if not self.statuses:
            return None
        status = self.statuses.pop(0)
        nonces = {REFUSED: request.headers["Muster-Nonce"], FORGED: "an older nonce"}
        if status in nonces:
            self.refusals[socket] = prove_refusal(self.credentials[-1], nonces[status])
            return None
        answer = socket.respond(status, "<html>Please sign in</html>")
        answer.headers["Location"] = "http://portal.example/sign-in"
        return answer

    async def converse(self, socket):
        if socket in self.refusals:
            frame = {"type": "error", "code": "credential_refused", "message": self.refusals[socket]}
            await socket.send(json.dumps(frame))
            await socket.close(4401)
            return
        await socket.recv()
        await socket.send(json.dumps({"type": "hello_ack", "heartbeat_s": 5, "credential": self.renewed}))
        if self.close_code:
            await socket.close(self.close_code)
            return
        self.came.set()
        await socket.wait_closed()


def port_of(line):
    return line.sockets[0].getsockname()[1]


@asynccontextmanager
async def at_work(server, home):
    """The client, at work against that server; it is stopped at the end."""
    async with serve(server.converse, "127.0.0.1", 0, process_request=server.handshake) as line:
        port = port_of(line)
        home.keep_identity(replace(IDENTITY, server=f"http://127.0.0.1:{port}"))
        client = connection.Client(home, Config())
        task = asyncio.create_task(client.run())
        try:
            yield client, task
        finally:
            client.stop()
            await asyncio.wait([task], timeout=60)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "FIRST_S", 0.001)
    return Home(tmp_path)


@pytest.mark.parametrize("statuses", [
    [503, 500, 502, 503], [403] * 6, [401] * 4, [407] * 4, [200] * 4, [302] * 4, [308] * 4,
    [FORGED] * 4,
        [REFUSED, REFUSED, 403, REFUSED],
])  # fmt: skip
def test_no_answer_but_the_servers_own_refusal_ends_the_client(home, statuses):
    async def story():
        server = Server(*statuses)
        async with at_work(server, home):
            await asyncio.wait_for(server.came.wait(), 60)
        return server.credentials

    assert asyncio.run(story()) == ["first"] * (len(statuses) + 1)


def test_a_credential_that_is_refused_again_and_again_is_void(home):
    async def story():
        server = Server(REFUSED, REFUSED, REFUSED)
        async with at_work(server, home) as (_, task):
            with pytest.raises(Fatal, match="Pair the device again"):
                await asyncio.wait_for(task, 60)
        return server.credentials

    assert len(asyncio.run(story())) == connection.REFUSALS


@pytest.mark.parametrize("code", sorted(connection.FINAL))
def test_there_is_no_way_back_from_a_revocation_or_a_second_client(home, code):
    async def story():
        server = Server()
        server.close_code = code
        async with at_work(server, home) as (_, task):
            with pytest.raises(Fatal):
                await asyncio.wait_for(task, 60)

    asyncio.run(story())


def test_a_credential_that_cannot_be_kept_is_not_used(home, monkeypatch):
    """A full disk: the one on the disk stays the one that is shown, so that a restart does not look like a copy."""

    async def story():
        server = Server()
        async with at_work(server, home) as (client, _):
            await asyncio.wait_for(server.came.wait(), 60)
            keep, server.renewed = home.keep_identity, "third"

            def full(identity):
                raise OSError(28, "No space left on device")

            monkeypatch.setattr(home, "keep_identity", full)
            await client.socket.close()
            await until(lambda: len(server.credentials) >= 4)
            monkeypatch.setattr(home, "keep_identity", keep)
            await until(lambda: home.identity().credential == "third")
        return server.credentials

    first, *later = asyncio.run(story())
    assert first == "first" and set(later[:3]) == {"second"}


def test_a_full_disk_ends_no_client(home, monkeypatch):
    """It comes again until the records can be written."""

    async def story():
        server = Server()
        async with at_work(server, home) as (client, task):
            await asyncio.wait_for(server.came.wait(), 60)
            fill_disk(client.store)
            await client.socket.close()
            await until(lambda: len(server.credentials) >= 4)
            assert not task.done()
            empty_disk(client.store)
            await until(lambda: client.is_greeted)

    monkeypatch.setattr(connection.Journal, "confirm", lambda journal, *_: write_much(journal.store))
    asyncio.run(story())


def write_much(store):
    with store.transaction() as db:
        db.execute("INSERT OR REPLACE INTO meta VALUES ('much', ?)", ("x" * 1_000_000,))
        db.execute("DELETE FROM meta WHERE name = 'much'")


def fill_disk(store):
    store.db.execute("VACUUM")
    pages = store.db.execute("PRAGMA page_count").fetchone()[0]
    store.db.execute(f"PRAGMA max_page_count = {pages}")


def empty_disk(store):
    store.db.execute("PRAGMA max_page_count = 1000000")


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_client_started_while_another_ends_takes_what_that_one_was_given(home):
    """Whoever starts it again does not wait for the old one's last write."""

    async def story():
        server = Server()
        async with serve(server.converse, "127.0.0.1", 0, process_request=server.handshake) as line:
            paired = replace(IDENTITY, server=f"http://127.0.0.1:{port_of(line)}")
            home.keep_identity(paired)
            client = connection.Client(home, Config())
            home.keep_identity(replace(paired, credential="newer"))  # by the one that ends
            task = asyncio.create_task(client.run())
            await asyncio.wait_for(server.came.wait(), 60)
            client.stop()
            await asyncio.wait_for(task, 60)
        return server.credentials

    assert asyncio.run(story()) == ["newer"]
