"""Embeddings. A model is `provider:model`, for a provider that the person may use, or an agent whose provider has
embeddings: the offline provider, and that of the setting MUSTER_ROUTER_EMBEDDINGS.
"""

from base64 import b64encode
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from agents.exceptions import NotFound
from agents.http.authentication import find_key
from agents.models import Agent, Provider
from gateway.parts import refuse_content_part
from registry.routing.classifier import find_router_provider
from runs.calls import vectors
from runs.events.connection_limits import WAITS
from runs.intake.options import has_price

from .views import OpenAIView, get_body_fields

JSON = Any
FIELDS = ("model", "input", "encoding_format", "dimensions", "user")
MOST_TEXTS, MOST_DIMENSIONS = 2048, 4096
OFFLINE_MODEL = "words"


@extend_schema(exclude=True)
class EmbeddingsView(OpenAIView):
    """POST /v1/embeddings"""

    def post(self, request: Any) -> Response:
        body = get_body_fields(request)
        texts, dimensions, encode_vector = parse_embedding_request(body)
        provider, model = model_named(request.user, body.get("model"))
        key = find_key(request)
        with WAITS.take(request.user.pk):
            embeddings, tokens = vectors.embed_texts(request.user, key, provider, model, texts, dimensions=dimensions)
        data = []
        for place, vector in enumerate(embeddings):
            data.append({"object": "embedding", "index": place, "embedding": encode_vector(vector)})
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return Response({"object": "list", "data": data, "model": body["model"], "usage": usage})


def parse_embedding_request(body: dict[str, JSON]) -> tuple[list[str], int | None, Any]:
    """The texts, the number of dimensions, and how a vector is written. Raises Invalid."""
    for name in body:
        if name not in FIELDS:
            raise refuse_content_part(name[:80], f"There is no parameter “{name[:80]}”.", "unknown_parameter")
    texts = body.get("input")
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list) or not 1 <= len(texts) <= MOST_TEXTS:
        raise refuse_content_part("input", f"“input” must be text, or a list of 1 to {MOST_TEXTS} texts.")
    if not all(isinstance(text, str) and text for text in texts):
        raise refuse_content_part("input", "“input” has texts that are not empty; lists of tokens are not supported.")
    dimensions = body.get("dimensions")
    # True and False are of a type of their own, so they are refused here.
    if dimensions is not None and (type(dimensions) is not int or not 1 <= dimensions <= MOST_DIMENSIONS):
        raise refuse_content_part("dimensions", f"“dimensions” must be a number from 1 to {MOST_DIMENSIONS}.")
    encoding = body.get("encoding_format")
    if encoding not in (None, "float", "base64"):
        raise refuse_content_part("encoding_format", "“encoding_format” must be float or base64.")
    encode_vector = in_base64 if encoding == "base64" else list
    return texts, dimensions, encode_vector


def in_base64(vector: vectors.embeddings.Vector) -> str:
    """4-byte floats, the lowest byte first, as on every machine that Muster runs on."""
    return b64encode(vector.tobytes()).decode()


def model_named(user: Any, name: JSON) -> tuple[Provider, str]:
    """Raises Invalid, NotFound."""
    if not isinstance(name, str) or not name:
        raise refuse_content_part("model", "“model” must be text.")
    agents = Agent.objects.usable_by(user).published().select_related("provider")
    agent = agents.filter(name=name).nearest_first(user).first()
    if agent:
        provider, model = choose_agent_embeddings(user, agent.provider)
    else:
        provider_name, _, model_name = name.partition(":")
        provider, model = load_embedding_provider(user, provider_name, model_name)
    if not provider.enabled:
        raise refuse_content_part("model", f"The provider “{provider.name}” is switched off.", "provider_disabled")
    # A model without a price could be used without limit.
    if not has_price(provider, model):
        raise refuse_content_part("model", f"“{model}” has no price, so budgets could not count it.", "unknown_model")
    return provider, model


def choose_agent_embeddings(user: Any, provider: Provider) -> tuple[Provider, str]:
    """The provider and the model that make vectors where the name of an agent was sent. Raises Invalid."""
    if provider.kind == Provider.Kind.OFFLINE:
        return provider, OFFLINE_MODEL
    name, _, model = settings.ROUTER_EMBEDDINGS.partition(":")
    if model and find_router_provider(user, name) == provider:
        return provider, model
    message = f"The provider of this agent has no embedding model; send “{provider.name}:” and the name of a model."
    raise refuse_content_part("model", message, "no_embeddings")


def load_embedding_provider(user: Any, provider_name: str, model: str) -> tuple[Provider, str]:
    provider = Provider.objects.usable_by(user).filter(name=provider_name).nearest_first(user).first()
    if provider is None or not model:
        raise NotFound(
            "There is no such embedding model.", code="model_not_found",
            hint="Send the name of an agent, or “provider:model” with a provider that you may use.",
        )  # fmt: skip
    return provider, model
