"""The one handler of errors: what Django refuses by itself is told in the same words."""

import sys

import pytest
from django.core import signals

from agents.api import AgentViewSet

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
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
