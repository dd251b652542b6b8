"""Provider row → chat model. One literal table; a provider's package is imported when it is first
used.
"""

import logging
from collections.abc import Callable
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached
from django.conf import settings

from agents.models import Provider
from agents.spec import ModelParams
from plumbing.http.addresses import url_refusal
from registry.exceptions import CannotBuild

from . import offline_script
from .chat import ChatModel
from .offline import OfflineModel
from .schema_calls import SchemaModel

OPENAI_URL = "https://api.openai.com/v1"
OLLAMA_URL = "http://127.0.0.1:11434"
GOOGLE_URL = "https://generativelanguage.googleapis.com"
ANTHROPIC_URL = "https://api.anthropic.com"

log = logging.getLogger(__name__)


def chat_model(provider: Provider, params: ModelParams) -> ChatModel:
    """The provider's models with these parameters, shared by all agents that use the same. Raises
    CannotBuild.
    """
    if not provider.enabled:
        raise CannotBuild(
            "provider_disabled", f"The provider “{provider.name}” is disabled.", "Enable it or choose another provider."
        )
    return make_model(provider, params)


def key_of_model(provider: Provider, params: ModelParams) -> tuple[int, int, str]:
    return provider.pk, provider.revision, params.canonical()


@cached(LRUCache(512), key=key_of_model, lock=Lock())
def make_model(provider: Provider, params: ModelParams) -> ChatModel:
    if provider.base_url:
        check_address(
            provider.base_url,
            "Use a public address, or ask an administrator to allow the host (MUSTER_PRIVATE_HOSTS).",
        )
    maker = KINDS.get(provider.kind)
    if maker is None:
        raise CannotBuild("unknown_provider_kind", f"“{provider.kind}” is not a kind of provider.")
    model = maker(provider, params)
    # The offline model reads tools by itself.
    is_offline = provider.kind == Provider.Kind.OFFLINE
    if provider.tool_calling == Provider.ToolCalling.SCHEMA and not is_offline:
        return SchemaModel(model)
    return model


def check_address(url: str, hint: str) -> None:
    """Raises CannotBuild. The `hint` says how to allow a private address; it is left out if the host
    cannot be found.
    """
    allowed = settings.PRIVATE_HOSTS_ALLOWED
    if why := url_refusal(url, allowed, must_resolve=False):
        raise CannotBuild("private_address", why, hint)
    if why := url_refusal(url, allowed):
        raise CannotBuild(
            "model_unreachable",
            why,
            "Check the base URL of the provider, and whether this machine can look the host up.",
        )


def make_offline(provider: Provider, params: ModelParams) -> ChatModel:
    if settings.OFFLINE_SCRIPT:
        try:
            offline_script.read_script(settings.OFFLINE_SCRIPT)
        except (OSError, ValueError) as error:
            log.warning("The script of the offline provider cannot be read", exc_info=error)
            raise CannotBuild("bad_script", "The offline provider's script cannot be read; see the server's log.")
    return OfflineModel(settings.OFFLINE_SCRIPT)


def make_openai(provider: Provider, params: ModelParams) -> ChatModel:
    """OpenAI, and every server with one of its two APIs."""
    is_openai = provider.kind == Provider.Kind.OPENAI
    if is_openai:
        require_key(provider)
    elif not provider.base_url:
        raise CannotBuild(
            "base_url_missing",
            f"The provider “{provider.name}” needs a base URL.",
            "For example http://127.0.0.1:11434/v1.",
        )
    # A slow import: 0.1 s, for httpcore2.
    from .wire import Endpoint

    base_url = (provider.base_url or OPENAI_URL).rstrip("/")
    headers = {"Authorization": f"Bearer {provider.api_key or 'none'}"}
    if provider.api == Provider.Api.RESPONSES:
        from .responses import Responses

        endpoint = Endpoint(f"{base_url}/responses", headers)
        return wire_model(provider, Responses(endpoint, list_set_parameters(params), is_openai=is_openai))
    from .completions import Completions

    endpoint = Endpoint(f"{base_url}/chat/completions", headers)
    return wire_model(provider, Completions(endpoint, list_set_parameters(params), is_openai=is_openai))


def make_anthropic(provider: Provider, params: ModelParams) -> ChatModel:
    require_key(provider)
    # A slow import: 2.5 s.
    import anthropic
    import httpx2

    from .langchain_models import LangChainModel
    from .transport import PooledTransport

    base_url = (provider.base_url or ANTHROPIC_URL).rstrip("/").removesuffix("/v1")
    silence_s = settings.MODEL_SILENCE_S
    transport = PooledTransport(base_url)
    client = anthropic.Anthropic(
        api_key=provider.api_key,
        base_url=base_url,
        max_retries=0,
        timeout=silence_s,
        http_client=httpx2.Client(transport=transport, timeout=silence_s),
    )
    shared: dict[str, Any] = {"api_key": provider.api_key, "base_url": base_url, "max_retries": 0}
    for name, value in list_set_parameters(params).items():
        # Anthropic has no penalties.
        if not name.endswith("_penalty"):
            shared[name] = value

    def make(model_name: str) -> Any:
        # A slow import: 1.5 s.
        from .anthropic_usage import CountingAnthropic

        model: Any = CountingAnthropic(**shared, model_name=model_name)
        # A cached property that no parameter sets; our client notices cancellations.
        model.__dict__["_client"] = client
        return model

    return LangChainModel(make, account=str(provider.pk), splits_thinking=splits_thinking(provider))


def make_google(provider: Provider, params: ModelParams) -> ChatModel:
    require_key(provider)
    from .google import Google

    base_url = (provider.base_url or GOOGLE_URL).rstrip("/").removesuffix("/v1beta")
    dialect = Google(base_url, provider.api_key, list_set_parameters(params))
    return wire_model(provider, dialect)


def make_ollama(provider: Provider, params: ModelParams) -> ChatModel:
    from .ollama import Ollama

    # People paste the address of either of its two APIs.
    base_url = (provider.base_url or OLLAMA_URL).rstrip("/").removesuffix("/v1").removesuffix("/api")
    check_address(base_url, "Ask an administrator to allow the host, for example MUSTER_PRIVATE_HOSTS=127.0.0.1.")
    dialect = Ollama(base_url, provider.api_key, list_set_parameters(params))
    return wire_model(provider, dialect)


def wire_model(provider: Provider, dialect: Any) -> ChatModel:
    from .wire_model import WireModel

    return WireModel(dialect, account=str(provider.pk), splits_thinking=splits_thinking(provider))


def splits_thinking(provider: Provider) -> bool:
    return provider.thinking != Provider.Thinking.TEXT


def list_set_parameters(params: ModelParams) -> dict[str, Any]:
    """The parameters that are set."""
    return params.model_dump(exclude_none=True)


def require_key(provider: Provider) -> None:
    if not provider.api_key:
        raise CannotBuild("provider_key_missing", f"The provider “{provider.name}” has no API key.", "Add its API key.")


KINDS: dict[str, Callable[[Provider, ModelParams], ChatModel]] = {
    "openai": make_openai,
    "openai-compatible": make_openai,
    "anthropic": make_anthropic,
    "google": make_google,
    "ollama": make_ollama,
    "offline": make_offline,
}
