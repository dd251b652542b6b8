"""What `serve` says when everything runs."""

import pytest

from agents.models import Provider
from supervisor import greeting

pytestmark = pytest.mark.django_db


def test_the_key_is_in_its_file_when_it_says_that_it_is_ready(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    said = []
    monkeypatch.setattr(greeting, "print_if_open", lambda text: said.append((text, greeting.key_file().exists())))
    greeting.greet("http://127.0.0.1:8000", 1.5, speak=False)
    [was_there] = [was_there for text, was_there in said if "is ready at http://127.0.0.1:8000 after 1.5 s" in text]
    assert was_there


@pytest.fixture
def printed(settings, tmp_path, monkeypatch):
    """What it prints, line by line. Each message that it would send counts as a line “sent”."""
    settings.DATA_DIR = tmp_path
    lines = []
    monkeypatch.setattr(greeting, "print_if_open", lines.append)
    monkeypatch.setattr(greeting, "show_first_message", lambda address, key: lines.append("sent"))
    return lines


def test_a_message_is_sent_at_the_first_start_alone(printed):
    greeting.greet("http://127.0.0.1:8000", 1.5, speak=True)
    greeting.greet("http://127.0.0.1:8000", 1.5, speak=True)
    assert printed.count("sent") == 1


def test_a_second_start_says_which_setting_is_missing(printed, settings):
    Provider.objects.create(name="local", kind="openai-compatible", base_url="http://127.0.0.1:11434/v1")
    settings.PRIVATE_HOSTS_ALLOWED = []
    greeting.greet("http://127.0.0.1:8000", 1.5, speak=False)
    [warning] = [line for line in printed if line.startswith("  warning")]
    assert "MUSTER_PRIVATE_HOSTS=127.0.0.1" in warning


def test_data_in_the_other_database_is_named(printed, tmp_path, monkeypatch):
    cluster = tmp_path / "cluster"
    (cluster / "data").mkdir(parents=True)
    (cluster / "data" / "PG_VERSION").write_text("17")
    monkeypatch.setattr(greeting.postgres, "home", lambda data_dir: cluster)
    monkeypatch.setattr(greeting.connection, "vendor", "sqlite")
    greeting.greet("http://127.0.0.1:8000", 1.5, speak=False)
    [warning] = [line for line in printed if line.startswith("  warning")]
    assert "DB=postgres" in warning


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ({"reply": {"text": "3000"}}, "reply     3000"),
        (
            {"error": {"code": "provider_auth", "message": "The key was refused.", "hint": "Correct the key."}},
            "error     The key was refused. Correct the key.",
        ),
        ({"run": {"id": "1", "status": "running"}}, "reply     none yet: the status of the run is “running”"),
    ],
)
def test_an_error_is_told_as_an_error(answer, line):
    assert greeting.describe_outcome(answer) == line
