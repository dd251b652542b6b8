"""The models that a provider's server lists: asked with the stored key, through the guarded client, within limits.

Listing models proves that the address is right and that the key is accepted, and costs no tokens. What a model can do
is tried with four short requests (`MODEL_TRIAL`).
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx2
from cachetools import TTLCache
from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.translation import gettext_noop as _

from agents.exceptions import RateLimited, Unavailable
from agents.models import Provider
from plumbing.http import outbound

ASK_S = 10.0
MAX_BYTES = 2_000_000
# Names of models that are taken from an answer.
MOST = 1_000
# Each holds a thread of this process while it waits.
AT_ONCE = threading.BoundedSemaphore(8)
FATAL = ("provider_unreachable", "private_address", "provider_key_refused", "rate_limited")
# What is not of the expected shape fails while it is read.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
log = logging.getLogger(__name__)
_kept: TTLCache[tuple[int, int], list[str]] = TTLCache(1_000, 60.0)
_lock = threading.Lock()


def bearer(provider: Provider) -> dict[str, str]:
    if not provider.api_key:
        return {}
    return {"Authorization": f"Bearer {provider.api_key}"}


def ids(body: Any) -> list[Any]:
    return [row["id"] for row in body["data"]]


# kind → (usual address, path of the list, headers, how to read the answer)
LISTS: dict[str, tuple[str, str, Callable[[Provider], dict[str, str]], Callable[[Any], list[Any]]]] = {
    Provider.Kind.OPENAI: ("https://api.openai.com/v1", "/models", bearer, ids),
    Provider.Kind.COMPATIBLE: ("", "/models", bearer, ids),
    Provider.Kind.ANTHROPIC: (
        "https://api.anthropic.com/v1",
        "/models?limit=1000",
        lambda provider: {"x-api-key": provider.api_key, "anthropic-version": "2023-06-01"},
        ids,
    ),
    Provider.Kind.GOOGLE: (
        "https://generativelanguage.googleapis.com/v1beta",
        "/models?pageSize=1000",
        lambda provider: {"x-goog-api-key": provider.api_key},
        lambda body: [row["name"].removeprefix("models/") for row in body["models"]],
    ),
    Provider.Kind.OLLAMA: (
        "http://127.0.0.1:11434", "/api/tags", lambda _: {}, lambda body: [row["name"] for row in body["models"]],
    ),
}  # fmt: skip


class NotServed(Unavailable):
    """The provider's server did not list its models."""

    code = "provider_unreachable"


def models(provider: Provider, *, fresh: bool = False) -> list[str]:
    """Names of models, in the server's order; none for the offline provider. Kept for a minute.

    Raises NotServed, RateLimited.
    """
    key = (provider.pk, provider.revision)
    with _lock:
        names = None if fresh else _kept.get(key)
    if names is not None:
        return names
    if provider.kind == Provider.Kind.OFFLINE:
        return []
    if not AT_ONCE.acquire(blocking=False):
        raise RateLimited(_("Too many providers are being asked at this moment."), hint=_("Try again in a moment."))
    try:
        names = ask_for_models(provider)
    finally:
        AT_ONCE.release()
    with _lock:
        _kept[key] = names
    return names


def ask_for_models(provider: Provider) -> list[str]:
    """The names that the server lists now. Raises NotServed."""
    usual_address, path, make_headers, read_names = LISTS[provider.kind]
    address = (provider.base_url or usual_address).rstrip("/")
    # Anthropic's own client adds it too, so people leave it out.
    if provider.kind == Provider.Kind.ANTHROPIC and not address.endswith("/v1"):
        address += "/v1"
    headers = make_headers(provider)
    try:
        with (
            outbound.until(ASK_S),
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED, follow_redirects=False) as client,
            client.stream("GET", f"{address}{path}", headers=headers) as response,
        ):
            status = response.status_code
            content = outbound.read_body(response, MAX_BYTES)
        if status != 200:
            raise refused_by_server(provider, status)
        body = httpx2.Response(200, content=content).json()
        names = read_names(body)
    except (httpx2.HTTPError, httpx2.InvalidURL, *UNREADABLE) as error:
        log.info("The provider %s did not list its models", provider.pk, exc_info=error)
        raise unheard(provider, error) from None
    return [name[:100] for name in names if isinstance(name, str)][:MOST]


def refused_by_server(provider: Provider, status: int) -> NotServed:
    if status in (401, 403):
        return NotServed(
            f"“{provider.name}” refused the key ({status}).", code="provider_key_refused", hint="Enter the key again."
        )
    hint = "Check the base URL; for an OpenAI-compatible server it usually ends with /v1."
    return NotServed(f"“{provider.name}” answered {status}.", code="provider_refused", hint=hint)


def unheard(provider: Provider, error: Exception) -> NotServed:
    if isinstance(error, outbound.AddressRefused):
        hint = "An administrator can allow it with MUSTER_PRIVATE_HOSTS."
        return NotServed(f"The address of “{provider.name}” is private.", code="private_address", hint=hint)
    if isinstance(error, httpx2.TimeoutException):
        return NotServed(f"“{provider.name}” did not answer in time.", hint="Check that the server runs.")
    if isinstance(error, httpx2.HTTPError):
        return NotServed(f"“{provider.name}” cannot be reached.", hint="Check the base URL, and that the server runs.")
    message = f"“{provider.name}” did not answer with a list of models."
    return NotServed(message, code="provider_refused", hint="Check the base URL.")


def verdict(provider: Provider, model: str = "") -> dict[str, Any]:
    """{"ok", "code", "message", "hint", "models", "wall_ms"} of a trial: the server lists its models, and
    `model` (default: the provider's default model) is one of them.
    """
    started = time.monotonic()
    model_name = model or provider.default_model
    try:
        names = models(provider, fresh=True)
        code, message, hint = explain_missing_model(provider, model_name, names)
    except (NotServed, RateLimited) as error:
        names = []
        code, message, hint = error.code, str(error), error.hint
    wall_ms = round((time.monotonic() - started) * 1000, 1)
    return {"ok": not code, "code": code, "message": message, "hint": hint, "models": len(names), "wall_ms": wall_ms}


def record_trial(provider: Provider, trial: dict[str, Any]) -> None:
    """Keep whether the provider answered."""
    now = timezone.now()
    Provider.objects.filter(pk=provider.pk).update(tested_at=now, test_code=trial["code"])
    provider.tested_at = now
    provider.test_code = trial["code"]


def suggest_default_model(provider: Provider, names: list[str]) -> str:
    """A model that suits most agents: the newest known one that calls tools, else the first; empty if there is none."""
    suggested = names[0] if names else ""
    for name in names:
        model = provider.known_model(name)
        if model is not None and "tools" in model.features:
            suggested = name
    return suggested


def try_provider(provider: Provider, model: str = "") -> dict[str, Any]:
    """`verdict`, with what the model can do as `abilities`: four short requests, if there is a model to ask. While too
    many others are being tried, `abilities` is empty.
    """
    trial = verdict(provider, model)
    trial["abilities"] = []
    model_name = model or provider.default_model
    if trial["code"] in FATAL or not model_name or provider.kind == Provider.Kind.OFFLINE:
        return trial
    if not AT_ONCE.acquire(blocking=False):
        return trial
    try:
        try_model = import_string(settings.MODEL_TRIAL)
        trial["abilities"] = try_model(provider, model_name)
    finally:
        AT_ONCE.release()
    return trial


def explain_missing_model(provider: Provider, model_name: str, names: list[str]) -> tuple[str, str, str]:
    """(code, message, hint) of a server that answered; the code is empty if it has the model."""
    if provider.kind == Provider.Kind.OFFLINE:
        return "", "The offline provider needs no server.", ""
    if model_name and model_name not in names:
        return "unknown_model", f"“{provider.name}” does not list the model “{model_name}”.", "See its list of models."
    return "", f"“{provider.name}” answered and lists {len(names)} models.", ""
