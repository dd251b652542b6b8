"""Folders of devices in a collection: their owner's searches reach them, and nobody else's."""

import asyncio

import pytest
from django.db import connections

from agents.models import Tool
from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolSpec
from devices.models import DeviceCall
from knowledge.collections import catalog, device_folders
from knowledge.collections.device_folders import Asker
from knowledge.collections.folders import search_all
from knowledge.models import CollectionFolder
from knowledge.tools import KnowledgeToolset
from tests.devices.scripted import ScriptedDevice, paired
from tests.knowledge.documents import collection_with

pytestmark = pytest.mark.django_db(transaction=True)
FOUND = {
    "results": [{"path": "contract.txt", "line": 7, "page": None, "offset": 120, "text": "Goods go back in 14 days."}],
    "searched": 1,
    "truncated": False,
}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """An answer that comes is waited for, however busy the machine is."""
    monkeypatch.setattr(device_folders, "DEVICE_S", 20.0)


@pytest.fixture
def handbook(alice, team):
    row = collection_with(alice, {"returns.md": "Goods may be returned within 30 days."}, team=team)
    catalog.save_collection_tools(row)
    return row


@pytest.fixture
def laptop(alice):
    device, credential = paired(alice)
    device.folders = ["docs"]
    device.save()
    return device, credential


@pytest.fixture
def folder(alice, handbook, laptop):
    return device_folders.add_device_folder(handbook, alice, laptop[0].pk, "docs")[0]


def search(handbook, person, **more):
    try:
        return search_all(handbook, "returned goods", Asker(person.pk, **more), limit=5)
    finally:
        connections.close_all()


def searching(handbook, person, **more):
    return asyncio.create_task(asyncio.to_thread(search, handbook, person, **more))


def use(verb, person, handbook, version=None, **arguments):
    row = Tool.objects.get(name=f"{verb}-handbook")
    spec = ToolSpec(
        id=row.pk, name=row.name, kind=row.kind, description=row.description, input_schema=row.input_schema,
        output_schema=None, effect=row.effect, source=row.source, definition_hash="", pinned_version=version,
    )  # fmt: skip
    try:
        return KnowledgeToolset().call(spec, ToolCall("1", row.name, arguments), ToolContext(user_id=person.pk))
    finally:
        connections.close_all()


async def test_the_owners_search_has_excerpts_of_the_device_and_nothing_stays_on_the_server(
    alice, handbook, laptop, folder
):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(folders=["docs"])
        asked = searching(handbook, alice)
        call = await device.expect("tool_call")
        assert (call["name"], call["args"]) == ("search_files", {"query": "returned goods", "path": ".", "limit": 5})
        await device.answer(call, FOUND)
        answer = await asked
    piece, excerpt = answer.hits
    assert piece.chunk.document.name == "returns.md" and answer.absent == []
    assert (excerpt.title, excerpt.text) == ("docs/contract.txt on laptop, line 7", "Goods go back in 14 days.")
    assert not await DeviceCall.objects.aexists()


async def test_an_agent_cites_the_file_and_reads_on_at_the_place(alice, handbook, laptop, folder):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(folders=["docs", "photos"])
        asked = asyncio.create_task(asyncio.to_thread(use, "search", alice, handbook, query="returned goods"))
        call = await device.expect("tool_call")
        assert call["args"]["path"] == "docs"
        named = {**FOUND["results"][0], "path": "docs/contract.txt"}
        await device.answer(call, {**FOUND, "results": [named], "truncated": True})
        result = await asked
        _, found = result.value["results"]
        assert (found["title"], found["device"], found["url"]) == (
            "docs/contract.txt on laptop, line 7",
            "laptop",
            None,
        )
        assert result.untrusted and "not enough time" in result.value["not_searched"][0]
        asked = asyncio.create_task(asyncio.to_thread(use, "fetch", alice, handbook, id=found["id"]))
        call = await device.expect("tool_call")
        assert (call["name"], call["args"]["path"], call["args"]["offset"]) == (
            "read_file_content",
            "docs/contract.txt",
            0,
        )
        await device.answer(call, {"text": "The contract.", "offset": 0, "next_offset": 12_000})
        read = await asked
    assert (read.value["text"], read.untrusted) == ("The contract.", True)
    assert read.value["metadata"]["next"].endswith("13500:docs/contract.txt")
    assert not await DeviceCall.objects.aexists()


async def test_only_the_owner_of_the_device_reaches_it(alice, bob, charlie, handbook, laptop, folder):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(folders=["docs"])
        id = f"device:{folder.pk}:0:docs/contract.txt"
        for person in (bob, charlie):
            answer = await searching(handbook, person)
            assert (len(answer.hits), answer.absent) == (1, [])
            with pytest.raises(RetryTool):
                await asyncio.to_thread(use, "fetch", person, handbook, id=id)
        assert await device.silent()


async def test_a_visitor_of_an_embed_reaches_no_device(alice, handbook, laptop, folder):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(folders=["docs"])
        answer = await searching(handbook, alice, is_for_visitor=True)
        assert (len(answer.hits), answer.absent) == (1, [])
        assert await device.silent()


async def test_an_absent_or_slow_device_is_named_and_the_rest_is_answered(alice, handbook, laptop, folder, monkeypatch):
    monkeypatch.setattr(device_folders, "DEVICE_S", 0.3)
    answer = await searching(handbook, alice)
    assert len(answer.hits) == 1 and [(one.device, one.path) for one in answer.absent] == [("laptop", "docs")]
    assert "not connected" in answer.absent[0].reason
    with pytest.raises(ToolFailed, match="not connected"):
        await asyncio.to_thread(use, "fetch", alice, handbook, id=f"device:{folder.pk}:0:docs/a.txt")
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(folders=["docs"])
        asked = searching(handbook, alice)
        call = await device.expect("tool_call")
        answer = await asked
        assert len(answer.hits) == 1 and "in time" in answer.absent[0].reason
        assert (await device.expect("tool_cancel"))["id"] == call["id"]
        await device.answer(call, FOUND)  # too late: nobody keeps it
        await device.send(type="ping")
        await device.expect("pong")
    assert not await DeviceCall.objects.aexists()


async def test_a_refusal_of_the_device_and_a_client_that_cannot_search_are_named(alice, handbook, laptop, folder):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(folders=["docs"])
        asked = searching(handbook, alice)
        call = await device.expect("tool_call")
        error = {"code": "denied", "message": "its owner does not allow this"}
        await device.send(type="tool_result", id=call["id"], ok=False, error=error)
        assert (await asked).absent[0].reason == "its owner does not allow this"
    for hello, reason in (({"tools": []}, "update it"), ({"folders": ["photos"]}, "no longer shares")):
        async with ScriptedDevice(laptop[1]) as device:
            await device.hello(**{"folders": ["docs"], **hello})
            assert reason in (await searching(handbook, alice)).absent[0].reason


async def test_what_a_device_answers_is_not_believed(alice, handbook, laptop, folder):
    for result in (
        "text",
        {"results": 5},
        {"results": [5, {"path": 1, "text": "x"}, {"path": "a", "text": "b" * 9000, "line": "x"}]},
    ):
        async with ScriptedDevice(laptop[1]) as device:
            await device.hello(folders=["docs"])
            asked = searching(handbook, alice)
            await device.answer(await device.expect("tool_call"), result)
            answer = await asked
            assert all(len(one.text) <= device_folders.TEXT and one.line is None for one in answer.hits[1:])


def test_an_earlier_version_asks_no_device_and_no_place_outside_the_folder_is_read(alice, handbook, laptop, folder):
    assert search_all(handbook, "goods", Asker(alice.pk), limit=5, version=1).absent == []
    for path in ("../x", "photos/a.txt", "docs/../x", "docs", ""):
        with pytest.raises(RetryTool):
            use("fetch", alice, handbook, id=f"device:{folder.pk}:0:{path}")
    with pytest.raises(RetryTool):
        use("fetch", alice, handbook, version=1, id=f"device:{folder.pk}:0:docs/a.txt")


URL = "/api/v1/collections/handbook/folders/"


def test_a_person_adds_and_removes_a_folder(alice_api, handbook, laptop):
    body = {"device": str(laptop[0].pk), "path": "docs/contracts/"}
    made = alice_api.post(URL, body)
    assert made.status_code == 201, made.json()
    assert (made.json()["path"], made.json()["device_name"]) == ("docs/contracts", "laptop")
    assert alice_api.post(URL, body).status_code == 200
    found = alice_api.post("/api/v1/collections/handbook/search", {"query": "goods"}).json()
    assert len(found["results"]) == 1
    [absent] = found["not_searched"]
    assert (absent["device"], absent["path"]) == ("laptop", "docs/contracts")
    assert [row["id"] for row in alice_api.get(URL).json()["results"]] == [made.json()["id"]]
    assert alice_api.delete(f"{URL}{made.json()['id']}").status_code == 204
    assert alice_api.get(URL).json()["results"] == []


def test_only_shared_folders_of_own_devices_can_be_added(
    alice_api, bob_api, charlie_api, handbook, laptop, monkeypatch
):
    body = {"device": str(laptop[0].pk), "path": "docs"}
    for path in ("photos", "docs/../photos", "/", "."):
        assert alice_api.post(URL, {**body, "path": path}).json()["error"]["code"] == "not_shared"
    refused = bob_api.post(URL, body)
    assert refused.status_code in (403, 422) and charlie_api.post(URL, body).status_code == 404
    made = alice_api.post(URL, body).json()
    assert bob_api.get(URL).json()["results"] == [], "a team-mate sees neither the folder nor the device"
    assert bob_api.delete(f"{URL}{made['id']}").status_code == 404
    assert charlie_api.get(URL).status_code == 404 and charlie_api.delete(f"{URL}{made['id']}").status_code == 404
    monkeypatch.setattr(device_folders, "MAX_FOLDERS", 1)
    assert alice_api.post(URL, {**body, "path": "docs/a"}).json()["error"]["code"] == "too_many_folders"
    assert CollectionFolder.objects.count() == 1
