"""Other protocols: the key for A2A cards, and OAuth for MCP clients."""

from config.settings.environment import env, read_file

# A file with the private key (PEM, P-256) that signs the A2A cards of agents; empty: they are not signed.
A2A_SIGNING_KEY = read_file(env.str("MUSTER_A2A_SIGNING_KEY", default=""))

# OAuth for MCP clients (gateway/mcp/oauth.py): authorization codes with PKCE, for scopes of API keys.
OAUTH2_PROVIDER = {
    "SCOPES": {
        "messages:write": "Send messages to your agents",
        "messages:read": "Read your files and conversations",
        "runs:write": "Start your chains",
        "runs:read": "Read the records of your runs",
        "functions:execute": "Execute your functions",
        "collections:read": "Search your collections of documents",
        "approvals:decide": "Decide what your runs ask you to approve",
    },
    "DEFAULT_SCOPES": [
        "messages:write", "messages:read", "runs:write", "runs:read", "functions:execute", "collections:read",
    ],  # fmt: skip
    "OAUTH2_VALIDATOR_CLASS": "gateway.mcp.oauth.Validator",
    "ACCESS_TOKEN_EXPIRE_SECONDS": 3600,
    "REFRESH_TOKEN_EXPIRE_SECONDS": 30 * 24 * 3600,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
    "ALLOW_LOCALHOST_LOOPBACK": True,
    "CLIENT_SECRET_HASHER": "random_secret",
    "DCR_ENABLED": True,
    "DCR_REGISTRATION_PERMISSION_CLASSES": ("oauth2_provider.dcr.AllowAllDCRPermission",),
    "DCR_REGISTRATION_TOKEN_EXPIRE_SECONDS": 24 * 3600,
    "CIMD_ENABLED": True,
    "CIMD_METADATA_FETCHER": "gateway.mcp.oauth.Documents",
    "OAUTH2_RESPONSE_TYPES_SUPPORTED": ["code"],
    "OAUTH2_GRANT_TYPES_SUPPORTED": ["authorization_code", "refresh_token"],
    "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": ["none", "client_secret_post", "client_secret_basic"],
    "OAUTH2_PROTECTED_RESOURCE_NAME": "Muster",
    **{
        f"COMPLIANT_BCP_RFC9700_{name}": True
        for name in (
            "IMPLICIT_GRANT", "PASSWORD_GRANT", "PKCE_METHOD", "ACCESS_TOKEN_TRANSPORT", "AUTHZ_RESPONSE_ISS",
            "TOKEN_STORAGE", "REFRESH_TOKEN", "REDIRECT_URI_MATCHING", "PKCE_REQUIRED",
        )
    },
}  # fmt: skip
