"""Registering a client needs no account, so it costs little, is limited, and cannot hold up what others write."""

import pytest
from django.db import connection
from django.test import Client
from oauth2_provider.models import Application

from gateway.mcp import oauth
from tests.gateway.mcp.oauth_requests import register

pytestmark = pytest.mark.django_db


def test_registrations_of_one_address_are_limited_and_the_rest_read_and_write_nothing(monkeypatch):
    client = Client(REMOTE_ADDR="203.0.113.6")
    monkeypatch.setattr(oauth, "REGISTRATIONS", 2)
    assert [register(client).status_code for _ in range(2)] == [201, 201]
    statements = []
    with connection.execute_wrapper(lambda execute, sql, *more: statements.append(sql) or execute(sql, *more)):
        refused = register(client)
    assert refused.status_code == 429 and int(refused["Retry-After"]) > 0
    assert statements == [] and Application.objects.count() == 2
    assert register(Client(REMOTE_ADDR="203.0.113.7")).status_code == 201


def test_an_ipv6_network_is_one_address(monkeypatch):
    monkeypatch.setattr(oauth, "REGISTRATIONS", 2)
    answers = [register(Client(REMOTE_ADDR=f"2001:db8:9::{number}")).status_code for number in range(1, 5)]
    assert answers == [201, 201, 429, 429]


@pytest.mark.parametrize(
    "address", ["http://example.org/back", "myapp://back", "javascript:alert(1)", "http://127.0.0.1.example.org/", ""]
)
def test_a_client_may_not_have_its_codes_sent_in_the_clear(client, address):
    refused = register(client, redirect_uris=["https://example.org/back", address])
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_redirect_uri")
    assert Application.objects.count() == 0


def test_a_client_may_not_change_to_such_an_address_later(client):
    made = register(client).json()
    body = {"client_name": "Desk", "redirect_uris": ["http://example.org/"], "token_endpoint_auth_method": "none"}
    refused = client.put(
        f"/oauth/register/{made['client_id']}/", body, content_type="application/json",
        headers={"Authorization": f"Bearer {made['registration_access_token']}"},
    )  # fmt: skip
    assert refused.json()["error"] == "invalid_redirect_uri"


def test_the_secret_of_a_client_is_hashed_in_no_time(client):
    """The library hashes it within its transaction, in which nobody else writes on SQLite."""
    made = register(client, token_endpoint_auth_method="client_secret_basic")
    assert made.status_code == 201
    stored = Application.objects.get(client_id=made.json()["client_id"]).client_secret
    assert stored.startswith("random_secret$1$") and made.json()["client_secret"] not in stored
