"""The file `.env` beside manage.py: settings of this machine, which the environment overrides."""

import os
import subprocess
import sys

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured

from config.settings.environment import BASE_DIR, read_env_file


@pytest.fixture
def environment(monkeypatch):
    """A copy of the environment, which a test may change."""
    copy = dict(os.environ)
    monkeypatch.setattr(environ.Env, "ENVIRON", copy)
    return copy


def test_lines_become_variables_and_the_environment_wins(tmp_path, environment):
    environment["MUSTER_PORT"] = "9001"
    file = tmp_path / ".env"
    file.write_text("# a comment\n\nMUSTER_PORT=9002\nexport MUSTER_HOST=127.0.0.2\nOPENAI_API_KEY='a b'\n")
    read_env_file(str(file))
    assert environment["MUSTER_PORT"] == "9001"
    assert environment["MUSTER_HOST"] == "127.0.0.2"
    assert environment["OPENAI_API_KEY"] == "a b"


def test_a_file_that_windows_wrote_is_read(tmp_path, environment):
    file = tmp_path / ".env"
    file.write_bytes(b"\xef\xbb\xbfMUSTER_HOST=127.0.0.2\r\nMUSTER_PORT=9002\r\n")
    read_env_file(str(file))
    assert environment["MUSTER_HOST"] == "127.0.0.2"
    assert environment["MUSTER_PORT"] == "9002"


@pytest.mark.parametrize("line", ["MUSTER_PORT: 9002", "MUSTER_PORT = secret", "set MUSTER_PORT", "=secret"])
def test_a_line_that_is_no_setting_is_refused_without_being_shown(tmp_path, environment, line):
    file = tmp_path / ".env"
    file.write_text(f"MUSTER_HOST=127.0.0.2\n{line}\n")
    with pytest.raises(ImproperlyConfigured, match="Line 2 of .* is not of the form NAME=value") as refusal:
        read_env_file(str(file))
    assert "secret" not in str(refusal.value)
    assert environment.get("MUSTER_HOST") != "127.0.0.2"


def test_a_file_in_another_encoding_is_refused(tmp_path, environment):
    file = tmp_path / ".env"
    file.write_text("MUSTER_HOST=127.0.0.2", encoding="utf-16")
    with pytest.raises(ImproperlyConfigured, match="cannot be read"):
        read_env_file(str(file))


@pytest.mark.parametrize("path", ["", "/nowhere/.env"])
def test_no_file_is_no_error(environment, path):
    read_env_file(path)


def test_every_command_reads_it(tmp_path):
    file = tmp_path / "settings"
    file.write_text(f"MUSTER_DATA_DIR={tmp_path / 'data'}\nMUSTER_PORT=9002\n")
    show = "from django.conf import settings; print(settings.DATA_DIR, settings.PORT)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "--command", show],
        cwd=BASE_DIR,
        env=environment | {"MUSTER_ENV_FILE": str(file)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{tmp_path / 'data'} 9002"
