"""The WebSocket connection: hello, calls, heartbeats, and reconnecting with jittered back-off."""

import asyncio
import contextlib
import hmac
import importlib.util
import logging
import random
import secrets
import sqlite3
import time
from dataclasses import replace
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.proxy import get_proxy, parse_proxy
from websockets.uri import parse_uri

from devices import protocol
from devices.protocol import DeviceHello, ToolName
from devices.wire import MAX_FRAME_BYTES, BadFrame

from . import VERSION
from .approvals import Approvals
from .exceptions import Fatal
from .executor import Executor
from .home import Config, Home
from .journal import Journal
from .mcp_bridge import Bridge
from .pairing import platform_name
from .store import Store
from .tools import TOOLS
from .workspace import Workspace

log = logging.getLogger("muster.device")
FIRST_S, LONGEST_S = 0.5, 30.0
# A connection that lasted this long resets the back-off.
STEADY_S = 10.0
GRACE_S = 5.0
# Consecutive refusals by the server itself after which the credential counts as revoked.
REFUSALS = 3
FINAL = {protocol.REPLACED: "another client has connected as this device", protocol.REVOKED: "this device was revoked"}


class Client:
    """A paired device at work. `run` returns when it is stopped, and raises Fatal when it cannot
    continue.
    """

    def __init__(self, home: Home, config: Config | None = None) -> None:
        self.home = home
        self.identity = home.identity()
        config = config or home.config()
        self.store = Store(home.database)
        self.journal = Journal(self.store)
        self.bridge = Bridge(config.mcp_servers)
        self.has_roots = bool(config.roots)
        self.executor = Executor(
            self.store, self.journal, Workspace(config.roots), Approvals(config), self.bridge, self.send
        )
        self.socket: ClientConnection | None = None
        self.is_greeted = False
        self.nonce = ""
        # That the server itself refuses the credential.
        self.has_proof = False
        self.heartbeat_s = protocol.HEARTBEAT_S
        self.stopping = asyncio.Event()
        self.runs: dict[str, asyncio.Future[str]] = {}

    async def run(self) -> None:
        self.home.take()
        # The previous client process may have received a newer credential.
        self.identity = self.home.identity()
        if count := self.journal.recover():
            log.info("%d calls were interrupted when the client last stopped", count)
        await self.bridge.start()
        try:
            await self.stay_connected()
        finally:
            await self.executor.close(GRACE_S)
            if self.socket is not None:
                await self.socket.close()
            await self.bridge.stop()
            self.store.close()

    def stop(self) -> None:
        self.stopping.set()

    async def stay_connected(self) -> None:
        failures = 0
        refusals = 0
        while not self.stopping.is_set():
            started = time.monotonic()
            try:
                await self.converse()
            except (OSError, EOFError, ValueError, sqlite3.Error, websockets.WebSocketException) as error:
                reason = explain_disconnect(error)
                if self.is_refused(error):
                    reason = "the server refuses this device's credential"
                    refusals += 1
                else:
                    refusals = 0
                check_final(error, refusals)
                failures += 1
                # A connection that lasted was none that failed.
                if time.monotonic() - started > STEADY_S:
                    failures = 0
                longest = min(LONGEST_S, FIRST_S * 2 ** min(failures, 16))
                # Devices that lost the same server must not come back together.
                wait = random.uniform(0, longest)  # noqa: S311
                log.info("not connected: %s; trying again in %.1f s", reason, wait)
                await self.pause(wait)

    async def pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    def is_refused(self, error: BaseException) -> bool:
        """Whether the server itself refuses the credential: a proxy's or a captive portal's answer proves nothing."""
        received = getattr(error, "rcvd", None)
        if received is None or not self.has_proof:
            return False
        return bool(received.code == protocol.REFUSED)

    # -- one connection -------------------------------------------------------------------------------------------

    async def converse(self) -> None:
        """One connection from its handshake to its end. Raises ConnectionClosed, or OSError."""
        url = self.identity.server.replace("http", "ws", 1) + protocol.PATH
        self.nonce, self.has_proof = secrets.token_hex(16), False
        headers = {"Authorization": f"Bearer {self.identity.credential}", protocol.NONCE: self.nonce}
        proxy = find_proxy(url)
        async with DirectConnect(
            url,
            proxy=proxy,
            additional_headers=headers,
            max_size=2 * MAX_FRAME_BYTES,
            ping_interval=None,
            open_timeout=15,
        ) as socket:
            self.socket, self.is_greeted = socket, False
            hello = self.hello()
            with contextlib.suppress(websockets.ConnectionClosed):
                # What it said before it closed is still read.
                await socket.send(protocol.encode(hello))
            beating = asyncio.create_task(self.beat(socket))
            stopper = asyncio.create_task(self.close_when_stopped(socket))
            try:
                await self.listen(socket, hello)
            finally:
                self.socket, self.is_greeted = None, False
                for request_id in [*self.runs]:
                    self.answer_request(request_id, None, LOST)
                for task in (beating, stopper):
                    task.cancel()

    def hello(self) -> DeviceHello:
        tools = []
        for tool in TOOLS.values():
            # Without a shared folder there is nothing to read.
            if self.has_roots or tool.works_on != "workspace":
                tools.append(ToolName(tool.name, tool.hash))
        folders = sorted(self.executor.workspace.roots)
        return DeviceHello(
            protocol=protocol.VERSION,
            device_id=self.identity.device,
            name=self.identity.name,
            client_version=VERSION,
            platform=platform_name(),
            journal_id=self.journal.id,
            tools=tuple(tools),
            offers=self.bridge.offers(),
            unfinished=self.journal.unfinished(),
            folders=tuple(folders),
        )

    async def listen(self, socket: ClientConnection, hello: DeviceHello) -> None:
        """Receive frames until the connection ends; silence for two heartbeats ends it."""
        while True:
            async with asyncio.timeout(self.heartbeat_s * protocol.MISSED_BEATS + 1):
                text = await socket.recv()
            try:
                frame = protocol.parse_frame(text, protocol.FROM_SERVER)
            except BadFrame as error:
                log.warning("a frame was ignored: %s", error)
                continue
            await self.on_frame(frame, hello)

    async def on_frame(self, frame: Any, hello: DeviceHello) -> None:
        match frame:
            case protocol.HelloAck():
                await self.on_hello_ack(frame, hello)
            case protocol.ToolCall():
                await self.executor.take(frame)
            case protocol.ToolCancel():
                self.executor.cancel(frame.id, frame.reason)
            case protocol.RunComplete():
                run = str(frame.run_context.get("run", ""))
                log.info("run %s %s %s", run, frame.status, frame.counts)
                self.journal.close_run(run, frame.status, frame.counts, frame.summary)
            case protocol.RunAccepted():
                self.answer_request(frame.request_id, frame.run, None)
            case protocol.Error(code=protocol.CREDENTIAL_REFUSED):
                proof = protocol.prove_refusal(self.identity.credential, self.nonce)
                self.has_proof = hmac.compare_digest(frame.message.encode(), proof.encode())
            case protocol.Error():
                log.warning("the server reports: %s: %s", frame.code, frame.message)
                self.answer_request(frame.request_id, None, frame)

    async def on_hello_ack(self, ack: protocol.HelloAck, hello: DeviceHello) -> None:
        if ack.credential:
            # To the disk first: a credential that is used and then forgotten looks like a stolen one.
            newer = replace(self.identity, credential=ack.credential)
            self.home.keep_identity(newer)
            self.identity = newer
        self.heartbeat_s = max(0.2, ack.heartbeat_s)
        self.journal.confirm(hello.unfinished, ack.resend)
        self.is_greeted = True
        log.info("connected to %s as %s", self.identity.server, self.identity.account)
        await self.executor.resend(ack.resend)

    async def beat(self, socket: ClientConnection) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            while True:
                await asyncio.sleep(self.heartbeat_s * random.uniform(0.7, 0.95))  # noqa: S311
                await socket.send(PING)

    async def close_when_stopped(self, socket: ClientConnection) -> None:
        await self.stopping.wait()
        await self.executor.close(GRACE_S)
        await socket.close(1001, "the client is being stopped")

    async def send(self, frame: Any) -> None:
        """Send it if there is a connection; otherwise the journal keeps it."""
        socket = self.socket
        if socket is None:
            return
        with contextlib.suppress(websockets.ConnectionClosed):
            await socket.send(protocol.encode(frame))

    # -- runs of one's own ----------------------------------------------------------------------------------------

    async def request_run(self, *, agent: str = "", chain: str = "", input: Any = None, agent_id: str = "") -> str:
        """Ask for a run now; returns its id. Raises Fatal with the server's reason, or when there
        is no connection.
        """
        if not self.is_greeted:
            raise Fatal("not connected")
        request_id = f"{random.getrandbits(64):016x}"  # noqa: S311
        came: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.runs[request_id] = came
        await self.send(protocol.RunRequest(agent, chain, input, agent_id, request_id))
        return await came

    def answer_request(self, request_id: str, run: str | None, error: protocol.Error | None) -> None:
        came = self.runs.pop(request_id, None)
        if came is None or came.done():
            return
        if error is not None:
            came.set_exception(Fatal(f"{error.code}: {error.message}"))
        else:
            came.set_result(run or "")


PING = protocol.encode(protocol.Ping())
LOST = protocol.Error("disconnected", "the connection ended before the answer arrived; the run may have been started")


class DirectConnect(connect):
    """Follows no redirect: a captive portal's leads to a page, and the credential is for this server alone."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def find_proxy(url: str) -> str | None:
    """The proxy of this machine's settings. Raises Fatal for one that can never be used; it is not repeated, since it
    may contain a password.
    """
    address = get_proxy(parse_uri(url))
    if address is None:
        return None
    proxy = address if "://" in address else f"http://{address}"
    try:
        scheme = parse_proxy(proxy).scheme
    except (ValueError, websockets.WebSocketException):
        raise Fatal("the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY is not an address such as http://proxy:3128")
    if scheme.startswith("socks") and importlib.util.find_spec("python_socks") is None:
        raise Fatal("the proxy in HTTPS_PROXY or ALL_PROXY is a SOCKS proxy: pip install python-socks[asyncio]")
    return proxy


def explain_disconnect(error: BaseException) -> str:
    """For the log. The client cannot tell a proxy that is in the way from a server that is starting."""
    if isinstance(error, sqlite3.Error):
        return f"the records of this device cannot be written: {error}"
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        return f"the answer was HTTP {status}, which is not the server's refusal of this device (a proxy's, perhaps)"
    return str(error) or type(error).__name__


def check_final(error: BaseException, refusals: int) -> None:
    """Raises Fatal if trying again cannot help."""
    if refusals >= REFUSALS:
        raise Fatal("the server refuses this device's credential: it was revoked or is wrong. Pair the device again.")
    received = getattr(error, "rcvd", None)
    if received is not None and received.code in FINAL:
        raise Fatal(FINAL[received.code])
