"""The same chaos on every carrier: its broker is killed and comes back with nothing, a worker is killed, and an
outside till counts what was really done.
"""

import os
import signal
import time

import pytest

from tests.fakes import StubOpenAI
from tests.journeys.test_chaos import Till, pay_once, send, set_up, state_of
from tests.live import running, wait_for

pytestmark = [pytest.mark.live(database="postgres"), pytest.mark.timeout(600)]
RUNS = 9


@pytest.fixture(params=["list", "postgres", "celery", "temporal"])
def carrier(request):
    """(the settings, the broker that the test may break; None: it breaks Valkey or nothing)."""
    broker, chosen = None, {"MUSTER_CARRIER": request.param}
    if request.param == "postgres" and request.config.getoption("db") != "postgres":
        pytest.skip("NOTIFY is PostgreSQL's")
    if request.param == "celery":
        broker = request.getfixturevalue("rabbitmq")
        chosen["BROKER_URL"] = broker.url
    if request.param == "temporal":
        broker = request.getfixturevalue("temporal")
        chosen["TEMPORAL_URL"] = broker.url
    return chosen, broker


@pytest.fixture
def shop():
    """(the till, the model that pays there)."""
    with Till() as till, StubOpenAI() as model:
        model.otherwise = pay_once
        yield till, model


@pytest.fixture
def muster(carrier, shop, prepared, request):
    for made in running(prepared, request.config, MUSTER_PRIVATE_HOSTS="127.0.0.1", MUSTER_LEASE="3", **carrier[0]):
        set_up(made, shop[1], shop[0])
        yield made


def test_nothing_is_lost_or_done_twice_whatever_the_broker_does(muster, carrier, shop):
    till, _ = shop
    runs = pay(muster, carrier[1])
    ended = [wait_for(lambda run=run: done(muster, run), 240) for run in runs.values()]
    assert [run["error"] for run in ended if run["status"] != "succeeded"] == []
    assert len(till.charged) == len(set(till.charged)), "an order was charged twice"
    for order in set(runs) - set(till.charged):  # killed before it was sent: then the run says that it does not know
        (call,) = muster.http.get(f"/api/v1/runs/{runs[order]}/tool-calls/").json()["results"]
        assert call["outcome"] == "unknown", order


def pay(muster, broker):
    """Run by order. Something is broken after every third."""
    runs, until = {}, time.monotonic() + 300
    for number in range(RUNS):
        runs[f"order-{number}"] = send(muster, f"order-{number}", until)
        if number == 2:
            os.kill(muster.programs()["web"].pid, signal.SIGKILL)
        if number == 4:
            broker.kill() if broker else muster.programs()["valkey"].kill()
        if number == 6 and broker:
            broker.wipe()
    return runs


def done(muster, run):
    return (read := state_of(muster, run)).get("finished_at") and read
