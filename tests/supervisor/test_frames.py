"""The shortcut for short texts and autobahn read and write the same, however the network cuts it."""

import asyncio
import random
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from autobahn.twisted.websocket import WebSocketServerProtocol
from daphne import server as daphne_server  # installs Twisted's reactor before anything else asks for one
from daphne.ws_protocol import WebSocketFactory
from twisted.internet.abstract import FileDescriptor
from twisted.internet.testing import StringTransport
from twisted.web import http
from websockets.frames import Frame, Opcode

from supervisor import frames

HANDSHAKE = (
    b"GET /ws/devices/ HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
SIZES = [0, 1, 2, 124, 125, 126, 127, 1000, 65_534, 65_535, 65_536, 70_000]


def test_the_private_parts_of_the_web_server_are_as_they_were_checked():
    """After an upgrade, read supervisor/frames.py and backpressure.py beside the new sources, then change this."""
    checked = {"daphne": "4.2.3", "autobahn": "26.10.2", "twisted": "26.10.0"}
    assert {name: version(name) for name in checked} == checked
    assert callable(http._parseContentType)
    for name in ("_dataReceived", "_cancelAutoPingTimeoutCall"):
        assert callable(getattr(WebSocketServerProtocol, name))
    assert {"dataBuffer", "_tempDataBuffer"} <= set(dir(FileDescriptor()))


class Transport(StringTransport):
    """The kernel takes `room` bytes at once; the rest waits for the loop."""

    room = 10**9
    dataBuffer = _tempDataBuffer = b""

    def writeSomeData(self, data):
        self.io.write(data[: self.room])
        return len(data[: self.room])

    def unregisterProducer(self):
        """Twisted's own does not mind when there is none."""


@pytest.fixture
def arriving():
    """A handshake that nobody has answered yet."""
    server = daphne_server.Server(None, endpoints=["none"])
    server.connections, said = {}, asyncio.Queue()
    server.websocket_timeout, server.websocket_connect_timeout = -1, 12
    server.create_application = lambda protocol, scope: said
    factory = WebSocketFactory(server)
    frames.speak_shortly(factory)
    factory.setProtocolOptions(openHandshakeTimeout=0)
    made = factory.buildProtocol(None)
    made._raw_query_string = b""
    made.makeConnection(Transport())
    made.dataReceived(HANDSHAKE)
    said.get_nowait()  # websocket.connect
    return made


@pytest.fixture
def protocol(arriving):
    arriving.serverAccept()
    arriving.transport.clear()
    return arriving


def test_who_waits_too_long_to_be_let_in_is_told_that_we_are_busy(arriving):
    """403 would say that the credential is void, and a device that believes it never comes back."""
    arriving.check_timeouts()
    assert arriving.transport.value() == b""
    arriving.socket_opened -= 13
    arriving.check_timeouts()
    assert arriving.transport.value().startswith(b"HTTP/1.1 503 ")
    arriving.check_timeouts()  # until the line is down
    assert arriving.transport.value().count(b"HTTP/1.1") == 1


def test_a_socket_that_was_let_in_may_stay(protocol):
    protocol.socket_opened -= 1_000_000
    protocol.check_timeouts()
    assert b"503" not in protocol.transport.value()


def texts_of(protocol):
    said = protocol.application_queue
    return [said.get_nowait() for _ in range(said.qsize())]


def masked(opcode, data, fin=True):
    return Frame(opcode, data, fin).serialize(mask=True)


@pytest.mark.parametrize("seed", range(8))
def test_messages_arrive_whole_and_in_order_however_they_are_cut(protocol, seed):
    chance = random.Random(seed)
    texts = ["ü" * (size // 2) + "x" * (size % 2) for size in SIZES * 2]
    chance.shuffle(texts)
    wire = b""
    for number, text in enumerate(texts):
        data = text.encode()
        if number % 5 == 0:  # in two frames with a ping between them
            half = len(data) // 2
            wire += masked(Opcode.TEXT, data[:half], fin=False) + masked(Opcode.PING, b"?")
            wire += masked(Opcode.CONT, data[half:])
        else:
            wire += masked(Opcode.TEXT, data)
    while wire:
        cut = chance.choice([1, 3, 7, 100, 5_000, 100_000])
        protocol.dataReceived(wire[:cut])
        wire = wire[cut:]
    assert texts_of(protocol) == [{"type": "websocket.receive", "text": text} for text in texts]


def test_what_is_no_short_text_is_left_to_autobahn(protocol):
    protocol.dataReceived(masked(Opcode.BINARY, b"\x00\x01") + masked(Opcode.PING, b"here?"))
    assert texts_of(protocol) == [{"type": "websocket.receive", "bytes": b"\x00\x01"}]
    assert protocol.transport.value() == Frame(Opcode.PONG, b"here?").serialize(mask=False)


@pytest.mark.parametrize(
    "wire",
    [masked(Opcode.TEXT, b"\xed\xa0\x80"), Frame(Opcode.TEXT, b"unmasked").serialize(mask=False)]
    + [b"\x81\xfe\x00\x05" + bytes(9), b"\xc1\x85" + bytes(9)],
    ids=["not UTF-8", "not masked", "length not minimal", "reserved bit"],
)
def test_broken_frames_close_the_connection_as_ever(protocol, wire):
    protocol.dataReceived(masked(Opcode.TEXT, b"good") + wire)
    assert texts_of(protocol) == [{"type": "websocket.receive", "text": "good"}]
    assert protocol.state != protocol.STATE_OPEN


def close_codes():
    """Every code with which a socket of ours is closed; 1009 is the library's own."""
    from devices import protocol as of_devices
    from plumbing.sockets import RESTART
    from runs.events import sockets

    people = (sockets.UNKNOWN, sockets.FORBIDDEN, sockets.MISSING, sockets.TOO_MANY)
    ours = (of_devices.REFUSED, of_devices.REPLACED, of_devices.REVOKED, of_devices.TOO_MANY_BAD_FRAMES)
    return {1000, RESTART, frames.FLOODED, of_devices.SILENT, *people, *ours}


def test_every_close_code_of_ours_is_sent(protocol):
    """The library sends 1000 and 3000 to 4999 alone: at 1012 it raised, and the socket stayed open and mute."""
    for code in sorted(close_codes()):
        protocol.state = protocol.STATE_OPEN
        protocol.transport.clear()
        protocol.serverClose(code)
        assert protocol.transport.value() == Frame(Opcode.CLOSE, code.to_bytes(2, "big")).serialize(mask=False)


def test_no_socket_is_closed_with_another_code():
    """A code is a name that the test above knows, or 1000."""
    known = {"RESTART", "code", "protocol.REFUSED", "protocol.TOO_MANY_BAD_FRAMES", "protocol.REVOKED"}
    known |= {"protocol.REPLACED", "protocol.SILENT", "1000"}
    for file in ("devices/consumers.py", "devices/sweeping.py", "plumbing/sockets.py", "runs/events/sockets.py",
                 "runs/api/consumers.py", "gateway/openai/socket.py"):  # fmt: skip
        text = Path(file).read_text()
        named = set(re.findall(r"(?:self|consumer|\])\.close\((?:code=)?([\w.]+)", text))
        assert named <= known, file


def test_nothing_is_heard_after_a_close(protocol):
    protocol.dataReceived(masked(Opcode.CLOSE, b"\x03\xe8") + masked(Opcode.TEXT, b"still there"))
    assert [said["type"] for said in texts_of(protocol)] in ([], ["websocket.disconnect"])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("room", [0, 5, 10**9])
def test_a_text_is_written_as_one_frame_whatever_the_kernel_takes(protocol, size, room):
    protocol.transport.room = room
    protocol.serverSend("x" * size)
    assert protocol.transport.value() == Frame(Opcode.TEXT, b"x" * size).serialize(mask=False)


def test_what_waits_in_line_is_not_overtaken(protocol):
    protocol.transport._tempDataBuffer = [b"earlier"]
    protocol.transport.writeSomeData = lambda data: pytest.fail("it overtook")
    protocol.serverSend("later")
    assert protocol.transport.value() == Frame(Opcode.TEXT, b"later").serialize(mask=False)


@pytest.mark.parametrize("size", [(1 << 20) + 1, 2 << 20])
def test_a_message_somewhat_too_long_is_for_its_consumer_to_refuse(protocol, size):
    protocol.dataReceived(masked(Opcode.TEXT, b"x" * size))
    assert [len(said["text"]) for said in texts_of(protocol)] == [size]


def test_who_sends_far_too_much_is_told_by_a_close_code(protocol):
    protocol.dataReceived(masked(Opcode.TEXT, b"x" * ((2 << 20) + 1)))
    assert texts_of(protocol) == []
    head, code = protocol.transport.value()[:2], protocol.transport.value()[2:4]
    assert (head[0], int.from_bytes(code, "big")) == (0x80 | Opcode.CLOSE, 1009)


ONE_BYTE = Frame(Opcode.TEXT, b"x").serialize(mask=True)
FLOODS = {
    "one byte": [ONE_BYTE],
    "pings": [Frame(Opcode.PING, b"").serialize(mask=True)],
    "continuations": [
        Frame(Opcode.TEXT, b"x", fin=False).serialize(mask=True),
        *[Frame(Opcode.CONT, b"", fin=False).serialize(mask=True)] * 99,
    ],
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_frames_ends_its_socket_with_a_code(protocol, kind):
    first, *more = FLOODS[kind]
    protocol.dataReceived(first)
    protocol.transport.clear()
    for _ in range(10):
        protocol.dataReceived(b"".join(more or [first]) * (1 + 2 * frames.FRAMES_AT_ONCE // (10 * (len(more) or 1))))
    said = protocol.transport.value()
    reason = frames.FLOODED.to_bytes(2, "big") + frames.TOO_MANY_FRAMES.encode()
    assert said.endswith(reason) and said.count(reason) == 1
    assert protocol.application_queue.qsize() <= frames.FRAMES_AT_ONCE and protocol.data == b""


def test_frames_that_come_as_fast_as_a_busy_device_sends_them_are_read(protocol):
    for _ in range(3):
        protocol.dataReceived(ONE_BYTE * (frames.FRAMES_AT_ONCE - 1))
        protocol.counted_since -= frames.FRAMES_AT_ONCE / frames.FRAMES_PER_S
    assert protocol.application_queue.qsize() == 3 * (frames.FRAMES_AT_ONCE - 1) and not protocol.is_flooded
