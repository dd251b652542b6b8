"""Embedding servers that take only so many texts at once."""

import pytest

from registry.exceptions import AttemptFailed
from registry.routing import embeddings
from tests import fakes

pytestmark = pytest.mark.django_db
TEXTS = [f"text {number}" for number in range(100)]


@pytest.fixture(autouse=True)
def nothing_is_known():
    embeddings._sizes.clear()


@pytest.fixture
def limited(stub, monkeypatch):
    """A stub that breaks for more texts than that, or for the text “bad”; it counts what it was asked."""

    def limit(most):
        answer = fakes.embeddings

        def judge(body):
            if len(body["input"]) > most or "bad" in body["input"]:
                raise Refused
            return answer(body)

        monkeypatch.setattr(fakes, "embeddings", judge)
        exchange = stub._exchange

        async def exchange_or_refuse(reader, writer):
            try:
                return await exchange(reader, writer)
            except Refused:
                return await stub._send(writer, 422, fakes.error_body("batch size is too large"))

        monkeypatch.setattr(stub, "_exchange", exchange_or_refuse)

    return limit


class Refused(Exception):
    pass


@pytest.mark.parametrize("most", [100, 99, 32, 10, 1])
def test_the_number_of_texts_is_halved_and_remembered(stub, stub_provider, limited, most):
    limited(most)
    assert len(embeddings.embed_for_routing(stub_provider, "small", TEXTS)) == 100
    refused = len([body for body in stub.embedded if len(body["input"]) > most])
    stub.embedded.clear()
    assert len(embeddings.embed_for_routing(stub_provider, "small", TEXTS)) == 100
    assert refused <= 7 and all(len(body["input"]) <= most for body in stub.embedded)


def test_the_vectors_are_those_of_their_texts(stub_provider, limited):
    limited(10)
    assert (
        embeddings.embed_for_routing(stub_provider, "small", TEXTS)[37]
        == embeddings.embed_for_routing(stub_provider, "small", [TEXTS[37]])[0]
    )


def test_a_text_that_is_refused_by_itself_says_nothing_about_the_number(stub, stub_provider, limited):
    limited(100)
    with pytest.raises(AttemptFailed):
        embeddings.embed_for_routing(stub_provider, "small", [*TEXTS, "bad"])
    stub.embedded.clear()
    embeddings.embed_for_routing(stub_provider, "small", TEXTS)
    assert len(stub.embedded) == 1
