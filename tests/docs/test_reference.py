"""docs/reference/ names every setting, command, endpoint, error code and event type; `make reference` writes it."""

import re

import pytest

from tests.docs import reference

PAGES = ["settings.md", "commands.md", "endpoints.md", "errors.md", "events.md", "files.md", "options.md"]


@pytest.mark.parametrize("name", PAGES)
def test_everything_there_is_stands_in_the_reference(name):
    written = (reference.PAGES / name).read_text()

    missing = named_in(reference.pages()[name]) - named_in(written)

    assert not missing, f"docs/reference/{name} lacks {sorted(missing)}: run `make reference`"


@pytest.mark.parametrize("name", PAGES)
def test_nothing_in_the_reference_is_gone_from_the_code(name):
    written = (reference.PAGES / name).read_text()

    gone = named_in(written) - named_in(reference.pages()[name])

    assert not gone, f"docs/reference/{name} still has {sorted(gone)}: run `make reference`"


def test_every_setting_and_command_says_what_it_is_for():
    silent = [name for name, *_, meaning in reference.settings() if not meaning]
    silent += [name for name, meaning in reference.commands() if not meaning]

    assert not silent, f"say it in a comment on the line or in the command's help: {silent}"


def test_what_is_generated_in_the_client_is_what_the_api_says_now():
    changed = [path.name for path, text in reference.client().items() if path.read_text() != text]

    assert not changed, f"client/muster_client: run `make reference` ({changed})"


def named_in(page):
    return set(re.findall(r"^\| `([^`]+)`", page, re.MULTILINE))
