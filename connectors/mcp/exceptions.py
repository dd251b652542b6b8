"""How a conversation with an MCP server can fail, or stop for a question."""

from typing import Any

JSON = Any


class McpFailed(Exception):
    """The server cannot be used; `code` says why. `was_sent`: the request may have had its effect.

    `is_in_doubt` is set where that matters: the request was a call that must not be made twice.
    """

    is_in_doubt = False

    def __init__(self, code: str, message: str, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.was_sent = was_sent


class LoginWanted(McpFailed):
    """The server requires a login; with `scopes`, one that may do more."""

    def __init__(self, message: str, scopes: list[str]) -> None:
        super().__init__("login_wanted", message, was_sent=False)
        self.scopes = scopes


class SessionLost(McpFailed):
    """The server has forgotten the session, and has refused the request because of it: a new session helps."""

    def __init__(self) -> None:
        super().__init__("session_lost", "The server has closed this session.", was_sent=False)


class McpRefused(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, error: JSON) -> None:
        fields = error if isinstance(error, dict) else {}
        message = str(fields.get("message", "refused"))
        super().__init__(message[:500])
        self.code = fields.get("code", 0)
        self.data: dict[str, JSON] = {}
        if isinstance(fields.get("data"), dict):
            self.data = fields["data"]


class InputRequired(Exception):
    """The server asks for answers before it can go on.

    `requests` are its requests by key: {"method", "params"}. `state` is what continues the call: the
    server's own `requestState`, or where an earlier version's stream was left. None: the call must be
    made again from the start.
    """

    def __init__(self, requests: dict[str, JSON], state: dict[str, JSON] | None) -> None:
        super().__init__("The server asks for input.")
        self.requests = requests
        self.state = state
