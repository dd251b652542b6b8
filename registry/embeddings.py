"""Messages and agents compared by meaning, through an OpenAI-compatible /embeddings. Optional."""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from operator import mul
from typing import Any

import structlog
from django.conf import settings
from django.core.cache import cache

from agents.addresses import url_refusal
from agents.models import Provider

from .cache import Cache
from .classifier import provider_named
from .exceptions import AttemptFailed, ModelFailed
from .profiles import Profile
from .watch import Watch, watching

BATCH = 256
KEPT_S = 30 * 86400
log = structlog.get_logger(__name__)
_vectors: Cache[str, tuple[float, ...]] = Cache(20_000)


def similarities(user: Any, text: str, profiles: Sequence[Profile]) -> list[float] | None:
    """Cosine of the message with each agent; None where no embedding model is configured or it does not answer."""
    if not settings.ROUTER_EMBEDDINGS:
        return None
    provider_name, _, model_name = settings.ROUTER_EMBEDDINGS.partition(":")
    provider = provider_named(user, provider_name)
    if provider is None:
        log.warning("router_provider_missing", provider=provider_name)
        return None
    try:
        message, *agents = vectors(provider, model_name, [text[:8000], *(profile.text for profile in profiles)])
    except (AttemptFailed, ModelFailed) as error:
        log.warning("router_embeddings_failed", reason=str(error))
        return None
    return [sum(map(mul, message, agent)) for agent in agents]


def is_sure(scores: Sequence[float]) -> bool:
    """Near enough, and nearer than the next; `scores` come best first. Models differ, so the floors are settings."""
    if not scores or scores[0] < settings.ROUTER_NEAR:
        return False
    return len(scores) == 1 or scores[0] - scores[1] >= settings.ROUTER_AHEAD


def vectors(provider: Provider, model_name: str, texts: Sequence[str]) -> list[tuple[float, ...]]:
    """Unit vectors; agents' are kept in this process and in the cache, by their text."""
    model = f"{provider.pk}:{provider.revision}:{model_name}"
    keys = [f"embedding:{sha256(f'{model}:{text}'.encode()).hexdigest()}" for text in texts]
    found = {key: vector for key in keys if (vector := _vectors.get(key))}
    lacking = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
    kept = read_kept([key for key in lacking if key != keys[0]])
    found |= kept
    asked = {key: text for key, text in lacking.items() if key not in kept}
    fresh = dict(zip(asked, embed(provider, model_name, list(asked.values())), strict=True))
    write_kept({key: vector for key, vector in fresh.items() if key != keys[0]})  # messages are not worth keeping
    found |= fresh
    for key in keys[1:]:
        _vectors.get_or_make(key, partial(found.__getitem__, key))
    return [found[key] for key in keys]


def embed(provider: Provider, model_name: str, texts: Sequence[str]) -> list[tuple[float, ...]]:
    if not texts:
        return []
    from .llms import OPENAI_URL
    from .wire import Endpoint  # httpcore2, 0.1 s

    base_url = (provider.base_url or OPENAI_URL).rstrip("/")
    if provider.base_url and (why := url_refusal(base_url, settings.PRIVATE_HOSTS_ALLOWED)):
        raise ModelFailed("private_address", why)
    endpoint = Endpoint(f"{base_url}/embeddings", {"Authorization": f"Bearer {provider.api_key or 'none'}"})
    found: list[tuple[float, ...]] = []
    with watching(Watch()):
        for start in range(0, len(texts), BATCH):
            answer = endpoint.post({"model": model_name, "input": list(texts[start : start + BATCH])})
            found += read_vectors(answer)
    if len(found) != len(texts):
        raise AttemptFailed("bad_answer", "The embedding server sent another number of vectors.")
    return found


def read_vectors(answer: dict[str, Any]) -> list[tuple[float, ...]]:
    try:
        rows = sorted(answer["data"], key=lambda row: row["index"])
        return [unit([float(value) for value in row["embedding"]]) for row in rows]
    except (KeyError, TypeError, ValueError):
        raise AttemptFailed("bad_answer", "The embedding server's answer cannot be read.")


def unit(vector: list[float]) -> tuple[float, ...]:
    length = sum(map(mul, vector, vector)) ** 0.5 or 1.0
    return tuple(value / length for value in vector)


def read_kept(keys: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """From the shared cache; one that is down only costs another request."""
    try:
        return {key: tuple(vector) for key, vector in cache.get_many(keys).items()} if keys else {}
    except OSError:
        return {}
    except Exception as error:  # the cache's own client has a family of errors; none may stop a message
        log.warning("router_cache_failed", reason=type(error).__name__)
        return {}


def write_kept(fresh: dict[str, tuple[float, ...]]) -> None:
    try:
        if fresh:
            cache.set_many(fresh, KEPT_S)
    except Exception as error:  # as above
        log.warning("router_cache_failed", reason=type(error).__name__)
