from agents.models import Tool
from agents.schema import check_schema
from connectors.accounts import catalog


def test_every_operation_becomes_a_tool_of_the_site_once(db):
    made = catalog.offer_tools()
    assert made == Tool.objects.filter(kind="connector", owner=None).count() >= 17
    assert catalog.offer_tools() == 0


def test_sending_is_destructive_and_reading_brings_strangers_words(db):
    catalog.offer_tools()
    effects = dict(Tool.objects.values_list("name", "effect"))
    assert {effects[f"{name}_send"] for name in catalog.CONNECTORS} == {"destructive"}
    assert {effects[f"{name}_fetch_new"] for name in catalog.CONNECTORS} == {"read"}
    assert set(Tool.objects.filter(untrusted=False).values_list("effect", flat=True)) <= {
        "destructive", "write", "idempotent",
    }  # fmt: skip


def test_every_schema_is_one(db):
    for name, connector in catalog.CONNECTORS.items():
        for operation in connector.operations():
            assert check_schema(operation.input_schema) == [], (name, operation.method)


def test_it_asks_before_sending_mail_unless_the_grant_says_otherwise(alice_api, agent):
    catalog.offer_tools()
    path = "/api/v1/agents/librarian/grants/"
    granted = [{"tool": "gmail_send"}, {"tool": "gmail_read"}, {"tool": "outlook_send", "mode": "allow"}]
    answer = alice_api.put(path, granted, content_type="application/json")
    assert [one["mode"] for one in answer.json()["results"]] == ["ask", "allow", "allow"]
