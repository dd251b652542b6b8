"""Three hosts on this machine, and what may happen to them. `make hosts` does more of it; docs/hosts.md explains it.

The hosts are a program of their own in namespaces of its own, so these tests run in one lane.
"""

import subprocess
import sys

import pytest

from tests.hosts import network
from tests.live import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SHORT = ("partition", "kills", "clocks")


def test_hosts_that_lose_each_other_lose_no_run_and_repeat_no_effect():
    if refusal := network.refusal():
        pytest.skip(refusal)
    command = [sys.executable, "-m", "tests.hosts", *SHORT, "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok after") == len(SHORT)
