"""What browsers and proxies send and receive, and limits of requests."""

from corsheaders.defaults import default_headers

from config.settings.environment import env
from config.settings.site import FORCE_SCRIPT_NAME

# Behind a proxy that terminates TLS (docs/howto/production.md).
BEHIND_TLS = env.bool("MUSTER_BEHIND_TLS", default=False)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
# Below a path, other programs of the same host may have cookies of Django's usual names.
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = LANGUAGE_COOKIE_PATH = FORCE_SCRIPT_NAME or "/"
SESSION_COOKIE_NAME = "muster_sessionid" if FORCE_SCRIPT_NAME else "sessionid"
CSRF_COOKIE_NAME = "muster_csrftoken" if FORCE_SCRIPT_NAME else "csrftoken"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
# Addresses or networks of proxies in front of us: only what they send as X-Forwarded-For is believed.
TRUSTED_PROXIES = env.list("MUSTER_TRUSTED_PROXIES", default=[])

# Origins such as https://app.example.org whose pages may call the API from a browser, with a key; none by default
CORS_ALLOWED_ORIGINS = env.list("MUSTER_CORS_ORIGINS", default=[])
CORS_URLS_REGEX = r"^/(api|v1|mcp|a2a|agui|langgraph|\.well-known)(/|$)"  # login sessions are never accepted from there
CORS_ALLOW_HEADERS = (
    *default_headers, "idempotency-key", "prefer", "last-event-id", "if-match", "if-none-match", "x-request-id",
    "x-api-key", "mcp-session-id", "mcp-protocol-version",
)  # fmt: skip
CORS_EXPOSE_HEADERS = (
    "ETag", "Location", "Content-Location", "Idempotent-Replayed", "Preference-Applied", "Muster-Run", "Muster-Session",
    "RateLimit-Limit", "RateLimit-Remaining",
    "RateLimit-Reset", "Retry-After", "X-Request-ID", "Mcp-Session-Id",
)  # fmt: skip

DATA_UPLOAD_MAX_NUMBER_FILES = 500  # of one form: the files of a skill
DATA_UPLOAD_MAX_MEMORY_SIZE = env.int("MUSTER_MAX_BODY", default=1_048_576)  # bytes; larger bodies answer 413
# requests per minute with one key; 0 means no limit
RATE_PER_KEY = env.int("MUSTER_RATE_PER_KEY", default=30_000)
# requests per minute from one address; 0 means no limit
RATE_PER_ADDRESS = env.int("MUSTER_RATE_PER_ADDRESS", default=60_000)
# open connections from one address to one server process; 0 means no limit. Trusted proxies are not limited
MAX_CONNECTIONS_PER_ADDRESS = env.int("MUSTER_MAX_CONNECTIONS_PER_ADDRESS", default=1000)
MAX_WAITS = env.int("MUSTER_MAX_WAITS", default=5000)  # waiting requests per server process; beyond that, 503
MAX_STREAMS = env.int("MUSTER_MAX_STREAMS", default=500)  # event streams and sockets of one person in a server process
