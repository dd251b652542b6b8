"""kill -9 of each part at each state of a call: none lost, none run twice, no run hung. Real processes throughout.

The usual run kills each part and kills in each state; `make exhaustive` kills each part in each state.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from tests.devices.flapping import FlappingProxy
from tests.devices.machine import Machine
from tests.live import ROOT, Live, copy_prepared, data_directory, database_of, wait_for
from tests.matrices import each
from tests.servers import free_port

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]
SLOW = Path(__file__).with_name("slow_server.py")
PARTS = ["web", "worker", "valkey", "client"]
ENDED = ("succeeded", "partial", "failed", "expired", "cancelled")


@pytest.fixture(scope="module")
def muster(prepared, request):
    with data_directory() as directory:
        copy_prepared(prepared, directory)
        quick = {"MUSTER_LEASE": "6", "MUSTER_DEVICE_HEARTBEAT": "3"}
        live = Live(directory, "--no-greeting", **quick, **database_of(request.config))
        yield live
        live.stop()


@pytest.fixture(scope="module")
def laptop(muster, tmp_path_factory):
    machine = slow_machine(muster, tmp_path_factory.mktemp("machine"), muster.url, "laptop")
    make_agent(muster, "task-maker", [{"tool": "create_task", "mode": "allow", "deadline_s": 60}])
    make_agent(muster, "task-waiter", [{"tool": "create_task", "mode": "allow", "deadline_s": 60, "offline": "wait"}])
    make_agent(muster, "marker", [{"tool": "slow-leave_mark", "mode": "allow", "deadline_s": 60}])
    yield machine
    machine.stop()


def slow_machine(muster, home, url, name):
    """Connected, with a slow tool of its own that its owner has approved."""
    arguments = json.dumps([str(SLOW), str(home / "marks"), "5"])
    config = f'[approvals]\noffered = "allow"\n[mcp.servers.slow]\ncommand = "{sys.executable}"\nargs = {arguments}\n'
    machine = Machine(home, url, muster.http, name=name, config=config).start()
    machine.marks = home / "marks"
    offers = f"/api/v1/devices/{machine.id}/offers/"
    offer = wait_for(lambda: muster.http.get(offers).json()["results"], within=120)[0]
    assert muster.http.post(f"{offers}{offer['hash']}/approve").status_code == 200
    return machine


def make_agent(muster, name, grants):
    body = {"name": name, "description": name, "provider": "offline", "model_name": "offline", "grants": grants}
    assert muster.http.post("/api/v1/agents/", json=body).status_code == 201
    assert muster.http.post(f"/api/v1/agents/{name}/publish", json={}).status_code == 200


def send(muster, agent, text) -> str:
    """The run of one message; the same key makes asking again after a broken connection harmless."""
    headers = {"Prefer": "respond-async", "Idempotency-Key": text}
    url = f"/api/v1/agents/{agent}/messages"
    answer = wait_for(lambda: patiently(lambda: muster.http.post(url, json={"message": text}, headers=headers)), 120)
    assert answer.status_code == 202, answer.text
    return answer.json()["run"]["id"]


def patiently(ask):
    """An answer of a server that may just be starting again."""
    try:
        return ask()
    except (OSError, ValueError, KeyError, httpx2.HTTPError):
        return None


def call_of(muster, laptop, run, *states):
    rows = patiently(lambda: muster.http.get(f"/api/v1/devices/{laptop.id}/calls/?run={run}").json()["results"])
    return next((row for row in rows or [] if row["state"] in states), None)


def ended(muster, run):
    def look():
        found = patiently(lambda: muster.http.get(f"/api/v1/runs/{run}").json())
        return found if found and found.get("status") in ENDED else None

    return wait_for(look, within=150)


def kill(muster, laptop, part):
    """SIGKILL, and back again: the supervisor starts its own, the person the client."""
    if part == "client":
        laptop.kill()
        return
    fallen = muster.programs()[part]
    fallen.kill()
    wait_for(lambda: muster.programs().get(part, fallen) != fallen, within=120)


def revive(laptop):
    if laptop.process.poll() is not None:
        laptop.start()
    else:
        laptop.thaw()


def titles(laptop, text):
    return [row for row in laptop.records("task") if text.split()[-1] in row["data"]]


@pytest.mark.parametrize("part", each(PARTS, "web", "client"))
def test_killed_while_the_call_is_sent(muster, laptop, part):
    revive(laptop)
    wait_for(laptop.is_online, within=120)
    text = f"create_task title sent-{part}-{time.time_ns()}"
    laptop.freeze()
    run = send(muster, "task-maker", text)
    wait_for(lambda: call_of(muster, laptop, run, "sent"), within=120)
    kill(muster, laptop, part)
    revive(laptop)
    assert ended(muster, run)["status"] == "succeeded"
    assert len(titles(laptop, text)) == 1


@pytest.mark.parametrize("part", each(PARTS, "worker"))
def test_killed_while_the_call_waits_for_the_device(muster, laptop, part):
    text = f"create_task title queued-{part}-{time.time_ns()}"
    laptop.stop()
    wait_for(lambda: not laptop.is_online(), within=120)
    run = send(muster, "task-waiter", text)
    wait_for(lambda: call_of(muster, laptop, run, "queued") or waiting(muster, run), within=120)
    if part != "client":
        kill(muster, laptop, part)
    laptop.start()
    if part == "client":
        laptop.kill()
        laptop.start()
    assert ended(muster, run)["status"] == "succeeded"
    assert len(titles(laptop, text)) == 1


def waiting(muster, run):
    found = patiently(lambda: muster.http.get(f"/api/v1/runs/{run}").json())
    return bool(found) and found["waiting_for"] == "device"


@pytest.mark.parametrize("part", each(PARTS, "worker", "client"))
def test_killed_while_the_tool_runs(muster, laptop, part):
    revive(laptop)
    wait_for(laptop.is_online, within=120)
    text = f"leave_mark text acked-{part}-{time.time_ns()}"
    run = send(muster, "marker", text)
    wait_for(lambda: call_of(muster, laptop, run, "acked"), within=120)
    kill(muster, laptop, part)
    revive(laptop)
    finished = ended(muster, run)
    assert laptop.marks.read_text().count(text.split()[-1]) == 1, "never twice"
    calls = wait_for(lambda: patiently(lambda: muster.http.get(f"/api/v1/runs/{run}/tool-calls/").json()["results"]))
    assert [call["outcome"] for call in calls] == ["unknown" if part == "client" else "ok"], finished
    assert finished["status"] == "succeeded"


@pytest.mark.parametrize("part", each(PARTS, "valkey"))
def test_killed_while_nobody_knows_what_became_of_the_call(muster, laptop, part):
    """The device is silent for two heartbeats after it was sent the call."""
    revive(laptop)
    wait_for(laptop.is_online, within=120)
    text = f"create_task title unknown-{part}-{time.time_ns()}"
    laptop.freeze()
    run = send(muster, "task-maker", text)
    wait_for(lambda: call_of(muster, laptop, run, "unknown"), within=120)
    kill(muster, laptop, part)
    revive(laptop)
    assert ended(muster, run)["status"] == "succeeded"
    assert len(titles(laptop, text)) == 1


@pytest.mark.parametrize("part", each(PARTS, "web"))
def test_killed_while_the_call_is_being_cancelled(muster, laptop, part):
    revive(laptop)
    wait_for(laptop.is_online, within=120)
    text = f"create_task title cancelled-{part}-{time.time_ns()}"
    laptop.freeze()
    run = send(muster, "task-maker", text)
    wait_for(lambda: call_of(muster, laptop, run, "sent"), within=120)
    wait_for(lambda: patiently(lambda: muster.http.post(f"/api/v1/runs/{run}/cancel", json={})), within=120)
    kill(muster, laptop, part)
    revive(laptop)
    assert ended(muster, run)["status"] == "cancelled"
    wait_for(lambda: call_of(muster, laptop, run, "cancelled", "done"), within=90)
    assert len(titles(laptop, text)) <= 1, "the device may have been faster than the news"


def test_a_flapping_network_loses_nothing_and_doubles_nothing(muster, laptop, tmp_path):
    """The other device is stopped, so that all calls go to the one behind the bad network."""
    laptop.stop()
    wait_for(lambda: not laptop.is_online(), within=120)
    with FlappingProxy(muster.port) as proxy:
        machine = Machine(tmp_path, proxy.url, muster.http, name="flapping").start()
        try:
            proxy.flap()
            texts = [f"create_task title flap-{number}-{time.time_ns()}" for number in range(12)]
            runs = [send(muster, "task-waiter", text) for text in texts]
            wait_for(lambda: proxy.drops >= 10, within=300)  # five connections: the client waits ever longer between
            proxy.calm()
            assert [ended(muster, run)["status"] for run in runs] == ["succeeded"] * len(runs)
            assert [len(titles(machine, text)) for text in texts] == [1] * len(texts)
        finally:
            machine.stop()


# -- two web servers --------------------------------------------------------------------------------------------------


class SecondServer:
    """Another web server over the same data: what a second machine behind a load balancer is."""

    def __init__(self, live: Live) -> None:
        self.port = free_port()
        known = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        endpoint = f"tcp:port={self.port}:interface=127.0.0.1"
        options = ["-v", "0", "--websocket_timeout", "-1", "-e", endpoint, "config.asgi:application"]
        own = {"MUSTER_DATA_DIR": str(live.data_dir), "DEBUG": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "daphne", *options],
            cwd=ROOT, env=known | live.environment | own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(lambda: patiently(lambda: httpx2.get(f"http://127.0.0.1:{self.port}/healthz")), within=120)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(60)


@pytest.fixture
def two_servers(muster, laptop, tmp_path):
    """The device is connected to the second one, through a proxy that can be turned to the first."""
    laptop.stop()
    wait_for(lambda: not laptop.is_online(), within=120)
    second = SecondServer(muster)
    with FlappingProxy(second.port) as proxy:
        machine = slow_machine(muster, tmp_path, proxy.url, f"roaming-{second.port}")
        yield machine, second, proxy
        machine.stop()
        second.stop()
    muster.http.post(f"/api/v1/devices/{machine.id}/revoke", json={})


@pytest.mark.parametrize("state", ["sent", "waiting"])
def test_the_server_that_holds_the_socket_is_killed_and_the_device_goes_to_the_other(muster, two_servers, state):
    """The run's worker and the other server never knew the first one. `sent`: within the hold; `waiting`: after it."""
    machine, second, proxy = two_servers
    text = f"create_task title roam-{state}-{time.time_ns()}"
    machine.freeze()
    run = send(muster, "task-maker", text)
    wait_for(lambda: call_of(muster, machine, run, "sent"), within=120)
    if state == "waiting":
        wait_for(lambda: waiting(muster, run), within=120)
    second.process.kill()
    proxy.target = muster.port
    machine.thaw()
    assert ended(muster, run)["status"] == "succeeded"
    assert len(titles(machine, text)) == 1
    assert call_of(muster, machine, run, "done")


def test_the_server_is_killed_while_the_tool_runs_and_the_other_hears_of_its_end(muster, two_servers):
    machine, second, proxy = two_servers
    text = f"leave_mark text roam-acked-{time.time_ns()}"
    run = send(muster, "marker", text)
    wait_for(lambda: call_of(muster, machine, run, "acked"), within=120)
    second.process.kill()
    proxy.target = muster.port
    assert ended(muster, run)["status"] == "succeeded"
    assert machine.marks.read_text().count(text.split()[-1]) == 1
    assert call_of(muster, machine, run, "done")


def test_calls_flow_while_the_device_goes_to_and_fro_between_two_servers(muster, two_servers):
    machine, second, proxy = two_servers
    texts = [f"create_task title fro-{number}-{time.time_ns()}" for number in range(6)]
    runs = []
    for number, text in enumerate(texts):
        runs.append(send(muster, "task-waiter", text))
        proxy.target = muster.port if number % 2 else second.port
        proxy.loop.call_soon_threadsafe(proxy.drop_all)
    assert [ended(muster, run)["status"] for run in runs] == ["succeeded"] * len(runs)
    assert [len(titles(machine, text)) for text in texts] == [1] * len(texts)


def test_a_client_ends_cleanly_when_told_to(muster, laptop):
    revive(laptop)
    wait_for(laptop.is_online, within=120)
    assert laptop.stop() == 0
    wait_for(lambda: not laptop.is_online(), within=60)
