"""The reference SDK's server with its own OAuth: `python -m tests.connectors.mcp_login_server PORT`.

Registration, metadata, PKCE, client authentication and bearer checks are the SDK's; who a person is, is not asked.
"""

import secrets
import sys
import time
from typing import Any

from mcp.server.auth.provider import AccessToken, AuthorizationCode, AuthorizationParams, RefreshToken, TokenError
from mcp.server.auth.provider import construct_redirect_uri as with_query
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.fastmcp import FastMCP
from mcp.shared.auth import OAuthToken

LIFE_S = 3600


class Everybody:
    """An OAuthAuthorizationServerProvider that lets everybody in, and keeps what it gave in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> Any:
        return self.clients.get(client_id)

    async def register_client(self, client: Any) -> None:
        self.clients[client.client_id] = client

    async def authorize(self, client: Any, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24), scopes=params.scopes or [], expires_at=time.time() + 60,
            client_id=client.client_id, code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, resource=params.resource,
        )  # fmt: skip
        self.codes[code.code] = code
        return with_query(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, code: str) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(self, client: Any, code: AuthorizationCode) -> OAuthToken:
        if self.codes.pop(code.code, None) is None:
            raise TokenError("invalid_grant", "The code is used.")
        return self.tokens(client.client_id, code.scopes, code.resource)

    async def load_refresh_token(self, client: Any, token: str) -> RefreshToken | None:
        return self.refresh.get(token)

    async def exchange_refresh_token(self, client: Any, token: RefreshToken, scopes: list[str]) -> OAuthToken:
        del self.refresh[token.token]
        self.access.clear()
        return self.tokens(client.client_id, scopes, None)

    def tokens(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=int(time.time()) + LIFE_S, resource=resource
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIFE_S, scope=" ".join(scopes))

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.access.clear()
        self.refresh.clear()


def main(port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    auth = AuthSettings(
        issuer_url=url, resource_server_url=f"{url}/mcp", required_scopes=["sums"],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["sums"], default_scopes=["sums"]),
        revocation_options=RevocationOptions(enabled=True),
    )  # fmt: skip
    server = FastMCP("sums", port=port, auth=auth, auth_server_provider=Everybody())

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    server.run("streamable-http")


if __name__ == "__main__":
    main(int(sys.argv[1]))
