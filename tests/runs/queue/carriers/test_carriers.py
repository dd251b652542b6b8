"""One suite for every carrier: a wake-up reaches a worker of its pool, and a broker that is away harms nobody."""

import threading
import time
from urllib.parse import urlsplit

import pytest
from celery import Celery
from django.db import connection

from runs.queue import carriers
from runs.queue.carriers import postgres, redis_list
from runs.queue.carriers.celery_broker import CeleryBroker, build_wake_queue
from tests.live import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


class Worker:
    """Listens on a thread as a worker does, and counts."""

    def __init__(self, carrier, pools):
        self.heard = []
        self.has_room = threading.Event()
        self.has_room.set()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=carrier.listen, args=(pools, self.bell, self.stopping))
        self.thread.start()

    def bell(self, pool):
        self.heard.append(pool)
        self.has_room.wait(60)

    def stop(self):
        self.stopping.set()
        self.has_room.set()
        self.thread.join(60)


@pytest.fixture(params=["list", "postgres", "celery", "celery on RabbitMQ", "temporal"])
def carrier(request, settings):
    """Each carrier; Celery on the Valkey of the tests and on RabbitMQ."""
    kind, _, _ = request.param.partition(" ")
    if kind == "postgres" and connection.vendor != "postgresql":
        pytest.skip("LISTEN and NOTIFY are PostgreSQL's")
    if kind == "temporal":
        settings.TEMPORAL_URL = request.getfixturevalue("temporal").url
    settings.CARRIER = kind
    carriers.get_carrier.cache_clear()
    drop_wake_ups()
    yield celery_on(request.getfixturevalue("rabbitmq").url) if "RabbitMQ" in request.param else carriers.current()
    drop_wake_ups()
    carriers.get_carrier.cache_clear()


def celery_on(url):
    app = Celery("muster", broker=url, set_as_current=False)
    app.conf.broker_transport_options = {}
    return CeleryBroker(app)


def drop_wake_ups():
    with CeleryBroker().app.connection_for_write() as line:
        for pool in ("default", "gpu", "other"):
            build_wake_queue(pool)(line.default_channel).declare()
            build_wake_queue(pool)(line.default_channel).purge()
    redis_list.RedisList().line.ask(("DEL", *map(redis_list.name_ready_list, ("default", "gpu", "other"))))


@pytest.fixture
def listen(carrier):
    workers = []

    def start(*pools):
        workers.append(Worker(carrier, pools or ("default",)))
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()


def ring_until_heard(carrier, worker, pool):
    """A carrier need not keep what is sent before a worker listens."""
    wait_for(lambda: carrier.ring(pool) and pool in worker.heard)


def test_a_wake_up_reaches_a_worker_of_its_pool(carrier, listen):
    here, there = listen("default", "gpu"), listen("other")
    ring_until_heard(carrier, here, "gpu")
    ring_until_heard(carrier, there, "other")
    assert set(here.heard) == {"gpu"} and set(there.heard) == {"other"}


def test_while_one_worker_is_full_another_is_woken(carrier, listen):
    full = listen()
    full.has_room.clear()
    ring_until_heard(carrier, full, "default")
    before = len(full.heard)
    free = listen()
    ring_until_heard(carrier, free, "default")
    assert len(full.heard) == before


def test_a_stop_ends_the_listening(carrier, listen):
    worker = listen()
    worker.stop()
    assert not worker.thread.is_alive()


def test_wake_ups_that_nobody_hears_do_not_pile_up_in_the_list(monkeypatch):
    carrier = redis_list.RedisList()
    drop_wake_ups()
    monkeypatch.setattr(redis_list, "MOST", 5)
    assert all(carrier.ring("default") for _ in range(20))
    assert redis_list.RedisList().line.ask(("LLEN", redis_list.name_ready_list("default")))[0] <= 5


def test_a_carrier_that_answers_has_no_problem(carrier):
    assert carrier.problem() == ""


# -- away -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(carriers, "PAUSES_S", (0.01,))


def test_a_list_that_is_away_refuses_without_raising(settings):
    settings.QUEUE_URL = "unix:///nowhere/valkey.sock"
    away = redis_list.RedisList()
    assert away.ring("default") is False
    assert "nowhere" in away.problem() or "No such file" in away.problem()


def test_a_worker_finds_a_list_that_was_away_at_its_start(settings, tmp_path, quick):
    real = urlsplit(settings.QUEUE_URL)
    settings.QUEUE_URL = f"unix://{tmp_path}/away.sock?{real.query}"
    away = redis_list.RedisList()
    worker = Worker(away, ("default",))
    try:
        assert away.ring("default") is False
        (tmp_path / "away.sock").symlink_to(real.path)
        ring_until_heard(away, worker, "default")
    finally:
        worker.stop()


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="LISTEN and NOTIFY are PostgreSQL's")
def test_a_listening_connection_that_was_cut_is_made_anew(quick):
    notify = postgres.Notify()
    worker = Worker(notify, ("default",))
    try:
        ring_until_heard(notify, worker, "default")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE 'LISTEN%%' AND datname = current_database()"
            )
            assert cursor.fetchall() == [(True,)]
        worker.heard.clear()
        ring_until_heard(notify, worker, "default")
    finally:
        worker.stop()


@pytest.mark.parametrize("kind", ["celery on RabbitMQ", "temporal"])
def test_a_broker_that_is_killed_and_comes_back_with_nothing_wakes_again(kind, request, settings, quick):
    """A `ring` soon says so, and neither side needs a restart. The first after the kill may still find
    room in the socket of a connection whose end has not been noticed.
    """
    broker = request.getfixturevalue("temporal" if kind == "temporal" else "rabbitmq")
    if not broker.answers():  # an earlier attempt ended between its kill and its restart
        broker.wipe()
    settings.TEMPORAL_URL = broker.url
    carrier = carriers.import_string(carriers.CARRIERS["temporal"])() if kind == "temporal" else celery_on(broker.url)
    worker = Worker(carrier, ("default",))
    try:
        ring_until_heard(carrier, worker, "default")
        broker.kill()
        wait_for(lambda: carrier.ring("default") is False)
        assert carrier.problem()
        broker.wipe()
        worker.heard.clear()
        ring_until_heard(carrier, worker, "default")
        assert carrier.problem() == ""
    finally:
        worker.stop()
    assert not worker.thread.is_alive()


def test_a_broker_of_celery_that_is_away_refuses_without_raising():
    away = celery_on("amqp://guest@127.0.0.1:1//")
    assert away.ring("default") is False and away.problem()


def test_an_old_wake_up_says_nothing():
    """Those that piled up while no worker listened ring no bell."""
    carrier = CeleryBroker()
    drop_wake_ups()
    with carrier.app.connection_for_write() as line:
        queue = build_wake_queue("default")
        line.Producer().publish(["default", time.time() - 3600], routing_key=queue.name, declare=[queue])
        line.Producer().publish(["default", time.time()], routing_key=queue.name, declare=[queue])
    worker = Worker(carrier, ("default",))
    try:
        wait_for(lambda: worker.heard)
    finally:
        worker.stop()
    assert worker.heard == ["default"]
