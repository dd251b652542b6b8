"""The model of an agent whose definition names none."""

from django.conf import settings

from agents import available_models
from agents.exceptions import Invalid
from agents.models import Provider

DEFAULT_MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5", "google": "gemini-2.5-flash"}


def default_model(provider: Provider) -> str:
    """The model's name; for an OpenAI-compatible server the configured one, or the first that it serves.

    Raises Invalid if the server cannot be asked. Empty for a kind without a default.
    """
    if provider.kind == Provider.Kind.COMPATIBLE and provider.base_url:
        return settings.LOCAL_MODEL_NAME or first_served(provider)
    return DEFAULT_MODELS.get(provider.kind, "")


def first_served(provider: Provider) -> str:
    """The first model that the server lists."""
    url = f"{provider.base_url.rstrip('/')}/models"
    try:
        names = available_models.ask_for_models(provider)
    except available_models.NotServed as error:
        raise nameless(url, f"{error} {error.hint}".strip())
    if not names:
        raise nameless(url, "it lists no model")
    return names[0]


def nameless(url: str, reason: str) -> Invalid:
    return Invalid(
        f"No model is known of the server at {url}: {reason.rstrip('.')}.",
        code="no_model",
        hint="Start the server, or name one of its models with MUSTER_LOCAL_MODEL_NAME.",
    )
