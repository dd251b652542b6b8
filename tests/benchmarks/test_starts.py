"""Every benchmark that docs/benchmarks.md names starts on a clean checkout, with its smallest size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import agentdojo

ROOT = Path(agentdojo.__file__).parents[1]
SMALLEST = {
    "chains": ["--items", "2", "--schedules", "2", "--due", "2"],
    "circles": [],
    "flight": ["--runs", "10", "--seconds", "1"],
    "floods": ["--seconds", "1", "--connections", "2", "schema"],
    "functions": ["--calls", "24"],
    "gateway": ["--count", "1", "--rounds", "1"],
    "interpreter": [],
    "message": ["--count", "2", "--callers", "1"],
    "soak": ["--count", "10"],
}
# These start a site, which takes 15 to 40 seconds; `message` does so as well.
LONG = {"chains", "flight", "floods", "functions", "gateway"}
EXHAUSTIVE = pytest.mark.exhaustive
# Those without a size of their own take minutes; they are loaded with all that they import.
LOADED = [
    "agentdojo", "carriers", "connectors", "devices", "documents", "hostile_input", "knowledge", "libraries", "pages", "registry",
    "retrieval", "routing", "runs", "tools",
]  # fmt: skip
BROWSER = {"browser", "pictures"}  # need one
PARTS = {"agentdojo_export", "embedding_server", "simulated_devices"}  # what others start


def is_program(path):
    return '__name__ == "__main__"' in path.read_text()


def test_each_benchmark_is_in_one_list():
    programs = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if is_program(path)} - {"__init__", "__main__"}
    listed = {*SMALLEST, *LOADED, *BROWSER, *PARTS}
    assert programs <= listed, programs - listed


def run(*words, **more):
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=300, **more)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=EXHAUSTIVE if name in LONG else ()) for name in SMALLEST])
def test_it_runs_with_its_smallest_size(name):
    done = run("-m", f"benchmarks.{name}", *SMALLEST[name])
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout


@pytest.mark.slow
def test_the_others_can_be_loaded():
    """One process for each would take a minute."""
    lines = ["import importlib", *(f"importlib.import_module('benchmarks.{name}')" for name in LOADED)]
    done = run("-c", "\n".join(lines))
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_agentdojo_runs_with_one_task(tmp_path):
    subset = json.loads((agentdojo.HERE / "agentdojo_set" / "subset.json").read_text())
    name, suite = next(iter(subset.items()))
    (tmp_path / "suites.json").write_text(json.dumps({name: {**suite, "cases": suite["cases"][:1]}}))
    done = run("-m", "benchmarks.agentdojo", "--suites", str(tmp_path / "suites.json"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].split()[:2] == ["all", "1"]


def test_its_export_does_not_meet_the_module_of_the_same_name(tmp_path, monkeypatch):
    """The package is installed elsewhere; here something small has its place."""
    package = tmp_path / "agentdojo"
    (package / "task_suite").mkdir(parents=True)
    for path in (package / "__init__.py", package / "task_suite" / "__init__.py"):
        path.touch()
    (package / "functions_runtime.py").write_text("FunctionCall = FunctionsRuntime = None\n")
    (package / "task_suite" / "load_suites.py").write_text("def get_suites(version):\n    return {}\n")
    home = tmp_path / "build" / "agentdojo" / "bin"
    home.mkdir(parents=True)
    (home / "python").write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    (home / "python").chmod(0o755)
    monkeypatch.setattr(agentdojo, "BUILD", tmp_path / "build")
    assert json.loads(agentdojo.export()) == {}
