"""The statements written by hand write what the models would."""

import uuid
from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from devices import outbox, statements
from devices.models import DeviceCall
from tests.devices.scripted import paired

pytestmark = pytest.mark.django_db


def new_call(alice, device=None, **more):
    now = datetime(2026, 6, 1, 8, 0, 0, 123456, tzinfo=UTC)
    fields = {
        "id": uuid.uuid4(), "owner_id": alice.pk, "device_id": device.pk if device else None, "run_id": uuid.uuid4(),
        "root_id": None, "tool": "list_tasks", "offer": "", "arguments": {"text": "Zwölf “Boxkämpfer” 🥊"},
        "run_context": {}, "state": "sent", "timeout_s": 5.5, "deadline": now, "created_at": now, "sent_at": None,
    }  # fmt: skip
    return statements.NewCall(**{**fields, **more})


def values(row) -> dict:
    return {field.attname: getattr(row, field.attname) for field in DeviceCall._meta.concrete_fields}


def test_a_row_is_the_same_whoever_writes_it(alice):
    device, _ = paired(alice)
    call = new_call(alice, device)
    statements.insert_device_call(call)
    written = values(DeviceCall.objects.get(pk=call.id))
    DeviceCall.objects.all().delete()
    DeviceCall.objects.create(**{name: getattr(call, name) for name in statements.NewCall.__slots__})
    DeviceCall.objects.update(created_at=call.created_at)
    assert values(DeviceCall.objects.get(pk=call.id)) == written


def test_a_result_reads_back_as_it_came(alice):
    call = new_call(alice)
    statements.insert_device_call(call)
    row = statements.lock_open_calls([call.id])[call.id]
    assert (row.id, row.run_id, row.deadline, row.finished_at) == (call.id, call.run_id, call.deadline, None)
    row.state, row.result, row.late, row.finished_at = "done", {"a": [1, None, "ü"]}, True, timezone.now()
    statements.write_settled_calls([row])
    read = DeviceCall.objects.get(pk=call.id)
    assert (read.state, read.result, read.error, read.late) == ("done", row.result, None, True)
    assert read.finished_at == row.finished_at


def test_a_persons_devices_are_found_and_whether_the_call_is_known(alice, charlie):
    device, _ = paired(alice)
    now = timezone.now()
    type(device).objects.update(tools={"list_tasks": "h"}, socket="s", last_seen=now, connected_at=now)
    call = new_call(alice)
    [place], is_known = statements.places(alice.pk, call.id)
    assert (place.pk, place.tools, place.is_online(now), is_known) == (device.pk, {"list_tasks": "h"}, True, False)
    statements.insert_device_call(call)
    assert statements.places(alice.pk, call.id)[1]
    assert statements.places(charlie.pk, call.id) == ([], False)
    device.revoke(reason="test")
    assert statements.places(alice.pk, call.id) == ([], False)


def test_a_call_is_posted_once(alice):
    call = new_call(alice)
    assert outbox.post_device_call(call, "{}")
    assert not outbox.post_device_call(call, "{}")
    assert DeviceCall.objects.count() == 1
    with pytest.raises(IntegrityError):
        outbox.post_device_call(new_call(alice, owner_id=None), "{}")


def test_a_call_within_a_transaction_goes_with_it(alice):
    call = new_call(alice)
    with transaction.atomic():
        assert outbox.post_device_call(call, "{}")
        transaction.set_rollback(True)
    assert not DeviceCall.objects.exists()
