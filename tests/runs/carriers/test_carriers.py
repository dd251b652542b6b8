"""One suite for every carrier: a wake-up reaches a worker of its pool, and a broker that is away harms nobody."""

import threading
from urllib.parse import urlsplit

import pytest
from django.db import connection

from runs import carriers
from runs.carriers import postgres, redis_list
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


@pytest.fixture(params=sorted(carriers.CARRIERS))
def carrier(request, settings):
    if request.param == "postgres" and connection.vendor != "postgresql":
        pytest.skip("LISTEN and NOTIFY are PostgreSQL's")
    settings.CARRIER = request.param
    carriers.carrier.cache_clear()
    drop_wake_ups()
    yield carriers.current()
    drop_wake_ups()
    carriers.carrier.cache_clear()


def drop_wake_ups():
    redis_list.RedisList().line.ask(("DEL", *map(redis_list.key_of, ("default", "gpu", "other"))))


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


def test_wake_ups_that_nobody_hears_do_not_pile_up(carrier, monkeypatch):
    monkeypatch.setattr(redis_list, "MOST", 5)
    assert all(carrier.ring("default") for _ in range(20))
    assert redis_list.RedisList().line.ask(("LLEN", redis_list.key_of("default")))[0] <= 5


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
