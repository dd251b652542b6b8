"""A disk that is really full: messages are refused clearly, nothing is lost, and all goes on once there is room."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from tests.live import ROOT, plain_environment

# A mount that nobody else sees, and that ends with the program.
APART = ["unshare", "--mount", "--user", "--map-root-user"]


def refusal(disk):
    try:
        tried = subprocess.run(
            [*APART, "mount", "-t", "tmpfs", "tmpfs", str(disk)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        return str(error)
    return tried.stderr.strip()


@pytest.mark.timeout(240)
def test_messages_on_a_full_disk_are_refused_and_none_is_lost(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if reason := refusal(disk):
        pytest.skip(f"a file system cannot be mounted here: {reason}")
    environment = plain_environment() | {
        "DJANGO_SETTINGS_MODULE": "config.settings", "PYTHONPATH": str(ROOT), "MUSTER_DATA_DIR": str(tmp_path / "data"),
        "BROKER_URL": settings.BROKER_URL, "CHANNEL_URL": settings.CHANNEL_URL, "CACHE_URL": settings.CACHE_URL,
    }  # fmt: skip
    program = [sys.executable, str(Path(__file__).with_name("small_disk.py")), str(disk)]
    done = subprocess.run([*APART, *program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["accepted"] == [202] * 3
    assert set(told["full"]) <= {202, 503} and 503 in told["full"]
    assert told["refused"]["code"] == "database_unavailable" and "Idempotency-Key" in told["refused"]["hint"]
    assert told["again"] == [202] * 37 and told["messages"] == 40  # each once
    assert told["ended"] == ["succeeded"] * 40 and told["state"] == "ok"
    assert not os.listdir(disk)  # the mount was theirs alone
