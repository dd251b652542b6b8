"""An agent without a model gets one that its provider has."""

import pytest
from django.core.management import CommandError, call_command

from agents.models import Agent, Provider
from tests.fakes import StubOpenAI

pytestmark = pytest.mark.django_db
AGENT = "kind: agent\nname: plain\n"


@pytest.fixture
def folder(tmp_path, settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    (tmp_path / "a.yaml").write_text(AGENT)
    return tmp_path


def local(url):
    return Provider.objects.create(name="local", kind="openai-compatible", api_key="none", base_url=url)


def test_a_local_server_is_asked_for_its_models(folder):
    with StubOpenAI() as stub:
        local(stub.url)
        call_command("apply_definitions", str(folder), verbosity=0)
    agent = Agent.objects.get()
    assert (agent.provider.name, agent.model_name) == ("local", "stub")
    assert agent.published.read_spec().model_name == "stub"


def test_a_configured_name_needs_no_server(folder, settings):
    settings.LOCAL_MODEL_NAME = "llama-3"
    local("http://127.0.0.1:9/v1")
    call_command("apply_definitions", str(folder), verbosity=0)
    assert Agent.objects.get().model_name == "llama-3"


def test_a_server_that_does_not_answer_is_named_with_what_to_do(folder):
    local("http://127.0.0.1:9/v1")
    with pytest.raises(CommandError, match="127.0.0.1:9/v1/models"):
        call_command("apply_definitions", str(folder), verbosity=0)
    assert not Agent.objects.exists()


def test_a_private_address_that_is_not_allowed_is_not_asked(folder, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    with StubOpenAI() as stub:
        local(stub.url)
        with pytest.raises(CommandError, match="MUSTER_PRIVATE_HOSTS"):
            call_command("apply_definitions", str(folder), verbosity=0)
        assert stub.headers == []


def test_init_db_gives_the_starters_the_model_of_the_local_server(db, settings, monkeypatch):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with StubOpenAI() as stub:
        monkeypatch.setenv("MUSTER_LOCAL_MODEL", stub.url)
        call_command("init_db", verbosity=0)
    found = set(Agent.objects.values_list("provider__name", "model_name"))
    assert found == {("local", "stub")}
    # An agent of the person's own that names no model can be published too.
    assert Provider.objects.get(name="local").default_model == "stub"


def test_init_db_says_in_one_line_that_the_local_server_is_not_there(db, settings, monkeypatch):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("MUSTER_LOCAL_MODEL", "http://127.0.0.1:9/v1")
    with pytest.raises(CommandError, match="MUSTER_LOCAL_MODEL_NAME"):
        call_command("init_db", verbosity=0)
