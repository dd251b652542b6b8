"""Answers that are slow, packed, empty or in another shape than was asked for, over real connections."""

import gzip
import json
import socket
import threading
from time import monotonic

import pytest

from agents.models import Provider
from agents.spec import ModelParams
from registry.exceptions import ModelFailed
from registry.llm import attempts, llms
from registry.llm.attempts import ask_model
from registry.llm.chat import Question
from registry.llm.watch import Watch
from tests.live_agents import user

HEARD = pytest.mark.parametrize("hear", [None, str], ids=["whole", "streamed"])
USAGE = {"prompt_tokens": 1, "completion_tokens": 1}
WHOLE = {"object": "chat.completion", "usage": USAGE,
         "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]}  # fmt: skip
HELLO = {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": None}]}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def events(*values):
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values) + b"data: [DONE]\n\n"


def head(kind, status="200 OK", **more):
    fields = {
        "Content-Type": kind,
        "Connection": "close",
        **{key.replace("_", "-"): value for key, value in more.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode()


JSON_HEAD, STREAM_HEAD = head("application/json"), head("text/event-stream")


class Byteserver:
    """Answers each connection with the next of its answers: bytes, or a function that writes to the socket."""

    def __init__(self):
        self.answers = []
        self.asked = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            self.asked += 1
            answer = self.answers[min(self.asked, len(self.answers)) - 1]
            read_request(connection)
            try:
                connection.sendall(answer) if isinstance(answer, bytes) else answer(connection)
            except OSError:
                pass  # the client has given up

    def stop(self):
        self.listener.close()


def read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    at_head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in at_head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)


@pytest.fixture
def server(settings, monkeypatch):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    monkeypatch.setattr(attempts, "BACKOFF_S", 0.0)
    server = Byteserver()
    yield server
    server.stop()


def hold(server, *answers, hear=None, deadline=None):
    server.answers = list(answers)
    provider = Provider(pk=1, kind="openai-compatible", base_url=server.url, api_key="key")
    llms.make_model.cache_clear()
    model = llms.make_model(provider, ModelParams())
    return ask_model(model, Question("m", user("Hello"), (), None, hear, Watch(deadline=deadline)), ())


def dripping(beginning, piece):
    """Sends a beginning, and then a piece again and again."""

    def answer(connection):
        connection.sendall(beginning)
        stopped = threading.Event()
        while True:
            connection.sendall(piece)
            stopped.wait(0.05)

    return answer


@HEARD
@pytest.mark.parametrize(
    "answer",
    [
        dripping(b"HTTP/1.1 200 OK\r\nX-Wait: ", b"."),
        dripping(JSON_HEAD + b'{"choices": [{"index": 0, "message": {"content": "', b"a"),
        dripping(STREAM_HEAD + b'data: {"choices": [{"index": 0, "delta": {"content": "', b"a"),
        dripping(STREAM_HEAD + events(HELLO)[:60], b"a"),
    ],
    ids=["head", "whole", "event", "second event"],
)
def test_a_server_that_drips_is_given_up(server, settings, hear, answer):
    settings.MODEL_SILENCE_S = 0.4
    began = monotonic()
    with pytest.raises(ModelFailed) as failure:
        hold(server, answer, hear=hear)
    assert failure.value.code == "model_timeout" and failure.value.attempts == 3
    assert monotonic() - began < 60


def test_a_server_may_send_comments_and_white_space_while_it_thinks(server, settings):
    settings.MODEL_SILENCE_S = 4.0  # less than it thinks, and far more than any pause is on a busy machine

    def comments(connection):
        connection.sendall(STREAM_HEAD)
        for _ in range(45):
            connection.sendall(b": still thinking\n\n")
            threading.Event().wait(0.1)
        connection.sendall(events(HELLO, END))

    def blanks(connection):
        connection.sendall(JSON_HEAD)
        for _ in range(45):
            connection.sendall(b"\n ")
            threading.Event().wait(0.1)
        connection.sendall(json.dumps(WHOLE).encode())

    assert hold(server, comments, hear=str)[0].text == "Hello."
    assert hold(server, blanks)[0].text == "Hello."


PACKED, PACKED_EVENTS = gzip.compress(json.dumps(WHOLE).encode()), gzip.compress(events(HELLO, END))
GZIP = {"Content_Encoding": "gzip"}


@HEARD
@pytest.mark.parametrize(
    "answer",
    [
        head("application/json", **GZIP) + json.dumps(WHOLE).encode(),
        head("application/json", **GZIP) + PACKED,
        head("text/event-stream", **GZIP) + events(HELLO, END),
        head("text/event-stream", **GZIP) + PACKED_EVENTS,
        JSON_HEAD + json.dumps(WHOLE).encode(),
        STREAM_HEAD + events(HELLO, END),
        head("text/plain") + events(HELLO, END),
        head("application/octet-stream") + b"\xef\xbb\xbf" + json.dumps(WHOLE).encode(),
        STREAM_HEAD + b"\xef\xbb\xbf" + events(HELLO, END),
        STREAM_HEAD + json.dumps(WHOLE, indent=1).encode().replace(b"\n", b"\ndata: ").join([b"data: ", b"\n\n"]) ,
    ],
    ids=["false gzip", "gzip", "false gzip stream", "gzip stream", "whole", "stream", "stream as text", "mark", "mark in a stream", "lines"],
)  # fmt: skip
def test_an_answer_is_read_in_whatever_form_it_comes(server, hear, answer):
    reply, _, attempts = hold(server, answer, hear=hear)
    assert (reply.text, attempts) == ("Hello.", 1)


def chosen(**choice):
    return JSON_HEAD + json.dumps({**WHOLE, "choices": [{"index": 0, "finish_reason": "stop", **choice}]}).encode()


FINE = JSON_HEAD + json.dumps(WHOLE).encode()


@HEARD
@pytest.mark.parametrize(
    "answer",
    [
        JSON_HEAD + json.dumps({**WHOLE, "choices": []}).encode(),
        JSON_HEAD + json.dumps({"choices": []}).encode(),
        chosen(message=None),
        chosen(),
        JSON_HEAD + b"null",
        JSON_HEAD + b"",
        head("text/html") + b"<html><title>Please wait</title></html>",
        STREAM_HEAD + events(),
        STREAM_HEAD + b'data: {"error": {"message": "The engine is busy", "type": "internal"}}\n\n',
        STREAM_HEAD + b'data: {"object": "error", "message": "busy"}\n\ndata: [DONE]\n\n',
        STREAM_HEAD + b'data: {"detail": {"error": "Model busy, retry later"}}\n\n',
        STREAM_HEAD + b"event: error\ndata: busy\n\n",
        STREAM_HEAD + events(HELLO)[:-16] + b'data: {"error_message": "the stream broke"}\n\n',
        STREAM_HEAD + b'data: {"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "bad"}, '
        b'"finish_reason": "error"}]}\n\n',
        head("application/json", "429 Too Many Requests", Retry_After="Thu, 01 Jan 1970 00:00:00 GMT") + b"{}",
        head("application/json", "529 Overloaded") + b'{"error": {"message": "Overloaded"}}',
    ],
)
def test_what_is_no_answer_is_asked_for_again(server, hear, answer):
    reply, _, attempts = hold(server, answer, FINE, hear=hear)
    assert (reply.text, attempts) == ("Hello.", 2)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (head("application/json", "402 Payment Required") + b'{"error": {"message": "no credits"}}', "model_refused"),
        (head("application/json", "429 X") + b'{"error": {"message": "You exceeded your current quota", '
         b'"code": "insufficient_quota"}}', "model_rate_limited"),
        (JSON_HEAD + b'{"error": {"code": 402, "message": "Insufficient credits"}}', "model_refused"),
        (head("application/json", "400 X") + b'{"error": {"message": "llama3 does not support tools"}}', "model_refused"),
        (head("application/json", "413 X") + b"", "context_overflow"),
        (head("text/html", "404 Not Found") + b"<title>404 Not Found</title>", "model_refused"),
        (JSON_HEAD + b'"' + b"a" * (33 * 1024 * 1024), "bad_answer"),
    ],
    ids=["credits", "quota", "credits with 200", "tools", "too large", "page", "100 MB"],
)  # fmt: skip
def test_what_cannot_help_is_not_repeated(server, answer, code):
    with pytest.raises(ModelFailed) as failure:
        hold(server, answer)
    assert (failure.value.code, failure.value.attempts, server.asked) == (code, 1, 1)


def test_a_page_of_a_proxy_is_told_by_its_title(server):
    with pytest.raises(ModelFailed, match="a page with the title “502 Bad Gateway”"):
        hold(server, head("text/html", "502 Bad Gateway") + b"<html><title>502 Bad\n Gateway</title>")


def test_a_page_that_is_no_error_is_told_as_such(server):
    with pytest.raises(ModelFailed) as failure:
        hold(server, head("text/html") + b"<html>Log in</html>")
    assert failure.value.code == "bad_answer" and failure.value.attempts == 3
