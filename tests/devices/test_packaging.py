"""The client alone: its files and the wire are all it needs of this repository."""

import os
import shutil
import subprocess
import sys

from tests.live import ROOT

BLOCKED = "\n".join(
    [
        "import sys",
        "class Refuse:",
        "    def find_spec(self, name, path=None, target=None):",
        "        if name.split('.')[0] in ('django', 'channels', 'celery', 'rest_framework', 'agents', 'runs'):",
        "            raise ImportError(name + ' is no part of the client')",
        "sys.meta_path.insert(0, Refuse())",
        "import runpy",
        "sys.argv = ['muster-device', *sys.argv[1:]]",
        "import devices.client.connection",
        "runpy.run_module('devices.client', run_name='__main__')",
    ]
)


def alone(tmp_path):
    (tmp_path / "devices").mkdir()
    for name in ("__init__.py", "protocol.py", "wire.py"):
        shutil.copy(ROOT / "devices" / name, tmp_path / "devices")
    shutil.copytree(ROOT / "devices" / "client", tmp_path / "devices" / "client")
    return tmp_path


def run(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(folder), "MUSTER_DEVICE_HOME": str(folder / "home")}
    command = [sys.executable, "-c", BLOCKED, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180)


def test_it_runs_without_any_of_the_server(tmp_path):
    said = run(alone(tmp_path), "--help")
    assert (said.returncode, "pair" in said.stdout) == (0, True), said.stderr


def test_it_says_what_to_do_when_it_is_not_paired(tmp_path):
    said = run(alone(tmp_path), "run")
    assert said.returncode == 1
    assert "not paired yet" in said.stderr


def test_it_refuses_to_send_a_credential_in_the_clear(tmp_path):
    said = run(alone(tmp_path), "pair", "--server", "http://muster.example.org", "--code", "X", "--yes")
    assert (said.returncode, "not encrypted" in said.stderr) == (1, True)
