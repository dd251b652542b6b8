"""A Muster of its own for one run of a benchmark: an empty data directory and a fresh SQLite file, in this process."""

import atexit
import os
import shutil
import tempfile


def set_up(**environment: str) -> None:
    """Settings, apps and tables; `environment` holds variables that the settings read."""
    os.environ |= {"MUSTER_DATA_DIR": fresh_folder(), "DJANGO_SETTINGS_MODULE": "config.settings", **environment}
    import django  # reads the environment that was just set

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def set_up_for_models(embeddings: str = "") -> None:
    """The same for benchmarks with model servers on this machine; vectors are kept in this process alone.
    `embeddings` is what the setting ROUTER_EMBEDDINGS gets.
    """
    set_up(CACHE_URL="unix:///nowhere")
    from django.conf import settings

    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    settings.PRIVATE_HOSTS_ALLOWED = ["localhost", "127.0.0.1"]
    settings.ROUTER_EMBEDDINGS = embeddings


def add_server(name: str, url: str) -> None:
    """A provider for an OpenAI-compatible server, with the key in MUSTER_BENCH_KEY."""
    from agents.models import Provider

    key = os.environ.get("MUSTER_BENCH_KEY", "none")
    Provider.objects.create(name=name, kind="openai-compatible", base_url=url, api_key=key)


def fresh_folder() -> str:
    """An empty one, gone when this process ends."""
    path = tempfile.mkdtemp(prefix="muster-bench-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
