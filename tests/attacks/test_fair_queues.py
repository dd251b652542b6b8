"""One person floods a queue of the site with work that hangs, and another person's is done at once, in every queue."""

import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from connectors.models import Connection, RemoteTask
from knowledge.indexing import accounts, work
from knowledge.models import Collection, CollectionAccount, Document
from plumbing import fair
from runs.models import InputRequest, Notice, Run, ToolCallRecord, Webhook, WebhookDelivery
from runs.worker import document_vectors, remote_tasks, webhooks
from runs.worker.notices import sending

MANY = 50


class Flood:
    """Whose work is done; Alice's hangs until the test ends."""

    def __init__(self):
        self.end = threading.Event()
        self.begun, self.done = [], []

    def do(self, person):
        self.begun.append(person)
        if person == "alice":
            self.end.wait(120)
        else:
            self.done.append(person)


@pytest.fixture
def flood():
    flood = Flood()
    yield flood
    flood.end.set()


def webhooks_queue(flood, monkeypatch):
    def add(person, number):
        webhook = Webhook.objects.create(owner=person, url=f"http://receiver{number}.example/")
        WebhookDelivery.objects.create(webhook=webhook, type="x", body={}, next_attempt_at=timezone.now())

    def deliver(pk):
        flood.do(WebhookDelivery.objects.get(pk=pk).webhook.owner.username)

    monkeypatch.setattr(webhooks, "deliver_in_order", deliver)
    return add, webhooks.send_due, webhooks.QUEUE


def pushes_queue(flood, monkeypatch):
    """A2A's push notifications are webhooks of one run."""
    add_webhook, tick, queue = webhooks_queue(flood, monkeypatch)

    def add(person, number):
        run = Run.objects.create(principal=person, status="succeeded")
        webhook = Webhook.objects.create(owner=person, run=run, label=str(number), url="https://agent.example/")
        WebhookDelivery.objects.create(
            webhook=webhook, run=run.pk, type="x", body={}, next_attempt_at=timezone.now()
        )  # fmt: skip

    return add, tick, queue


def notices_queue(flood, monkeypatch):
    def add(person, number):
        run = Run.objects.create(principal=person, status="waiting")
        call = ToolCallRecord.objects.create(run=run, name="ask", arguments={})
        later = timezone.now() + timedelta(days=1)
        question = InputRequest.objects.create(run=run, call=call, kind="text", name="ask", expires_at=later)
        Notice.objects.create(question=question, person=person, channel="email", next_attempt_at=timezone.now())

    monkeypatch.setattr(sending, "deliver", lambda pk: flood.do(Notice.objects.get(pk=pk).person.username))
    monkeypatch.setattr(sending.planning, "plan_notices", lambda now: None)
    return add, sending.tick_notices, sending.QUEUE


def vectors_queue(flood, monkeypatch):
    def add(person, number):
        now = timezone.now() - timedelta(seconds=60)
        Collection.objects.create(owner=person, name=f"c{number}", embeddings="e:m", embed_after=now)

    monkeypatch.setattr(document_vectors, "make", lambda collection: flood.do(collection.owner.username))
    return add, document_vectors.start_due, document_vectors.QUEUE


def accounts_queue(flood, monkeypatch):
    def add(person, number):
        collection = Collection.objects.create(owner=person, name=f"c{number}")
        read_after = timezone.now() - timedelta(seconds=60)
        CollectionAccount.objects.create(
            collection=collection, owner=person, connection_id=number + 1, read_after=read_after
        )  # fmt: skip

    monkeypatch.setattr(accounts, "read_claimed", lambda account: flood.do(account.owner.username))
    return add, accounts.start_due, accounts.QUEUE


def remote_tasks_queue(flood, monkeypatch):
    def add(person, number):
        run = Run.objects.create(principal=person, status="cancelled", finished_at=timezone.now())
        call = ToolCallRecord.objects.create(run=run, name="ask", arguments={})
        connection, _ = Connection.objects.get_or_create(owner=person, name="agent", provider="a2a")
        RemoteTask.objects.create(pk=call.pk, connection=connection, task="t")

    def cancel(call):
        flood.do(call.run.principal.username)
        RemoteTask.objects.filter(pk=call.pk).update(is_open=False)

    monkeypatch.setattr(remote_tasks, "cancel", cancel)
    return add, remote_tasks.start_due, remote_tasks.QUEUE


QUEUES = {
    "webhooks": webhooks_queue,
    "A2A pushes": pushes_queue,
    "notices": notices_queue,
    "vectors": vectors_queue,
    "accounts": accounts_queue,
    "remote tasks": remote_tasks_queue,
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", QUEUES)
def test_hanging_work_of_one_person_delays_nobody_else(alice, bob, flood, monkeypatch, name):
    add, tick, queue = QUEUES[name](flood, monkeypatch)
    for number in range(MANY):
        add(alice, number)
    tick()
    add(bob, 0)
    until = time.monotonic() + 60
    while not flood.done and time.monotonic() < until:
        tick()
        time.sleep(0.02)
    assert flood.done == ["bob"]
    assert 0 < flood.begun.count("alice") <= queue.each
    flood.end.set()
    for future in list(queue.under_way):
        future.result(timeout=60)


@pytest.mark.django_db
def test_slow_documents_of_one_person_take_turns_with_those_of_others(alice, bob, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    read = []

    def read_document(document):
        owner = document.collection.owner
        seconds = 6.0 if owner == alice else 0.1
        clock.now += seconds
        work.TURNS.add(owner.pk, seconds)
        read.append((owner.username, clock.now))
        document.status = Document.Status.FAILED
        document.save(update_fields=["status"])

    monkeypatch.setattr(work, "TURNS", fair.Turns(work.TURN_S))
    monkeypatch.setattr(work, "seconds", lambda: clock.now)
    monkeypatch.setattr(work, "read_document", read_document)
    for person, number in ((alice, 10), (bob, 1)):
        collection = Collection.objects.create(owner=person, name="papers")
        for name in range(number):
            Document.objects.create(collection=collection, name=f"{name}.txt", source="text")
    for _ in range(3):
        work.index_waiting_documents()
    [bobs] = [at for who, at in read if who == "bob"]
    assert bobs <= 6.0 + work.TURN_S, "he waited for one of her files"


def test_the_share_is_a_part_of_the_threads():
    queues = [webhooks.QUEUE, sending.QUEUE, document_vectors.QUEUE, accounts.QUEUE, remote_tasks.QUEUE]
    assert all(queue.each * 4 <= queue.at_once for queue in queues)
