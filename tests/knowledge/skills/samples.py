"""Skills for tests, in the form of public ones."""

import io
import tarfile
import zipfile

SCRIPT = b'def total(numbers: list[int]) -> int:\n    """Add numbers."""\n    return sum(numbers)\n'
FILES = {
    "scripts/total.py": SCRIPT,
    "references/terms.md": b"# Terms\r\nNet is gross without tax.\r\n",
    "assets/logo.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
}


def skill_md(name="invoices", description="Checks invoices. Use when a person sends an invoice.", more="", body=""):
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n{body or '# Invoices'}\n\nSee references/terms.md.\n"


def zipped(files, folder="invoices/", **more):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(f"{folder}{path}", content)
        for path, content in more.items():
            archive.writestr(path, content)
    return made.getvalue()


def tarred(entries, mode="w:gz"):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for entry, content in entries:
            info = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(entry)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def whole(**more):
    return {"SKILL.md": skill_md(**more).encode(), **FILES}
