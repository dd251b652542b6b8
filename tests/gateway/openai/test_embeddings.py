"""OpenAI's embeddings: with a provider that the person may use, within budgets, recorded as a run."""

import struct
from base64 import b64decode
from decimal import Decimal

import pytest

from agents.models import ApiKey, Provider
from runs.models import Budget, Hold, Run
from tests.people import ApiClient

pytestmark = pytest.mark.django_db
PRICE = {"embed": {"input": 1_000_000}}  # a dollar a token


@pytest.fixture
def mind(alice, stub):
    return Provider.objects.create(owner=alice, name="mind", kind="openai-compatible", base_url=stub.url, prices=PRICE)


def ask(api, status=200, **body):
    answer = api.post("/v1/embeddings", {"model": "mind:embed", "input": "A cat", **body})
    assert answer.status_code == status, answer.json()
    return answer.json() if status == 200 else answer.json()["error"]


def test_texts_become_vectors_in_their_order_and_the_request_is_a_run(alice_api, mind, stub):
    said = ask(alice_api, input=["A cat", "A dog"], dimensions=64)
    assert (said["object"], said["model"]) == ("list", "mind:embed")
    assert [(one["object"], one["index"]) for one in said["data"]] == [("embedding", 0), ("embedding", 1)]
    assert stub.embedded[-1] == {"model": "embed", "input": ["A cat", "A dog"], "dimensions": 64}
    tokens = said["usage"]["prompt_tokens"]
    run = Run.objects.get()
    assert (run.status, run.input, run.input_tokens, run.cost) == ("succeeded", {"texts": 2}, tokens, Decimal(tokens))
    assert run.metadata == {"embeddings": "mind:embed"} and run.finished_at and "cat" not in str(run.__dict__)
    assert [event.type for event in run.events.all()] == ["run.finished"]
    listed = alice_api.get("/api/v1/usage/").json()
    assert str(tokens) in str(listed)


def test_both_formats_have_the_same_numbers(alice_api, mind):
    as_list = ask(alice_api)["data"][0]["embedding"]
    raw = b64decode(ask(alice_api, encoding_format="base64")["data"][0]["embedding"])
    assert list(struct.unpack(f"<{len(raw) // 4}f", raw)) == as_list


def test_the_offline_provider_compares_words_and_answers_alike_each_time(alice_api, make_agent):
    make_agent("plain")
    one, same, other = (
        entry["embedding"]
        for entry in ask(alice_api, model="plain", input=["the red cat", "The cat, the red", "shipping costs"])["data"]
    )
    assert one == ask(alice_api, model="plain", input="the red cat")["data"][0]["embedding"] and len(one) == 256
    near, far = (sum(a * b for a, b in zip(one, vector, strict=True)) for vector in (same, other))
    assert near > 0.9 > 0.5 > far
    assert len(ask(alice_api, model="plain", dimensions=3)["data"][0]["embedding"]) == 3


def test_an_agent_has_the_embedding_model_of_the_site_if_its_provider_is_the_same(
    alice_api, make_agent, stub_provider, stub, settings
):
    make_agent(provider=stub_provider)
    assert ask(alice_api, 400, model="helper")["code"] == "no_embeddings"
    settings.ROUTER_EMBEDDINGS = f"{stub_provider.name}:embed"
    ask(alice_api, model="helper")
    assert stub.embedded[-1]["model"] == "embed"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "nobody"}, 404, "model_not_found"),
        ({"model": "nobody:embed"}, 404, "model_not_found"),
        ({"model": "mind:"}, 404, "model_not_found"),
        ({"model": 1}, 400, None),
        ({"model": "mind:other"}, 400, "unknown_model"),  # it has no price
        ({"input": ""}, 400, None),
        ({"input": []}, 400, None),
        ({"input": [[1, 2]]}, 400, None),
        ({"dimensions": True}, 400, None),
        ({"encoding_format": "hex"}, 400, None),
        ({"inputs": "x"}, 400, "unknown_parameter"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_openais_form(alice_api, mind, body, status, code):
    error = ask(alice_api, status, **body)
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    assert code is None or error["code"] == code
    assert not Run.objects.exists()


@pytest.mark.parametrize("who", ["bob_api", "charlie_api"])
def test_a_provider_that_is_not_shared_is_not_there_for_others(request, mind, who):
    assert ask(request.getfixturevalue(who), 404)["code"] == "model_not_found"


def test_a_team_mate_uses_a_shared_provider(bob_api, team, mind):
    Provider.objects.filter(pk=mind.pk).update(team=team)
    ask(bob_api)
    assert Run.objects.get().principal.username == "bob"


def test_other_kinds_and_servers_that_do_not_answer_are_clear_errors(alice, alice_api, mind):
    Provider.objects.create(owner=alice, name="claude", kind="anthropic")
    assert ask(alice_api, 400, model="claude:any")["code"] == "no_embeddings"
    Provider.objects.filter(pk=mind.pk).update(base_url="https://models.invalid/v1")
    assert ask(alice_api, 503)["code"] == "embeddings_failed", "as a server that does not answer"
    Provider.objects.filter(pk=mind.pk).update(base_url="http://192.168.1.4/v1")
    assert ask(alice_api, 400)["code"] == "private_address"
    Provider.objects.filter(pk=mind.pk).update(base_url="http://127.0.0.1:1/v1")
    Budget.objects.create(owner=alice, period="day", max_cost=Decimal(1000))
    assert ask(alice_api, 503)["code"] == "embeddings_failed"
    assert not Run.objects.exists() and not Hold.objects.filter(tokens__gt=0).exists()
    Provider.objects.update(enabled=False)
    assert ask(alice_api, 400)["code"] == "provider_disabled"


def test_a_budget_that_is_used_up_refuses_before_the_server_is_asked(alice, alice_api, mind, stub):
    budget = Budget.objects.create(owner=alice, period="day", max_cost=Decimal(10))
    spent = ask(alice_api)["usage"]["total_tokens"]
    assert spent and sum(tally.cost for tally in budget.tallies.all()) > 0
    before = len(stub.embedded)
    assert ask(alice_api, 429, input="x" * 100)["code"] == "budget_exhausted"
    assert len(stub.embedded) == before and Run.objects.count() == 1


def test_it_takes_a_key_with_the_scope_of_messages(alice, mind):
    assert ask(ApiClient(alice, ApiKey.make(alice, ["runs:read"])[1]), 403)["type"] == "permission_error"
    assert ask(ApiClient(alice, "mk_no"), 401)["type"] == "authentication_error"
