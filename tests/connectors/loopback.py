"""A loopback HTTP server for fakes: handlers by path, faults on demand, every request remembered."""

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes import LoopbackServer


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    target: str = ""  # path and query, byte for byte

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")

    @property
    def form(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(self.body.decode()).items()}

    def one(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


@dataclass
class Fault:
    """What happens instead, `times` times, to requests whose path holds `where`. `cut` truncates a good answer."""

    where: str
    status: int = 0
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang_up: bool = False
    times: int = 1


class Answer(Exception):
    """Raised or returned by a handler: anything but 200 with JSON."""

    def __init__(self, status: int, body: Any = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


class Loopback:
    """`routes` is a list of (method, pattern, handler(asked, *groups)). Use as a context."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.routes: list[tuple[str, re.Pattern[str], Callable[..., Any]]] = []
        self.faults: list[Fault] = []
        self.asked: list[Asked] = []
        self.lock = threading.RLock()
        self._server = LoopbackServer(self._handler(), host)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self._server.server_port}"

    def __enter__(self) -> Any:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self, where: str) -> int:
        return sum(where in asked.path for asked in self.asked)

    def answer(self, asked: Asked) -> Answer:
        for method, pattern, handler in self.routes:
            if method == asked.method and (match := pattern.fullmatch(asked.path)):
                with self.lock:
                    try:
                        value = handler(asked, *map(unquote, match.groups()))
                    except Answer as answer:
                        return answer
                return value if isinstance(value, Answer) else Answer(200, value)
        return Answer(404, {"error": {"code": "NotFound", "message": f"no route {asked.method} {asked.path}"}})

    def fault_for(self, asked: Asked) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.where in asked.path and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def respond(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                parts = urlsplit(self.path)
                headers = {key.lower(): value for key, value in self.headers.items()}
                query = parse_qs(parts.query, keep_blank_values=True)
                asked = Asked(self.command, parts.path, query, headers, self.rfile.read(length), self.path)
                fake.asked.append(asked)
                fault = fake.fault_for(asked)
                if fault and fault.hang_up:
                    self.close_connection = True
                    return
                if fault and fault.status:
                    self.write(Answer(fault.status, fault.body, fault.headers))
                    return
                self.write(fake.answer(asked), is_cut=bool(fault and fault.cut))

            def write(self, answer: Answer, *, is_cut: bool = False) -> None:
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                body = b"" if answer.body is None else body
                self.send_response(answer.status)
                if "Content-Type" not in answer.headers:
                    self.send_header("Content-Type", "application/json")
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if is_cut else body)
                self.wfile.flush()
                self.close_connection = self.close_connection or is_cut

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = respond

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


class Tokens(Loopback):
    """An OAuth server: codes, refreshes that may rotate, device codes, revocation. `expires_in` is what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.expires_in = 3600
        self.rotates = False
        self.refreshes = 0
        self.refresh_s = 0.0
        self.live: set[str] = set()
        self.refresh_tokens: set[str] = {"refresh-0"}
        self.codes: dict[str, dict[str, str]] = {}
        self.revoked: list[str] = []
        self.device_answers: list[str] = []
        self.error = ""
        self.scope = ""
        self.forms: list[dict[str, str]] = []
        for path in ("/token", "/oauth2/v2.0/token"):
            self.routes.append(("POST", re.compile(path), self.token))
        for path in ("/device/code", "/oauth2/v2.0/devicecode"):
            self.routes.append(("POST", re.compile(path), self.device))
        self.routes.append(("POST", re.compile("/revoke"), self.revoke))

    def give_code(self, challenge: str) -> str:
        code = f"code-{len(self.codes)}"
        self.codes[code] = {"challenge": challenge}
        return code

    def token(self, asked: Asked) -> Any:
        form = asked.form
        self.forms.append(form)
        if self.error:
            raise Answer(400, {"error": self.error, "error_description": "as the test wants it"})
        grant = form["grant_type"]
        if grant == "refresh_token":
            return self.refreshed(form)
        if grant == "authorization_code":
            return self.exchanged(form)
        if self.device_answers and (word := self.device_answers.pop(0)) != "ok":
            raise Answer(400, {"error": word})
        return self.fresh("refresh-0")

    def refreshed(self, form: dict[str, str]) -> Any:
        if form["refresh_token"] not in self.refresh_tokens:
            raise Answer(400, {"error": "invalid_grant", "error_description": "Token has been expired or revoked."})
        if self.refresh_s:
            time.sleep(self.refresh_s)  # a slow service: others ask meanwhile
        self.refreshes += 1
        if not self.rotates:
            return self.fresh("")
        self.refresh_tokens = {f"refresh-{self.refreshes}"}
        return self.fresh(f"refresh-{self.refreshes}")

    def exchanged(self, form: dict[str, str]) -> Any:
        import base64
        import hashlib

        known = self.codes.pop(form.get("code", ""), None)
        sent = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if known is None or known["challenge"] != sent:
            raise Answer(400, {"error": "invalid_grant", "error_description": "The code is wrong or used."})
        return self.fresh("refresh-0")

    def fresh(self, refresh: str) -> Any:
        token = f"access-{len(self.live)}"
        self.live.add(token)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in}
        if refresh:
            answer["refresh_token"] = refresh
        if self.scope:
            answer["scope"] = self.scope
        return answer

    def device(self, asked: Asked) -> Any:
        return {
            "device_code": "device-1", "user_code": "ABCD-EFGH", "verification_uri": "https://example.com/device",
            "interval": 5, "expires_in": 900,
        }  # fmt: skip

    def revoke(self, asked: Asked) -> Any:
        self.revoked.append(asked.form["token"])
        return {}

    def require_token(self, asked: Asked) -> None:
        if asked.token not in self.live:
            raise Answer(401, {"error": {"code": 401, "message": "Invalid Credentials", "status": "UNAUTHENTICATED"}})
