"""A person's machine: the reference client as a process of its own, to be stopped, frozen and killed."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2

from tests.live import ROOT, wait_for


class Machine:
    """`Machine(tmp_path, live.url, live.http)` is paired; `start()` comes back when it is connected."""

    def __init__(self, home: Path, url: str, http: httpx2.Client, *, name: str = "laptop", config: str = "") -> None:
        self.home = home / f"home-{name}"
        self.folder = home / f"files-{name}"
        self.folder.mkdir()
        self.log = home / f"{name}.log"
        self.http = http
        self.process: subprocess.Popen | None = None
        code = http.post("/api/v1/devices/pairings", json={}).json()["code"]
        self.client("pair", "--server", url, "--code", code, "--name", name, "--yes")
        (self.home / "config.toml").write_text(f'[roots]\ndocs = "{self.folder}"\n{config}')
        devices = http.get("/api/v1/devices/").json()["results"]
        self.id = next(row["id"] for row in devices if row["name"] == name)

    def client(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "devices.client", "--home", str(self.home), *arguments]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=180).stdout

    def start(self) -> "Machine":
        with self.log.open("a") as log:
            command = [sys.executable, "-m", "devices.client", "--home", str(self.home), "run"]
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_for(self.is_online, within=120, told=self.said)
        return self

    def said(self) -> str:
        """Whether the client still lives, and what it printed last: for whoever waits for it in vain."""
        code = self.process.poll() if self.process else None
        return f"exit code {code}\n{''.join(self.log.read_text().splitlines(keepends=True)[-20:])}"

    def is_online(self) -> bool:
        try:
            answer = self.http.get(f"/api/v1/devices/{self.id}")
        except httpx2.HTTPError:  # the server is just being started again
            return False
        return answer.status_code == 200 and answer.json()["is_online"]

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(60)

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        if self.process is None or self.process.poll() is not None:
            return self.process.returncode if self.process else 0
        self.thaw()
        self.signal(signal.SIGTERM)
        return self.process.wait(60)

    def records(self, kind: str) -> list[dict[str, Any]]:
        with sqlite3.connect(self.home / "device.sqlite3") as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute("SELECT * FROM records WHERE kind = ?", (kind,))]

    def journal(self) -> list[dict[str, Any]]:
        with sqlite3.connect(self.home / "device.sqlite3") as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute("SELECT * FROM calls")]
