"""Checks the addresses of the brokers when a program starts: one sentence for what cannot work."""

from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from django.core.exceptions import ImproperlyConfigured
from kombu.transport import TRANSPORT_ALIASES

from plumbing.broker import clusters
from plumbing.broker.servers import SENTINEL, read_sentinel, scheme

REDIS = ("redis", "rediss", "unix", SENTINEL, *clusters.KINDS)
# The time must exceed the longest run (MUSTER_MAX_RUN): otherwise a second worker receives the same message.
TRANSPORT_OPTIONS = {"visibility_timeout": 7200, "priority_steps": [0]}
CARRIERS = ("list", "postgres", "celery", "temporal")  # runs/queue/carriers


def broker_url(url: str) -> str:
    """Celery's own broker. Any transport of kombu will do, and a cluster if Celery is not used. Raises
    ImproperlyConfigured.
    """
    kind = scheme(url).partition("+")[0]
    if "://" not in url or kind not in (*TRANSPORT_ALIASES, *clusters.KINDS):
        raise ImproperlyConfigured(
            "BROKER_URL names no broker that Celery knows: write redis://host:6379/0, for example."
        )
    return url


def for_celery(url: str) -> tuple[str, dict[str, Any]]:
    """The broker as Celery writes it, and its transport options. Raises ImproperlyConfigured."""
    if scheme(url) != SENTINEL:
        return url, TRANSPORT_OPTIONS
    try:
        hosts, service, login = read_sentinel(url)
    except ValueError as error:
        raise ImproperlyConfigured(f"BROKER_URL cannot be read: {error}.")
    user = ""
    if "password" in login:
        name = quote(login.get("username", ""))
        password = quote(login["password"])
        user = f"{name}:{password}@"
    addresses = [f"{SENTINEL}://{user}{host}:{port}/{login['db']}" for host, port in hosts]
    return ";".join(addresses), {**TRANSPORT_OPTIONS, "master_name": service}


def queue_url(url: str, broker: str) -> str:
    """The Redis server of the carrier “list”, as redis-py writes it; by default the broker if that is
    one, else empty.
    """
    if url:
        return url
    address = broker.replace("redis+socket://", "unix://").replace("virtual_host=", "db=")
    return address if scheme(address) in REDIS else ""


def check_carrier_setting(name: str, *, queue: str, is_postgres: bool, broker: str = "") -> str:
    """The checked value of MUSTER_CARRIER. Raises ImproperlyConfigured."""
    if name not in CARRIERS:
        raise ImproperlyConfigured(f"MUSTER_CARRIER is “{name}”: use one of {', '.join(CARRIERS)}.")
    if name == "postgres" and not is_postgres:
        raise ImproperlyConfigured("MUSTER_CARRIER=postgres needs PostgreSQL: set DATABASE_URL, or use “list”.")
    if name == "celery" and scheme(broker) in clusters.KINDS:
        raise ImproperlyConfigured("Celery cannot use a Redis Cluster: name another broker in BROKER_URL.")
    if name == "temporal" and find_spec("temporalio") is None:
        raise ImproperlyConfigured("MUSTER_CARRIER=temporal needs `pip install -r requirements-temporal.txt`.")
    if name == "list" and scheme(queue) not in REDIS:
        raise ImproperlyConfigured(
            "MUSTER_CARRIER=list needs a Redis or Valkey server: set QUEUE_URL to redis://host:6379/0, for example."
        )
    return name
