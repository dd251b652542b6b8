"""Which middleware serves which door, and how an address is found."""

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import resolve, reverse

import agents.urls
import connectors.urls
import devices.urls
import functions.urls
import knowledge.urls
import runs.api.urls
from config import middleware

MODULES = (agents.urls, functions.urls, connectors.urls, devices.urls, knowledge.urls, runs.api.urls)
SAMPLES = {"int": 7, "uuid": "0192f0c8-7b3a-7cc1-8000-000000000000", "str": "name", "slug": "name", "path": "a/b"}
PATTERNS = [pattern for module in MODULES for pattern in module.urlpatterns]


def has_session(path, **headers):
    seen = []

    def answer(request):
        seen.append(hasattr(request, "session"))
        return HttpResponse()

    middleware.Sessions(answer)(RequestFactory().post(path, **headers))
    return seen[0]


@pytest.mark.parametrize("path", ["/api/v1/agents/a/messages", "/v1/responses", "/mcp", "/a2a/a/message:send"])
def test_a_program_without_a_cookie_gets_no_login_session(path):
    assert not has_session(path)


@pytest.mark.parametrize("path", ["/", "/api/docs/", "/admin/", "/oauth/authorize/", "/apix/v1/"])
def test_a_page_has_a_login_session(path):
    assert has_session(path)


def test_a_page_that_calls_the_api_brings_its_login_session():
    assert has_session("/api/v1/agents/", HTTP_COOKIE="sessionid=abc")


@pytest.mark.django_db
def test_a_login_session_still_needs_a_token_against_forgery(alice):
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    answer = browser.post("/api/v1/secrets/", {"name": "s", "value": "x"}, content_type="application/json")
    assert answer.status_code == 403
    assert "CSRF" in answer.json()["error"]["message"]


@pytest.mark.django_db
def test_a_program_that_asks_for_german_gets_its_errors_in_german_and_the_next_one_in_english(client):
    german = client.get("/api/v1/me", headers={"Accept-Language": "de"}).json()["error"]["message"]
    english = client.get("/api/v1/me").json()["error"]["message"]
    assert german != english


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_every_address_of_the_api_is_found_in_its_group(pattern):
    values = {name: SAMPLES[kind_of(converter)] for name, converter in pattern.pattern.converters.items()}
    match = resolve(reverse(pattern.name, kwargs=values))
    assert (match.func, match.route) == (pattern.callback, f"api/v1/{pattern.pattern}")


def kind_of(converter):
    return type(converter).__name__.removesuffix("Converter").replace("String", "str").lower()


def test_a_message_is_compared_with_few_addresses():
    assert len(resolve("/api/v1/agents/adder/messages").tried) < 30
