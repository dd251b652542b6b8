"""Every setting of Muster, read once from the environment; docs/reference/settings.md lists them.

`manage.py serve` supplies what a laptop lacks (a broker, keys, a data directory). Embedded and
production set-ups differ only in addresses.
"""

import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import quote

import environ
from corsheaders.defaults import default_headers
from django.core.exceptions import ImproperlyConfigured

from config import brokers, buckets, logs
from supervisor import postgres, refusals, valkey

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

HOST = env.str("MUSTER_HOST", default="127.0.0.1")  # address to listen on; beyond loopback, keys must be set explicitly
PORT = env.int("MUSTER_PORT", default=8000)  # port to listen on
# Database, keys, logs and embedded servers.
DATA_DIR = Path(env.str("MUSTER_DATA_DIR", default=str(BASE_DIR / "var"))).resolve()
# error pages with stack traces; never enable it where others can reach the site
DEBUG = env.bool("DEBUG", default=False)


def kept_secret(name: str) -> str:
    """The environment's value, else one generated once and kept in the data directory (mode 0600)."""
    if value := env.str(name, default=""):
        return value
    path = DATA_DIR / "secrets" / name.lower()
    try:
        return path.read_text().strip() if path.exists() else keep(path)
    except OSError as error:
        raise ImproperlyConfigured(f"{error.filename} cannot be used ({error.strerror}): set MUSTER_DATA_DIR.")


def keep(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = path.with_suffix(f".{os.getpid()}")
    made.touch(mode=0o600)
    made.write_text(secrets.token_urlsafe(48))
    try:
        os.link(made, path)  # the first of two starting processes wins; both read the same file
    except FileExistsError:
        pass
    made.unlink()
    return path.read_text().strip()


def content_of(path: str) -> str:
    """The text of this file; empty without one."""
    try:
        return Path(path).read_text() if path else ""
    except OSError as error:
        raise ImproperlyConfigured(f"{path} cannot be read ({error.strerror}).")


SECRET_KEY = kept_secret("SECRET_KEY")
# Comma-separated, newest first: the first one encrypts, all of them decrypt (`rotate_secrets`).
FIELD_KEYS = kept_secret("MUSTER_FIELD_KEYS").split(",")
# Host names that this site serves.
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])  # behind a proxy: https://muster.example.org

# The public address of this site; links and OAuth callbacks start with it.
PUBLIC_URL = env.str("MUSTER_PUBLIC_URL", default=f"http://{HOST}:{PORT}")
# A file with the private key (PEM, P-256) that signs the A2A cards of agents; empty: they are not signed.
A2A_SIGNING_KEY = content_of(env.str("MUSTER_A2A_SIGNING_KEY", default=""))

INSTALLED_APPS = [
    "config.apps.Admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "corsheaders",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_beat",
    "oauth2_provider",
    "agents",
    "functions",
    "connectors",
    "devices",
    "knowledge",
    "registry",
    "runs",
    "gateway",
    "supervisor",
]

MIDDLEWARE = [
    "config.middleware.request_id",
    "config.middleware.observation",
    "config.probes.any_host",
    "config.middleware.rate_headers",
    "corsheaders.middleware.CorsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "config.middleware.content_policy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "config.middleware.language",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

# Origins such as https://app.example.org whose pages may call the API from a browser, with a key; none by default
CORS_ALLOWED_ORIGINS = env.list("MUSTER_CORS_ORIGINS", default=[])
CORS_URLS_REGEX = r"^/(api|v1|mcp|a2a|agui|langgraph|\.well-known)(/|$)"  # login sessions are never accepted from there
CORS_ALLOW_HEADERS = (
    *default_headers, "idempotency-key", "prefer", "last-event-id", "if-match", "if-none-match", "x-request-id",
    "x-api-key", "mcp-session-id", "mcp-protocol-version",
)  # fmt: skip
CORS_EXPOSE_HEADERS = (
    "ETag", "Location", "Content-Location", "Muster-Run", "Muster-Session", "RateLimit-Limit", "RateLimit-Remaining",
    "RateLimit-Reset", "Retry-After", "X-Request-ID", "Mcp-Session-Id",
)  # fmt: skip

# Behind a proxy that terminates TLS (docs/howto/production.md).
if env.bool("MUSTER_BEHIND_TLS", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 31_536_000
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
# Addresses or networks of proxies in front of us: only what they send as X-Forwarded-For is believed.
TRUSTED_PROXIES = env.list("MUSTER_TRUSTED_PROXIES", default=[])
# serve /metrics without a key to this machine
METRICS_ON_LOOPBACK = env.bool("MUSTER_METRICS_ON_LOOPBACK", default=True)

LOG_REQUESTS = env.bool("MUSTER_LOG_REQUESTS", default=False)  # one log line per request
LOGGING = logs.configuration(
    level=env.str("MUSTER_LOG_LEVEL", default="WARNING"),  # log level of third-party code; our own code logs from INFO
    # "pretty" or "json"
    pretty=env.str("MUSTER_LOG_FORMAT", default="pretty" if refusals.is_loopback(HOST) else "json") == "pretty",
)

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
WORKER_APPLICATION = "runs.worker.process.Worker"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


# Without DATABASE_URL: SQLite in the data directory, or the embedded PostgreSQL with DB=postgres.
EMBEDDED_POSTGRES = env.str("DB", default="sqlite") == "postgres" and "DATABASE_URL" not in os.environ


def database() -> dict[str, Any]:
    if EMBEDDED_POSTGRES:
        return postgresql(environ.Env.db_url_config(postgres.url(postgres.home(DATA_DIR) / "run")))
    url = env.str("DATABASE_URL", default="")  # postgres://user:password@host/name or sqlite:///path
    if not url:
        return sqlite({"NAME": str(DATA_DIR / "muster.sqlite3")})
    kinds = {"sqlite": sqlite, "postgres": postgresql, "postgresql": postgresql}
    kind = kinds.get(url.partition("://")[0])
    try:
        known = environ.Env.db_url_config(url) if kind else {}
    except ValueError as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read ({error}): write postgres://user:password@host/name.")
    if kind and known.get("NAME"):
        return kind(known)
    raise ImproperlyConfigured(
        "DATABASE_URL names an unsupported database: write postgres://user:password@host/name or sqlite:///path."
    )


def sqlite(known: dict[str, Any]) -> dict[str, Any]:
    return known | {
        "ENGINE": "config.sqlite",
        "OPTIONS": {
            # deferred writers collide: with four of them, 72 % failed with "database is locked"
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # a page that is not in the 1 MB of each thread comes from the kernel in a microsecond
            # and what is deleted is overwritten, whichever connection deletes it
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-1000; "
            "PRAGMA secure_delete=ON;",
        },
        "CONN_MAX_AGE": None,
        "TEST": {"NAME": str(DATA_DIR / f"test-{os.getpid()}.sqlite3")},
    }


# A database host that stops answering without closing its connections is noticed within about ten
# seconds, also by a connection that only listens: before a lease ends. DATABASE_URL may say otherwise.
NOTICED = {
    "connect_timeout": 5,
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}


def postgresql(known: dict[str, Any]) -> dict[str, Any]:
    size = env.int("DATABASE_POOL", default=20)  # PostgreSQL connections per process
    pool = {"min_size": 1, "max_size": size, "timeout": 20}
    # Prepare the statements of a message once per connection; 0 for a pooler that switches connections.
    prepare = env.int("DATABASE_PREPARE", default=2) or None
    options = NOTICED | known.get("OPTIONS", {}) | {"pool": pool, "prepare_threshold": prepare}
    return known | {"ENGINE": "config.postgresql", "OPTIONS": options}


DATABASES = {"default": database()}

VALKEY_SOCKET = valkey.socket_path(DATA_DIR)
# One embedded Valkey serves as run queue, message broker and cache; real servers have their own URLs.
BROKER_URL = brokers.broker_url(
    env.str("BROKER_URL", default=f"redis+socket://{quote(str(VALKEY_SOCKET))}?virtual_host=0")
)
# Redis server of Channels and of announcements
CHANNEL_URL = env.str("CHANNEL_URL", default=f"unix://{quote(str(VALKEY_SOCKET))}?db=1")
# Redis server of the cache
CACHE_URL = env.str("CACHE_URL", default=f"unix://{quote(str(VALKEY_SOCKET))}?db=2")
# Redis server of the carrier “list”; by default the broker's
QUEUE_URL = brokers.queue_url(env.str("QUEUE_URL", default=""), BROKER_URL)
# address and namespace of Temporal, for the carrier “temporal”
TEMPORAL_URL = env.str("TEMPORAL_URL", default="localhost:7233/default")
# how workers learn that a run is queued: list, postgres, celery (any broker of BROKER_URL) or temporal
CARRIER = brokers.carrier(
    env.str("MUSTER_CARRIER", default="list"),
    queue=QUEUE_URL,
    is_postgres=DATABASES["default"]["ENGINE"] == "config.postgresql",
)
EMBEDDED_VALKEY = not all(name in os.environ for name in ("BROKER_URL", "CHANNEL_URL", "CACHE_URL"))

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": [CACHE_URL],
        "OPTIONS": {"pool_class": "plumbing.broker.servers.Servers"},
    }
}

CELERY_BROKER_URL, CELERY_BROKER_TRANSPORT_OPTIONS = brokers.for_celery(BROKER_URL)
# Workers do the recurring work themselves (runs/worker/ticker.py). A beat is only needed for tasks of your own.
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_TIMEZONE = "UTC"
# Days that history is kept, by kind (`prune`).
KEEP_DAYS = {
    "raw": env.int("MUSTER_KEEP_RAW_DAYS", default=14),
    "events": env.int("MUSTER_KEEP_EVENTS_DAYS", default=90),
    "executions": env.int("MUSTER_KEEP_EXECUTIONS_DAYS", default=90),
    "runs": env.int("MUSTER_KEEP_RUNS_DAYS", default=365),
    "sessions": env.int("MUSTER_KEEP_SESSIONS_DAYS", default=365),
    "uploads": env.int("MUSTER_KEEP_UPLOADS_DAYS", default=365),  # uploaded files that nothing refers to
    "artifacts": env.int("MUSTER_KEEP_ARTIFACTS_DAYS", default=365),  # files that runs made
    "notices": env.int("MUSTER_KEEP_NOTICES_DAYS", default=90),
    "audit": env.int("MUSTER_KEEP_AUDIT_DAYS", default=730),
}
# Runs at work in one worker. A run that waits for its model or for a tool holds no thread (runs/worker/crew.py).
WORKER_RUNS = env.int("MUSTER_WORKER_RUNS", default=12_000)
# Threads for what can only block, such as stored functions; they are created when needed.
WORKER_THREADS = env.int("MUSTER_WORKER_THREADS", default=256)
# pools of runs that the workers started here take; agents and chains may name one
WORKER_POOLS = env.list("MUSTER_WORKER_POOLS", default=["default"])

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Server for e-mail: smtp+tls://user:password@mail.example.org:587, or smtp+ssl://… ; empty: no e-mail is sent
EMAIL_URL = env.str("MUSTER_EMAIL_URL", default="")
EMAIL_IS_ON = bool(EMAIL_URL)
try:
    MAIL = environ.Env.email_url_config(EMAIL_URL or "dummymail://")
except (KeyError, ValueError):
    raise ImproperlyConfigured("MUSTER_EMAIL_URL cannot be read: write smtp+tls://user:password@mail.example.org:587.")
EMAIL_BACKEND, EMAIL_HOST, EMAIL_PORT = (
    MAIL["EMAIL_BACKEND"],
    MAIL["EMAIL_HOST"] or "localhost",
    MAIL["EMAIL_PORT"] or 25,
)
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = MAIL["EMAIL_HOST_USER"] or "", MAIL["EMAIL_HOST_PASSWORD"] or ""
EMAIL_USE_TLS, EMAIL_USE_SSL = MAIL.get("EMAIL_USE_TLS", False), MAIL.get("EMAIL_USE_SSL", False)
EMAIL_FILE_PATH = MAIL["EMAIL_FILE_PATH"]
EMAIL_TIMEOUT = 10
# address that e-mail is sent from
EMAIL_FROM = DEFAULT_FROM_EMAIL = env.str("MUSTER_EMAIL_FROM", default="muster@localhost")

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

SESSION_ENGINE = "agents.http.sessions"
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = "config.formats"

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True

# Directory of the files that people upload and runs make.
FILES_DIR = Path(env.str("MUSTER_FILES_DIR", default=str(DATA_DIR / "files")))
FILE_BYTES = env.int("MUSTER_FILE_BYTES", default=10 << 20)  # bytes of one file
FILES_PER_PERSON = env.int("MUSTER_FILES_PER_PERSON", default=10_000)  # files of one person
FILE_BYTES_PER_PERSON = env.int("MUSTER_FILE_BYTES_PER_PERSON", default=1 << 30)  # bytes of all files of one person
# Scanner of files: clamd://host:3310, clamd:///path/to/socket, or a command line; empty: files are not scanned
FILE_SCANNER = env.str("MUSTER_FILE_SCANNER", default="")
FILE_SCAN_S = env.float("MUSTER_FILE_SCAN_S", default=30.0)  # seconds that a scan may take
# S3 or a service like it for files, in place of a directory; credentials as boto3 finds them
S3_URL = env.str("MUSTER_S3_URL", default="")  # s3://bucket/prefix?endpoint=https://minio:9000&region=eu-west-1
STORAGES: dict[str, Any] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "files": buckets.storage(S3_URL)
    if S3_URL
    else {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": FILES_DIR, "file_permissions_mode": 0o600, "directory_permissions_mode": 0o700},
    },
}

DATA_UPLOAD_MAX_NUMBER_FILES = 500  # of one form: the files of a skill
DATA_UPLOAD_MAX_MEMORY_SIZE = env.int("MUSTER_MAX_BODY", default=1_048_576)  # bytes; larger bodies answer 413

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "agents.http.authentication.ApiKeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["agents.http.authentication.HasScope", "agents.http.known.KnownParameters"],
    "DEFAULT_RENDERER_CLASSES": ["agents.http.renderers.TextsRenderer"],
    "DEFAULT_PARSER_CLASSES": ["agents.http.parsers.JSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "agents.http.negotiation.Negotiation",
    "DEFAULT_THROTTLE_CLASSES": ["agents.http.throttles.Rate"],
    "DEFAULT_PAGINATION_CLASS": "agents.http.pagination.Cursor",
    "DEFAULT_FILTER_BACKENDS": ["agents.http.filters.Filters", "agents.http.filters.Search"],
    "DEFAULT_SCHEMA_CLASS": "agents.http.openapi.Schema",
    "DEFAULT_METADATA_CLASS": "agents.http.metadata.Metadata",
    "EXCEPTION_HANDLER": "config.errors.handle",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Muster",
    "DESCRIPTION": "Agents, tools, stored functions and chains as rows; runs to watch, approve and resume.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "config.schema.any_value",
        "config.schema.opaque_ids",
    ],
    "ENUM_NAME_OVERRIDES": {
        "EffectEnum": "agents.models.tool.Tool.Effect",
        "ToolKindEnum": "agents.models.tool.Tool.Kind",
        "TriggerKindEnum": "runs.models.trigger.Trigger.Kind",
        "TeamRoleEnum": "agents.models.team.Membership.Role",
        "MessageRoleEnum": "runs.models.session.Message.Role",
        "EndingEnum": "runs.api.external.ENDINGS",
        "ReplyFormEnum": "agents.models.agent.Agent.A2aReply",
        "AskedPriorityEnum": "runs.api.serializers.messages.BATCH_ALONE",
        "DocumentStatusEnum": "knowledge.models.collection.Document.Status",
        "DocumentSourceEnum": "knowledge.models.collection.Document.Source",
        "MemoryKindEnum": "knowledge.models.memory.Memory.Kind",
        "MemoryStatusEnum": "knowledge.models.memory.Memory.Status",
    },
}

# Requests per minute; 0 means no limit.
RATE_PER_KEY = env.int("MUSTER_RATE_PER_KEY", default=30_000)  # requests per minute with one key; 0 means no limit
RATE_PER_ADDRESS = env.int(
    "MUSTER_RATE_PER_ADDRESS", default=60_000
)  # requests per minute from one address; 0 means no limit

# sign-in attempts per minute for one name from one address; 0 means no limit
LOGIN_TRIES = env.int("MUSTER_LOGIN_TRIES", default=10)

# The kinds of definitions, ordered so that each only refers to earlier ones.
DEFINITION_KINDS = [
    "agents.definitions.agents.ProviderKind",
    "functions.definitions.FunctionKind",
    "knowledge.skills.definitions.SkillKind",
    "knowledge.collections.definitions.CollectionKind",
    "agents.definitions.agents.ToolKind",
    "agents.definitions.agents.AgentKind",
    "agents.definitions.chains.ChainKind",
]

# Limits of the whole site. A function or agent may ask for less, never for more.
MAX_FUNCTION_TIMEOUT_S = env.float("MUSTER_MAX_FUNCTION_TIMEOUT", default=120.0)
MAX_FUNCTION_MEMORY_MB = env.int("MUSTER_MAX_FUNCTION_MEMORY", default=1024)
FUNCTION_IMPORTS = env.list("MUSTER_FUNCTION_IMPORTS", default=["*"])  # patterns of modules that functions may import
# libraries that functions may require; `manage.py install_libraries` installs them into LIBRARIES_DIR
LIBRARIES = env.list("MUSTER_LIBRARIES", default=[])
# seconds that a worker keeps the variables of run_python while the run waits; 0: not at all
INTERPRETER_WAIT_S = env.float("MUSTER_INTERPRETER_WAIT", default=600.0)
# libraries that the tool run_python loads, if they are installed
INTERPRETER_LIBRARIES = env.list(
    "MUSTER_INTERPRETER_LIBRARIES",
    default=["numpy", "pandas", "openpyxl", "matplotlib", "pillow", "pypdf", "python-docx"],
)
# where `manage.py install_libraries` installs the libraries
LIBRARIES_DIR = env.str("MUSTER_LIBRARIES_DIR", default=str(DATA_DIR / "libraries"))
# withdraw a function version that attacks the sandbox
WITHDRAW_ON_VIOLATION = env.bool("MUSTER_WITHDRAW_ON_VIOLATION", default=True)
# patterns of hosts that ctx.http may be allowed to reach
FUNCTION_HOSTS = env.list("MUSTER_FUNCTION_HOSTS", default=["*"])
MAX_RUN_S = env.int("MUSTER_MAX_RUN", default=3600)
# seconds after which the run of a silent worker may be claimed by another
LEASE_S = env.int("MUSTER_LEASE", default=30)
# seconds that a stopping worker has to finish its runs, and a web server its requests
DRAIN_S = env.float("MUSTER_DRAIN", default=0.0)
MAX_AGENT_DEPTH = env.int("MUSTER_MAX_AGENT_DEPTH", default=1)  # for runs whose root is a chain
# model of agents without one, at an OpenAI-compatible server such as MUSTER_LOCAL_MODEL; empty: the first it serves
LOCAL_MODEL_NAME = env.str("MUSTER_LOCAL_MODEL_NAME", default="")
# role on the site of people in none of the four groups: viewer, operator, author or administrator
DEFAULT_ROLE = env.str("MUSTER_DEFAULT_ROLE", default="author")
if DEFAULT_ROLE not in ("viewer", "operator", "author", "administrator"):
    raise ImproperlyConfigured("MUSTER_DEFAULT_ROLE must be viewer, operator, author or administrator.")
APPROVAL_S = env.int("MUSTER_APPROVAL", default=86_400)  # seconds a person has to answer; the run's time stands still
# decision when an approval expires: deny or approve
APPROVAL_DEFAULT = env.str("MUSTER_APPROVAL_DEFAULT", default="deny")
SHARED_LINKS = env.bool("MUSTER_SHARED_LINKS", default=False)  # people may share a conversation by a public link
# seconds that an approval or question must have been open before people are notified of it
NOTICE_AFTER_S = env.float("MUSTER_NOTICE_AFTER", default=10.0)
APPROVAL_LINK_S = env.int("MUSTER_APPROVAL_LINK", default=86_400)  # seconds that a signed link to an approval is good
ASK_EFFECTS = env.list("MUSTER_ASK_EFFECTS", default=[])  # effects that always need approval, such as destructive
KEEP_RAW = env.bool("MUSTER_KEEP_RAW", default=True)  # keep raw model requests and responses with each model call
# address of an OpenTelemetry collector (OTLP over HTTP) that gets the traces of runs; empty: nothing is sent
OTLP_ENDPOINT = env.str("OTEL_EXPORTER_OTLP_ENDPOINT", default="")
OTLP_HEADERS = env.dict("OTEL_EXPORTER_OTLP_HEADERS", default={})  # sent with them: name=value,name=value
OTLP_METRICS = env.str("OTEL_METRICS_EXPORTER", default="otlp") != "none"  # whether metrics are sent as well
SERVICE_NAME = env.str("OTEL_SERVICE_NAME", default="muster")  # name of this site in traces
TRACE_CONTENTS = env.bool("MUSTER_TRACE_CONTENTS", default=False)  # messages, arguments and results in traces
MAX_WAITS = env.int("MUSTER_MAX_WAITS", default=5000)  # waiting requests per server process; beyond that, 503
MAX_STREAMS = env.int("MUSTER_MAX_STREAMS", default=500)  # event streams and sockets of one person in a server process
MAX_WEBHOOKS = env.int("MUSTER_MAX_WEBHOOKS", default=50)  # webhooks of one person
# Private hosts or networks that providers and connections may reach, such as a local model server.
PRIVATE_HOSTS_ALLOWED = env.list("MUSTER_PRIVATE_HOSTS", default=["localhost", "127.0.0.1", "::1"] if DEBUG else [])

# OAuth clients that an administrator registered with Google and Microsoft, and the addresses of these services, which
# can point to emulators. The secret may be empty for a public client (PKCE only).
GOOGLE_CLIENT_ID = env.str("MUSTER_GOOGLE_CLIENT_ID", default="")
GOOGLE_CLIENT_SECRET = env.str("MUSTER_GOOGLE_CLIENT_SECRET", default="")
GOOGLE_AUTHORIZE_URL = env.str("MUSTER_GOOGLE_AUTHORIZE_URL", default="https://accounts.google.com/o/oauth2/v2/auth")
GOOGLE_OAUTH_URL = env.str("MUSTER_GOOGLE_OAUTH_URL", default="https://oauth2.googleapis.com")
GMAIL_URL = env.str("MUSTER_GMAIL_URL", default="https://gmail.googleapis.com")
MICROSOFT_CLIENT_ID = env.str("MUSTER_MICROSOFT_CLIENT_ID", default="")
MICROSOFT_CLIENT_SECRET = env.str("MUSTER_MICROSOFT_CLIENT_SECRET", default="")
MICROSOFT_LOGIN_URL = env.str("MUSTER_MICROSOFT_LOGIN_URL", default="https://login.microsoftonline.com/common")
GRAPH_URL = env.str("MUSTER_GRAPH_URL", default="https://graph.microsoft.com")
# Commands that a connection may start as a local MCP server, with their arguments; a last word * allows any others.
MCP_COMMANDS = env.list("MUSTER_MCP_COMMANDS", default=[])

# seconds of silence after which a model server is asked again
MODEL_SILENCE_S = env.float("MUSTER_MODEL_SILENCE", default=120.0)
# seconds before the second attempt; doubles for the third
MODEL_BACKOFF_S = env.float("MUSTER_MODEL_BACKOFF", default=0.5)

OFFLINE_SCRIPT = env.str("MUSTER_OFFLINE_SCRIPT", default="")  # file of prepared answers of the offline provider

# The router's model: "provider:model" of a site provider, or empty to match capabilities and words.
ROUTER_MODEL = env.str("MUSTER_ROUTER_MODEL", default="")
# "provider:model" with an OpenAI-compatible /embeddings endpoint, or empty
ROUTER_EMBEDDINGS = env.str("MUSTER_ROUTER_EMBEDDINGS", default="")
# minimum cosine similarity for an agent; depends on the embedding model
ROUTER_NEAR = env.float("MUSTER_ROUTER_NEAR", default=0.2)
ROUTER_AHEAD = env.float("MUSTER_ROUTER_AHEAD", default=0.01)  # minimum lead over the next agent

# an agent with more tools than this is shown a few and the tool search_tools
TOOLS_SHOWN = env.int("MUSTER_TOOLS_SHOWN", default=40)

# memories of one person, or of one agent or team
MEMORIES_PER_PERSON = env.int("MUSTER_MEMORIES_PER_PERSON", default=1000)
# documents of one collection
DOCUMENTS_PER_COLLECTION = env.int("MUSTER_DOCUMENTS_PER_COLLECTION", default=100_000)
# pieces of one document; a document that gives more has failed
CHUNKS_PER_DOCUMENT = env.int("MUSTER_CHUNKS_PER_DOCUMENT", default=10_000)
# Pieces of all documents of one person's collections, with earlier versions: a small file can contain much text, which
# the quota of files does not count
CHUNKS_PER_PERSON = env.int("MUSTER_CHUNKS_PER_PERSON", default=1_000_000)
# minimum cosine similarity of a piece and a question; depends on the embedding model
COLLECTION_NEAR = env.float("MUSTER_COLLECTION_NEAR", default=0.3)
# seconds in which the embedding model must answer a question; after that, words alone are compared
COLLECTION_QUESTION_S = env.float("MUSTER_COLLECTION_QUESTION_S", default=1.0)
# seconds in which a device must answer a search of a collection; after that, the rest is answered without it
COLLECTION_DEVICE_S = env.float("MUSTER_COLLECTION_DEVICE_S", default=1.5)
# seconds between two readings of a mail or chat account of a collection
COLLECTION_ACCOUNTS_S = env.float("MUSTER_COLLECTION_ACCOUNTS", default=900.0)
# folders of devices in one collection, of one person; and as many accounts
COLLECTION_FOLDERS_EACH = env.int("MUSTER_COLLECTION_FOLDERS", default=10)
# changes of memories that one message may lead to, with all runs that it starts
MEMORIES_PER_RUN = env.int("MUSTER_MEMORIES_PER_RUN", default=20)
# changes by agents of one person's memories in 24 hours; runs with text of strangers may use half
MEMORIES_PER_DAY = env.int("MUSTER_MEMORIES_PER_DAY", default=200)
# seconds without a message after which an agent with memory_summary notes facts of a conversation
MEMORY_SUMMARY_AFTER_S = env.float("MUSTER_MEMORY_SUMMARY_AFTER", default=900.0)
# suggestions of one person that wait for a decision; runs with text of strangers may fill half
MEMORY_SUGGESTIONS = env.int("MUSTER_MEMORY_SUGGESTIONS", default=100)

os.environ.setdefault("LANGSMITH_TRACING", "false")  # no traces are sent unless enabled

# Functions that create the catalogue's built-in tools; `init_db` calls each.
CATALOGUES = [
    "connectors.accounts.catalog.offer_tools",
    "devices.catalog.ensure_tools",
    "knowledge.catalog.ensure_tools",
]
# makes the vectors of questions for a collection with an embedding model
COLLECTION_VECTORS = "runs.indexing.vectors.of_questions"
# the module that asks devices for excerpts of the folders of a collection
COLLECTION_FOLDERS = "runs.calls.folders"
# functions that remove what deleted rows left in the database's files; called after a person was deleted
SCRUBS = ["knowledge.full_text.scrub"]

# seconds between heartbeats; a device is offline after two missed ones
DEVICE_HEARTBEAT_S = env.float("MUSTER_DEVICE_HEARTBEAT", default=15.0)
# seconds that a worker waits for a device before it frees its thread
DEVICE_HOLD_S = env.float("MUSTER_DEVICE_HOLD", default=2.0)
DEVICE_WAIT_S = env.float("MUSTER_DEVICE_WAIT", default=86_400.0)  # seconds that a device has to answer a call
