"""The three agents in the README work as they are printed there."""

import os
import re
import subprocess
import sys

import pytest

from tests.live import ROOT

pytestmark = pytest.mark.live
README = (ROOT / "README.md").read_text()
REPLY = "8.1"  # 4.5 + 1.2 * 3


def block(language):
    return re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)[1]


def named(text, language):
    """The three share one Muster, so each has a function and an agent of its own name."""
    return text.replace("shipping_cost", f"shipping_cost_{language}").replace("parcels", f"parcels-{language}")


@pytest.fixture
def at_home(live):
    """Run a program as somebody who started this Muster with `make run` does."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BROKER_URL")}
    environment = kept | live.environment | {"MUSTER_DATA_DIR": str(live.data_dir)}

    def run(*command, stdin=None):
        done = subprocess.run(
            command, input=stdin, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_agent_in_curl_answers(live, at_home):
    commands = named(block("bash"), "curl").replace("http://127.0.0.1:8000", live.url)

    assert REPLY in at_home("bash", "-eu", stdin=commands.replace("var/", f"{live.data_dir}/"))


def test_the_agent_in_python_answers(at_home):
    program = named(block("python"), "python")

    assert REPLY in at_home(sys.executable, "manage.py", "shell", "--verbosity", "0", stdin=program)


def test_the_agent_in_yaml_answers(at_home, tmp_path):
    (tmp_path / "parcels-yaml.yaml").write_text(named(block("yaml"), "yaml"))
    lines = re.findall(r"^    \.venv/bin/python (manage\.py (?:apply|chat).*)$", README, re.MULTILINE)
    apply, chat = [f"{sys.executable} {named(line, 'yaml')}" for line in lines]

    at_home("bash", "-c", apply.replace("parcels-yaml.yaml", str(tmp_path / "parcels-yaml.yaml")))

    assert REPLY in at_home("bash", "-c", chat)


@pytest.mark.parametrize("language", ["bash", "python", "yaml"])
def test_an_agent_takes_about_ten_lines(language):
    assert len([line for line in block(language).splitlines() if line.strip()]) <= 12
