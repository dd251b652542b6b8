"""The `files` profile's program: runs plain Python in one namespace that lasts from call to call.

Only the kernel layers protect this process: the code may use all of Python, but it has no network, no
other process and no file of the host. Input files are copied into /mnt/inputs, read-only; what the
code writes to /mnt/outputs is sent to the host after each call.
"""

from __future__ import annotations

import ast
import encodings
import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
import zipfile
import zoneinfo
from binascii import a2b_base64
from pathlib import Path
from typing import Any

from . import documents, files, packages
from .runtime import FILENAME

INPUTS, OUTPUTS, SKILLS = f"{files.WORK}/inputs", f"{files.WORK}/outputs", f"{files.WORK}/skills"
_MOST_OUTPUTS = 20
_OUTPUT_BYTES = 10 << 20
_VALUE_CHARS = 10_000
_PIECE = 1 << 20
# Modules of the standard library that code can import: those without network, processes and windows.
_USEFUL = (
    "argparse", "array", "base64", "bisect", "bz2", "calendar", "cmath", "codecs", "collections.abc", "colorsys",
    "configparser", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "email.parser",
    "email.policy", "enum", "fnmatch", "fractions", "functools", "getpass", "glob", "gzip", "hashlib", "heapq",
    "hmac", "html", "html.parser", "importlib", "inspect", "io", "itertools", "json", "locale", "logging", "lzma",
    "math", "mimetypes", "mmap", "numbers", "operator", "os.path", "pathlib", "pickle", "platform", "plistlib",
    "pprint", "queue", "quopri", "random", "re", "secrets", "shelve", "shlex", "shutil", "sqlite3", "stat",
    "statistics", "string", "struct", "tarfile", "tempfile", "textwrap", "threading", "time", "timeit", "tomllib",
    "traceback", "types", "typing", "unicodedata", "unittest", "urllib.parse", "uuid", "warnings", "weakref",
    "xml.dom.minidom", "xml.etree.ElementTree", "zipfile", "zlib", "zoneinfo",
)  # fmt: skip

_namespace: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
# What was sent of /mnt/outputs: size and time of the last change.
_sent: dict[str, tuple[int, int]] = {}
_calls = 0


def preload(libraries: tuple[str, ...]) -> None:
    """In the zygote: load what code can import; afterwards there is nothing to load it from."""
    for name in _USEFUL:
        importlib.import_module(name)
    for codec in pkgutil.iter_modules(encodings.__path__):
        if codec.name not in ("mbcs", "oem"):
            # The two others exist only on Windows.
            importlib.import_module(f"encodings.{codec.name}")
    packages.load_packages(libraries)
    # Code reads documents as collections do.
    sys.modules["documents"] = documents
    roots = {path for name in libraries for path in getattr(sys.modules[name], "__path__", ())}
    files.read_data([*sorted(roots), *zoneinfo.TZPATH[:1]])
    if "matplotlib" in libraries:
        _prepare_plots(roots)
    sys.modules["__main__"].__dict__.clear()
    os.environ["HOME"] = tempfile.tempdir = files.WORK


def _prepare_plots(roots: set[str]) -> None:
    """Draw once, so that fonts are known, and forget the fonts of the host, which cannot be opened later."""
    from matplotlib import font_manager, pyplot  # type: ignore[import-not-found, unused-ignore]

    fonts = font_manager.fontManager
    fonts.ttflist = [font for font in fonts.ttflist if any(font.fname.startswith(root) for root in roots)]
    fonts.afmlist = []
    figure, axes = pyplot.subplots()
    axes.plot([1, 2], [1, 2], label="a")
    axes.set_title("a")
    axes.legend()
    figure.canvas.draw()
    pyplot.close("all")


def run(ctx: Any, code: str, inputs: list[dict[str, Any]]) -> dict[str, Any]:
    """Run the code. `inputs` are files as {"file": id, "name": name}, and skills as {"skill": name,
    "text": SKILL.md, "file": id of an archive or None}; those that are not there yet are fetched.

    Returns {"value": text or None, "files": [{"file", "name", "media_type", "size"}], "call": how many
    calls this namespace has had, "skipped": [why a file of /mnt/outputs was not stored]}.
    """
    global _calls
    _calls += 1
    for file in inputs:
        (_fetch_skill if "skill" in file else _fetch)(ctx, file)
    try:
        value = _execute(code)
    finally:
        _save_plots()
    sent, skipped = _send_outputs(ctx)
    return {"value": value, "files": sent, "call": _calls, "skipped": skipped}


def _fetch(ctx: Any, file: dict[str, Any]) -> None:
    path = f"{INPUTS}/{file['name']}"
    if os.path.exists(path):
        return
    partial = f"{files.WORK}/.{file['file']}"
    _receive(ctx, file, partial)
    os.chmod(partial, 0o400)
    os.rename(partial, path)


def _receive(ctx: Any, source: dict[str, Any], path: str) -> None:
    with open(path, "wb") as file:
        while piece := a2b_base64(ctx.__requester__.__ask__("read_file", _piece(source, file.tell()), str)):
            file.write(piece)


def _fetch_skill(ctx: Any, file: dict[str, Any]) -> None:
    """The files of a skill below /mnt/skills, read-only. The code shares this user and could change them back;
    they are a copy that only this run sees.
    """
    folder = f"{SKILLS}/{file['skill']}"
    if os.path.exists(folder):
        return
    partial = f"{files.WORK}/.skill"
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    if file["file"]:
        archive = f"{files.WORK}/.archive"
        _receive(ctx, file, archive)
        with zipfile.ZipFile(archive) as unpacked:
            unpacked.extractall(partial)
        os.remove(archive)
    Path(f"{partial}/SKILL.md").write_text(file["text"], encoding="utf-8", newline="")
    os.makedirs(SKILLS, exist_ok=True)
    os.rename(partial, folder)
    for path in [*Path(folder).rglob("*"), Path(folder)]:
        path.chmod(0o500 if path.is_dir() else 0o400)


def _piece(file: dict[str, Any], offset: int) -> dict[str, Any]:
    return {"file": file["file"], "offset": offset, "size": _PIECE}


def _execute(code: str) -> str | None:
    """The text of the last expression's value, as in a notebook; None if there is none."""
    tree = ast.parse(code, FILENAME)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, FILENAME, "exec", dont_inherit=True), _namespace)
        return None
    del tree.body[-1]
    exec(compile(tree, FILENAME, "exec", dont_inherit=True), _namespace)
    value = eval(compile(ast.Expression(last.value), FILENAME, "eval", dont_inherit=True), _namespace)
    return None if value is None else _render_value(value)


def _render_value(value: object) -> str:
    text = str(value) if type(value).__module__.partition(".")[0] == "pandas" else repr(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}… ({len(text)} characters)"


def _save_plots() -> None:
    """Save the figures that are still open, as a notebook would show them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        pyplot.figure(number).savefig(f"{OUTPUTS}/figure-{_calls}-{number}.png", bbox_inches="tight")
    pyplot.close("all")


def _send_outputs(ctx: Any) -> tuple[list[dict[str, Any]], list[str]]:
    sent: list[dict[str, Any]] = []
    skipped: list[str] = []
    for path in sorted(path for path in Path(OUTPUTS).rglob("*") if path.is_file() and not path.is_symlink()):
        facts = path.stat()
        state = (facts.st_size, facts.st_mtime_ns)
        name = str(path.relative_to(OUTPUTS)).replace("/", "-")
        if _sent.get(name) == state:
            continue
        why = _why_not(name, facts.st_size, len(sent))
        if why:
            skipped.append(why)
            continue
        sent.append(dict(ctx.save_file(name, path.read_bytes())))
        _sent[name] = state
    return sent, skipped


def _why_not(name: str, size: int, count: int) -> str:
    if size > _OUTPUT_BYTES:
        return f"{name} has {size >> 20} MB; a file can have at most {_OUTPUT_BYTES >> 20} MB"
    if count >= _MOST_OUTPUTS:
        return f"{name}: one call can store at most {_MOST_OUTPUTS} files"
    return ""
