"""A whole Muster whose addresses name a Redis Cluster."""

from contextlib import ExitStack

import httpx2
import pytest

from tests.clusters import PATIENCE_S, Cluster
from tests.live import running, wait_for

pytestmark = pytest.mark.live
MESSAGE = {"message": "Please calculate 240 * 12.5 / 100"}


@pytest.fixture
def cluster(tmp_path):
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path)


@pytest.fixture
def muster(cluster, prepared, request):
    addresses = dict.fromkeys(("BROKER_URL", "CHANNEL_URL", "CACHE_URL"), cluster.url)
    yield from running(prepared, request.config, **addresses)


def test_messages_are_answered_also_after_the_server_of_the_keys_has_died(cluster, muster):
    assert set(muster.programs()) == {"web"}, "no server of its own"
    assert "30" in reply(muster)
    cluster.processes[cluster.owner].kill()
    assert "30" in reply(muster), "the rows are looked at while nothing can be heard"
    wait_for(lambda: cluster.ask(cluster.replica, "ROLE")[0] == b"master", PATIENCE_S)
    wait_for(lambda: muster.http.get("/readyz").status_code == 200, PATIENCE_S)
    assert "30" in reply(muster)
    assert cluster.ask(cluster.replica, "DBSIZE") > 0, "keys are written to the new server"


def reply(muster) -> str:
    answer: httpx2.Response = muster.http.post("/api/v1/agents/assistant/messages", json=MESSAGE)
    assert answer.status_code == 200, answer.text
    return answer.json()["reply"]["text"]
