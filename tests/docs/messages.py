"""Collects the texts of pages and scripts into `locale/`, and compiles what is translated.

`make messages` runs it. Collecting needs xgettext (Debian: gettext); compiling and running need neither.
"""

import sys
from pathlib import Path

import polib

from tests.docs import code_texts

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("de",)
KEYWORDS = ("later", "known")  # gettext_lazy and gettext_noop, as the code imports them
HEADERS = ("POT-Creation-Date", "PO-Revision-Date", "Last-Translator", "Language-Team", "Report-Msgid-Bugs-To")
IGNORED = (
    ".venv",
    "var",
    "build",
    "docs",
    "tests",
    "benchmarks",
    "client",
    "frontend",
    "static/muster/vendor",
    "static/editor",
    "node_modules",
)


def collect() -> None:
    """New texts are added, texts that are gone are removed, translations are kept."""
    import django
    from django.core.management import call_command
    from django.core.management.commands.makemessages import Command

    Command.xgettext_options = [*Command.xgettext_options, *(f"--keyword={name}" for name in KEYWORDS)]
    django.setup()
    common = {"locale": list(LANGUAGES), "ignore_patterns": list(IGNORED), "no_obsolete": True, "no_wrap": True,
              "add_location": "file"}  # fmt: skip
    call_command("makemessages", domain="django", extensions=["html", "py"], **common)
    call_command("makemessages", domain="djangojs", extensions=["js"], **common)
    for language in LANGUAGES:
        code_texts.merge(ROOT / "locale" / language / "LC_MESSAGES" / "code.po")
    for path in catalogs():
        tidied(path)


def catalogs() -> list[Path]:
    return sorted((ROOT / "locale").rglob("*.po"))


def tidied(path: Path) -> None:
    """Without dates, names and guesses, so that the same texts give the same file."""
    catalog = polib.pofile(str(path), wrapwidth=100)
    for name in HEADERS:
        catalog.metadata.pop(name, None)
    catalog.metadata |= {"Project-Id-Version": "Muster", "Language": path.parts[-3]}
    catalog.metadata_is_fuzzy = False
    for entry in catalog.fuzzy_entries():  # guessed by msgmerge from a similar text
        entry.flags, entry.msgstr = [], ""
        # Without an empty text for each form msgmerge would refuse the file.
        entry.msgstr_plural = {0: "", 1: ""} if entry.msgid_plural else {}
        entry.previous_msgid = entry.previous_msgid_plural = None
    catalog.header = "Texts of Muster. `make messages` collects and compiles them."
    catalog.save()


def compiled(path: Path) -> bytes:
    """The .mo of this .po."""
    return polib.pofile(str(path)).to_binary()


def compile_all() -> None:
    for path in catalogs():
        path.with_suffix(".mo").write_bytes(compiled(path))


if __name__ == "__main__":
    if "--compile" not in sys.argv:
        collect()
    compile_all()
