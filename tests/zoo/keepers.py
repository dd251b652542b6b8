"""The servers of the zoo, each with a model of Muster's that speaks with it."""

import pytest

from agents.models import Provider
from agents.spec import ModelParams
from registry.llm import attempts, llms, transport, wire

from . import compatible, native, responses
from .pool import ZooPool

SERVERS = {
    "openai": compatible.OpenAI,
    "openai responses": responses.OpenAIResponses,
    "azure": compatible.Azure,
    "gemini": compatible.Gemini,
    "deepseek": compatible.DeepSeek,
    "mistral": compatible.Mistral,
    "vllm": compatible.Vllm,
    "vllm without a parser": compatible.VllmWithoutParser,
    "llama.cpp": compatible.LlamaCpp,
    "ollama /v1": compatible.OllamaCompatible,
    "lm studio": compatible.LmStudio,
    "openrouter": compatible.OpenRouter,
    "groq": compatible.Groq,
    "together": compatible.Together,
    "litellm": compatible.LiteLlm,
    "anthropic": native.Anthropic,
    "google": native.GoogleNative,
    "ollama": native.OllamaNative,
}
HOSTS = [kind.base.split("/")[2] for kind in SERVERS.values()]


@pytest.fixture
def keep(settings, monkeypatch):
    """(the pool of a server, the model that speaks with it)."""
    settings.PRIVATE_HOSTS_ALLOWED = HOSTS
    monkeypatch.setattr(attempts, "BACKOFF_S", 0.0)
    llms.make_model.cache_clear()

    def keep(name, *, size=512, **params):
        pool = ZooPool(SERVERS[name](), size=size)
        monkeypatch.setattr(wire, "get_connection_pool", lambda url: pool)
        monkeypatch.setattr(transport, "get_connection_pool", lambda url: pool)
        about = {"kind": pool.server.kind, "base_url": pool.server.base, "api": getattr(pool.server, "api", "chat")}
        provider = Provider(pk=999_999, name="zoo", api_key="key", **about)
        llms.make_model.cache_clear()
        return pool, llms.make_model(provider, ModelParams(**params))

    yield keep
    llms.make_model.cache_clear()
