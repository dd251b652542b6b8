"""The run engine under faults, on a virtual clock. `make simulate` runs more seeds; docs/simulation.md explains them.

The simulation is a program of its own with its own database in memory, so these tests run in one lane.
"""

import subprocess
import sys

import pytest

from tests.live import ROOT

pytestmark = pytest.mark.slow


def simulate(*options):
    command = [sys.executable, "-m", "tests.simulation", *map(str, options)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)


def test_nothing_is_lost_doubled_or_stuck():
    done = simulate("--seeds", 1000, "--seconds", 20)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 10


@pytest.mark.parametrize("rule", [pytest.param("fence", marks=pytest.mark.exhaustive), "record"])
def test_fewer_than_a_thousand_seeds_find_that_this_rule_is_missing(rule):
    done = simulate("--seeds", 1000, "--without", rule)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Again: python -m tests.simulation --seed" in done.stdout


def test_a_seed_that_is_known_finds_that_the_fence_is_missing():
    """In seconds what `make exhaustive` looks for in a thousand seeds. A change of the simulation needs a new seed."""
    done = simulate("--seed", 8, "--without", "fence")
    assert done.returncode == 1, done.stdout + done.stderr
