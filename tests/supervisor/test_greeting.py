"""What `serve` says when everything runs."""

import pytest

from supervisor import greeting

pytestmark = pytest.mark.django_db


def test_the_key_is_in_its_file_when_it_says_that_it_is_ready(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    said = []
    monkeypatch.setattr(greeting, "print_if_open", lambda text: said.append((text, greeting.key_file().exists())))
    greeting.greet("http://127.0.0.1:8000", 1.5, speak=False)
    [was_there] = [was_there for text, was_there in said if "is ready at http://127.0.0.1:8000 after 1.5 s" in text]
    assert was_there
