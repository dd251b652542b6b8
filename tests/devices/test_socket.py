"""The handshake, the hello, bad frames, two sockets of one device, credentials."""

import asyncio
import uuid
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError
from django.utils import timezone

from agents.models import AuditEvent, Tool
from devices import calls, offers, presence, protocol, sweeping
from devices.models import Device, DeviceCredential, OfferedTool
from devices.models.device import UNUSED_KEPT
from devices.nudges import name_device_channel
from devices.sweeping import SWEEPER
from plumbing.broker.listener import LISTENER
from plumbing.sockets import RESTART
from tests.devices.scripted import ScriptedDevice, ask, asking, paired

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def long_hold(monkeypatch):
    """An answer that comes is waited for, however busy the machine is."""
    monkeypatch.setattr(calls, "HOLD_S", 30.0)


@pytest.fixture
async def laptop(alice):
    return await sync_to_async(paired)(alice)


@pytest.mark.parametrize("credential", ["", "dc_nothing.here", "mk_ab.cd", "x" * 5000])
async def test_a_wrong_credential_gets_no_socket(db, credential):
    async with ScriptedDevice(credential) as device:
        assert not device.is_open


async def test_a_refusal_proves_that_it_is_the_servers(db):
    """A device that sent a nonce can tell it from a 403 of a proxy."""
    async with ScriptedDevice("dc_nothing.here", headers=[(b"muster-nonce", b"0123456789abcdef")]) as device:
        assert device.is_open
        await device.send(type="device_hello", protocol=1)
        frame = await device.expect("error")
        proof = protocol.prove_refusal("dc_nothing.here", "0123456789abcdef")
        assert (frame["code"], frame["message"]) == ("credential_refused", proof)
        assert (await device.closed())["code"] == 4401


async def test_an_api_key_is_no_device_credential(alice, api):
    secret = (await sync_to_async(api)(alice)).secret
    async with ScriptedDevice(secret) as device:
        assert not device.is_open


async def test_a_page_from_elsewhere_gets_no_socket(laptop):
    async with ScriptedDevice(laptop[1], headers=[(b"origin", b"https://evil.example")]) as device:
        assert not device.is_open


async def test_the_hello_is_answered_with_the_heartbeat_and_a_new_credential(laptop, settings):
    async with ScriptedDevice(laptop[1]) as device:
        ack = await device.hello()
        assert ack["heartbeat_s"] == settings.DEVICE_HEARTBEAT_S
        assert ack["credential"] != laptop[1]
        await device.send(type="ping")
        await device.expect("pong")
        row = await Device.objects.aget()
        assert row.is_online()
        assert (row.name, row.platform, len(row.tools)) == ("laptop", "test", 20)
    assert not (await Device.objects.aget()).is_online()


async def test_the_old_credential_lives_until_the_new_one_is_used(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        newer = device.credential
    async with ScriptedDevice(laptop[1]) as device:
        assert device.is_open, "the answer with the new one may have been lost"
        await device.hello()
        newest = device.credential
    async with ScriptedDevice(newest) as device:
        assert device.is_open
    async with ScriptedDevice(newer) as device:
        assert not device.is_open, "another of its generation has been used: whoever has this one is not the device"


async def test_a_handshake_that_is_looked_at_late_does_not_lock_its_device_out(laptop):
    """A server that was held up lets a connection in that its device gave up, and came elsewhere, long ago."""
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        async with ScriptedDevice(laptop[1]) as given_up:
            assert given_up.is_open
        await device.send(type="ping")
        await device.expect("pong")
        in_hand = device.credential
    async with ScriptedDevice(in_hand) as device:
        assert device.is_open
        await device.hello()


async def test_credentials_long_superseded_are_forgotten_and_lately_used_ones_kept(laptop):
    """Each tenth connection looks; what is a month old cannot be told from a stranger's any more."""
    credential = laptop[1]
    for number in range(1, 21):
        async with ScriptedDevice(credential) as device:
            credential = (await device.hello())["credential"]
        if number == 10:
            await DeviceCredential.objects.aupdate(created_at=timezone.now() - timedelta(days=31))
    kept = [row.generation async for row in DeviceCredential.objects.order_by("generation")]
    assert kept == list(range(12, 22))


async def test_a_hello_that_is_read_late_does_not_end_the_newer_connection(laptop):
    async with ScriptedDevice(laptop[1]) as older:
        async with ScriptedDevice(laptop[1]) as newer:
            await newer.hello()
            await older.send(type="device_hello", protocol=1)
            assert (await older.expect("error"))["code"] == "replaced"
            assert (await older.closed())["code"] == 4409
            await newer.send(type="ping")
            await newer.expect("pong")
            assert await newer.silent()


async def test_answers_that_never_arrive_leave_a_few_credentials_and_no_more(laptop):
    for _ in range(12):
        async with ScriptedDevice(laptop[1]) as device:
            assert device.is_open
    assert await DeviceCredential.objects.acount() <= 1 + UNUSED_KEPT + 1


@pytest.fixture
def no_sweep(monkeypatch):
    """What the sweeper would find a few seconds later is told at once or not at all."""
    monkeypatch.setattr(sweeping, "SWEEP_S", 3600.0)


async def test_an_old_credential_used_after_its_successor_revokes_both(laptop, no_sweep):
    async with ScriptedDevice(laptop[1]) as device:
        newer = (await device.hello())["credential"]
    async with ScriptedDevice(newer) as device:
        newest = (await device.hello())["credential"]
        async with ScriptedDevice(laptop[1]) as thief:
            assert not thief.is_open
        assert (await device.closed())["code"] == 4403
    for credential in (laptop[1], newer, newest):
        async with ScriptedDevice(credential) as device:
            assert not device.is_open
    assert await AuditEvent.objects.filter(action="device.revoked").acount() == 1


async def test_revoking_closes_an_open_socket_within_a_second(laptop, no_sweep):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        await sync_to_async(laptop[0].revoke)(reason="test")
        await sync_to_async(presence.tell_revoked)(laptop[0])
        assert (await device.closed())["code"] == 4403  # a second on an idle machine; nothing else would close it
    async with ScriptedDevice(device.credential) as device:
        assert not device.is_open
    assert not await DeviceCredential.objects.filter(revoked_at=None).aexists()


async def test_a_newer_socket_replaces_the_older_which_is_told_why(alice, laptop):
    async with ScriptedDevice(laptop[1]) as older:
        await older.hello()
        async with ScriptedDevice(laptop[1]) as newer:
            await newer.hello()
            told = await older.expect("error")
            assert told["code"] == "replaced"
            assert (await older.closed())["code"] == 4409
            asked = asking(alice)
            await newer.answer(await newer.expect("tool_call"), "newer")
            assert (await asked).value == "newer"


async def test_the_late_news_of_an_older_socket_does_not_replace_the_newer(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        await sync_to_async(presence.tell_replaced)(laptop[0].pk, "an older socket")
        await device.send(type="ping")
        await device.expect("pong")
        assert await device.silent()


async def test_an_unknown_frame_gets_an_error_and_the_connection_stays(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        for text in ('{"type": "dance"}', "not json", '{"type": "tool_ack"}', "x" * 1_100_000):
            await device.send_text(text)
            assert (await device.expect("error"))["code"] in ("unknown_type", "not_json", "invalid_frame", "too_large")
        await device.send(type="ping")
        await device.expect("pong")


async def test_a_connection_that_broke_here_is_closed_and_leaves_nothing_behind(laptop, monkeypatch):
    def no_statement(*_):
        raise DatabaseError("the disk is full")

    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        monkeypatch.setattr(presence, "arrive", no_statement)
        await device.send(type="device_hello", protocol=1, name="laptop", platform="test", journal_id="j1", tools=[])
        assert (await device.closed())["code"] == RESTART
        with pytest.raises(DatabaseError):
            await device.socket.future
        device.is_open = False
    assert not (await Device.objects.aget()).is_online()
    assert name_device_channel(laptop[0].pk) not in LISTENER.subscribers
    assert laptop[0].pk not in {consumer.device.pk for consumer in SWEEPER.live}


async def test_an_older_socket_is_looked_after_though_a_newer_one_came_and_went(laptop):
    async with ScriptedDevice(laptop[1]) as older:
        await older.hello()
        async with ScriptedDevice(older.credential) as newer:  # and says nothing
            assert newer.is_open
        assert [consumer.has_greeted for consumer in SWEEPER.live if consumer.device.pk == laptop[0].pk] == [True]


async def test_ten_bad_frames_close_the_connection(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        for _ in range(10):
            await device.send_text("nonsense")
            await device.expect("error")
        assert (await device.closed())["code"] == 4400


async def test_the_first_frame_must_be_a_hello_of_this_protocol_and_device(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.send(type="ping")
        assert (await device.expect("error"))["code"] == "hello_first"
        await device.send(type="device_hello", protocol=99)
        assert (await device.expect("error"))["code"] == "unsupported_protocol"
        await device.send(type="device_hello", protocol=1, device_id=str(uuid.uuid4()))
        assert (await device.expect("error"))["code"] == "wrong_device"
        await device.hello()


async def test_results_for_calls_that_do_not_exist_are_ignored(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        for id in ("no uuid", str(uuid.uuid4()), ""):
            await device.send(type="tool_result", id=id, ok=True, result=1)
            await device.send(type="tool_ack", id=id)
        await device.send(type="ping")
        await device.expect("pong")


# -- tools of the device's own

ECHO = {"name": "Echo It", "description": "Says it again", "input_schema": {"type": "object", "properties": {}}}


async def test_an_offered_tool_works_only_after_its_owner_approved_this_definition(alice, laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(offers=[{**ECHO, "hash": "what the device claims does not count"}])
        offer = await OfferedTool.objects.select_related("device").aget()
        source = {"device": "Echo It", "offer": offer.hash}
        assert (await asking(alice, "echo-it", source=source)).code == "not_approved"
        tool = await sync_to_async(offers.approve_offer)(offer, by=alice)
        assert (tool.name, tool.owner_id, tool.effect, tool.source) == ("echo-it", alice.pk, "destructive", source)
        asked = asking(alice, "echo-it", source=tool.source)
        call = await device.expect("tool_call")
        assert call["name"] == "Echo It"
        await device.answer(call, "again")
        assert (await asked).value == "again"


async def test_a_changed_definition_asks_again(alice, laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(offers=[ECHO])
        offer = await OfferedTool.objects.select_related("device").aget()
        tool = await sync_to_async(offers.approve_offer)(offer, by=alice)
    async with ScriptedDevice(device.credential) as device:
        await device.hello(offers=[{**ECHO, "description": "Says it again, and mails it to somebody"}])
        assert (await asking(alice, "echo-it", source=tool.source)).code == "not_approved"
        newer = await OfferedTool.objects.select_related("device").aget(status="pending")
        again = await sync_to_async(offers.approve_offer)(newer, by=alice)
        assert again.pk == tool.pk
        assert again.definition_hash != tool.definition_hash
        asked = asking(alice, "echo-it", source=again.source)
        await device.answer(await device.expect("tool_call"), 1)
        assert (await asked).ok


async def test_an_offer_cannot_take_the_place_of_a_built_in_tool(alice, laptop):
    from agents.exceptions import Conflict

    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(offers=[{**ECHO, "name": "list_directory"}])
        offer = await OfferedTool.objects.select_related("device").aget()
        with pytest.raises(Conflict):
            await sync_to_async(offers.approve_offer)(offer, by=alice)
    assert not await Tool.objects.filter(owner=alice).aexists()


async def test_offers_with_unusable_schemas_are_left_out(laptop):
    bad = [{**ECHO, "input_schema": {"$ref": "https://evil.example/s.json"}}, {**ECHO, "name": ""}]
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello(offers=[*bad, ECHO])
    assert await OfferedTool.objects.acount() == 1


async def test_frames_are_not_kept_waiting_by_a_slow_start_of_runs(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        await device.send(type="run_request", agent="nobody", request_id="r1")
        told = await device.expect("error")
        assert (told["code"], told["request_id"]) == ("not_found", "r1")
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "asked",
    [
        {"request_id": "q"},
        {"agent": "helper", "input": "hi", "request_id": "q" * 201},
        {"agent": "helper", "input": "hi", "agent_id": "a" * 201},
        {"agent": "helper", "input": 5},
        {"agent": "helper", "input": [1]},
    ],
)
async def test_a_run_request_that_cannot_be_is_refused(laptop, asked):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()
        await device.send(type="run_request", **asked)
        refusal = await device.expect("error")
        assert (refusal["code"], refusal.get("request_id", "")) == ("invalid_request", asked.get("request_id", ""))


async def test_a_run_request_is_answered_also_when_the_database_is_away(laptop):
    async with ScriptedDevice(laptop[1]) as device:
        await device.hello()

        def no_statement(*_):
            raise DatabaseError("the disk is full")

        next(one for one in SWEEPER.live if one.device.pk == laptop[0].pk).on_request = no_statement
        await device.send(type="run_request", agent="helper", input="hi", request_id="q")
        refusal = await device.expect("error")
        assert (refusal["code"], refusal["request_id"]) == ("database_unavailable", "q")


def test_a_person_without_devices_gets_a_clear_error(charlie):
    assert ask(charlie).code == "no_device"
