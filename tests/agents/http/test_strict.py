"""A body has the fields that exist, and those that a GET answered; any other field is refused."""

import json

import pytest
from rest_framework import fields

from agents.http import strict
from agents.models import Secret
from runs.models import Session

V1 = "/api/v1"
JSON = "application/json"
NEW = {"name": "librarian", "description": "Finds books.", "system_prompt": "Be brief.", "provider": "offline"}
SOURCE = "def add(a: int, b: int = 2) -> int:\n    return a + b\n"
MADE = [
    ("agents", NEW),
    ("providers", {"name": "local", "kind": "offline"}),
    ("secrets", {"name": "token", "value": "s3cret", "hosts": ["example.com"]}),
    ("teams", {"name": "readers"}),
    ("functions", {"name": "add", "source": SOURCE}),
    ("chains", {"name": "both", "steps": [{"key": "one", "tool": "add"}]}),
    ("schedules", {"name": "daily", "agent": "librarian", "text": "Go.", "crontab": "0 9 * * *"}),
    ("triggers", {"name": "called", "kind": "webhook", "agent": "librarian", "text": "Go."}),
    ("webhooks", {"url": "https://93.184.216.34/told"}),
    ("budgets", {"period": "day", "max_runs": 5}),
]


def faults(answer):
    assert answer.status_code == 422, answer.content
    return [(detail["field"], detail["code"], detail["message"]) for detail in answer.json()["error"]["details"]]


def test_a_misspelt_field_is_told_with_the_one_that_was_meant(alice_api, offline):
    said = "There is no field with this name; did you mean “max_steps”?"
    assert faults(alice_api.post(f"{V1}/agents/", {**NEW, "max_stepps": 3})) == [("max_stepps", "unknown_field", said)]
    assert alice_api.get(f"{V1}/agents/").json()["results"] == []
    alice_api.post(f"{V1}/agents/", NEW)
    assert faults(alice_api.patch(f"{V1}/agents/librarian", {"max_stepps": 3}, JSON))[0][2] == said


def test_unknown_fields_are_told_together_with_other_faults_and_where_they_are(alice_api, offline):
    wrong = {"max_steps": 0, "model_params": {"temprature": 1}, "grants": [{"tool": "x", "ofline": "any"}], "shade": 1}
    found = {(field, code) for field, code, _ in faults(alice_api.post(f"{V1}/agents/", {**NEW, **wrong}))}
    unknown = {
        ("model_params.temprature", "unknown_field"),
        ("grants.0.ofline", "unknown_field"),
        ("shade", "unknown_field"),
    }
    assert found == {*unknown, ("max_steps", "min_value")}


def test_a_field_like_no_other_is_refused_with_the_names_of_all(alice_api, offline):
    [(field, code, said)] = faults(alice_api.post(f"{V1}/agents/", {**NEW, "tools": ["add"]}))
    assert (field, code) == ("tools", "unknown_field") and "published_version" not in said and "grants" in said
    assert faults(alice_api.post(f"{V1}/agents/", {**NEW, "instructions": "Be brief."}))[0][0] == "instructions"
    assert alice_api.get(f"{V1}/agents/").json()["results"] == []
    assert alice_api.post(f"{V1}/agents/", NEW).status_code == 201
    assert faults(alice_api.post(f"{V1}/agents/librarian/publish", {"qqq": 1}))[0][2].endswith("The names are note.")


DEEP = [
    ("agents", {**NEW, "model_params": {"zzz": 1}}, "model_params.zzz"),
    ("providers", {"name": "local", "kind": "offline", "prices": {"m": {"inptu": 1}}}, "prices.m.inptu"),
    ("chains", {"name": "c", "steps": [{"key": "one", "tool": "add", "retry": {"tries": 3}}]}, "retry.tries"),
    ("chains", {"name": "c", "steps": [{"key": "one", "tool": "add", "policy": {"deny": ["x"]}}]}, "policy.deny"),
    ("chains", {"name": "c", "steps": [{"key": "one", "tool": "add", "target_id": 1}]}, "target_id"),
    ("teams", {"name": "t", "members": [{"user": "alice", "rank": 1}]}, "members.0.rank"),
    ("connections", {"name": "m", "provider": "mcp", "config": {"comand": ["x"]}}, "config.comand"),
]


@pytest.mark.parametrize(("path", "body", "field"), DEEP)
def test_unknown_fields_are_refused_at_every_depth(path, body, field, alice_api, offline):
    assert (field, "unknown_field") in [fault[:2] for fault in faults(alice_api.post(f"{V1}/{path}/", body))]


def test_a_part_of_a_message_has_the_fields_of_its_type(alice_api, offline):
    alice_api.post(f"{V1}/agents/", NEW)
    alice_api.post(f"{V1}/agents/librarian/publish")
    part = {"type": "text", "text": "Hello", "cache": True}
    found = faults(alice_api.post(f"{V1}/agents/librarian/messages", {"message": [part]}))
    assert found[0][0] == "message.0" and "cache" in found[0][2]


def test_a_message_with_an_unknown_field_starts_nothing(alice_api, offline):
    alice_api.post(f"{V1}/agents/", NEW)
    wrong = {"message": "Hello", "sesion": "x"}
    assert faults(alice_api.post(f"{V1}/agents/librarian/messages", wrong))[0][:2] == ("sesion", "unknown_field")
    assert alice_api.get(f"{V1}/runs/").json()["results"] == []


def test_however_many_and_long_the_names_are_the_answer_stays_short(alice_api, offline):
    many = {f"description{'s' * (number % 3)}{chr(97 + number)}": 1 for number in range(26)}
    answer = alice_api.post(f"{V1}/agents/", {"name": "x", **many, "x" * 5000: 1})
    assert 20 <= len(faults(answer)) <= 24 and len(answer.content) < 10_000


@pytest.mark.parametrize(("path", "body"), MADE)
def test_what_was_answered_may_be_sent_back_changed_or_not(path, body, alice_api, offline):
    for needed in (("functions", MADE[4][1]), ("agents", NEW)):
        if needed[0] != path:
            assert alice_api.post(f"{V1}/{needed[0]}/", needed[1]).status_code == 201
    alice_api.post(f"{V1}/functions/add/publish")
    made = alice_api.post(f"{V1}/{path}/", body)
    assert made.status_code == 201, made.content
    at = f"{V1}/{path}/{made.json().get('id', made.json().get('name'))}"
    read = alice_api.get(at).json()
    for answered in (made.json(), read):
        changed = alice_api.patch(at, answered, JSON)
        assert changed.status_code == 200, changed.content
    if path in ("agents", "providers", "functions", "chains", "schedules"):
        put = alice_api.put(at, read, JSON)
        assert put.status_code == 200, put.content


def test_a_stored_function_may_be_checked_as_it_was_answered(alice_api):
    stored = alice_api.post(f"{V1}/functions/", {"name": "add", "source": SOURCE}).json()
    assert alice_api.post(f"{V1}/functions/validate", stored).json()["valid"]
    assert alice_api.post(f"{V1}/functions/try", {**stored, "arguments": {"a": 1}}).json()["result"] == 3


LAX = (fields.CharField, fields.IntegerField, fields.FloatField, fields.BooleanField, fields.ChoiceField)
STRICT = (strict.Text, strict.Whole, strict.Number, strict.Flag, strict.Choice)
ADDRESSES = (fields.URLField, fields.EmailField)  # no number has their form


def subclasses(kind):
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def leaf(field):
    return leaf(field.child) if hasattr(field, "child") else field


def test_no_field_of_a_body_takes_a_value_of_another_type(client):
    client.get(f"{V1}/me")  # loads the views of every app, and with them their serializers
    bodies = [kind for kind in subclasses(strict.KnownFields) if kind.__module__.split(".")[0] != "tests"]
    loose = [
        f"{kind.__name__}.{name}"
        for kind in bodies
        if issubclass(kind, strict.StrictSerializer) or hasattr(kind, "Meta")
        for name, field in kind().fields.items()
        if isinstance(leaf(field), LAX) and not isinstance(leaf(field), (*STRICT, *ADDRESSES))
        if not field.read_only
    ]
    assert len(bodies) > 60 and loose == []


@pytest.mark.parametrize(("path", "body", "field"), [
    ("messages", {"message": "Hi", "wait": "0"}, "wait"),
    ("messages", {"message": "Hi", "timeout": True}, "timeout"),
    ("budgets/", {"max_runs": "5"}, "max_runs"),
    ("budgets/", {"max_runs": 5, "enabled": "yes"}, "enabled"),
    ("budgets/", {"max_runs": 5, "team": 7}, "team"),
    ("tools/search", {"text": "mail", "limit": "3"}, "limit"),
])  # fmt: skip
def test_numbers_are_not_read_from_texts_nor_texts_from_numbers(path, body, field, alice_api):
    assert faults(alice_api.post(f"{V1}/{path}", body))[0][0] == field


def test_the_title_of_a_conversation_is_a_text(alice, alice_api):
    session = Session.objects.create(owner=alice, title="Trip")
    assert faults(alice_api.patch(f"{V1}/sessions/{session.pk}", {"title": 5}, JSON))[0][0] == "title"


def test_a_value_outside_of_a_closed_list_is_refused_with_the_list(alice_api):
    body = {"place": "x" * 5000, "function": "add", "timeout_s": 1}
    said = {field: message for field, _, message in faults(alice_api.post(f"{V1}/run-hooks/", body))}
    assert (
        said["place"].endswith("” is not one of before_tool, after_tool, message_in, message_out.")
        and len(said["place"]) < 200
    )
    [(_, code, message)] = faults(alice_api.post(f"{V1}/memory/", {"text": "Likes tea.", "kind": 7}))
    assert code == "invalid_choice" and message.startswith("“7” is not one of ")


@pytest.mark.parametrize("body", [None, [], "text", 5, True, [{}]])
@pytest.mark.parametrize("path", ["agents/", "functions/", "chains/", "skills/", "memory/", "messages", "collections/"])
def test_a_body_that_is_no_object_is_refused(path, body, alice_api):
    answer = alice_api.post(f"{V1}/{path}", json.dumps(body), content_type=JSON)
    assert answer.status_code == 422, answer.content


def test_a_put_of_a_skill_that_is_no_object_is_refused(alice_api):
    assert alice_api.post(
        f"{V1}/skills/", {"text": "---\nname: minutes\ndescription: Writes minutes.\n---\nBe brief.\n"}
    )
    for body in (None, [], 5):
        assert alice_api.put(f"{V1}/skills/minutes", json.dumps(body), JSON).status_code == 422


def test_a_secret_is_replaced_without_its_value_which_stays(alice, alice_api):
    alice_api.post(f"{V1}/secrets/", {"name": "token", "value": "s3cret", "hosts": ["example.com"]})
    row = alice_api.get(f"{V1}/secrets/token").json()
    assert alice_api.put(f"{V1}/secrets/token", row, JSON).status_code == 200
    assert Secret.objects.get(name="token").value == "s3cret"
    elsewhere = alice_api.put(f"{V1}/secrets/token", {**row, "hosts": ["evil.example"]}, JSON)
    assert elsewhere.json()["has_value"] is False, "a value does not follow to another host"
    assert faults(alice_api.post(f"{V1}/secrets/", {"name": "other"}))[0][:2] == ("value", "required")


def test_head_answers_as_get_where_a_path_reads_and_writes(alice_api):
    alice_api.post(f"{V1}/functions/", {"name": "add", "source": SOURCE})
    test = alice_api.post(f"{V1}/functions/add/tests/", {"name": "t", "arguments": {"a": 1}, "expected": 3}).json()
    for path in ("functions/add/tests/", f"functions/add/tests/{test['id']}"):
        assert alice_api.head(f"{V1}/{path}").status_code == 200
    assert alice_api.get(f"{V1}/functions/add/tests/").json()["results"] == [test]
