"""Nothing that a client sends is lost without a word, whatever the endpoint."""

import re

import pytest
from django.urls import get_resolver
from drf_spectacular.generators import SchemaGenerator
from rest_framework.serializers import BaseSerializer, ListSerializer

from agents.http.strict import KnownFields
from agents.http.unknown_parameters import ANYTHING, PAGING
from agents.http.viewsets import Checked

V1 = "/api/v1"
ID = "018f0000-0000-7000-8000-000000000000"
OPEN = {"hook", "connection-callback"}  # other services call these, with parameters and bodies of their own


@pytest.fixture(autouse=True)
def everybody_administers(settings):
    """Accounts of people are refused to others before what a request sends is looked at."""
    settings.DEFAULT_ROLE = "administrator"


def operations():
    """(path, method, what the OpenAPI document says, view) of each endpoint of the API."""
    generator = SchemaGenerator()
    schema = generator.get_schema(request=None, public=True)
    for path, _, method, view in generator._get_paths_and_endpoints():
        if path.startswith(V1):
            yield path, method, schema["paths"][path][method.lower()], view


def called(client, path, method, query="", body=None):
    """With ids and names that do not exist: what is unknown is refused before anything is looked up."""
    address = re.sub(r"\{(\w+)\}", lambda found: example(found[1], path), path)
    return client.generic(method, f"{address}{query}", body or "", content_type="application/json")


def example(name, path):
    if name in ("number",) or (
        name in ("pk", "id") and re.search(r"connections|keys|webhooks|invitations|tests|budgets|run-hooks", path)
    ):
        return "1"
    return ID if name in ("pk", "id", "hook", "delivery") else "x"


def codes(answer):
    return [detail["code"] for detail in answer.json()["error"]["details"]]


def is_open(path):
    """Called by other services, or with a claim (tests/runs/api/test_executor.py)."""
    return path.endswith("/callback") or "/hooks/" in path or "/executor/" in path


def test_an_invented_parameter_is_refused_everywhere(alice_api):
    accepted = [
        (method, path, answer.status_code)
        for path, method, _, _ in operations()
        if not is_open(path)
        if (answer := called(alice_api, path, method, "?zzz=1")).status_code != 422
        or codes(answer) != ["unknown_parameter"]
    ]
    assert accepted == [], accepted


def test_the_parameters_of_the_document_are_those_that_are_read(alice_api):
    wrong = []
    for path, method, told, _ in operations():
        declared = {one["name"] for one in told.get("parameters", []) if one["in"] == "query"}
        for name in declared | PAGING:
            answer = called(alice_api, path, method, f"?{name}=1")
            refused = answer.status_code == 422 and "unknown_parameter" in codes(answer)
            if refused == (name in declared) and not is_open(path):
                wrong.append((method, path, name))
    assert wrong == [], wrong


def test_a_body_where_none_is_read_is_refused(alice_api):
    without = [
        (path, method) for path, method, told, _ in operations() if method != "GET" and "requestBody" not in told
    ]
    assert len(without) > 25
    lost = [
        (method, path, answer.status_code)
        for path, method in without
        if (answer := called(alice_api, path, method, body='{"zzz": 1}')).status_code != 422
        or codes(answer) != ["unknown_field"]
    ]
    assert lost == [], lost


def test_an_empty_body_is_none(alice_api, team):
    assert alice_api.delete(f"{V1}/teams/{team.name}", "{}", content_type="application/json").status_code == 204


def inside(serializer):
    """A serializer with those of its fields, at every depth."""
    yield serializer
    for field in getattr(serializer, "fields", {}).values():
        child = getattr(field, "child", field)
        if isinstance(child, BaseSerializer) and not field.read_only:
            yield from inside(child)


def test_every_serializer_of_a_body_refuses_unknown_fields_at_every_depth():
    """Those that OpenAPI names as requests."""
    seen, lax = set(), set()
    for path, method, _, view in operations():
        if method in ("POST", "PUT", "PATCH") and not is_open(path):
            view.schema.method, view.schema.path = method, path
            body = view.schema.get_request_serializer()
            body = body() if isinstance(body, type) else body
            body = body.child if isinstance(body, ListSerializer) else body
            parts = body.serializers if hasattr(body, "serializers") else [body]
            for part in parts:
                part = part() if isinstance(part, type) else part
                for one in inside(part) if isinstance(part, BaseSerializer) else ():
                    seen.add(type(one).__name__)
                    if not isinstance(one, KnownFields):
                        lax.add((path, type(one).__name__))
    assert len(seen) > 30 and lax == set()


def test_every_view_of_the_product_has_these_checks():

    def callbacks(patterns):
        for one in patterns:
            yield from callbacks(one.url_patterns) if hasattr(one, "url_patterns") else [one.callback]

    views = {one.cls for one in callbacks(get_resolver().url_patterns) if hasattr(one, "cls")}
    unchecked = {one.__name__ for one in views if not issubclass(one, Checked)}
    assert len(views) > 80 and unchecked == {"SchemaView", "SpectacularSwaggerView"}


def test_what_comes_from_elsewhere_may_have_more(alice_api):
    assert ANYTHING is None
    answer = alice_api.get(f"{V1}/connections/gmail/callback?state=x&scope=y&zzz=1")
    assert "unknown_parameter" not in answer.content.decode()


@pytest.mark.parametrize("body", ["[1]", '"x"', "5"])
def test_what_is_no_object_is_no_body_either(alice_api, body):
    answer = alice_api.post(f"{V1}/teams/x/leave", body)
    assert answer.status_code == 422
