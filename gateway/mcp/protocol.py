"""JSON-RPC messages of MCP as a server reads them: the two eras, versions, errors and headers.

2026-07-28 has no sessions: each request says its version and the client's capabilities. Earlier
versions begin with `initialize`, and the session's id carries the same facts, signed.
"""

from base64 import b64decode
from binascii import Error as NotBase64
from dataclasses import dataclass, field
from typing import Any

from agents import roles
from agents.models import ApiKey
from connectors.mcp import headers
from connectors.mcp.messages import LEGACY, LEGACY_VERSIONS, MODERN
from connectors.mcp.session import PREFIX

JSON = Any
PARSE, REQUEST, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
HEADER, CAPABILITY, VERSION = -32020, -32021, -32022
# For earlier versions; 2026-07-28 answers PARAMS.
NO_RESOURCE = -32002
# For authentication, rights and limits, which the HTTP status tells apart.
REFUSED = -32000
SUPPORTED = [MODERN, *sorted(LEGACY_VERSIONS, reverse=True)]
# The version of a request that names none.
OLDEST = "2025-03-26"
VERSION_KEY, CLIENT_KEY, CAPABILITIES_KEY = (
    f"{PREFIX}/protocolVersion", f"{PREFIX}/clientInfo", f"{PREFIX}/clientCapabilities",
)  # fmt: skip
TASKS, APPS = f"{PREFIX}/tasks", f"{PREFIX}/ui"
MIME = "text/html;profile=mcp-app"
LEVEL_KEY = f"{PREFIX}/logLevel"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
# Where a run's metadata keeps which request started it.
ORIGIN = "mcp"
# The parameter that the header Mcp-Name repeats.
NAMED = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
    "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}  # fmt: skip


class Fault(Exception):
    """A JSON-RPC error. `status` is that of the HTTP answer."""

    def __init__(self, code: int, message: str, *, data: JSON = None, status: int = 200) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.status = status

    def as_json(self, id: JSON) -> dict[str, JSON]:
        error = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        answer: dict[str, JSON] = {"jsonrpc": "2.0"}
        if id is not None:
            answer["id"] = id
        answer["error"] = error
        return answer


@dataclass(slots=True)
class RpcRequest:
    """One request of a client, and on whose behalf. `session` is empty in 2026-07-28."""

    user: Any
    auth: Any
    method: str
    params: dict[str, JSON]
    id: JSON
    version: str
    capabilities: dict[str, JSON] = field(default_factory=dict)
    client: str = ""
    session: str = ""
    # Empty if the client wants no log messages.
    log_level: str = ""

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    @property
    def key(self) -> ApiKey | None:
        return self.auth if isinstance(self.auth, ApiKey) else None

    @property
    def progress(self) -> JSON:
        """The token under which the client wants to hear of progress; None if it does not."""
        return get_params_meta(self.params).get("progressToken")

    def can(self, *path: str) -> bool:
        """Whether the client declared a capability."""
        value: JSON = self.capabilities
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return isinstance(value, dict)

    @property
    def has_apps(self) -> bool:
        """Whether the client shows MCP Apps."""
        if not self.can("extensions", APPS):
            return False
        media_types = self.capabilities["extensions"][APPS].get("mimeTypes")
        return MIME in as_list(media_types)

    @property
    def shows_cards(self) -> bool:
        """Whether this is a call that may end with an MCP App."""
        return self.method == "tools/call" and self.has_apps

    def may(self, scope: str) -> bool:
        """Whether the key and the person's role allow it."""
        if self.key is not None and not self.key.allows(scope):
            return False
        return roles.allows(self.user, scope)

    def text(self, name: str) -> str:
        """A text among the parameters. Raises Fault."""
        value = self.params.get(name)
        if not isinstance(value, str) or not value or len(value) > 4000 or "\0" in value:
            raise Fault(PARAMS, f"“{name}” must be text.")
        return value

    def object(self, name: str) -> dict[str, JSON]:
        """An object among the parameters; empty if it is missing. Raises Fault."""
        value = self.params.get(name)
        if value is not None and not isinstance(value, dict):
            raise Fault(PARAMS, f"“{name}” must be an object.")
        return value or {}


def need(rpc: RpcRequest, *path: str) -> None:
    """Raises Fault for a client that did not declare this capability."""
    if rpc.can(*path):
        return
    capability: dict[str, JSON] = {}
    for name in reversed(path):
        capability = {name: capability}
    message = "Missing required client capability: " + "/".join(path)
    status = 400 if rpc.is_modern else 200
    raise Fault(CAPABILITY, message, data={"requiredCapabilities": capability}, status=status)


def level(value: JSON) -> str:
    """A level of log messages. Raises Fault."""
    if value not in LEVELS:
        raise Fault(PARAMS, f"The level must be one of {', '.join(LEVELS)}.")
    return str(value)


def as_list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def get_params_meta(params: JSON) -> dict[str, JSON]:
    if not isinstance(params, dict):
        return {}
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def check_rpc_message(message: JSON) -> dict[str, JSON]:
    """The message, if it is one of JSON-RPC. Raises Fault."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Fault(REQUEST, "Send one JSON-RPC 2.0 message.", status=400)
    id = message.get("id")
    method = message.get("method")
    params = message.get("params")
    has_id = isinstance(id, str | int) and not isinstance(id, bool) and len(str(id)) <= 200
    if "id" in message and not has_id:
        raise Fault(REQUEST, "“id” must be text or an integer.", status=400)
    is_response = method is None and has_id and ("result" in message or "error" in message)
    if is_response:
        return message
    if not isinstance(method, str) or len(method) > 200:
        raise Fault(REQUEST, "“method” must be text.", status=400)
    if params is not None and not isinstance(params, dict):
        raise Fault(PARAMS, "“params” must be an object.", status=400)
    return message


def is_modern(message: dict[str, JSON], header: str) -> bool:
    """Whether a message is meant in the newest version. One with an unknown version is, too: it gets that answer."""
    if VERSION_KEY in get_params_meta(message.get("params")):
        return True
    return bool(header) and header not in LEGACY_VERSIONS and message.get("method") != "initialize"


def check_modern(message: dict[str, JSON], request_headers: Any) -> None:
    """What each request of the newest version must say, in body and headers. Raises Fault."""
    params = message.get("params") or {}
    meta = get_params_meta(params)
    version = meta.get(VERSION_KEY)
    if not isinstance(version, str):
        raise Fault(PARAMS, f"“params._meta” must have “{VERSION_KEY}”.", status=400)
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        raise Fault(PARAMS, f"“params._meta” must have “{CAPABILITIES_KEY}”.", status=400)
    require_header(request_headers, "MCP-Protocol-Version", version)
    if version != MODERN:
        data = {"supported": SUPPORTED, "requested": version}
        raise Fault(VERSION, "Unsupported protocol version", data=data, status=400)
    # Proxies route by these headers, so they must not differ from the body.
    method = message["method"]
    require_header(request_headers, "Mcp-Method", method)
    name = NAMED.get(method)
    if name:
        require_header(request_headers, "Mcp-Name", params.get(name))


def require_header(request_headers: Any, name: str, value: JSON) -> None:
    """Raises Fault unless the header repeats the value."""
    header = request_headers.get(name)
    if header is None:
        raise Fault(HEADER, f"Header mismatch: {name} is missing.", status=400)
    if decode_mcp_header(header) != value:
        raise Fault(HEADER, f"Header mismatch: {name} does not match the body.", status=400)


def check_arguments(rpc: RpcRequest, schema: JSON, request_headers: Any) -> None:
    """The headers that repeat marked arguments (`x-mcp-header`). Raises Fault."""
    if not rpc.is_modern:
        return
    try:
        rules = headers.of_arguments(schema, rpc.object("arguments"))
    except headers.BadMark:
        # A mark that is not valid is no mark.
        return
    for name in headers.marks(schema):
        header = f"Mcp-Param-{name}"
        if header in rules:
            require_header(request_headers, header, decode_mcp_header(rules[header]))
        elif header in request_headers:
            raise Fault(HEADER, f"Header mismatch: {header} has no argument.", status=400)


def decode_mcp_header(value: str) -> str | None:
    """A header's value; None for a broken one."""
    value = value.strip(" \t")
    is_encoded = value.startswith("=?base64?") and value.endswith("?=")
    if not is_encoded:
        return value if headers.PLAIN.fullmatch(value) else None
    try:
        return b64decode(value[9:-2], validate=True).decode()
    except (NotBase64, UnicodeDecodeError, ValueError):
        return None


def choose_session_version(version: JSON) -> str:
    """The version that `initialize` settles on: the client's, or the newest one with sessions."""
    return version if version in LEGACY_VERSIONS else LEGACY


def build_rpc_response(rpc: RpcRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    """The response with a result; in the newest version it says what kind it is and who answers."""
    if rpc.is_modern:
        meta = {f"{PREFIX}/serverInfo": SERVER, **result.get("_meta", {})}
        result = {"resultType": "complete", **result, "_meta": meta}
    return {"jsonrpc": "2.0", "id": rpc.id, "result": result}


SERVER = {"name": "muster", "title": "Muster", "version": "1"}
INSTRUCTIONS = (
    "The tools are agents, chains and functions of a Muster site. An agent takes a task in words and answers when it "
    "is done. To go on in the same conversation, send the `session` of its last result. A call may wait until a person "
    "has approved something."
)
