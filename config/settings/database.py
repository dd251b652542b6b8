"""The database: SQLite, or PostgreSQL, embedded or at DATABASE_URL."""

import os
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from config.settings.environment import DATA_DIR, env
from supervisor import postgres

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
        parts = environ.Env.db_url_config(url) if kind else {}
    except ValueError as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read ({error}): write postgres://user:password@host/name.")
    if kind and parts.get("NAME"):
        return kind(parts)
    raise ImproperlyConfigured(
        "DATABASE_URL names an unsupported database: write postgres://user:password@host/name or sqlite:///path."
    )


def sqlite(parts: dict[str, Any]) -> dict[str, Any]:
    return parts | {
        "ENGINE": "config.sqlite",
        "OPTIONS": {
            # deferred writers collide: with four of them, 72 % failed with "database is locked"
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # cache_size: a page that is not in the 1 MB of each thread comes from the kernel in a microsecond;
            # secure_delete: whatever connection deletes content overwrites it;
            # journal_size_limit: after a burst of writes the WAL gives back what is above 16 MB
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-1000; "
            "PRAGMA secure_delete=ON; PRAGMA journal_size_limit=16777216;",
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


def postgresql(parts: dict[str, Any]) -> dict[str, Any]:
    size = env.int("DATABASE_POOL", default=20)  # PostgreSQL connections per process
    pool = {"min_size": 1, "max_size": size, "timeout": 20}
    # Prepare the statements of a message once per connection; 0 for a pooler that switches connections.
    prepare = env.int("DATABASE_PREPARE", default=2) or None
    options = NOTICED | parts.get("OPTIONS", {}) | {"pool": pool, "prepare_threshold": prepare}
    return parts | {"ENGINE": "config.postgresql", "OPTIONS": options}


DATABASES = {"default": database()}
