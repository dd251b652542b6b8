import json
import re

import pytest
from django.utils import translation

from agents.models import Secret, Tool
from agents.tools import OutcomeUnknown, RetryTool, ToolFailed
from connectors.models import Connection, RemoteTool
from plumbing.texts import translate
from plumbing.untrusted import parse_in_child
from tests.connectors.linked import call_tool, spec_of
from tests.connectors.loopback import Answer, Fault, Loopback
from tests.costs import measure_cpu

API = "/api/v1/connections"


class Shop(Loopback):
    """A small shop; `document()` describes it."""

    def __init__(self):
        super().__init__()
        self.routes += [
            ("GET", re.compile(r"/v2/items/(.+)"), lambda asked, name: {"name": name, "query": asked.query}),
            ("POST", re.compile(r"/v2/items"), lambda asked: Answer(201, {"made": asked.json})),
            ("GET", re.compile(r"/v2/away"), lambda asked: Answer(302, None, {"Location": "http://evil.example/"})),
            ("GET", re.compile(r"/openapi.json"), lambda asked: self.document()),
        ]

    def document(self, **more):
        item = {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "price": {"type": "number", "nullable": True, "minimum": 0, "exclusiveMinimum": True},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Item"}},
            },
            "required": ["name"],
        }
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        get = {
            "operationId": "getItem",
            "summary": "One item.",
            "parameters": [
                {"$ref": "#/components/parameters/Tags"},
                {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
            ],
        }
        body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}}, "required": True}
        return {
            "openapi": "3.0.3",
            "servers": [{"url": f"{self.url}/v2"}],
            "paths": {
                "/items/{name}": {"parameters": [name], "get": get, "delete": {"operationId": "deleteItem"}},
                "/items": {"post": {"operationId": "makeItem", "requestBody": body}},
                "/away": {"get": {}},
            },
            "components": {
                "schemas": {"Item": item, "Unused": {"type": "string"}},
                "parameters": {
                    "Tags": {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}
                },
            },
            **more,
        }


@pytest.fixture
def shop(settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    with Shop() as made:
        yield made


@pytest.fixture
def connection(alice, shop):
    return Connection.objects.create(owner=alice, name="shop", provider="openapi")


@pytest.fixture
def imported(alice_api, connection, shop):
    answer = alice_api.post(f"{API}/{connection.pk}/import", {"document": shop.document()})
    assert answer.status_code == 200, answer.json()
    connection.refresh_from_db()
    return answer.json()


def call(user, tool, /, **arguments):
    return call_tool(spec_of(Tool.objects.get(name=tool), deadline_s=60.0), user, arguments)


def test_a_document_becomes_tools_with_the_effects_of_their_methods(imported, connection, shop):
    assert imported["new"] == ["getItem", "deleteItem", "makeItem", "get_away"] and imported["refused"] == []
    effects = dict(Tool.objects.values_list("name", "effect"))
    assert effects == {
        "shop_get_item": "read_out", "shop_delete_item": "destructive", "shop_make_item": "write", "shop_get_away": "read_out",
    }  # fmt: skip
    assert connection.base_url == f"{shop.url}/v2"


def test_schemas_come_along_as_far_as_they_are_used(imported):
    schema = Tool.objects.get(name="shop_make_item").input_schema
    assert schema["properties"]["body"] == {"$ref": "#/$defs/Item"} and schema["required"] == ["body"]
    assert set(schema["$defs"]) == {"Item"}
    assert schema["$defs"]["Item"]["properties"]["price"] == {"type": ["number", "null"], "exclusiveMinimum": 0}
    fields = Tool.objects.get(name="shop_get_item").input_schema["properties"]
    assert set(fields) == {"name", "tags", "X-Trace"}


def test_an_operation_is_called_with_its_parameters_where_they_belong(alice, imported, shop):
    result = call(alice, "shop_get_item", name="a/b ?c", tags=["x", "y"], **{"X-Trace": "t1"})
    assert result.untrusted and result.value["body"] == {"name": "a/b ?c", "query": {"tags": ["x", "y"]}}
    assert shop.asked[-1].headers["x-trace"] == "t1" and shop.asked[-1].path == "/v2/items/a%2Fb%20%3Fc"
    made = call(alice, "shop_make_item", body={"name": "chair"})
    assert made.value == {"status": 201, "body": {"made": {"name": "chair"}}}


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_a_parameter_cannot_climb_out_of_its_segment(alice, imported, name):
    with pytest.raises(RetryTool):
        call(alice, "shop_get_item", name=name)


def test_a_header_cannot_smuggle_another(alice, imported):
    with pytest.raises(RetryTool):
        call(alice, "shop_get_item", name="x", **{"X-Trace": "a\r\nAuthorization: b"})


def test_the_secret_is_the_callers_and_goes_to_its_host(alice, imported, connection, shop):
    Connection.objects.update(secret_name="key")
    with pytest.raises(ToolFailed, match="no secret"):
        call(alice, "shop_get_item", name="x")
    Secret.objects.create(
        owner=alice, name="key", value="hush", hosts=["127.0.0.1"], header="X-Key", template="{secret}"
    )
    assert call(alice, "shop_get_item", name="x").ok
    assert shop.asked[-1].headers["x-key"] == "hush"


def test_a_redirect_is_an_answer_not_a_way(alice, imported):
    result = call(alice, "shop_get_away")
    assert not result.ok and result.error["status"] == 302


def test_an_error_of_the_service_is_the_tools_error(alice, imported, shop):
    shop.faults += [Fault("/items", status=418, body={"why": "teapot"})]
    result = call(alice, "shop_get_item", name="x")
    assert not result.ok and result.untrusted and "teapot" in result.error["message"]


def test_a_write_that_broke_off_is_unknown_a_read_failed(alice, imported, shop):
    shop.faults += [Fault("/items", hang_up=True, times=2)]
    with pytest.raises(OutcomeUnknown):
        call(alice, "shop_make_item", body={"name": "x"})
    with pytest.raises(ToolFailed):
        call(alice, "shop_get_item", name="x")


def test_a_large_answer_is_refused(alice, imported, shop):
    shop.faults += [Fault("/items", status=200, body="x" * 2_000_000)]
    with pytest.raises(ToolFailed, match="larger"):
        call(alice, "shop_get_item", name="x")


def test_what_is_no_text_is_named_not_sent(alice, imported, shop):
    shop.faults += [Fault("/items", status=200, body=b"\x89PNG", headers={"Content-Type": "image/png"})]
    assert call(alice, "shop_get_item", name="x").value["body"] == "[left out: image/png, 4 bytes]"


def test_a_stranger_has_no_such_tool(charlie, imported):
    with pytest.raises(ToolFailed) as failure:
        call(charlie, "shop_get_item", name="x")
    assert failure.value.code == "connection_missing"


def test_a_document_is_fetched_from_its_address_and_its_changes_wait_for_approval(alice, alice_api, connection, shop):
    path = f"{API}/{connection.pk}/import"
    assert alice_api.post(path, {"url": f"{shop.url}/openapi.json"}).status_code == 200
    changed = shop.document()
    changed["paths"]["/items"]["post"]["summary"] = "Now it costs money."
    del changed["paths"]["/away"]
    listing = alice_api.post(path, {"document": changed}).json()
    assert (listing["changed"], listing["gone"]) == (["makeItem"], ["get_away"])
    with pytest.raises(ToolFailed, match="approve"):
        call(alice, "shop_make_item", body={"name": "x"})
    sha256 = RemoteTool.objects.get(remote_name="makeItem").offered_hash
    done = alice_api.post(f"{API}/{connection.pk}/tools/makeItem/approve", {"sha256": sha256})
    assert done.status_code == 200 and done.json()["effect"] == "write"
    assert call(alice, "shop_make_item", body={"name": "x"}).ok


def test_only_the_operations_that_are_named_are_taken(alice_api, connection, shop):
    body = {"document": shop.document(), "operations": ["getItem"]}
    assert alice_api.post(f"{API}/{connection.pk}/import", body).json()["new"] == ["getItem"]
    answer = alice_api.post(f"{API}/{connection.pk}/import", {**body, "operations": ["nothing"]})
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "unknown_operation"


EMPTY = {"openapi": "3.1.0", "servers": [{"url": "https://a.example"}], "paths": {}}
BOMB = "a: &a [x]\nb: &b [*a, *a]\nopenapi: '3.0.0'\npaths: {}\n"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": "{"},
        {"text": "- a\n- b"},
        {"text": '{"swagger": "1.2", "paths": {}}'},
        {"text": '{"openapi": "3.1.0"}'},
        {"text": BOMB},
        {"text": "openapi: !!python/object/apply:os.system ['id']"},
        {"text": "[" * 100_000},
        {"text": '{"openapi": "3.1.0", "paths": {}, "servers": [{"url": "file:///etc"}]}'},
        {"text": '{"openapi": "3.1.0", "paths": {}, "servers": [{"url": "/v1"}]}'},
        {"url": "http://169.254.169.254/openapi.json"},
        {"url": "file:///etc/passwd"},
        {"document": {"openapi": "3.1.0", "paths": []}},
        {"text": "{}", "url": "http://example.com"},
        {"document": {**EMPTY, "servers": [{"url": "https://a.example", "variables": [1]}]}},
        {"document": {**EMPTY, "servers": [{"url": "https://[a.example"}]}},
        {"text": '{"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "\\ud800", "summary": NaN}}}}'},
    ],
)
def test_a_document_that_is_none_is_refused_and_leaves_nothing(alice_api, connection, body):
    answer = alice_api.post(f"{API}/{connection.pk}/import", body)
    assert answer.status_code == 422, answer.content
    assert RemoteTool.objects.count() == 0


def test_a_base_address_inside_is_refused_at_the_call(alice, alice_api, imported, connection, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    with pytest.raises(ToolFailed) as failure:
        call(alice, "shop_get_item", name="x")
    assert failure.value.code == "private_address"


def test_yaml_is_taken_too(alice_api, connection, shop):
    text = f"openapi: 3.1.0\nservers: [{{url: '{shop.url}'}}]\npaths:\n  /ping:\n    get: {{operationId: ping}}\n"
    assert alice_api.post(f"{API}/{connection.pk}/import", {"text": text}).json()["new"] == ["ping"]


def test_a_document_as_text_and_as_object_pin_the_same(alice_api, connection, shop):
    document = shop.document()
    alice_api.post(f"{API}/{connection.pk}/import", {"document": document})
    again = alice_api.post(f"{API}/{connection.pk}/import", {"text": json.dumps(document)}).json()
    assert again == {"new": [], "changed": [], "gone": [], "refused": [], "usable": 4, "total": 4}


def test_a_short_document_that_makes_much_work_costs_the_serving_process_nothing(alice_api, connection):
    path = {"parameters": [{"$ref": "#/components/parameters/a"}], **{method: {} for method in ("get", "put", "post")}}
    many = {"name": "a", "in": "query", "schema": {"enum": [[]] * 40_000}}
    document = {**EMPTY, "paths": {f"/{i}": path for i in range(60)}, "components": {"parameters": {"a": many}}}
    text = json.dumps(document).replace(", ", ",")
    assert len(text) < 140_000

    def refuse():
        answer = alice_api.post(f"{API}/{connection.pk}/import", {"text": text})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "too_large")

    assert measure_cpu(refuse, below=0.3) < 0.3
    assert RemoteTool.objects.count() == 0


def test_a_document_counts_against_the_share_of_the_person_who_sends_it(
    alice, alice_api, connection, shop, monkeypatch
):
    asked = []
    reader = parse_in_child.Place.reader
    monkeypatch.setattr(parse_in_child.Place, "reader", lambda *asking: asked.append(asking) or reader(*asking))
    alice_api.post(f"{API}/{connection.pk}/import", {"document": shop.document(), "operations": ["getItem"]})
    task, parts, owner = asked[0]
    assert (task, parts[1], owner) == ("openapi", ["getItem"], str(alice.pk))


def test_a_document_is_looked_at_before_anything_is_stored(alice_api, bob, charlie_api, shop, connection):
    path, body = f"{API}/{connection.pk}/import", {"document": shop.document()}
    shown = alice_api.post(f"{path}/preview", body).json()
    assert shown["base_url"] and {one["state"] for one in shown["operations"]} == {"new"}
    assert {one["name"]: one["effect"] for one in shown["operations"]}["getItem"] == "read_out"
    assert not RemoteTool.objects.exists() and not Tool.objects.filter(kind="http").exists()
    alice_api.post(path, {**body, "operations": ["getItem"]})
    again = {one["name"]: one["state"] for one in alice_api.post(f"{path}/preview", body).json()["operations"]}
    assert again.pop("getItem") == "known" and set(again.values()) <= {"new"}
    assert charlie_api.post(f"{path}/preview", body).status_code == 404
    assert alice_api.post(f"{path}/preview", {**body, "what": 1}).status_code == 422
    assert alice_api.post(f"{path}/preview", {"text": "no document"}).status_code == 422


def test_an_import_takes_chosen_effects_and_a_later_import_keeps_them(alice_api, shop, connection):
    path, body = f"{API}/{connection.pk}/import", {"document": shop.document(), "operations": ["getItem"]}
    for wrong in ({"getItem": "harmless"}, {"getItem": ["read"]}, {"nothing": "read"}, ["getItem"]):
        assert alice_api.post(path, {**body, "effects": wrong}).status_code == 422, wrong
    assert not RemoteTool.objects.exists()
    assert alice_api.post(path, {**body, "effects": {"getItem": "destructive"}}).status_code == 200

    def effect():
        return RemoteTool.objects.get(remote_name="getItem").tool.effect

    assert effect() == "destructive"
    shown = alice_api.post(f"{path}/preview", body).json()["operations"]
    assert [(one["state"], one["effect"]) for one in shown] == [("known", "destructive")]
    alice_api.post(path, {**body, "effects": {"getItem": "read"}})
    assert effect() == "destructive", "a known tool changes its effect by an approval alone"


def test_a_document_at_a_private_address_names_the_setting(alice_api, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    made = alice_api.post("/api/v1/connections/", {"name": "private", "provider": "openapi"}).json()
    answer = alice_api.post(f"/api/v1/connections/{made['id']}/import/preview", {"url": "http://127.0.0.1:9/a.json"})
    assert answer.status_code == 422
    assert "MUSTER_PRIVATE_HOSTS" in answer.json()["error"]["message"]


def test_a_tool_that_an_earlier_version_imported_is_refused_until_it_is_imported_again(
    alice, alice_api, imported, connection, shop
):
    remote = RemoteTool.objects.get(remote_name="makeItem")
    remote.offered["details"] = {"method": "POST", "path": "/items", "in": {}, "body": "application/json"}
    remote.save()
    with pytest.raises(ToolFailed, match="import the document again") as refused:
        call(alice, "shop_make_item", body={"name": "chair"})
    assert refused.value.code == "definition_changed"


# -- the health of a service ---------------------------------------------------------------------------------------------


def test_the_health_of_a_service_is_asked_for_and_any_status_counts(alice_api, imported, connection, shop):
    Connection.objects.update(health="unknown", checked_at=None, secret_name="key")
    asked = len(shop.asked)
    shown = alice_api.get(f"{API}/{connection.pk}/health").json()
    assert shown["health"] == "ok" and shown["checked_at"] and len(shop.asked) == asked + 1
    assert shop.asked[-1].path == "/v2"  # which the shop answers with 404


def test_a_service_that_does_not_answer_is_broken_in_plain_words(alice_api, imported, connection, shop):
    Connection.objects.update(base_url="http://127.0.0.1:1")
    shown = alice_api.get(f"{API}/{connection.pk}/health").json()
    assert (
        shown["health"] == "broken"
        and shown["last_error"] == "The server cannot be reached: no connection can be made."
    )


def test_a_private_address_that_is_not_allowed_is_not_asked(alice_api, imported, connection, shop, settings):
    settings.PRIVATE_HOSTS_ALLOWED = []
    asked = len(shop.asked)
    shown = alice_api.get(f"{API}/{connection.pk}/health").json()
    assert shown["health"] == "broken" and "private" in shown["last_error"] and len(shop.asked) == asked


def test_without_an_import_there_is_no_address_to_ask(alice_api, connection):
    assert alice_api.get(f"{API}/{connection.pk}/health").json()["health"] == "unknown"


# -- documents without operations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("paths", [{}, {"x-internal": {}}, {"/items": {"summary": "Nothing to call."}}])
def test_a_document_without_operations_is_refused_and_takes_no_tool_away(alice_api, imported, connection, shop, paths):
    for where in ("import", "import/preview"):
        answer = alice_api.post(f"{API}/{connection.pk}/{where}", {"document": shop.document(paths=paths)})
        assert answer.status_code == 422 and answer.json()["error"]["code"] == "no_operations", answer.json()
    assert RemoteTool.objects.filter(tool__enabled=True).count() == 4


@pytest.mark.parametrize(
    "paths",
    [
        {"/a": {"get": {"parameters": 5}}},
        {"/a": {"get": {"parameters": [], "requestBody": {"content": {"application/json": 5}}}}},
    ],
)
def test_an_operation_of_another_form_is_refused_in_plain_words(alice_api, connection, shop, paths):
    answer = alice_api.post(f"{API}/{connection.pk}/import/preview", {"document": shop.document(paths=paths)})
    reason = answer.json()["operations"][0]["reason"]
    assert reason == "The operation cannot be read: A part of it has another form than OpenAPI describes."


def test_a_failure_is_told_in_the_readers_language(alice_api, imported, connection):
    Connection.objects.update(base_url="http://127.0.0.1:1")
    alice_api.get(f"{API}/{connection.pk}/health")
    connection.refresh_from_db()
    with translation.override("de"):
        told = translate(connection.last_error)
    assert told == "Der Server ist nicht erreichbar: es kommt keine Verbindung zustande."
