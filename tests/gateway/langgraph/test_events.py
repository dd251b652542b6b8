"""The stream mode `events` holds what `astream_events` of a graph gives; and searches sorted by `order_by`."""

import uuid

import httpx2
import pytest

from tests.fakes import calls, says
from tests.gateway.langgraph.sdk import human

pytestmark = pytest.mark.live


def events_of(client, thread, agent, **more):
    parts = client.runs.stream(thread, agent, stream_mode="events", **more)
    return [part.data for part in parts if part.event == "events"]


def verify_nesting(events):
    """What begins also ends, inside of what it belongs to."""
    at_work = {}
    for event in events:
        kind = event["event"]
        if kind.endswith("_start"):
            assert event["run_id"] not in at_work
            assert all(parent in at_work for parent in event["parent_ids"]), event
            at_work[event["run_id"]] = event
        elif kind.endswith("_end"):
            del at_work[event["run_id"]]
        else:
            assert event["run_id"] in at_work, event
    assert at_work == {}


def kinds(events):
    return [(event["event"], event["name"]) for event in events if not event["event"].endswith("_stream")]


def test_the_graph_and_its_nodes_are_chains(client, model):
    model.script(calls(("calculate", {"expression": "6 * 7"})), says("42."))
    events = events_of(client, None, "clerk", input=human("6 * 7?"))
    verify_nesting(events)
    node = [("on_chain_start", "model"), ("on_chat_model_start", "model"), ("on_chat_model_end", "model")]
    tools = [("on_chain_start", "tools"), ("on_tool_start", "calculate")]
    assert kinds(events) == [
        ("on_chain_start", "LangGraph"), *node, ("on_chain_end", "model"), *tools, ("on_tool_end", "calculate"),
        ("on_chain_end", "tools"), *node, ("on_chain_end", "model"), ("on_chain_end", "LangGraph"),
    ]  # fmt: skip
    assert [one["content"] for one in events[0]["data"]["input"]["messages"]] == ["6 * 7?"]
    assert events[-1]["data"]["output"]["messages"][-1]["content"] == "42."
    [started] = [one for one in events if one["event"] == "on_chat_model_start"][1:]
    assert [one["type"] for one in started["data"]["input"]["messages"][0]] == ["human", "ai", "tool"]
    chunks = [
        one["data"]["chunk"] for one in events if one["event"] == "on_chain_stream" and one["name"] == "LangGraph"
    ]
    assert [list(chunk) for chunk in chunks] == [["model"], ["tools"], ["model"]]


def test_a_run_that_is_resumed_begins_its_chains_anew(client, model):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Two."))
    thread = client.threads.create()["thread_id"]
    first = events_of(client, thread, "careful", input=human("1 + 1?"))
    assert kinds(first)[-1] == ("on_chain_end", "LangGraph")
    second = events_of(client, thread, "careful", command={"resume": True})
    verify_nesting(second)
    assert ("on_tool_end", "calculate") in kinds(second) and kinds(second)[-1] == ("on_chain_end", "LangGraph")


def test_a_failed_run_has_no_end_of_its_graph(client, model):
    model.script(*[says("", status=400)] * 4)
    assert kinds(events_of(client, None, "plain", input=human("hi"))) == [("on_chain_start", "LangGraph")]


def test_no_other_mode_has_them(client, model):
    model.script(says("Hello."))
    parts = list(client.runs.stream(None, "plain", input=human("hi"), stream_mode=["updates", "messages"]))
    assert not [part for part in parts if part.event == "events"]


# -- sorting -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def search(agents):
    live, key = agents

    def search(path, **body):
        answer = httpx2.post(f"{live.url}/langgraph/{path}/search", json=body, headers={"x-api-key": key}, timeout=60)
        return answer.status_code, answer.json()

    return search


def test_searches_are_sorted_by_one_text(client, search):
    mark = {"mark": uuid.uuid4().hex}
    made = [client.threads.create(metadata=mark)["thread_id"] for _ in range(3)]
    for order, expected in (
        ("created_at", made[::-1]), ("created_at DESC", made[::-1]), ("created_at asc", made), (" CREATED_AT  Asc ", made)
    ):  # fmt: skip
        status, found = search("threads", metadata=mark, order_by=order)
        assert status == 200 and [one["thread_id"] for one in found] == expected
    names = [one["name"] for one in search("assistants", order_by="name asc", limit=3)[1]]
    assert names == sorted(names) and len(names) == 3
    assert search("runs/crons", order_by="next_run_date desc")[0] == 200


@pytest.mark.parametrize("path", ["threads", "assistants", "runs/crons"])
@pytest.mark.parametrize(
    "order", ["", "secret", "created_at down", "created_at asc, name", "a b c", 7, ["name"], {}, True]
)
def test_another_order_is_refused(search, path, order):
    status, problem = search(path, order_by=order)
    assert status == 422 and problem["errors"][0]["field"] in ("order_by", "sort_by", "sort_order")


def test_the_two_ways_do_not_mix(search):
    assert search("threads", order_by="created_at", sort_by="created_at")[0] == 422
