"""docs/howto/production.md, typed: two web servers, two workers, PostgreSQL, Valkey and nginx; then parts are killed."""

import json
import re
import shutil
import signal
import socket
import ssl
import subprocess
from pathlib import Path

import httpx2
import pytest
from websockets.sync.client import connect

from tests.journeys.typed import CURLRC, NAME, Machine
from tests.live import data_directory, wait_for

pytestmark = [pytest.mark.live(database="postgres"), pytest.mark.slow]
UNITS = ("muster-web@8001", "muster-web@8002", "muster-worker@1", "muster-worker@2")


@pytest.fixture
def machine():
    if not shutil.which("psql"):
        pytest.skip("psql is not installed")
    with data_directory() as scratch:
        made = Machine(scratch)
        try:
            made.start_postgres()
            made.start_redis()
            yield made
        finally:
            made.stop()


def certificate(machine: Machine) -> None:
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", f"{machine.scratch}/tls/privkey.pem", "-out", f"{machine.scratch}/tls/fullchain.pem"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    text = CURLRC.format(tls=machine.scratch / "tls", name=NAME, port=machine.ports["443"])
    (machine.scratch / ".curlrc").write_text(text)


def start_nginx(machine: Machine, nginx: str) -> None:
    """The block of the page inside the smallest nginx.conf."""
    at = machine.scratch
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {at}/nginx-{kind};\n" for kind in kinds)
    whole = f"daemon off; error_log {at}/nginx.err; pid {at}/nginx.pid;\nevents {{}}\n"
    whole += f"http {{ access_log off;\n{temporary}\ninclude {at}/proxy/*.conf; }}\n"
    (at / "nginx.conf").write_text(whole)
    (at / "bin" / "nginx").write_text(f'#!/bin/sh\nexec {nginx} -c {at}/nginx.conf "$@"\n')
    (at / "bin" / "nginx").chmod(0o755)
    machine.type("The proxy")
    with (at / "nginx.log").open("wb") as log:
        machine.running["nginx"] = subprocess.Popen([nginx, "-c", str(at / "nginx.conf")], stdout=log, stderr=log)


def fill_in(machine: Machine) -> None:
    """What the page says to replace."""
    path = machine.scratch / "etc" / "muster.env"
    text = path.read_text()
    for number in ("1", "2"):
        value = machine.type("Settings").strip().splitlines()[-1]
        text = text.replace(f"CHANGE-ME-{number}", value)
    path.write_text(text)


def answers(machine: Machine, port: str) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{machine.ports[port]}/readyz", timeout=20).status_code == 200
    except httpx2.HTTPError:
        return False


@pytest.mark.timeout(900)
def test_the_page_can_be_typed(machine):
    machine.type("Role and database")
    machine.type("Valkey or Redis")
    machine.type("Settings")
    fill_in(machine)
    machine.type("Prepare the database")
    machine.type("Units")
    assert "enable --now" in (machine.scratch / "systemctl.log").read_text()
    enabled = re.findall(r"muster-(?:web|worker)@\d+", (machine.scratch / "systemctl.log").read_text())
    assert len(enabled) == len(UNITS), enabled
    for unit in enabled:
        machine.start_unit(unit)
    for port in ("8001", "8002"):
        wait_for(lambda port=port: answers(machine, port), within=240, told=lambda: machine.log_of(enabled[0]))
    certificate(machine)
    nginx = shutil.which("nginx") or next(iter(map(str, Path("/usr/sbin").glob("nginx"))), "")
    if not nginx:
        pytest.skip("nginx is not installed: everything before the proxy was typed")
    start_nginx(machine, nginx)
    url = f"https://{NAME}:{machine.ports['443']}"
    wait_for(lambda: "ok" in machine.run(f"curl --fail {url}/healthz || true"), within=60)
    assert "calculate returned 391" in machine.type("Try it")
    key = machine.run("sudo -u muster deploy/manage create_key admin").strip()
    assert machine.run(f"curl -o /dev/null -w '%{{http_code}}' {url}/metrics") == "404"
    stream_passes(machine, url, key)
    socket_passes(machine, key)
    kill_one_of_each(machine, enabled, url, key)
    web_drains(machine, enabled[1])


def message(url: str, key: str, text: str, *more: str) -> str:
    """A command that sends a message and prints its reply."""
    body = json.dumps({"message": text})
    return f"curl --fail -H 'Authorization: Bearer {key}' {' '.join(more)} --json '{body}' {url}/api/v1/agents/helper/messages"


def stream_passes(machine: Machine, url: str, key: str) -> None:
    said = machine.run(message(url, key, "What is 2 * 21?", "--no-buffer", "-H 'Accept: text/event-stream'"))
    assert "event: run.finished" in said and "42" in said


def socket_passes(machine: Machine, key: str) -> None:
    run = json.loads(machine.run(message(f"https://{NAME}:{machine.ports['443']}", key, "What is 3 * 5?")))["run"]["id"]
    trusted = ssl.create_default_context(cafile=machine.scratch / "tls" / "fullchain.pem")
    with connect(
        f"wss://{NAME}:{machine.ports['443']}/ws/runs/{run}/?after=0", ssl=trusted, server_hostname=NAME,
        sock=socket.create_connection(("127.0.0.1", machine.ports["443"])),
        additional_headers={"Authorization": f"Bearer {key}"},
    ) as line:  # fmt: skip
        types = [json.loads(text).get("type") for text in line]
    assert "run.finished" in types


def kill_one_of_each(machine: Machine, units: list[str], url: str, key: str) -> None:
    """With one web server and one worker gone, a message is still answered; nothing restarts them here."""
    for unit in (units[0], units[2]):
        machine.running[unit].send_signal(signal.SIGKILL)
        machine.running[unit].wait()
    for number in range(4):
        assert f"calculate returned {number * 7}" in machine.run(message(url, key, f"What is {number} * 7?"))


def web_drains(machine: Machine, unit: str) -> None:
    """SIGTERM: it ends by itself, in order."""
    machine.running[unit].send_signal(signal.SIGTERM)
    assert machine.running[unit].wait(timeout=60) == 0
