"""The models, embeddings of the offline provider, and errors in OpenAI's form."""

import httpx2
import openai
import pytest

from tests.fakes import says

pytestmark = pytest.mark.live


def test_the_models_are_the_agents(client):
    names = [model.id for model in client.models.list()]
    assert {"plain", "clerk", "router"} <= set(names)
    assert client.models.retrieve("plain").object == "model"
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("nobody")
    assert refused.value.code == "model_not_found"


def test_a_model_may_name_a_version(client, model):
    assert client.models.retrieve("plain@1").id == "plain@1"
    model.script(says("One."))
    answer = client.chat.completions.create(model="plain@1", messages=[{"role": "user", "content": "hi"}])
    assert (answer.choices[0].message.content, answer.model) == ("One.", "plain@1")
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="plain@99", input="hi")
    assert refused.value.code == "unknown_version"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("plain@99")


# -- chat completions ----------------------------------------------------------------------------------------------------


def test_embeddings_of_the_offline_provider(client):
    answer = client.embeddings.create(model="assistant", input=["a cat", "a cat"])
    one, two = (entry.embedding for entry in answer.data)
    assert one == two and len(one) == 256 and isinstance(one[0], float) and answer.usage.total_tokens > 0
    with pytest.raises(openai.NotFoundError) as refused:
        client.embeddings.create(model="text-embedding-3-small", input="x")
    assert refused.value.code == "model_not_found"


def test_an_unknown_key_and_an_unknown_agent(agents, client):
    stranger = openai.OpenAI(base_url=f"{agents[0].url}/v1", api_key="mk_none.none", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "hi"}])


# -- responses -----------------------------------------------------------------------------------------------------------


def test_errors_have_openais_form(agents):
    said = httpx2.post(
        f"{agents[0].url}/v1/responses", json={"model": "plain"}, headers={"Authorization": f"Bearer {agents[0].key}"}
    )
    assert said.status_code == 400 and said.json()["error"].keys() == {"message", "type", "param", "code"}
    assert httpx2.post(f"{agents[0].url}/v1/responses", json={}).status_code == 401


def test_the_status_of_a_failed_run_says_what_failed():
    from gateway.openai.views import status_of_failure

    assert [status_of_failure(code) for code in ("budget_exhausted", "model_unreachable", "failed")] == [429, 502, 500]
