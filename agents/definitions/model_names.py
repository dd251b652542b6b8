"""The model of an agent whose definition names none."""

import httpx
from django.conf import settings

from agents.exceptions import Invalid
from agents.models import Provider
from plumbing import outbound

DEFAULT_MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5", "google": "gemini-2.5-flash"}
ASK_S = 10.0
MAX_BYTES = 1_000_000


def default_model(provider: Provider) -> str:
    """The model's name; for an OpenAI-compatible server the configured one, or the first that it serves.

    Raises Invalid if the server cannot be asked. Empty for a kind without a default.
    """
    if provider.kind == Provider.Kind.COMPATIBLE and provider.base_url:
        return settings.LOCAL_MODEL_NAME or first_served(provider)
    return DEFAULT_MODELS.get(provider.kind, "")


def first_served(provider: Provider) -> str:
    """The first id of `GET {base_url}/models`."""
    url = provider.base_url.rstrip("/") + "/models"
    headers = {"Authorization": f"Bearer {provider.api_key}"} if provider.api_key else {}
    try:
        with (
            outbound.until(ASK_S),
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            response.raise_for_status()
            text = outbound.read_body(response, MAX_BYTES)
        names = [row["id"] for row in httpx.Response(200, content=text).json()["data"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise nameless(url, str(error) or type(error).__name__)
    if not names or not isinstance(names[0], str):
        raise nameless(url, "it lists no model")
    return names[0][:100]


def nameless(url: str, reason: str) -> Invalid:
    return Invalid(
        f"No model is known of the server at {url}: {reason.rstrip('.')}.",
        code="no_model",
        hint="Start the server, or name one of its models with MUSTER_LOCAL_MODEL_NAME.",
    )
