"""Compares messages and agents by meaning through an OpenAI-compatible /embeddings endpoint.
Optional.
"""

import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from hashlib import sha256
from operator import mul
from threading import Lock
from typing import Any

import structlog
from cachetools import LRUCache
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.cache import cache

from agents.models import Provider
from agents.schema import hash_json
from plumbing import clock
from plumbing.http.addresses import url_refusal
from registry.exceptions import AttemptFailed, ModelFailed
from registry.llm.watch import Watch, watching

from .classifier import configured_model
from .profiles import Profile

BATCH = 256
# Statuses with which servers refuse so many texts; their words differ.
TOO_MANY = frozenset([400, 413, 422, 500])
KEPT_S = 30 * 86400
# Agents whose examples and capabilities are compared one by one.
CLOSELY = 24
TIE = 1e-6
OFFLINE_DIMENSIONS = 256
# Numbers of a vector.
LONGEST = 8192
log = structlog.get_logger(__name__)
# Of 4-byte floats: a tuple would take eight times the memory.
Vector = array
# How many texts a server takes at once, where it takes fewer.
_sizes: LRUCache[tuple[int, int, str], int] = LRUCache(1_000)
_vectors: LRUCache[str, Vector] = LRUCache(50_000)
_lock = Lock()
Ranked = list[tuple[Profile, float]]


def rank_by_meaning(user: Any, text: str, profiles: Sequence[Profile]) -> Ranked | None:
    """The agents nearest in meaning, best first; None if no embedding model is configured or it
    does not answer.
    """
    ask = asker(user)
    if ask is None:
        return None
    try:
        (message, *abouts) = ask([profile.about for profile in profiles], passing=limit_text(text))
        near = find_nearest(message, dict(zip(profiles, abouts, strict=True)))
        return closely(message, near, ask)
    except (AttemptFailed, ModelFailed) as error:
        log.warning("router_embeddings_failed", reason=str(error))
        return None


def similarities(user: Any, text: str, abouts: Sequence[str]) -> list[float] | None:
    """How near in meaning each of these is to the text, -1 to 1; None as above."""
    ask = asker(user)
    if ask is None:
        return None
    try:
        (target, *others) = ask(abouts, passing=limit_text(text))
    except (AttemptFailed, ModelFailed) as error:
        log.warning("search_embeddings_failed", reason=str(error))
        return None
    return [cosine(target, other) for other in others]


def find_similarities(user_id: int, text: str, abouts: Sequence[str]) -> list[float] | None:
    """The same for apps that know only the person's id; without a model it costs no query."""
    if not settings.ROUTER_EMBEDDINGS:
        return None
    return similarities(get_user_model()._default_manager.get(pk=user_id), text, abouts)


def asker(user: Any) -> Callable[..., list[Vector]] | None:
    """A function that asks the configured model for vectors; None if no model is configured."""
    configured = configured_model(user, settings.ROUTER_EMBEDDINGS)
    if configured is None:
        return None
    return partial(vectors, *configured)


def limit_text(text: str) -> str:
    # Servers refuse an empty text.
    return text[:8000] or " "


def find_nearest(message: Vector, abouts: Mapping[Profile, Vector]) -> Ranked:
    """The few candidates that are worth a closer comparison."""
    scored = [(profile, cosine(message, about)) for profile, about in abouts.items()]
    return sort_by_score(scored)[:CLOSELY]


def sort_by_score(scored: Ranked) -> Ranked:
    """Best first. Equal ones by name, so that the same message is always answered alike."""
    return sorted(scored, key=lambda pair: (-pair[1], pair[0].name))


def closely(message: Vector, near: Ranked, ask: Callable[[Sequence[str]], list[Vector]]) -> Ranked:
    """An agent's score is the mean of its description, its nearest capability and its nearest
    example.

    A single vector for all of an agent's words would hide the one that matches well.
    """
    # Agents may share texts; the keys of a dictionary are each text once, in order.
    unique: dict[str, None] = {}
    for profile, _ in near:
        for group in profile.passages:
            unique.update(dict.fromkeys(group))
    texts = list(unique)
    by_text = dict(zip(texts, ask(texts), strict=True))
    scored = []
    for profile, about in near:
        nearest = []
        for group in profile.passages:
            nearest.append(max(cosine(message, by_text[text]) for text in group))
        mean = (about + sum(nearest)) / (1 + len(nearest))
        scored.append((profile, mean))
    return sort_by_score(scored)


def winners(ranked: Ranked) -> list[Profile]:
    """The nearest agent (or all equal ones) if near enough and clearly nearer than the next. Both
    limits are settings, since models differ.
    """
    if not ranked:
        return []
    _, best = ranked[0]
    if best < settings.ROUTER_NEAR:
        return []
    equal = [profile for profile, score in ranked if best - score <= TIE]
    if len(equal) == len(ranked):
        return equal
    _, next_score = ranked[len(equal)]
    if best - next_score < settings.ROUTER_AHEAD:
        return []
    return equal


def cosine(one: Vector, other: Vector) -> float:
    return sum(map(mul, one, other))


def vectors(provider: Provider, model_name: str, texts: Sequence[str], *, passing: str | None = None) -> list[Vector]:
    """Unit vectors. Vectors of agents are cached in this process and in the shared cache, by their
    text.

    `passing` is a text that is not cached; its vector comes first.
    """
    model = [provider.pk, provider.revision, model_name]
    key_by_text = {text: f"embedding:{hash_json([*model, text])}" for text in texts}
    keys = list(key_by_text.values())
    with _lock:
        vector_by_key = {key: _vectors[key] for key in keys if key in _vectors}
    vector_by_key |= read_kept([key for key in keys if key not in vector_by_key])
    missing = {key: text for text, key in key_by_text.items() if key not in vector_by_key}
    # One request for everything: the passing text goes first.
    new_texts = list(missing.values())
    if passing is not None:
        new_texts.insert(0, passing)
    fresh = embed_for_routing(provider, model_name, new_texts)
    answer = []
    if passing is not None:
        answer.append(fresh.pop(0))
    new = dict(zip(missing, fresh, strict=True))
    write_kept(new)
    vector_by_key |= new
    with _lock:
        _vectors.update(vector_by_key)
    answer += [vector_by_key[key_by_text[text]] for text in texts]
    return answer


def embed_for_routing(provider: Provider, model_name: str, texts: Sequence[str]) -> list[Vector]:
    fresh, _ = embed_and_count(provider, model_name, texts)
    return fresh


def embed_and_count(
    provider: Provider, model_name: str, texts: Sequence[str], *, dimensions: int | None = None,
    limit_s: float | None = None,
) -> tuple[list[Vector], int]:  # fmt: skip
    """Unit vectors, and the number of tokens that the server counted: estimated if it counts none.
    `limit_s` bounds the whole request.

    Raises ModelFailed (no_embeddings, private_address, model_unreachable), AttemptFailed.
    """
    if not texts:
        return [], 0
    if provider.kind == Provider.Kind.OFFLINE:
        offline = [of_words(text, dimensions or OFFLINE_DIMENSIONS) for text in texts]
        return offline, sum(map(estimate_tokens, texts))
    endpoint = build_endpoint(provider)
    tokens = 0
    vectors: list[Vector] = []
    body: dict[str, Any] = {"model": model_name}
    if dimensions:
        body["dimensions"] = dimensions
    deadline = None
    if limit_s is not None:
        deadline = clock.near() + timedelta(seconds=limit_s)
    size = remembered_size(provider, model_name)
    with watching(Watch(deadline=deadline)):
        while len(vectors) < len(texts):
            done = len(vectors)
            batch = list(texts[done : done + size])
            try:
                answer = endpoint.post({**body, "input": batch})
            except AttemptFailed as error:
                if len(batch) == 1 or error.status not in TOO_MANY:
                    raise
                # The server takes fewer texts at once; half as many are tried.
                size = (len(batch) + 1) // 2
                continue
            fresh = read_vectors(answer)
            if len(fresh) != len(batch):
                raise AttemptFailed("bad_answer", "The embedding server sent the wrong number of vectors.")
            vectors += fresh
            tokens += read_token_count(answer) or sum(map(estimate_tokens, batch))
    remember_size(provider, model_name, size)
    return vectors, tokens


def remembered_size(provider: Provider, model_name: str) -> int:
    """How many texts at once this server takes, as far as it is known."""
    with _lock:
        return _sizes.get((provider.pk, provider.revision, model_name), BATCH)


def remember_size(provider: Provider, model_name: str, size: int) -> None:
    """Only what led to all vectors: a text that is refused by itself says nothing about the number."""
    if size < BATCH:
        with _lock:
            _sizes[provider.pk, provider.revision, model_name] = size


def build_endpoint(provider: Provider) -> Any:
    from registry.llm.llms import OLLAMA_URL, OPENAI_URL

    # A slow import: 0.1 s, for httpcore2.
    from registry.llm.wire import Endpoint

    kinds = Provider.Kind
    if provider.kind not in (kinds.OPENAI, kinds.COMPATIBLE, kinds.OLLAMA):
        raise ModelFailed("no_embeddings", f"Providers of kind “{provider.kind}” have no embeddings here.")
    is_ollama = provider.kind == kinds.OLLAMA
    base_url = (provider.base_url or (OLLAMA_URL if is_ollama else OPENAI_URL)).rstrip("/")
    if provider.base_url:
        check_address(base_url)
    path = "/v1/embeddings" if is_ollama else "/embeddings"
    return Endpoint(f"{base_url}{path}", {"Authorization": f"Bearer {provider.api_key or 'none'}"})


def check_address(url: str) -> None:
    """Raises ModelFailed. To allow a host in the settings helps with a private address, but not with a host that
    cannot be found.
    """
    allowed = settings.PRIVATE_HOSTS_ALLOWED
    if why := url_refusal(url, allowed, must_resolve=False):
        raise ModelFailed("private_address", why)
    if why := url_refusal(url, allowed):
        raise ModelFailed("model_unreachable", why)


def of_words(text: str, dimensions: int) -> Vector:
    """Without a language model: each word adds or subtracts one in a place that its hash chooses, so
    texts with the same words are near each other.
    """
    places = [0.0] * dimensions
    words = re.findall(r"\w+", text.lower()) or [text]
    for word in words:
        digest = sha256(word.encode()).digest()
        number = int.from_bytes(digest[:8], "big")
        # The lowest bit gives the sign, the others the place.
        place = (number >> 1) % dimensions
        if number & 1:
            places[place] += 1.0
        else:
            places[place] -= 1.0
    if not any(places):
        # Words may cancel each other out; a vector without a direction is near nothing.
        places[0] = 1.0
    return unit(places)


def estimate_tokens(text: str) -> int:
    return len(text.encode()) // 4 + 1


def read_token_count(answer: dict[str, Any]) -> int:
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return 0
    number = usage.get("prompt_tokens")
    # True is an int in Python.
    if not isinstance(number, int) or isinstance(number, bool):
        return 0
    return max(number, 0)


def read_vectors(answer: dict[str, Any]) -> list[Vector]:
    """Raises AttemptFailed also for vectors that are too long to be kept by the thousand, or that nothing is near."""
    try:
        rows = sorted(answer["data"], key=lambda row: row["index"])
        if not all(0 < len(row["embedding"]) <= LONGEST for row in rows):
            message = f"The embedding server sent an empty vector, or one of more than {LONGEST} numbers."
            raise AttemptFailed("bad_answer", message)
        return [unit(list(map(float, row["embedding"]))) for row in rows]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise AttemptFailed("bad_answer", "The embedding server's answer cannot be read.")


def unit(vector: list[float]) -> Vector:
    square = sum(map(mul, vector, vector))
    length = square**0.5 or 1.0
    if not math.isfinite(length):
        raise ValueError("a number is too large, or is none")
    return array("f", (value / length for value in vector))


def read_kept(keys: Sequence[str]) -> dict[str, Vector]:
    """From the shared cache; if the cache is down, the server is asked again."""
    if not keys:
        return {}
    try:
        stored = cache.get_many(keys)
        return {key: array("f", vector) for key, vector in stored.items()}
    except OSError:
        return {}
    # The cache client has its own exception classes; none may stop a message.
    except Exception as error:
        log.warning("router_cache_failed", reason=type(error).__name__)
        return {}


def write_kept(fresh: dict[str, Vector]) -> None:
    try:
        if fresh:
            cache.set_many(fresh, KEPT_S)
    except Exception as error:  # as above
        log.warning("router_cache_failed", reason=type(error).__name__)
