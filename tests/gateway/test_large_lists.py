"""Lists of other people's protocols end at a size, too, and say where the next page begins."""

import json

import pytest
from asgiref.sync import async_to_sync

from agents.http import sizes
from agents.models import StoredItem
from plumbing import clock
from runs.models import Message, Run, RunEvent, Session
from tests.gateway.a2a.calls import V1

pytestmark = pytest.mark.django_db
LARGE = "ä" * 450_000  # 900 kB
MOST = sizes.PAGE_BYTES + 1_000_000
JSON = {"content_type": "application/json"}


def say(session, run, text=LARGE, role="user"):
    content = [{"type": "text", "text": text}]
    return session.add_message(role, content, run=run)


@pytest.fixture
def conversations(alice, make_agent):
    """Eight conversations of one message of 900 kB each."""
    agent = make_agent()
    made = []
    for _ in range(8):
        session = Session.objects.create(owner=alice, agent=agent)
        run = Run.objects.create(
            principal=alice, agent=agent, version=agent.published, session=session, status="succeeded"
        )
        say(session, run)
        made.append(run)
    return made


def whole(answer):
    assert answer.status_code == 200, answer.content[:500]
    assert len(answer.content) < MOST, len(answer.content)
    return answer


def test_a_search_of_threads(alice_api, conversations):
    found, offset = [], "0"
    while offset is not None:
        answer = whole(alice_api.post("/langgraph/threads/search", {"limit": 100, "offset": int(offset)}))
        found += [thread["thread_id"] for thread in answer.json()]
        offset = answer.headers.get("X-Pagination-Next")
    assert sorted(found) == sorted(str(run.session_id) for run in conversations)
    short = alice_api.post("/langgraph/threads/search", {"limit": 100, "select": ["thread_id"]})
    assert len(short.json()) == 8 and "X-Pagination-Next" not in short.headers


def test_the_history_of_a_thread(alice_api, conversations):
    session = Session.objects.get(pk=conversations[0].session_id)
    for number in range(4):
        run = Run.objects.create(
            principal=session.owner, agent=session.agent, version=session.agent.published, session=session,
            status="succeeded",
        )  # fmt: skip
        say(session, run, f"{number}{LARGE}")
    seen, before = [], None
    while True:
        body = {"limit": 100, **({"before": before} if before else {})}
        states = alice_api.post(f"/langgraph/threads/{session.pk}/history", body).json()
        if not states:
            break
        assert len(json.dumps(states, ensure_ascii=False).encode()) < MOST + 5_000_000  # one state is always there
        seen += [len(state["values"]["messages"]) for state in states]
        before = states[-1]["checkpoint"]
    assert seen == [5, 4, 3, 2, 1]


def test_items_of_the_store(alice, alice_api):
    StoredItem.objects.bulk_create(
        StoredItem(owner=alice, namespace="a", key=str(number), value={"text": LARGE}) for number in range(8)
    )
    first = whole(alice_api.post("/langgraph/store/items/search", {"namespace_prefix": ["a"], "limit": 100}))
    assert 0 < len(first.json()["items"]) < 8
    assert first.headers["X-Pagination-Next"] == str(len(first.json()["items"]))


def test_the_input_of_a_response(alice_api, conversations):
    run = conversations[0]
    for number in range(7):
        say(run.session, run, f"{number}{LARGE}")
    path = f"/v1/responses/resp_{run.pk.hex}/input_items"
    found, after = [], ""
    while True:
        page = whole(alice_api.get(f"{path}?limit=100&order=asc{after}")).json()
        found += [item["id"] for item in page["data"]]
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"
    assert found == [f"msg_{row.pk.hex}" for row in Message.objects.filter(run=run).order_by("seq")]
    newest = alice_api.get(f"{path}?limit=1").json()
    assert newest["data"][0]["id"] == found[-1] and newest["has_more"] is True
    for query in ("limit=0", "limit=101", "order=up", "after=msg_x", f"after=msg_{'0' * 32}"):
        assert alice_api.get(f"{path}?{query}").status_code in (400, 422), query


def test_tasks_of_an_agent(alice_api, conversations):
    found, token = [], ""
    while True:
        path = f"/a2a/helper/tasks?pageSize=100&historyLength=10&pageToken={token}"
        page = whole(alice_api.get(path, **V1)).json()
        found += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
        if not token:
            break
    assert sorted(found) == sorted(str(run.pk) for run in conversations)


def test_metadata_is_small_by_every_door(alice_api):
    large = {"text": "ä" * 40_000}
    answer = alice_api.post("/langgraph/threads", {"metadata": large})
    assert answer.status_code == 422, answer.content[:300]
    thread = alice_api.post("/langgraph/threads", {"metadata": {"a": "b"}}).json()["thread_id"]
    for part in ("a", "b"):
        answer = alice_api.patch(f"/langgraph/threads/{thread}", {"metadata": {part: "ä" * 20_000}}, **JSON)
    assert answer.status_code == 422, "two halves are as large as one whole"


def test_events_of_a_run_as_a_resource(alice, alice_api):
    run = Run.objects.create(principal=alice, status="running")
    RunEvent.objects.bulk_create(
        RunEvent(run=run, seq=number, type="tool.finished", at=clock.now(), data={"result": LARGE})
        for number in range(1, 9)
    )
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": f"muster://runs/{run.pk}/events"},
    }  # fmt: skip
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    answer = alice_api.post("/mcp", body, headers=headers)
    whole(answer)
    assert b"result" in answer.content and b"contents" in answer.content


@pytest.mark.parametrize("path", ["/sessions/{session}/", "/runs/{run}/", "/playground/?session={session}"])
def test_pages(alice, signed_in, conversations, path):
    run = conversations[0]
    for number in range(7):
        say(run.session, run, f"{number}{LARGE}")
    answer = signed_in(alice).get(path.format(session=run.session_id, run=run.pk))
    assert answer.status_code == 200 and len(answer.content) < 2 * MOST


def test_the_messages_of_an_ag_ui_thread(alice_api, conversations):
    run = conversations[0]
    for number in range(7):
        say(run.session, run, f"{number}{LARGE}")
    Session.objects.filter(pk=run.session_id).update(thread="t", metadata={"thread": "t"})
    answer = alice_api.get("/agui/helper/threads/t", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 200
    events = b"".join(read_all(answer))
    assert b"MESSAGES_SNAPSHOT" in events and len(events) < MOST
    assert f"6{LARGE[:100]}".encode() in events or json.dumps(f"6{LARGE[:100]}")[1:-1].encode() in events


def read_all(answer):
    if not answer.is_async:
        return list(answer.streaming_content)

    async def read():
        return [piece async for piece in answer.streaming_content]

    return async_to_sync(read)()
