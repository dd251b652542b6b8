"""Signed calls, ends of runs and returning devices start runs; events go out signed, retried, never in private."""

import json
import socket
import threading
import time
from concurrent import futures
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from agents.exceptions import IdempotencyMismatch, NotFound
from runs.events import record as events
from runs.models import Run, Trigger, TriggerFiring, Webhook, WebhookDelivery
from runs.rules import signing
from runs.schedules import triggers
from runs.worker import webhooks
from tests.fakes import LoopbackServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def hook(alice, make_agent, worker):
    return Trigger.objects.create(
        owner=alice,
        name="orders",
        kind="webhook",
        agent=make_agent("clerk"),
        text="An order came",
        input={"order": "event.id"},
    )


def call(worker, hook, body=b'{"id": 7}', *, message_id="msg_1", age=0, secret=None, headers=None):
    signed = signing.sign(secret or hook.secret, message_id, int(time.time()) - age, body)
    with worker.capture(execute=True):
        return triggers.receive(hook.hook, headers if headers is not None else signed, body)


def test_a_signed_call_starts_one_run_however_often_it_comes(hook, worker, alice):
    firing = call(worker, hook)
    assert firing.outcome == "started"
    run = Run.objects.get()
    assert (run.trigger, run.principal, run.input) == ("event", alice, {"order": 7})
    assert call(worker, hook).pk == firing.pk
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"secret": "whsec_d3Jvbmc="}, "bad_signature"),
        ({"age": 301}, "stale"),
        ({"age": -90}, "stale"),
        ({"headers": {}}, "unsigned"),
        ({"headers": {"webhook-id": "x", "webhook-timestamp": "soon", "webhook-signature": "v1,x"}}, "unsigned"),
        ({"headers": {"webhook-id": "x" * 200, "webhook-timestamp": "1", "webhook-signature": "v1,x"}}, "unsigned"),
    ],
)
def test_an_unsigned_stale_or_forged_call_starts_nothing(hook, worker, change, code):
    with pytest.raises(triggers.BadHook) as caught:
        call(worker, hook, **change)
    assert caught.value.code == code
    assert (Run.objects.count(), TriggerFiring.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    "body", [b"{", b'{"id": "a\\u0000b"}', b'{"id": NaN}', b'{"id": 1e999}', b"[" * 100_000, b"\xff"]
)
def test_a_body_that_no_row_could_hold_is_malformed_and_starts_nothing(hook, client, body):
    signed = signing.sign(hook.secret, "msg_1", int(time.time()), body)
    answer = client.generic("POST", f"/api/v1/hooks/{hook.hook}", body, "application/json", headers=signed)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed")
    assert TriggerFiring.objects.count() == 0


def test_the_same_id_with_another_body_is_a_conflict(hook, worker):
    call(worker, hook)
    with pytest.raises(IdempotencyMismatch):
        call(worker, hook, b'{"id": 8}')


def test_a_disabled_hook_is_not_there(hook, worker):
    Trigger.objects.update(enabled=False)
    with pytest.raises(NotFound):
        call(worker, hook)


def test_a_mapping_to_nothing_is_on_the_firing(hook, worker):
    firing = call(worker, hook, b'{"number": 7}')
    assert firing.outcome == "refused" and "has no value" in firing.reason
    assert Run.objects.count() == 0


def test_the_end_of_a_run_starts_another_once(hook, worker, alice, make_agent):
    follower = make_agent("follower")
    Trigger.objects.create(
        owner=alice,
        name="after",
        kind="run_ended",
        agent=follower,
        on_agent=hook.agent,
        on_status=["succeeded"],
        text="Next",
    )
    call(worker, hook)
    worker.work()
    with worker.capture(execute=True):
        assert triggers.tick_triggers() == 1
        assert triggers.tick_triggers() == 0
    worker.work()
    run = Run.objects.get(agent=follower)
    assert run.status == "succeeded" and run.input["run"] == str(Run.objects.get(agent=hook.agent).pk)


def test_runs_that_set_each_other_off_are_stopped(worker, alice, make_agent):
    agent = make_agent("echo")
    Trigger.objects.create(owner=alice, name="again", kind="run_ended", agent=agent, on_agent=agent, text="Again")
    worker.send_message(alice, "begin", agent)
    for _ in range(10):
        with worker.capture(execute=True):
            triggers.tick_triggers()
        worker.work()
    assert Run.objects.count() == 1 + triggers.MAX_LINE + 1
    assert "triggered each other" in TriggerFiring.objects.first().reason


def test_a_device_that_comes_online_fires(worker, alice, make_agent):
    Trigger.objects.create(owner=alice, name="hello", kind="device_online", agent=make_agent("greeter"), text="Hello")
    with worker.capture(execute=True):
        triggers.device_came("0198c0de-0000-7000-8000-000000000001", alice.pk)
        triggers.tick_triggers()
    assert Run.objects.get().input["device"] == "0198c0de-0000-7000-8000-000000000001"


def test_a_trigger_rests_for_its_cooldown(hook, worker):
    Trigger.objects.update(cooldown_s=60)
    call(worker, hook)
    assert "less than 60 seconds" in call(worker, hook, message_id="msg_2").reason


@given(body=st.binary(max_size=200), secret=st.text(min_size=1, max_size=40))
def test_what_was_signed_verifies_and_one_changed_byte_does_not(body, secret):
    headers = signing.sign(secret, "msg_1", 1000, body)
    assert signing.verify(secret, headers, body, now=1000, window_s=300) == "msg_1"
    with pytest.raises(signing.BadSignature):
        signing.verify(secret, headers, body + b"!", now=1000, window_s=300)


def test_the_signature_is_that_of_the_standard_webhooks_scheme():
    """The example of the specification (standardwebhooks.com)."""
    headers = signing.sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


# -- outbound


class Sink:
    def __init__(self):
        self.got, self.answers = [], []


@contextmanager
def listening():
    sink = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sink.got.append((dict(self.headers), body))
            self.send_response(sink.answers.pop(0) if sink.answers else 204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = LoopbackServer(Handler)
    sink.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def sink(settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    with listening() as made:
        yield made


def deliver_due(now=None):
    """What the ticker does."""
    claimed = webhooks.claim_due_deliveries(now or timezone.now())
    for pk in claimed:
        webhooks.deliver(pk)
    return len(claimed)


def test_the_end_of_a_run_is_told_signed(sink, worker, alice, make_agent):
    webhook = Webhook.objects.create(owner=alice, url=sink.url)
    run = worker.send_message(alice, "hello", make_agent("clerk"))
    assert deliver_due() == 1
    [(headers, body)] = sink.got
    headers = {name.lower(): value for name, value in headers.items()}
    assert signing.verify(webhook.secret, headers, body, now=time.time(), window_s=300).startswith("msg_")
    told = json.loads(body)
    assert (told["type"], told["run"], told["data"]["status"]) == ("run.finished", str(run.pk), "succeeded")
    assert WebhookDelivery.objects.get().state == "delivered"
    assert deliver_due() == 0


def test_a_delivery_is_tried_with_growing_waits_and_then_is_dead(sink, worker, alice, make_agent):
    sink.answers = [500] * 20
    Webhook.objects.create(owner=alice, url=sink.url)
    worker.send_message(alice, "hello", make_agent("clerk"))
    now = timezone.now()
    waits = []
    for _ in range(12):
        before = timezone.now()
        if not deliver_due(now):
            break
        row = WebhookDelivery.objects.get()
        waits.append((row.next_attempt_at - timezone.now(), row.next_attempt_at - before))
        now = row.next_attempt_at + timedelta(seconds=1)
    row = WebhookDelivery.objects.get()
    assert (row.state, row.attempts, row.last_status) == ("dead", 8, 500)
    for (shortest, longest), seconds in zip(waits, [5, 30, 120, 600], strict=False):
        assert shortest <= timedelta(seconds=seconds) <= longest
    webhooks.send_again(row)
    sink.answers = []
    assert deliver_due() == 1
    assert WebhookDelivery.objects.get().state == "delivered"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x", "http://169.254.169.254/latest", "http://[::1]/x", "http://10.0.0.1/"]
)
def test_a_private_address_is_refused_when_it_is_sent(settings, worker, alice, make_agent, url):
    settings.PRIVATE_HOSTS_ALLOWED = []
    Webhook.objects.create(owner=alice, url=url)
    worker.send_message(alice, "hello", make_agent("clerk"))
    deliver_due()
    row = WebhookDelivery.objects.get()
    assert row.state == "dead" and row.last_error.startswith("refused")


def test_a_stranger_is_told_nothing(sink, worker, alice, charlie, make_agent):
    Webhook.objects.create(owner=charlie, url=sink.url)
    worker.send_message(alice, "hello", make_agent("clerk"))
    assert WebhookDelivery.objects.count() == 0


def test_the_first_webhook_hears_of_the_very_next_event(alice, worker, make_agent):
    agent = make_agent("clerk")
    worker.send_message(alice, "nobody listens", agent)
    Webhook.objects.create(owner=alice, url="https://hooks.example/")
    run = worker.send_message(alice, "hello", agent)
    [delivery] = WebhookDelivery.objects.all()
    assert delivery.body["run"] == str(run.pk)


def test_where_nobody_listens_no_statement_is_spent_on_it(alice, make_agent, django_assert_num_queries):
    run = Run.objects.create(principal=alice, agent=make_agent("clerk"), status="running", attempt=1)
    with transaction.atomic(), django_assert_num_queries(2):  # numbers and rows of the events
        events.record_many(run, [("run.started", {}), ("run.finished", {})])


@contextmanager
def hanging():
    """A receiver that takes connections and never answers; `until` lets it go."""
    server = socket.create_server(("127.0.0.1", 0), backlog=200)
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"
    finally:
        server.close()


def told(person, url, run="r"):
    webhook = Webhook.objects.create(owner=person, url=url)
    body = {"type": "run.finished", "run": run}
    return WebhookDelivery.objects.create(
        webhook=webhook, type="run.finished", body=body, next_attempt_at=timezone.now()
    )


@pytest.mark.django_db(transaction=True)
def test_one_persons_hanging_receivers_stop_nobody_else(sink, alice, bob, monkeypatch):
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 120.0)  # hers hang until the receiver is gone
    with hanging() as url:
        for number in range(50):
            told(alice, url, str(number))
        assert webhooks.send_due() == webhooks.EACH_RECEIVER
        mine = told(bob, sink.url)
        assert webhooks.send_due() == 1
        [bobs] = [future for future, (person, _) in webhooks.QUEUE.under_way.items() if person == bob.pk]
        bobs.result(timeout=60)  # before any of Alice's ends
        mine.refresh_from_db()
        assert mine.state == "delivered" and len(sink.got) == 1
    futures.wait(list(webhooks.QUEUE.under_way), timeout=60)
    assert webhooks.send_due() == 0, "her receiver is left alone for a while"
    assert set(WebhookDelivery.objects.filter(webhook__owner=alice).values_list("state", flat=True)) == {"pending"}
    assert not WebhookDelivery.objects.filter(webhook__owner=alice, next_attempt_at__lte=timezone.now()).exists()


def test_one_person_with_many_receivers_has_a_share_of_the_threads(alice, bob):
    for number in range(90):
        told(alice, f"http://receiver{number}.example/")
    last = told(bob, "http://receiver.example/")
    claimed = webhooks.claim_due_deliveries(timezone.now())
    assert len(claimed) == webhooks.EACH_OWNER + 1 and str(last.pk) in claimed


def test_events_of_a_run_reach_a_receiver_in_their_order(sink, alice):
    webhook = Webhook.objects.create(owner=alice, url=sink.url)
    run = uuid4()
    for number in range(3):
        body = {"type": "run.waiting", "run": str(run), "number": number}
        WebhookDelivery.objects.create(webhook=webhook, run=run, type="x", body=body, next_attempt_at=timezone.now())
    sink.answers = [500]
    assert deliver_due() == 1
    assert deliver_due() == 0, "the first is tried again before the others leave"
    [first] = webhooks.claim_due_deliveries(timezone.now() + timedelta(seconds=10))
    webhooks.deliver_in_order(first)
    assert [json.loads(body)["number"] for _, body in sink.got] == [0, 0, 1, 2]
