"""What a worker loads before its first run."""

import os
import subprocess
import sys
import threading

import pytest

from agents.models import Provider
from registry.llm.completions import Completions
from registry.llm.wire_model import WireModel
from runs.worker import preload

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def started(monkeypatch):
    """How often the sandbox was started."""
    started = threading.Semaphore(0)
    monkeypatch.setattr(preload.sandbox, "start", started.release)
    monkeypatch.setattr(preload.sandbox, "execute", lambda source, arguments: None)
    return started


@pytest.fixture
def warmed(monkeypatch):
    names = []
    monkeypatch.setattr(WireModel, "warm", lambda self, model_name, tools: names.append(model_name))
    return names


def test_one_agent_of_each_provider_is_loaded(make_agent, stub_provider, warmed):
    other = Provider.objects.create(name="other", kind="openai-compatible", base_url="http://127.0.0.1:9/v1")
    make_agent("first", provider=stub_provider, model_name="one")
    make_agent("second", provider=stub_provider, model_name="two")
    make_agent("third", provider=other, model_name="three")
    preload.warm_worker()
    assert sorted(warmed) == ["three", "two"]


def test_an_installation_that_asks_no_model_loads_none(make_agent, warmed):
    make_agent("helper")
    preload.warm_worker()
    assert warmed == []


def test_the_sandbox_is_started(db, started):
    preload.warm_worker()
    assert started.acquire(timeout=60)


def test_a_model_that_cannot_be_loaded_stops_nothing(make_agent, stub_provider, monkeypatch, caplog):
    def fail(self, model_name, tools):
        raise RuntimeError("broken package")

    make_agent("helper", provider=stub_provider)
    monkeypatch.setattr(WireModel, "warm", fail)
    preload.warm_worker()
    assert "could not be loaded" in caplog.text


def test_warming_loads_the_package_and_sends_nothing(make_agent, stub_provider, stub):
    agent = make_agent("helper", provider=stub_provider)
    preload.warm_agent(agent)
    assert "registry.llm.wire_model" in sys.modules and stub.requests == []


def test_a_model_is_rehearsed_with_the_tools_of_its_agent(make_agent, make_tool, stub_provider, monkeypatch, stub):
    written = []
    write = Completions.write

    def observe(self, request):
        written.append(write(self, request))
        return written[-1]

    monkeypatch.setattr(Completions, "write", observe)
    preload.warm_agent(make_agent("helper", provider=stub_provider, tools=[make_tool("add")]))
    assert [[tool["function"]["name"] for tool in body["tools"]] for body in written] == [["add"]]
    assert stub.requests == []


def test_nothing_of_langchain_is_loaded_without_need():
    code = (
        "import django; django.setup(); import runs.worker.preload, sys; assert 'langchain_openai' not in sys.modules"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-500:]
