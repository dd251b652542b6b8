"""Agents as assistants, and the store, through LangGraph's SDK."""

import uuid

import pytest
from langgraph_sdk import errors

pytestmark = pytest.mark.live


# -- assistants ----------------------------------------------------------------------------------------------------------


def test_assistants_are_the_agents(client):
    found = client.assistants.search(graph_id="clerk")
    assert [(one["graph_id"], one["name"], one["version"]) for one in found] == [("clerk", "clerk", 1)]
    assert uuid.UUID(found[0]["assistant_id"]).version == 8
    assert client.assistants.get(found[0]["assistant_id"]) == client.assistants.get("clerk") == found[0]
    assert client.assistants.count(name="areful") == 1
    assert client.assistants.search(metadata={"tier": "gold"}) == []
    assert [one["version"] for one in client.assistants.get_versions("clerk")] == [1]
    assert client.assistants.set_latest("clerk", 1)["version"] == 1
    with pytest.raises(errors.UnprocessableEntityError, match="no version 7"):
        client.assistants.set_latest("clerk", 7)


def test_pages_of_assistants(client):
    page = client.assistants.search(limit=2, sort_by="name", sort_order="asc", response_format="object")
    assert len(page["assistants"]) == 2 and page["next"] == "2"
    assert client.assistants.search(limit=1, offset=1, sort_by="name", sort_order="asc") == page["assistants"][1:]
    assert client.assistants.search(limit=1, select=["name"])[0].keys() == {"name"}


def test_graph_and_schemas(client):
    graph = client.assistants.get_graph("clerk", xray=True)
    assert [node["id"] for node in graph["nodes"]] == ["__start__", "model", "tools", "__end__"]
    assert {"source": "tools", "target": "model"} in graph["edges"]
    assert "messages" in client.assistants.get_schemas("clerk")["input_schema"]["properties"]
    assert client.assistants.get_subgraphs("clerk") == {}


def test_assistants_are_not_edited_here(client):
    assert client.assistants.create("clerk", if_exists="do_nothing", config={"tags": ["x"]})["graph_id"] == "clerk"
    with pytest.raises(errors.ConflictError):
        client.assistants.create("clerk")
    with pytest.raises(errors.NotFoundError):
        client.assistants.create("nobody", if_exists="do_nothing")
    for refused in (lambda: client.assistants.update("clerk", name="x"), lambda: client.assistants.delete("clerk")):
        with pytest.raises(errors.UnprocessableEntityError, match="agents"):
            refused()


# -- crons ---------------------------------------------------------------------------------------------------------------


def test_the_store(client):
    space = ["prefs", uuid.uuid4().hex]
    client.store.put_item(space, "theme", {"dark": True})
    assert client.store.get_item(space, "theme")["value"] == {"dark": True}
    assert [one["key"] for one in client.store.search_items(space, filter={"dark": True})["items"]] == ["theme"]
    assert client.store.list_namespaces(prefix=space)["namespaces"] == [space]
    client.store.delete_item(space, "theme")
    with pytest.raises(errors.NotFoundError):
        client.store.get_item(space, "theme")
