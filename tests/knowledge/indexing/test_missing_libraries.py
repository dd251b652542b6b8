"""Libraries that read documents are installed while the server runs: nothing is restarted, and nobody sees a riddle."""

import os
import time
from pathlib import Path

import pytest

from functions import sandbox
from functions.sandbox.libraries import NONE
from knowledge.indexing import parsing
from tests.corpus.documents import CASES, pdf
from tests.knowledge.conftest import find_libraries, put_libraries

ALONE = ("plain.docx", "gaps.xlsx", "notes.pptx", "text.odt", "multi.eml", "page.html", "utf16.txt", "faq.md")


@pytest.fixture
def without_libraries(tmp_path, settings, monkeypatch):
    settings.LIBRARIES_DIR = str(tmp_path / "libraries")
    earlier = sandbox._libraries
    sandbox.close()
    sandbox.offer(NONE)
    monkeypatch.setattr(sandbox, "_find", lambda: find_libraries(Path(settings.LIBRARIES_DIR)))
    yield tmp_path / "libraries"
    sandbox.close()
    sandbox.offer(earlier)


def read(name, content):
    return parsing.read_document_text(name, name, "application/octet-stream", content)


def test_office_files_mail_and_pages_need_no_library(without_libraries):
    for case in CASES:
        if case.name in ALONE:
            text = "\n".join(f"{part.heading}\n{part.text}" for part in read(case.name, case.make()).parts)
            assert all(wanted in text for wanted in case.texts), case.name


def test_a_missing_library_says_what_the_administrator_must_do(without_libraries):
    with pytest.raises(parsing.Unreadable) as failure:
        read("a.pdf", pdf("word"))
    assert failure.value.code == "library_missing" and "manage.py install_libraries" in str(failure.value)


def test_a_document_waits_while_the_libraries_are_installed_and_needs_no_restart(without_libraries):
    fresh = Path(f"{without_libraries}.new")
    fresh.mkdir()
    with pytest.raises(parsing.NotNow):
        read("a.pdf", pdf("word"))
    put_libraries(fresh)
    fresh.rename(without_libraries)
    assert [part.text.strip() for part in read("a.pdf", pdf("word")).parts] == ["word"]


def test_an_installation_that_was_interrupted_lets_no_document_wait(without_libraries):
    fresh = Path(f"{without_libraries}.new")
    fresh.mkdir()
    os.utime(fresh, (time.time() - 3600,) * 2)
    with pytest.raises(parsing.Unreadable):
        read("a.pdf", pdf("word"))
