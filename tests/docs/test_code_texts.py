"""Texts of the code: all are in the message file, and none is translated where a row may keep it."""

import re

import polib
import pytest

from tests.docs import code_texts
from tests.docs.messages import ROOT

CATALOG = polib.pofile(str(ROOT / "locale/de/LC_MESSAGES/code.po"))
READERS = (  # what these modules translate is read at once, by one person
    "studio/", "runs/worker/notices/", "studio/templatetags/", "runs/schedules/tick.py", "agents/http/login.py",
    "config/errors.py", "functions/admin/", "agents/admin/", "connectors/admin.py", "devices/admin.py",
    "knowledge/admin.py", "runs/admin.py",
)  # fmt: skip
TRANSLATES = re.compile(r"^from django\.utils\.translation import .*\b(gettext|ngettext|pgettext)\b(?!_)", re.MULTILINE)


def test_every_text_of_an_error_and_every_name_is_in_the_message_file():
    known, found = {entry.msgid for entry in CATALOG}, set(code_texts.everything())
    assert sorted(found - known) == [], "run make messages, and translate these"
    assert sorted(known - found) == [], "run make messages: these are gone"


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('raise Invalid("It is gone.", hint="Look again.")', ["It is gone.", "Look again."]),
        ('raise Invalid(f"“{row.name}” and {other[0]} differ.")', ["“%(name)s” and %(other)s differ."]),
        ('raise Invalid(_("It is gone."), code="gone")', []),
        ('raise ValueError("It is gone.")', []),
        ('refuse_unknown_fields(extras, "It has no such field.")', ["It has no such field."]),
        ('raise Invalid("One fails." if one else f"{len(red)} fail now.")', ["One fails.", "%(red)s fail now."]),
    ],
)
def test_a_text_that_is_given_to_an_error_is_found(source, texts):
    assert list(code_texts.iterate_texts(source, whole=False)) == texts


def test_a_text_anywhere_is_found_in_the_modules_that_are_read_as_a_whole():
    source = '"""Not this."""\nreason = f"{n} workers died"\nlog.info("nor is this")\n'
    assert list(code_texts.iterate_texts(source, whole=True)) == ["%(n)s workers died"]
    assert all((code_texts.ROOT / name).exists() for name in code_texts.WHOLE)


def test_no_module_below_the_pages_translates_what_a_row_may_keep():
    apps = [path for app in code_texts.APPS for path in (ROOT / app).rglob("*.py")]
    names = [str(path.relative_to(ROOT)) for path in apps if TRANSLATES.search(path.read_text())]
    assert [name for name in names if not name.startswith(READERS)] == [], "use gettext_noop, or nothing"
