"""A POST that is sent twice with one Idempotency-Key is carried out once."""

import json
import threading
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.client import MULTIPART_CONTENT
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator

from agents.http import idempotency
from agents.models import Agent, ApiKey, IdempotentRequest, Secret
from runs.worker import pruning

V1 = "/api/v1"
KEY = {"Idempotency-Key": "one"}
NEW = {"name": "librarian", "description": "Finds books.", "system_prompt": "Be brief.", "provider": "offline"}
SOURCE = "def add(a: int, b: int = 2) -> int:\n    return a + b\n"
MADE = [
    ("agents/", NEW),
    ("functions/", {"name": "add", "source": SOURCE}),
    ("chains/", {"name": "both", "steps": []}),
    ("providers/", {"name": "local", "kind": "offline"}),
    ("prompts/", {"name": "hello", "text": "Hello {{name}}"}),
    ("secrets/", {"name": "token", "value": "s3cret", "hosts": ["example.com"]}),
    ("teams/", {"name": "readers"}),
    ("skills/", {"text": "---\nname: minutes\ndescription: Writes minutes.\n---\nBe brief.\n"}),
    ("collections/", {"name": "books"}),
    ("memory/", {"text": "Likes tea."}),
    ("budgets/", {"period": "day", "max_runs": 5}),
    ("connections/", {"name": "shop", "provider": "openapi"}),
    ("records/tasks/", {"title": "Pay the bill"}),
    ("files/", {"name": "a.txt", "text": "hello"}),
]


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize(("path", "body"), MADE, ids=[path for path, _ in MADE])
def test_the_second_request_gets_the_answer_of_the_first(alice_api, offline, path, body):
    first = alice_api.post(f"{V1}/{path}", body, headers=KEY)
    assert first.status_code == 201 and "Idempotent-Replayed" not in first, first.content
    again = alice_api.post(f"{V1}/{path}", body, headers=KEY)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again["Idempotent-Replayed"] == "true"
    assert [again.get(name) for name in ("Location", "ETag")] == [first.get(name) for name in ("Location", "ETag")]


def test_actions_too_are_carried_out_once(alice_api, offline):
    alice_api.post(f"{V1}/functions/", {"name": "add", "source": SOURCE})
    alice_api.post(f"{V1}/functions/add/publish", {})
    body = {"arguments": {"a": 1}}
    one, two = (alice_api.post(f"{V1}/functions/add/execute", body, headers=KEY).json() for _ in range(2))
    assert one["result"] == 3 and one["execution"] == two["execution"]
    assert len(alice_api.get(f"{V1}/functions/add/executions/").json()["results"]) == 1


def test_another_body_or_path_with_the_same_key_is_refused(alice_api, offline):
    alice_api.post(f"{V1}/prompts/", {"name": "a", "text": "x"}, headers=KEY)
    assert code_of(alice_api.post(f"{V1}/prompts/", {"name": "b", "text": "x"}, headers=KEY)) == (
        409, "idempotency_mismatch"
    )  # fmt: skip
    assert code_of(alice_api.post(f"{V1}/teams/", {"name": "a", "text": "x"}, headers=KEY))[1] == "idempotency_mismatch"
    spaced = '{"text" : "x",   "name": "a"}'
    assert alice_api.post(f"{V1}/prompts/", spaced, content_type="application/json", headers=KEY).status_code == 201
    assert (
        alice_api.post(f"{V1}/prompts/", {"name": "b", "text": "x"}, headers={"Idempotency-Key": "two"}).status_code
        == 201
    )


def test_keys_of_two_people_have_nothing_to_do_with_each_other(alice_api, bob_api):
    for client in (alice_api, bob_api):
        answer = client.post(f"{V1}/prompts/", {"name": "a", "text": "x"}, headers=KEY)
        assert answer.status_code == 201 and "Idempotent-Replayed" not in answer


def test_a_refused_request_may_be_corrected_under_its_key(alice_api):
    assert alice_api.post(f"{V1}/prompts/", {"name": "a"}, headers=KEY).status_code == 422
    assert not IdempotentRequest.objects.exists()
    assert alice_api.post(f"{V1}/prompts/", {"name": "a", "text": "x"}, headers=KEY).status_code == 201


def test_a_function_that_is_refused_after_it_has_run_does_not_run_again(alice_api):
    source = "def ask(ctx):\n    ctx.log('sent')\n    return ctx.call('other')\n"
    alice_api.post(f"{V1}/functions/", {"name": "ask", "source": source})
    alice_api.post(f"{V1}/functions/ask/publish", {})
    first, again = (alice_api.post(f"{V1}/functions/ask/execute", {}, headers=KEY) for _ in range(2))
    assert code_of(first) == code_of(again) == (422, "callback_needs_a_run")
    assert again["Idempotent-Replayed"] == "true" and "Idempotent-Replayed" not in first
    assert len(alice_api.get(f"{V1}/functions/ask/executions/").json()["results"]) == 1


def test_a_request_that_is_at_work_is_not_begun_again(alice_api, alice):
    body = {"name": "a", "text": "x"}
    alice_api.post(f"{V1}/prompts/", body, headers=KEY)
    IdempotentRequest.objects.update(status=None, content=None)
    assert code_of(alice_api.post(f"{V1}/prompts/", body, headers=KEY)) == (409, "idempotency_unfinished")


def test_nobody_knows_what_became_of_a_request_that_failed_unexpectedly(alice_api, monkeypatch):
    def broken(*args):
        raise RuntimeError("on purpose")

    monkeypatch.setattr("agents.api.PromptViewSet.perform_create", broken)
    body = {"name": "a", "text": "x"}
    assert alice_api.post(f"{V1}/prompts/", body, headers=KEY).status_code == 500
    monkeypatch.undo()
    assert code_of(alice_api.post(f"{V1}/prompts/", body, headers=KEY)) == (409, "idempotency_unfinished")


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_at_once_one_is_carried_out(alice_api, alice):
    statuses, together = [], threading.Barrier(2)

    def send():
        together.wait(60)
        statuses.append(alice_api.post(f"{V1}/budgets/", {"period": "day", "max_runs": 5}, headers=KEY).status_code)
        connection.close()

    both = [threading.Thread(target=send) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(60)
    assert set(statuses) <= {201, 409} and 201 in statuses
    assert len(alice_api.get(f"{V1}/budgets/").json()["results"]) == 1


SHOWN_ONCE = [
    ("keys/", {"name": "ci", "scopes": ["runs:read"]}, "key"),
    ("webhooks/", {"url": "https://93.184.216.34/told"}, "secret"),
    ("triggers/", {"name": "called", "kind": "webhook", "agent": "librarian", "text": "Go."}, "secret"),
    ("devices/pairings", {}, "code"),
]


@pytest.mark.parametrize(("path", "body", "shown"), SHOWN_ONCE, ids=[path for path, *_ in SHOWN_ONCE])
def test_a_secret_that_is_shown_once_is_not_kept_for_a_second_answer(alice_api, offline, path, body, shown):
    alice_api.post(f"{V1}/agents/", NEW)
    first = alice_api.post(f"{V1}/{path}", body, headers=KEY)
    assert first.status_code == 201, first.content
    again = alice_api.post(f"{V1}/{path}", body, headers=KEY)
    assert code_of(again) == (409, "already_done") and again.json()["error"]["hint"]
    assert again.get("Location") == first.get("Location")
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM agents_idempotentrequest")
        assert first.json()[shown] not in str(cursor.fetchall())


def test_a_secret_in_a_body_is_not_kept(alice_api):
    alice_api.post(f"{V1}/secrets/", {"name": "pin", "value": "1234", "hosts": ["a.example"]}, headers=KEY)
    assert Secret.objects.get().value == "1234"
    row = IdempotentRequest.objects.get()
    body = {"name": "pin", "value": "1234", "hosts": ["a.example"]}
    assert row.request_hash != idempotency.sha256(str(body).encode()).hexdigest() and "1234" not in row.content


def test_every_answer_that_shows_something_once_is_declared():
    """Its view names the action in `secret_answers`, so that the answer is not kept."""
    generator = SchemaGenerator()
    schema = generator.get_schema(public=True)
    undeclared = []
    for path, _, method, view in generator._get_paths_and_endpoints():
        if method != "POST" or not idempotency.remembers_keys(view):
            continue
        shown = json.dumps(list(answers_of(schema, path)))
        if "hown once" in shown or "only once" in shown:
            named = {view.action if hasattr(view, "action") else "post"} & set(getattr(view, "secret_answers", ()))
            undeclared += [] if named else [path]
    assert undeclared == []


def answers_of(schema, path):
    """The schemas of the answers to a POST, without what they refer to in turn."""
    for code, answer in schema["paths"].get(path, {}).get("post", {}).get("responses", {}).items():
        for content in answer.get("content", {}).values() if code.startswith("2") else ():
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            yield schema["components"]["schemas"].get(name, content)


def test_a_large_answer_is_not_kept_but_the_request_is_not_repeated(alice_api, monkeypatch):
    monkeypatch.setattr(idempotency, "LARGEST", 50)
    body = {"name": "a", "text": "x" * 100}
    first = alice_api.post(f"{V1}/prompts/", body, headers=KEY)
    again = alice_api.post(f"{V1}/prompts/", body, headers=KEY)
    assert code_of(again) == (409, "already_done") and again["Location"] == first["Location"]


def test_a_key_ends_after_a_day(alice_api):
    body = {"period": "day", "max_runs": 5}
    alice_api.post(f"{V1}/budgets/", body, headers=KEY)
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(hours=25))
    fresh = alice_api.post(f"{V1}/budgets/", body, headers=KEY)
    assert fresh.status_code == 201 and "Idempotent-Replayed" not in fresh
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert pruning.prune()["idempotency"] == 1 and not IdempotentRequest.objects.exists()


def test_a_file_is_uploaded_once(alice_api):
    def upload(content):
        body = {"file": SimpleUploadedFile("a.txt", content)}
        return alice_api.post(f"{V1}/files/", body, MULTIPART_CONTENT, headers=KEY)

    first, again = upload(b"hello"), upload(b"hello")
    assert first.status_code == 201 and again.json() == first.json() and again["Idempotent-Replayed"]
    assert code_of(upload(b"other"))[1] == "idempotency_mismatch"


def test_a_revoked_key_gets_no_earlier_answer(alice_api, alice):
    key, secret = ApiKey.make(alice, ["*"])
    headers = {**KEY, "Authorization": f"Bearer {secret}"}
    body = {"name": "a", "text": "x"}
    assert alice_api.post(f"{V1}/prompts/", body, headers=headers).status_code == 201
    key.revoke()
    assert alice_api.post(f"{V1}/prompts/", body, headers=headers).status_code == 401


def test_a_key_without_the_scope_gets_no_earlier_answer(alice_api, alice):
    body = {"name": "a", "text": "x"}
    alice_api.post(f"{V1}/prompts/", body, headers=KEY)
    _, secret = ApiKey.make(alice, ["runs:read"])
    answer = alice_api.post(f"{V1}/prompts/", body, headers={**KEY, "Authorization": f"Bearer {secret}"})
    assert answer.status_code == 403


def test_a_key_that_is_too_long_is_refused(alice_api):
    answer = alice_api.post(f"{V1}/prompts/", {"name": "a", "text": "x"}, headers={"Idempotency-Key": "k" * 256})
    assert answer.status_code == 422 and not Agent.objects.filter(name="a").exists()


def test_repeated_requests_count_against_the_rate_limit_and_new_ones_once(alice_api, settings, one_minute):
    settings.RATE_PER_KEY = 4
    answers = [alice_api.post(f"{V1}/prompts/", {"name": "hello", "text": "Hello"}, headers=KEY) for _ in range(6)]
    assert [one.status_code for one in answers] == [201] * 4 + [429] * 2
    assert [one["RateLimit-Remaining"] for one in answers[:4]] == ["3", "2", "1", "0"]


def test_a_request_beyond_the_limit_leaves_its_key_to_the_next_one(alice_api, settings, one_minute):
    settings.RATE_PER_KEY = 1
    alice_api.get(f"{V1}/prompts/")
    body = {"name": "hello", "text": "Hello"}
    assert alice_api.post(f"{V1}/prompts/", body, headers=KEY).status_code == 429
    assert not IdempotentRequest.objects.exists()
    settings.RATE_PER_KEY = 9
    assert alice_api.post(f"{V1}/prompts/", body, headers=KEY).status_code == 201
