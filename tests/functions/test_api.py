import ast
import re

import pytest
from django.conf import settings

from agents.models import AuditEvent, Membership, Tool, ToolGrant
from functions import sandbox
from functions.models import Execution, StoredFunction
from functions.sandbox.inside.context import Context
from functions.spec import FunctionSpec
from tests.functions.library import ADD, make, publish

V1 = "/api/v1/functions"
JSON = "application/json"
CONTEXT_DATA = {"run", "agent", "user", "session", "chain", "step", "metadata"}


def details(answer, key="code"):
    return [detail[key] for detail in answer.json()["error"]["details"]]


def test_an_author_takes_a_function_from_idea_to_published_pinned_diffed_and_rolled_back(alice_api, alice):
    body = {"name": "add", "source": ADD}
    checked = alice_api.post(f"{V1}/validate", body).json()
    assert (checked["valid"], checked["entry"], checked["output_schema"]) == (True, "add", {"type": "integer"})

    tried = alice_api.post(f"{V1}/try", {**body, "arguments": {"a": 1}}).json()
    assert (tried["status"], tried["result"], tried["execution"]) == ("ok", 3, None)
    assert not StoredFunction.objects.exists() and not Execution.objects.exists()

    made = alice_api.post(f"{V1}/", body)
    assert made.status_code == 201
    assert (made.json()["published_version"], made.json()["refusals"]) == (None, [])
    assert made.json()["input_schema"]["properties"]["b"] == {"type": "integer", "default": 2}

    published = alice_api.post(f"{V1}/add/publish", {"note": "first"})
    assert published.status_code == 200
    assert published.json()["version"] == 1 and len(published.json()["sha256"]) == 64

    done = alice_api.post(f"{V1}/add/execute", {"arguments": {"a": 40}}).json()
    assert (done["status"], done["result"], done["version"], done["error"]) == ("ok", 42, 1, None)
    assert done["isolation"] in ("full", "reduced") and done["wall_ms"] > 0 and done["peak_kb"] > 0

    test = alice_api.post(f"{V1}/add/tests/", {"execution": done["execution"], "name": "forty"})
    assert (test.status_code, test.json()["expected"]) == (201, 42)
    assert alice_api.post(f"{V1}/add/tests/run").json()["passed"] == 1

    changed = alice_api.patch(f"{V1}/add", {"source": ADD.replace("+", "-")}, JSON)
    assert changed.status_code == 200
    replayed = alice_api.post(f"{V1}/add/replay", {}).json()
    assert (replayed["replayed"], replayed["differing"][0]["after"]["result"]) == (1, 38)

    red = alice_api.post(f"{V1}/add/publish")
    assert (red.status_code, red.json()["error"]["code"], details(red, "reason")) == (
        422,
        "tests_failed",
        ["result is 38, but 42 was expected"],
    )
    path = f"{V1}/add/tests/{test.json()['id']}"
    assert alice_api.patch(path, {"expected": 38}, JSON).json()["expected"] == 38
    assert alice_api.post(f"{V1}/add/publish").json()["version"] == 2

    diff = alice_api.get(f"{V1}/add/diff?from=1&to=2").json()
    assert [change["path"] for change in diff["changes"]] == ["source"]
    assert "-      return a + b\n+      return a - b" in diff["text"]

    assert alice_api.post(f"{V1}/add/rollback", {"version": 1}).json()["version"] == 1
    assert alice_api.post(f"{V1}/add/execute", {"arguments": {"a": 40}}).json()["result"] == 42
    assert alice_api.post(f"{V1}/add/execute", {"arguments": {"a": 40}, "version": 2}).json()["result"] == 38
    versions = alice_api.get(f"{V1}/add/versions/").json()["results"]
    assert [(one["version"], one["note"], one["author"], one["is_live"]) for one in versions] == [
        (2, "", "alice", False),
        (1, "first", "alice", True),
    ]
    assert alice_api.get(f"{V1}/add/versions/1").json()["source"] == ADD
    assert len(alice_api.get(f"{V1}/add/executions/").json()["results"]) == 3
    assert alice_api.get(f"{V1}/add/executions/{done['execution']}").json()["arguments"] == {"a": 40, "b": 2}
    assert alice_api.get("/api/v1/tools/add").json()["kind"] == "function"

    assert alice_api.delete(path).status_code == 204
    assert alice_api.delete(f"{V1}/add").status_code == 204
    assert alice_api.get(f"{V1}/add").status_code == 404
    assert Execution.objects.filter(function_name="add").count() == 3


def test_a_refused_source_names_line_reason_and_what_to_write(alice_api):
    answer = alice_api.post(f"{V1}/", {"name": "bad", "source": "def main():\n    import os\n    return eval('1')\n"})
    assert answer.status_code == 422
    assert details(answer, "line") == [2, 3]
    assert all(
        one["code"] and one["message"] and one["hint"] and one["column"] for one in answer.json()["error"]["details"]
    )
    assert not StoredFunction.objects.exists()


@pytest.mark.parametrize("source", ["def main(:\n", "x = 1", "", "-" * 30_000 + "1", "def main(): pass\n" * 8000])
def test_what_does_not_compile_is_422(alice_api, source):
    answer = alice_api.post(f"{V1}/", {"name": "bad", "source": source})
    assert answer.status_code == 422
    assert answer.json()["error"]["details"]


@pytest.mark.parametrize(
    "body",
    [
        {"timeout": 1e9},
        {"timeout": "5"},
        {"timeout": -1},
        {"memory_limit": 5},
        {"allowed_imports": "re"},
        {"allowed_imports": ["os"]},
        {"input_schema": []},
        {"input_schema": {"$ref": "https://example.com/s.json"}},
        {"output_schema": {"type": "string", "pattern": "(a+)+$"}},
        {"is_async": True},
        {"requires_context": True},
        {"effect": "magic"},
        {"name": "Not A Slug"},
        {"name": "execute"},
        {"name": "a" * 65},
        {"source": 3},
        {"team": "strangers"},
    ],
)
def test_a_bad_field_is_422_and_nothing_is_stored(alice_api, body):
    answer = alice_api.post(f"{V1}/", {"name": "add", "source": ADD, **body})
    assert answer.status_code == 422, answer.content
    assert answer.json()["error"]["details"]
    assert not StoredFunction.objects.exists()


def test_raising_a_limit_without_the_permission_is_403(alice_api):
    answer = alice_api.post(f"{V1}/", {"name": "add", "source": ADD, "timeout": 60})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "needs_permission")
    assert alice_api.post(f"{V1}/try", {"source": ADD, "timeout": 60}).status_code == 403
    assert alice_api.post(f"{V1}/try", {"source": ADD, "safe_mode": False}).status_code == 403


def test_a_taken_name_is_409(alice_api):
    assert alice_api.post(f"{V1}/", {"name": "add", "source": ADD}).status_code == 201
    answer = alice_api.post(f"{V1}/", {"name": "add", "source": ADD})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "name_taken")


def test_a_name_that_could_never_be_published_is_refused_at_once(alice, bob, alice_api):
    """A device's tool has it. Bob's tools are in nobody's way."""
    Tool(owner=alice, name="shout", kind="device", description="Loud").save()
    Tool(owner=bob, name="add", kind="device", description="Bob's").save()
    answer = alice_api.post(f"{V1}/", {"name": "shout", "source": ADD})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "name_taken")
    assert not StoredFunction.objects.exists()
    assert alice_api.post(f"{V1}/", {"name": "add", "source": ADD}).status_code == 201
    assert alice_api.patch(f"{V1}/add", {"name": "shout"}, JSON).status_code == 409


def test_wrong_arguments_are_422_and_a_failing_function_is_200(alice, alice_api):
    publish(alice, "def f(a: int):\n    return 1 / a\n", "f")
    wrong = alice_api.post(f"{V1}/f/execute", {"arguments": {"a": "x"}})
    assert (wrong.status_code, details(wrong, "field")) == (422, ["arguments/a"])
    failed = alice_api.post(f"{V1}/f/execute", {"arguments": {"a": 0}})
    assert failed.status_code == 200
    assert failed.json()["status"] == "error"
    assert failed.json()["error"] == {"type": "ZeroDivisionError", "message": "division by zero", "line": 2}


def test_a_large_body_is_413(alice, alice_api):
    publish(alice, "def f(text: str):\n    return len(text)\n", "f")
    assert alice_api.post(f"{V1}/f/execute", {"arguments": {"text": "x" * 10_000_000}}).status_code == 413


def test_what_is_not_published_is_409_and_an_unknown_version_404(alice, alice_api):
    make(alice)
    answer = alice_api.post(f"{V1}/add/execute", {"arguments": {"a": 1}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_published")
    assert alice_api.post(f"{V1}/add/execute", {"arguments": {"a": 1}, "version": 7}).status_code == 404
    assert alice_api.post(f"{V1}/add/rollback", {"version": 7}).status_code == 422


def test_callbacks_need_a_run(alice, alice_api):
    source = "def f(ctx):\n    return ctx.call('other')\n"
    publish(alice, source, "f")
    answer = alice_api.post(f"{V1}/f/execute", {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "callback_needs_a_run")
    assert Execution.objects.get().status == "error"
    assert alice_api.post(f"{V1}/try", {"source": source}).status_code == 422
    plain = {"source": "def f(ctx):\n    ctx.log('x')\n    return ctx['user']\n"}
    assert alice_api.post(f"{V1}/try", plain).json()["result"] == alice.pk


def test_publishing_what_somebody_changed_meanwhile_is_409(alice_api):
    seen = alice_api.post(f"{V1}/", {"name": "add", "source": ADD}).json()["draft_sha256"]
    alice_api.patch(f"{V1}/add", {"description": "Hers."}, JSON)
    answer = alice_api.post(f"{V1}/add/publish", {"expected": seen})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "changed_meanwhile")


def test_changing_what_somebody_changed_meanwhile_is_409_and_loses_nothing(alice_api):
    seen = alice_api.post(f"{V1}/", {"name": "add", "source": ADD}).json()["draft_sha256"]
    first = alice_api.patch(f"{V1}/add", {"description": "Hers.", "expected": seen}, JSON)
    assert first.status_code == 200 and "expected" not in first.json()
    late = alice_api.patch(f"{V1}/add", {"description": "His.", "expected": seen}, JSON)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "changed_meanwhile")
    assert alice_api.get(f"{V1}/add").json()["description"] == "Hers."
    again = alice_api.patch(f"{V1}/add", {"description": "His.", "expected": first.json()["draft_sha256"]}, JSON)
    assert again.json()["description"] == "His."


def test_what_is_in_use_is_409_with_its_users(alice, alice_api, agent):
    publish(alice)
    ToolGrant.objects.create(agent=agent, tool=Tool.objects.get(name="add"))
    answer = alice_api.delete(f"{V1}/add")
    assert (answer.status_code, details(answer, "name")) == (409, ["librarian"])
    assert alice_api.get(f"{V1}/add/used-by").json()["results"][0]["kind"] == "agent"
    assert alice_api.patch(f"{V1}/add", {"is_deprecated": True}, JSON).json()["is_deprecated"]
    assert AuditEvent.objects.filter(action="function.deprecated").exists()


def test_a_bad_test_is_422(alice, alice_api):
    make(alice)
    for body in (
        {"name": "t", "expects": "schema", "expected": {"$ref": "http://x"}},
        {"name": "t", "expects": "error", "expected": 3},
        {"name": "t", "arguments": []},
        {"execution": "not-an-id"},
    ):
        assert alice_api.post(f"{V1}/add/tests/", body).status_code == 422, body
    assert alice_api.post(f"{V1}/add/tests/", {"name": "t", "arguments": {"a": 1}, "expected": 3}).status_code == 201
    assert alice_api.post(f"{V1}/add/tests/", {"name": "t"}).status_code == 409


STRANGERS = [
    ("get", "add"), ("patch", "add"), ("put", "add"), ("delete", "add"), ("post", "add/publish"),
    ("post", "add/rollback"), ("get", "add/versions/"), ("get", "add/versions/1"),
    ("get", "add/diff?from=1&to=1"), ("get", "add/used-by"),
    ("post", "add/execute"), ("get", "add/executions/"), ("get", "add/tests/"), ("post", "add/tests/"),
    ("post", "add/tests/run"), ("post", "add/replay"), ("get", "add/tests/1"),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "path"), STRANGERS)
def test_charlie_finds_nothing_of_alices(alice, charlie_api, verb, path):
    publish(alice)
    body = {"source": ADD, "name": "add", "version": 1} if verb in ("patch", "put", "post") else None
    body = {"version": 1} if path == "add/execute" else body
    answer = getattr(charlie_api, verb)(f"{V1}/{path}", *([body, JSON] if body else []))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert charlie_api.get(f"{V1}/").json()["results"] == []


def test_charlie_does_not_see_what_alice_ran(alice, alice_api, charlie_api):
    function = publish(alice)
    StoredFunction.objects.filter(pk=function.pk).update(owner=None)
    done = alice_api.post(f"{V1}/add/execute", {"arguments": {"a": 1}}).json()
    assert charlie_api.get(f"{V1}/add/executions/").json()["results"] == []
    assert charlie_api.get(f"{V1}/add/executions/{done['execution']}").status_code == 404
    assert charlie_api.post(f"{V1}/add/execute", {"arguments": {"a": 1}}).json()["result"] == 3
    assert charlie_api.patch(f"{V1}/add", {"description": "mine"}, JSON).status_code == 403
    assert charlie_api.post(f"{V1}/add/publish").status_code == 403
    assert charlie_api.get(f"{V1}/add/tests/").status_code == 200


def test_bob_uses_what_alice_shares_and_a_viewer_changes_nothing(alice, bob_api, bob, team):
    publish(alice, team=team)
    assert bob_api.post(f"{V1}/add/execute", {"arguments": {"a": 1}}).status_code == 200
    Membership.objects.filter(user=bob).update(role=Membership.Role.VIEWER)
    assert bob_api.patch(f"{V1}/add", {"description": "mine"}, JSON).status_code == 403
    assert bob_api.post(f"{V1}/add/execute", {"arguments": {"a": 1}}).json()["error"]["code"] == "not_for_use"


def test_scopes_say_what_a_key_may_do(alice, api):
    publish(alice)
    runner, reader = api(alice, "functions:execute"), api(alice, "functions:read")
    assert runner.post(f"{V1}/add/execute", {"arguments": {"a": 1}}).status_code == 200
    assert runner.get(f"{V1}/add").status_code == 403
    assert reader.get(f"{V1}/add").status_code == 200
    assert reader.post(f"{V1}/add/execute", {"arguments": {"a": 1}}).status_code == 403
    assert reader.post(f"{V1}/try", {"source": ADD}).status_code == 403


def test_a_call_needs_three_queries(alice, alice_api, django_assert_num_queries):
    publish(alice)
    alice_api.post(f"{V1}/add/execute", {"arguments": {"a": 1}}, JSON)  # marks the key as used; reads the version
    with django_assert_num_queries(3):  # the key, the name, the execution
        assert alice_api.post(f"{V1}/add/execute", {"arguments": {"a": 1}}, JSON).json()["result"] == 3


def test_the_list_needs_as_many_queries_for_many_as_for_one(alice, alice_api, django_assert_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    publish(alice)
    alice_api.get(f"{V1}/")  # marks the key as used, once a minute
    with CaptureQueriesContext(connection) as first:
        alice_api.get(f"{V1}/")
    rows = [StoredFunction(name=f"f{n}", owner=alice, source=ADD, entry="add") for n in range(40)]
    StoredFunction.objects.bulk_create(rows)
    with django_assert_num_queries(len(first)):
        assert len(alice_api.get(f"{V1}/").json()["results"]) == 41
    assert [one["name"] for one in alice_api.get(f"{V1}/?search=f39").json()["results"]] == ["f39"]


def test_who_compiles_in_a_loop_waits_for_himself(alice, alice_api, monkeypatch):
    pool = sandbox.Pool(spares=0, at_once=2, queue_s=0.05)
    monkeypatch.setattr(sandbox, "_pool", pool)
    for _ in range(2):
        pool._readers.take(1, str(alice.pk))  # what alice compiles already
    refused = alice_api.post(f"{V1}/validate", {"name": "add", "source": ADD})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")


def test_a_required_library_that_is_not_there_is_refused_with_the_operators_sentence(alice_api):
    body = {"name": "table", "source": 'requires = ["Some_Library"]\ndef table(a: int) -> int:\n    return a\n'}
    checked = alice_api.post(f"{V1}/validate", body).json()
    assert (checked["valid"], checked["requires"]) == (False, ["some-library"])
    assert "add some-library to MUSTER_LIBRARIES" in checked["refusals"][0]["hint"]
    assert alice_api.post(f"{V1}/", body).status_code == 422


def test_a_version_records_the_libraries_that_its_source_requires(alice):
    function = make(alice, "requires = []\ndef add(a: int) -> int:\n    return a\n", name="add")
    function.requires = ["pandas"]
    assert FunctionSpec.of(function).requires == ["pandas"]


def test_the_stub_file_and_the_editor_name_what_ctx_offers(alice_api):
    answer = alice_api.get(f"{V1}/stubs")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/x-python")
    stub = ast.parse(answer.content)
    offered = {
        item.target.id if isinstance(item, ast.AnnAssign) else item.name
        for item in next(node for node in stub.body if getattr(node, "name", "") == "Context").body
        if isinstance(item, ast.AnnAssign | ast.FunctionDef)
    }
    names = {name for name in vars(Context) if not name.startswith("__")}
    assert {name for name in offered if not name.startswith("__")} == names | CONTEXT_DATA
    script = (settings.BASE_DIR / "frontend" / "src" / "editor.js").read_text()
    listed = re.findall(r"^  (\w+): \[", script.partition("const CONTEXT = {")[2].partition("};")[0], re.MULTILINE)
    assert set(listed) == names | CONTEXT_DATA


def test_a_function_may_annotate_its_context(alice):
    function = publish(alice, "def who(ctx: Context) -> int:\n    return ctx.user\n", "who")
    assert function.published.spec["requires_context"]


def test_arguments_arrive_as_annotated_in_tries_calls_and_tests(alice_api):
    source = "from decimal import Decimal\ndef preis(größe: Decimal, /, mal: int = 2):\n    return größe * mal\n"
    body = {"name": "preis", "source": source, "allowed_imports": ["decimal"]}
    tried = alice_api.post(f"{V1}/try", {**body, "arguments": {"größe": "1.10"}}).json()
    assert tried.get("status") == "ok", tried
    assert tried["result"] == "2.20"
    assert alice_api.post(f"{V1}/", body).status_code == 201
    assert alice_api.post(f"{V1}/preis/publish").status_code == 200
    two_characters = "gro\u0308ße"  # as macOS writes it
    done = alice_api.post(f"{V1}/preis/execute", {"arguments": {two_characters: 1.1}}).json()
    assert (done["status"], done["result"]) == ("ok", "2.2")
    twice = {two_characters: "1", "\uff4dal": 2, "ma\uff4c": 3}
    assert alice_api.post(f"{V1}/preis/execute", {"arguments": twice}).status_code == 422
    test = {"name": "one", "arguments": {"größe": "1"}, "expects": "value", "expected": "2"}
    assert alice_api.post(f"{V1}/preis/tests/", test, JSON).status_code == 201
    assert alice_api.post(f"{V1}/preis/tests/run").json()["passed"] == 1
    wrong = alice_api.post(f"{V1}/preis/execute", {"arguments": {"größe": "ten"}}).json()
    assert (wrong["status"], wrong["error"]["type"]) == ("error", "InvalidArgument")


def test_a_signature_that_cannot_be_read_is_refused_for_that_reason_alone(alice_api):
    checked = alice_api.post(f"{V1}/validate", {"source": "def total(a, *rest):\n    return a"}).json()
    assert [refusal["code"] for refusal in checked["refusals"]] == ["nameless_arguments"]
    assert checked["refusals"][0]["hint"] == "Write a list: rest: list."
