"""Servers beside the database: Valkey or Redis, and the carrier of queued runs."""

import os
from urllib.parse import quote

from config import brokers
from config.settings.database import DATABASES
from config.settings.environment import DATA_DIR, env
from plumbing.broker.clusters import TAG
from supervisor import valkey

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
CARRIER = brokers.check_carrier_setting(
    env.str("MUSTER_CARRIER", default="list"),
    queue=QUEUE_URL,
    broker=BROKER_URL,
    is_postgres=DATABASES["default"]["ENGINE"] == "config.postgresql",
)
EMBEDDED_VALKEY = not all(name in os.environ for name in ("BROKER_URL", "CHANNEL_URL", "CACHE_URL"))

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": [CACHE_URL],
        "OPTIONS": {"pool_class": "plumbing.broker.servers.Servers"},
        "KEY_PREFIX": TAG,
    }
}

CELERY_BROKER_URL, CELERY_BROKER_TRANSPORT_OPTIONS = brokers.for_celery(BROKER_URL)
# Workers do the recurring work themselves (runs/worker/ticker.py). A beat is only needed for tasks of your own.
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_TIMEZONE = "UTC"
