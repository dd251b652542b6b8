"""The table once more, through a server that is not ours: LiteLLM's proxy in front of servers of the zoo.

`make exhaustive` installs it into build/litellm; LITELLM names the program of one that is installed already.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.models import Provider
from agents.spec import ModelParams
from registry.llm import attempts, llms
from registry.llm.trial import try_model
from tests.servers import free_port, served

from .keepers import SERVERS
from .pool import ZooPool
from .stories import STORIES, play
from .test_cuts import WHOLE, ask, size_of_answer
from .test_trial import ABLE
from .test_zoo import check, count_tokens
from .wire_server import staged

VERSION = "1.104.6"
CUTS = 40  # of each answer
HOME = Path(__file__).parents[2] / "build" / "litellm" / VERSION
LOST_REFUSAL = "the proxy leaves refusals out of streams: the test below has the whole answer"
KEY = "sk-zoo-0123456789abcdef0123456789abcdef"
# Servers of the zoo that stand behind the proxy. It has a provider of the same name for each.
BEHIND = ["openai", "deepseek", "anthropic"]
NOT_APPLICABLE = {
    ("openai", "reasoning"): "chat completions do not show what the model thinks",
    ("openai", "reasoning and call"): "chat completions do not show what the model thinks",
    ("openai", "refusal"): LOST_REFUSAL,
    ("deepseek", "refusal"): LOST_REFUSAL,
}
pytestmark = [] if os.environ.get("LITELLM") else [pytest.mark.exhaustive]


@pytest.fixture(scope="module")
def stage_and_proxy(tmp_path_factory):
    """(what stands behind the proxy, the address of the proxy)."""
    program = find_program()
    folder = tmp_path_factory.mktemp("litellm")
    with staged() as (stage, behind):
        config = folder / "config.yaml"
        config.write_text(json.dumps(configure(behind)))
        port = free_port()
        command = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
        with served(command, f"http://127.0.0.1:{port}/health/liveliness", cwd=folder, **environment(behind)):
            yield stage, f"http://127.0.0.1:{port}/v1"
        assert stage.foreign == [], "the proxy wanted to reach other hosts"


def find_program():
    if program := os.environ.get("LITELLM"):
        return program
    program = HOME / "bin" / "litellm"
    if not program.exists():
        install()
    return str(program)


def install():
    """An environment of its own, so that nothing of the proxy is in ours."""
    steps = [
        [sys.executable, "-m", "venv", HOME],
        [HOME / "bin" / "python", "-m", "pip", "install", "--quiet", f"litellm[proxy]=={VERSION}"],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, timeout=900)
        if done.returncode:
            pytest.skip(f"litellm[proxy]=={VERSION} cannot be installed here: {done.stderr.strip()[-300:]}")


def configure(behind):
    """JSON is YAML. A fault of a server reaches Muster at once: retries and pauses are Muster's."""
    models = []
    for name in BEHIND:
        model = SERVERS[name].model
        params = {"model": f"{name}/{model}", "api_base": behind, "api_key": "key", "max_retries": 0}
        models.append({"model_name": model, "litellm_params": params})
    return {
        "model_list": models,
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"telemetry": False, "num_retries": 0},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }


def environment(behind):
    """No outside request: lists come from the package, and what still goes out goes to us, who refuse it."""
    local = ("MODEL_COST_MAP", "ANTHROPIC_BETA_HEADERS", "AUTOROUTER_PRESETS", "BLOG_POSTS", "POLICY_TEMPLATES")
    return {
        **{f"LITELLM_LOCAL_{name}": "True" for name in local},
        "HTTP_PROXY": behind,
        "HTTPS_PROXY": behind,
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture
def keep(stage_and_proxy, settings, monkeypatch):
    """(the pool of a server behind the proxy, the model that speaks with the proxy)."""
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    monkeypatch.setattr(attempts, "BACKOFF_S", 0.0)
    stage, url = stage_and_proxy

    def keep(name):
        stage.pool = ZooPool(SERVERS[name]())
        llms.make_model.cache_clear()
        return stage.pool, llms.make_model(provider_at(url), ModelParams())

    yield keep
    llms.make_model.cache_clear()


def provider_at(url):
    return Provider(pk=999_999, name="zoo", api_key=KEY, kind="openai-compatible", base_url=url)


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("behind", BEHIND)
def test_a_story_is_the_same_through_the_proxy(keep, behind, name):
    if reason := NOT_APPLICABLE.get((behind, name)):
        pytest.skip(reason)
    story = STORIES[name]
    journals = []
    for listens in (False, True):
        pool, model = keep(behind)
        pool.script(*story.acts)
        journal = play(model, pool.server.model, story, listens=listens)
        check(journal, story, listens=listens)
        assert len(set(pool.complaints)) == len(pool.complaints), "a server had to refuse the same thing twice"
        assert len(pool.requests) == len(story.acts) + len(pool.complaints), "the proxy asked more often than Muster"
        journals.append((journal.entries, ["".join(text.split()) for text in journal.reasoning], journal.finishes))
    assert journals[0] == journals[1]


@pytest.mark.parametrize("behind", ["openai", "deepseek"])
def test_a_refusal_is_read_where_the_proxy_puts_it(keep, behind):
    pool, model = keep(behind)
    story = STORIES["refusal"]
    pool.script(*story.acts)
    journal = play(model, pool.server.model, story, listens=False)
    assert journal.entries == [("I cannot help with that.", [])]
    assert journal.finishes == ["refusal"]


@pytest.mark.parametrize("listens", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("behind", BEHIND)
def test_the_tokens_of_an_answer_are_counted(keep, behind, listens):
    assert count_tokens(*keep(behind), listens=listens) == (11, 7)


@pytest.mark.parametrize("behind", BEHIND)
def test_a_provider_s_test_finds_it_able(keep, stage_and_proxy, behind):
    pool, _ = keep(behind)
    pool.script(*ABLE)
    results = try_model(provider_at(stage_and_proxy[1]), pool.server.model)
    assert [one["name"] for one in results if one["ok"]] == ["plain", "stream", "tools", "schema"]


@pytest.mark.parametrize("breaks", [True, False], ids=["broken", "ended"])
@pytest.mark.parametrize("listens", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("behind", BEHIND)
def test_an_answer_that_is_cut_behind_the_proxy_calls_nothing_by_halves(keep, behind, listens, breaks):
    """Of a stream that just ends the proxy says that it was complete (`stop`), so that calls may be missing."""
    pool, model = keep(behind)
    pool.breaks = breaks
    size = size_of_answer(pool, listens=listens)
    outcomes = []
    for place in range(0, size, size // CUTS):
        pool.ends_after = place
        outcomes.append(ask(pool, model, listens=listens))
    complete = [None, WHOLE, WHOLE[:1], []] if listens and not breaks else [None, WHOLE]
    assert [outcome for outcome in outcomes if outcome not in complete] == []
    pool.ends_after = None
    assert ask(pool, model, listens=listens) == WHOLE
