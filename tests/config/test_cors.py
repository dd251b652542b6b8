"""Pages of other origins may call the API only where the operator allows it, and never with a login session."""

import pytest

HERE, THERE = "https://app.example.org", "https://evil.example.org"
AGENTS = "/api/v1/agents/"


def asked_first(client, path, origin, **headers):
    return client.options(
        path,
        headers={"Origin": origin, "Access-Control-Request-Method": "POST", **headers},
    )


def test_no_origin_is_allowed_by_default(client, alice_api):
    assert "Access-Control-Allow-Origin" not in asked_first(client, AGENTS, HERE)
    assert "Access-Control-Allow-Origin" not in alice_api.get(AGENTS, headers={"Origin": HERE})


@pytest.fixture
def open_to_here(settings):
    settings.CORS_ALLOWED_ORIGINS = [HERE]


def test_a_page_of_an_allowed_origin_may_send_a_key_and_read_the_headers(client, alice_api, open_to_here):
    words = {"Access-Control-Request-Headers": "authorization,content-type,idempotency-key,if-match,last-event-id"}
    answer = asked_first(client, AGENTS, HERE, **words)
    assert (answer.status_code, answer["Access-Control-Allow-Origin"]) == (200, HERE)
    allowed = {word.strip() for word in answer["Access-Control-Allow-Headers"].split(",")}
    assert set(words["Access-Control-Request-Headers"].split(",")) <= allowed
    answer = alice_api.get(AGENTS, headers={"Origin": HERE})
    assert answer["Access-Control-Allow-Origin"] == HERE and "ETag" in answer["Access-Control-Expose-Headers"]


def test_other_origins_and_login_sessions_are_not_allowed(client, alice_api, open_to_here):
    assert "Access-Control-Allow-Origin" not in asked_first(client, AGENTS, THERE)
    assert "Access-Control-Allow-Origin" not in alice_api.get(AGENTS, headers={"Origin": THERE})
    assert "Access-Control-Allow-Credentials" not in alice_api.get(AGENTS, headers={"Origin": HERE})


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/login/", "/runs/", "/admin/", "/metrics", "/apiary"])
def test_pages_are_not_open_to_other_origins(client, open_to_here, path):
    assert "Access-Control-Allow-Origin" not in client.get(path, headers={"Origin": HERE})
