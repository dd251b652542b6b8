"""The WebSocket of one device: one method per frame. It never waits for a device; results are
written elsewhere.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError

from agents.exceptions import MusterError
from devices import presence, protocol
from devices.models import Device, DeviceCredential
from devices.models.device import Admission
from devices.nudges import name_device_channel
from devices.settling import SETTLER, Arrival
from devices.sweeping import SWEEPER
from devices.threads import in_batch
from devices.wire import BadFrame
from plumbing import clock, json_values
from plumbing.broker.listener import LISTENER
from plumbing.sockets import RESTART
from plumbing.threads import in_thread

log = logging.getLogger(__name__)


def nothing(*_: Any) -> None:
    return None


class DeviceConsumer(AsyncWebsocketConsumer):
    """Callbacks passed in by config/asgi.py: `on_settled(run_id)` wakes a run that waits for a
    call, `on_online(device_id)` starts what waited for the device, `on_request(device_id, frame)`
    starts a run for it and returns the run's id.
    """

    def __init__(
        self,
        *args: Any,
        on_settled: Callable[[uuid.UUID], Any] = nothing,
        on_online: Callable[[uuid.UUID], Any] = nothing,
        on_request: Callable[[uuid.UUID, protocol.RunRequest], str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        SETTLER.on_settled = on_settled
        self.on_online = on_online
        self.on_request = on_request
        self.device: Device | None = None
        self.credential = ""
        self.socket = ""
        self.has_greeted = False
        self.early: dict[str, str] = {}
        self.bad_frames = 0
        self.last_heard = 0.0
        self.background: set[asyncio.Task] = set()

    # -- coming and going -----------------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Channels' own loop creates two tasks and a thread switch per frame, which are not needed
        here.
        """
        self.scope, self.base_send = scope, send
        # The first message is `websocket.connect`.
        await receive()
        coming, next_message = asyncio.ensure_future(self.connect()), asyncio.ensure_future(receive())
        await asyncio.wait([coming, next_message], return_when=asyncio.FIRST_COMPLETED)
        try:
            if not coming.done():
                await self.give_up(coming)
                return
            coming.result()
            while (message := await next_message)["type"] != "websocket.disconnect":
                if self.device is not None:
                    # Without a device its credential was refused.
                    await self.receive(message.get("text"))
                next_message = receive()
        except Exception:
            if self.device is not None:
                with suppress(Exception):
                    # The line may be gone as well.
                    await self.close(code=RESTART)
            raise
        finally:  # also after a database error: otherwise the device would stay online without a socket
            await self.disconnect(0)

    async def give_up(self, coming: asyncio.Task) -> None:
        """The device disconnected before it was admitted: only devices that still wait are worth
        the work.
        """
        coming.cancel()
        await asyncio.wait([coming])

    async def connect(self) -> None:
        """The credential is checked before the handshake is accepted; a wrong one gets HTTP 403, or the close
        code 4401 with a proof that the answer is ours.
        """
        admission = await in_batch(DeviceCredential.admit, bearer(self.scope))
        if not isinstance(admission, Admission):
            if admission is not None:
                # A task, so that a device that disconnected is not waited for.
                self.start(in_thread(presence.tell_revoked, admission.device))
            await self.refuse_handshake()
            return
        self.device, self.credential = admission.device, admission.credential
        self.socket = presence.socket_name(admission.number)
        LISTENER.subscribe(name_device_channel(self.device.pk), self.hear, loop=asyncio.get_running_loop())
        self.heard()
        await self.accept()
        SWEEPER.add(self)

    async def refuse_handshake(self) -> None:
        """To a device that sent a nonce it is said over the socket, with a proof: a 403 could be any proxy's."""
        nonce = read_scope_header(self.scope, protocol.NONCE)[:200]
        if not nonce:
            await self.close()
            return
        await self.accept()
        proof = protocol.prove_refusal(bearer(self.scope), nonce)
        await self.send_frame(protocol.Error(protocol.CREDENTIAL_REFUSED, proof))
        await self.close(protocol.REFUSED)

    async def disconnect(self, code: int) -> None:
        SWEEPER.remove(self)
        if self.device is None:
            return
        LISTENER.unsubscribe(name_device_channel(self.device.pk), self.hear)
        await in_batch(presence.record_disconnect, self.device.pk, self.socket)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """One frame; a binary frame counts as a bad one."""
        self.heard()
        try:
            frame = protocol.parse_frame(text_data, protocol.FROM_DEVICE)
        except BadFrame as error:
            await self.refuse(error.code, str(error))
            return
        if not self.has_greeted and not isinstance(frame, protocol.DeviceHello):
            await self.refuse("hello_first", "the first frame must be device_hello")
            return
        await getattr(self, f"on_{frame.type}")(frame)

    def heard(self) -> None:
        self.last_heard = asyncio.get_running_loop().time()

    async def refuse(self, code: str, message: str) -> None:
        """An error frame; the tenth bad frame closes the socket."""
        self.bad_frames += 1
        await self.send_frame(protocol.Error(code, message))
        if self.bad_frames >= protocol.MAX_BAD_FRAMES:
            await self.close(protocol.TOO_MANY_BAD_FRAMES, "ten bad frames")

    async def send(self, text_data: str | None = None, bytes_data: bytes | None = None, close: bool = False) -> None:
        """Channels' own method passes a frame through two more coroutines."""
        await self.base_send({"type": "websocket.send", "text": text_data})

    async def send_frame(self, frame: Any) -> None:
        await self.send(text_data=protocol.encode(frame))

    # -- frames from the device -----------------------------------------------------------------------------------

    async def on_device_hello(self, hello: protocol.DeviceHello) -> None:
        assert self.device is not None
        if hello.protocol != protocol.VERSION:
            await self.refuse("unsupported_protocol", f"this server speaks protocol version {protocol.VERSION}")
            return
        if hello.device_id and hello.device_id != str(self.device.pk):
            await self.refuse("wrong_device", "this credential belongs to another device")
            return
        arrival = await in_batch(presence.arrive, self.device.pk, self.socket, hello)
        if arrival is None:
            await self.close(protocol.REVOKED, "this device was revoked")
            return
        if arrival.is_late:
            await self.give_way()
            return
        ack = protocol.HelloAck(settings.DEVICE_HEARTBEAT_S, self.credential or None, tuple(arrival.resend))
        self.credential = ""
        await self.send_frame(ack)
        await self.catch_up(arrival)
        await in_thread(presence.tell_replaced, self.device.pk, self.socket)
        self.start(in_thread(self.on_online, self.device.pk))

    async def catch_up(self, arrival: presence.Arrival) -> None:
        """Calls that waited for this device, and those that arrived while the hello was processed."""
        handed_over = {id for id, _ in arrival.frames}
        texts = [text for _, text in arrival.frames]
        for id, text in self.early.items():
            if id not in handed_over:
                texts.append(text)
        self.has_greeted = True
        self.early = {}
        for text in texts:
            await self.send(text_data=text)

    async def on_tool_ack(self, frame: protocol.ToolAck) -> None:
        self.note(frame)

    async def on_tool_result(self, frame: protocol.ToolResult) -> None:
        self.note(frame)

    async def on_tool_progress(self, frame: protocol.ToolProgress) -> None:
        self.note(frame)

    def note(self, frame: Any) -> None:
        assert self.device is not None
        SETTLER.put(Arrival(self.device.pk, frame, clock.near()))

    async def on_ping(self, frame: protocol.Ping) -> None:
        assert self.device is not None
        SETTLER.heard(self.device.pk)
        await self.send(text_data=PONG)

    async def on_run_request(self, frame: protocol.RunRequest) -> None:
        self.start(self.answer_request(frame))

    async def answer_request(self, frame: protocol.RunRequest) -> None:
        """Runs in its own task: starting a run takes a few statements, during which other frames
        continue.
        """
        assert self.device is not None
        if self.on_request is None:
            await self.send_frame(protocol.Error("unsupported", "this server does not start runs for devices"))
            return
        try:
            run_id = await in_thread(self.on_request, self.device.pk, frame)
        except MusterError as error:
            await self.send_frame(protocol.Error(error.code, str(error), frame.request_id))
            return
        except DatabaseError as error:
            log.error("A run requested by device %s was not started: %s", self.device, error)
            await self.send_frame(protocol.Error("database_unavailable", "ask again", frame.request_id))
            return
        await self.send_frame(protocol.RunAccepted(str(run_id), frame.request_id))

    def start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.finished)

    def finished(self, task: asyncio.Task) -> None:
        self.background.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error:
            log.error("Work for device %s failed", self.device, exc_info=error)

    # -- messages from workers and other server processes ---------------------------------------------------------

    def hear(self, data: bytes | None) -> None:
        """Each message gets its own task, so the next does not wait for it. The sweeper finds lost
        messages.
        """
        if data:
            message = json_values.load_json(data)
            self.start(getattr(self, message["type"])(message))

    async def device_call(self, event: dict[str, Any]) -> None:
        if self.has_greeted:
            await self.send(text_data=event["text"])
        else:
            self.early[event["id"]] = event["text"]

    async def device_frame(self, event: dict[str, Any]) -> None:
        if self.has_greeted:
            await self.send(text_data=event["text"])

    async def device_replaced(self, event: dict[str, Any]) -> None:
        """The row decides: the message may have been sent before this socket took over."""
        assert self.device is not None
        if event["socket"] == self.socket or not self.has_greeted:
            return
        if not await in_thread(presence.is_current, self.device.pk, self.socket):
            await self.give_way()

    async def give_way(self) -> None:
        await self.send_frame(protocol.Error("replaced", "the device has connected again elsewhere"))
        await self.close(protocol.REPLACED, "replaced by a newer connection of this device")

    async def device_revoked(self, event: dict[str, Any]) -> None:
        await self.send_frame(protocol.Error("revoked", "this device was revoked"))
        await self.close(protocol.REVOKED, "this device was revoked")


PONG = protocol.encode(protocol.Pong())


def bearer(scope: dict[str, Any]) -> str:
    """The credential from the handshake's Authorization header; the query string is ignored."""
    words = read_scope_header(scope, "Authorization").split()
    if len(words) != 2:
        return ""
    scheme, credential = words
    if scheme.lower() != "bearer":
        return ""
    return credential


def read_scope_header(scope: dict[str, Any], name: str) -> str:
    headers = dict(scope.get("headers", []))
    value = headers.get(name.lower().encode(), b"")
    return value.decode("latin-1")
