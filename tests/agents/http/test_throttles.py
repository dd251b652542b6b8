"""Every request counts against the rate limits, also one that is refused or repeated."""

import pytest

V1 = "/api/v1"


@pytest.fixture
def three(settings, one_minute):
    settings.RATE_PER_KEY = settings.RATE_PER_ADDRESS = 3


def statuses(send):
    answers = [send() for _ in range(5)]
    assert [answer["RateLimit-Remaining"] for answer in answers] == ["2", "1", "0", "0", "0"]
    return [answer.status_code for answer in answers]


def test_a_repeated_request_counts(alice, api, three):
    client = api(alice)
    body, key = {"name": "hello", "text": "Hello"}, {"Idempotency-Key": "one"}
    assert statuses(lambda: client.post(f"{V1}/prompts/", body, headers=key)) == [201, 201, 201, 429, 429]


def test_a_request_without_the_scope_counts(alice, api, three):
    client = api(alice, "runs:read")
    assert statuses(lambda: client.get(f"{V1}/agents/")) == [403, 403, 403, 429, 429]


def test_a_request_with_an_unknown_key_counts_for_its_address(client, db, three):
    headers = {"Authorization": "Bearer mk_00000000.wrong"}
    assert statuses(lambda: client.get(f"{V1}/me", headers=headers)) == [401, 401, 401, 429, 429]


def test_an_unknown_parameter_counts(alice, api, three):
    client = api(alice)
    assert statuses(lambda: client.get(f"{V1}/agents/?enable=true")) == [422, 422, 422, 429, 429]
