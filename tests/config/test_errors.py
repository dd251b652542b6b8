"""The one handler of errors: what Django refuses by itself is told in the same words."""

import sys

import pytest
from django.core import signals
from django.db import OperationalError

from agents.api import AgentViewSet
from agents.http.authentication import ApiKeyAuthentication

pytestmark = pytest.mark.django_db
V1 = "/api/v1"


def test_more_query_parameters_than_are_read_are_400(alice_api):
    answer = alice_api.get(f"{V1}/agents/?{'&'.join(f'a{number}=1' for number in range(1001))}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed")


class Tracker:
    """Hears what breaks, as trackers of errors do; one that breaks itself is heard by nobody."""

    def __init__(self):
        self.heard = []

    def hear(self, request, **_):
        self.heard.append((request.path, sys.exc_info()[1]))
        raise RuntimeError("the tracker is away")


@pytest.fixture
def tracker():
    made = Tracker()
    signals.got_request_exception.connect(made.hear)
    yield made
    signals.got_request_exception.disconnect(made.hear)


def test_what_breaks_in_the_api_is_told_to_trackers_of_errors(alice_api, tracker, monkeypatch):
    def broken(self):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(AgentViewSet, "get_queryset", broken)
    answer = alice_api.get(f"{V1}/agents/")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    [(path, error)] = tracker.heard
    assert path == f"{V1}/agents/" and str(error) == "on purpose"


def test_what_is_refused_is_no_error_to_track(alice_api, tracker):
    assert alice_api.get(f"{V1}/agents/nothing").status_code == 404
    assert alice_api.post(f"{V1}/agents/", {}).status_code == 422
    assert tracker.heard == []


@pytest.mark.parametrize("path", ["agents/", "agents/assistant/messages", "functions/validate", "devices/pair"])
def test_a_body_larger_than_the_site_takes_is_413_and_read_no_further(alice_api, path, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    too_much = b'{"name": "large", "text": "' + b"x" * 1000
    answer = alice_api.post(f"/api/v1/{path}", too_much)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (413, "too_large")
    assert "1000 bytes" in error["message"] and error["hint"]
    assert error["details"] == [{"code": "too_large", "limit": 1000, "unit": "bytes"}]


UNKNOWN = ["/v1/completions", "/v1/responses/x/y", "/a2a/helper/nothing", "/agui/a/b", "/mcp/nothing", "/api/nothing"]


@pytest.mark.parametrize("path", UNKNOWN)
def test_a_program_gets_an_unknown_path_as_json(path, client):
    answer = client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert path in answer.json()["error"]["message"]


def test_a_person_gets_an_unknown_path_as_a_page(client):
    answer = client.get("/nothing")
    assert answer.status_code == 404 and answer["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("name", ["Idempotency-Key", "Cookie", "User-Agent"])
def test_a_header_with_a_nul_character_is_refused(name, alice_api):
    """PostgreSQL cannot store it, and each header ended in another error 500."""
    answer = alice_api.post(f"{V1}/messages", {"message": "x"}, headers={name: "a=\x00"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed")
    assert answer.json()["error"]["message"] == f"The header {name} contains a NUL character."


def test_programs_get_an_unknown_host_as_json_and_people_as_a_page(client, settings):
    settings.ALLOWED_HOSTS = ["muster.example.org"]
    answer = client.get(f"{V1}/agents/", headers={"Host": "elsewhere.example.org"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed")
    assert answer.json()["error"]["hint"] and answer.json()["error"]["request_id"]
    page = client.get("/login/", headers={"Host": "elsewhere.example.org"})
    assert page.status_code == 400 and "text/html" in page["Content-Type"]


def test_a_database_that_is_away_while_it_is_asked_for_the_key_is_503(alice_api, monkeypatch):
    """An error in the answer to the error would be 500."""

    def away(self, request):
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(ApiKeyAuthentication, "authenticate", away)
    answer = alice_api.get(f"{V1}/agents/")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database_unavailable")
