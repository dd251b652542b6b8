"""Tools of Letta's agent files become drafts of functions, each checked on its own; nothing is published or run."""

import pytest

from agents.models import AuditEvent
from functions.models import StoredFunction

pytestmark = pytest.mark.django_db
PATH = "/api/v1/memory/import/functions"
ADD = '''def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a (int): The first.
        b (int): The second.

    Returns:
        int: The sum.
    """
    return a + b
'''
DELETE = "import os\n\ndef delete_all(path: str):\n    os.remove(path)\n"


def tool(name, code, kind="custom", **more):
    return {"name": name, "source_code": code, "source_type": "python", "tool_type": kind, "tags": [], **more}


def file(*tools):
    return {"file": {"agents": [], "blocks": [], "tools": list(tools)}}


def test_python_tools_become_drafts_and_the_rest_is_refused_with_reasons(alice, alice_api):
    core = tool("send_message", None, "letta_core")
    script = tool("lookup", "export const lookup = 1", source_type="typescript")
    answer = alice_api.post(PATH, file(tool("Add Numbers", ADD), tool("delete_all", DELETE), core, script))
    assert answer.status_code == 200, answer.json()
    body = answer.json()
    assert body["created"] == ["add_numbers"]
    refused = {one["name"]: one for one in body["refused"]}
    assert {name: one["code"] for name, one in refused.items()} == {
        "delete_all": "refused", "send_message": "no_source", "lookup": "no_source",
    }  # fmt: skip
    assert refused["delete_all"]["details"][0]["line"] == 1
    function = StoredFunction.objects.get()
    assert (function.owner, function.published, function.source) == (alice, None, ADD)
    noted = AuditEvent.objects.get(action="function.created", actor=alice)
    assert noted.details["note"] == "from an agent file, Add Numbers"


def test_a_name_that_is_taken_is_not_overwritten(alice_api):
    assert alice_api.post(PATH, file(tool("add", ADD))).json()["created"] == ["add"]
    again = alice_api.post(PATH, file(tool("add", ADD.replace("a + b", "a - b")))).json()
    assert (again["created"], again["refused"][0]["code"]) == ([], "name_taken")
    assert StoredFunction.objects.get().source == ADD


@pytest.mark.parametrize(
    "tools",
    [None, {}, [], [3], [{"source_code": ADD}], [tool("add", 3)], [tool("add", ADD)] * 51],
)
def test_a_broken_agent_file_stores_nothing(alice_api, tools):
    assert alice_api.post(PATH, {"file": {"tools": tools}}).status_code == 422
    assert not StoredFunction.objects.exists()


def test_an_empty_source_is_refused_alone_and_a_nul_with_the_body(alice_api):
    answer = alice_api.post(PATH, file(tool("empty", ""), tool("add", ADD))).json()
    assert (answer["created"], [one["code"] for one in answer["refused"]]) == (["add"], ["no_source"])
    nul = tool("nul", ADD.replace("first", "fir\0st"))
    assert alice_api.post(PATH, file(nul)).status_code == 400
    assert StoredFunction.objects.count() == 1


def test_keys_without_the_scope_and_unknown_fields_are_refused(alice, api, alice_api):
    assert api(alice, "memory:write").post(PATH, file(tool("add", ADD))).status_code == 403
    assert alice_api.post(PATH, {**file(tool("add", ADD)), "publish": True}).status_code == 422
    assert not StoredFunction.objects.exists()


def test_what_it_makes_belongs_to_the_person_alone(alice_api, bob_api, charlie_api):
    assert alice_api.post(PATH, file(tool("add", ADD))).status_code == 200
    for other in (bob_api, charlie_api):
        assert other.get("/api/v1/functions/add").status_code == 404
