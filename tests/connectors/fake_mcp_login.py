"""An MCP server that lets nobody in without a token, and its login service beside it, as the specification has them."""

import re
from typing import Any
from urllib.parse import urlencode

from .fake_mcp import FakeMcp
from .loopback import Answer, Asked, Tokens


class FakeMcpLogin(FakeMcp, Tokens):
    """`described` and `resource` are what the two say of themselves; change them to be another kind of service."""

    def __init__(self) -> None:
        super().__init__()
        self.rotates = True
        self.registered: list[dict[str, Any]] = []
        self.challenge = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
        self.lacks = ""  # a scope without which tools are not called
        self.resource: dict[str, Any] = {
            "resource": self.address, "authorization_servers": [self.url], "scopes_supported": ["notes"],
        }  # fmt: skip
        self.described: dict[str, Any] = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "revocation_endpoint": f"{self.url}/revoke",
            "registration_endpoint": f"{self.url}/register",
            "scopes_supported": ["notes", "offline_access"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        }
        for path, value in (
            ("/.well-known/oauth-protected-resource/mcp", lambda asked: self.resource or Answer(404)),
            ("/.well-known/oauth-authorization-server", lambda asked: self.described),
        ):
            self.routes.append(("GET", re.compile(path), value))
        self.routes.append(("POST", re.compile("/register"), self.register))
        self.routes.append(("GET", re.compile("/authorize"), self.authorize))

    def register(self, asked: Asked) -> Any:
        self.registered.append(asked.json)
        number = len(self.registered)
        return Answer(201, {**asked.json, "client_id": f"client-{number}", "client_secret": f"hush-{number}"})

    def authorize(self, asked: Asked) -> Any:
        """Everybody agrees at once."""
        query = urlencode({"state": asked.one("state"), "code": self.give_code(asked.one("code_challenge"))})
        return Answer(302, headers={"Location": f"{asked.one('redirect_uri')}?{query}"})

    def message(self, asked: Asked) -> Any:
        if asked.token not in self.live:
            raise Answer(401, {"error": "invalid_token"}, {"WWW-Authenticate": self.challenge})
        if self.lacks and asked.json.get("method") == "tools/call":
            told = f'Bearer error="insufficient_scope", scope="{self.lacks}"'
            raise Answer(403, {"error": "insufficient_scope"}, {"WWW-Authenticate": told})
        return super().message(asked)
