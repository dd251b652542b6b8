"""The device client as a wheel that this server offers, so that a machine needs no checkout to be paired.

A wheel is a zip archive with a list of its files. It is made from the source files beside this one
and from `devices/client/pyproject.toml`, and is the same bytes for the same files.
"""

import base64
import hashlib
import io
import tomllib
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BESIDE = ("protocol.py", "wire.py")  # modules that server and client share
TAG = "py3-none-any"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time of a zip archive


@cache
def facts() -> dict[str, Any]:
    """The table `project` of the client's pyproject.toml."""
    return tomllib.loads((HERE / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@cache
def filename() -> str:
    """As pip expects it: name, version and tag."""
    return f"{base_name()}-{TAG}.whl"


def base_name() -> str:
    return f"{facts()['name'].replace('-', '_')}-{facts()['version']}"


@cache
def wheel() -> bytes:
    info = f"{base_name()}.dist-info"
    files = {
        **sources(),
        f"{info}/METADATA": metadata(),
        f"{info}/WHEEL": WHEEL,
        f"{info}/entry_points.txt": commands(),
    }
    record = "".join(f"{name},{hash_wheel_content(content)},{len(content)}\n" for name, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            about = zipfile.ZipInfo(name, EPOCH)
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(about, content)
    return packed.getvalue()


def sources() -> dict[str, bytes]:
    modules = [HERE / name for name in BESIDE]
    modules += sorted((HERE / "client").glob("*.py")) + sorted((HERE / "client" / "tools").glob("*.py"))
    return {f"devices/{path.relative_to(HERE).as_posix()}": path.read_bytes() for path in modules}


def metadata() -> bytes:
    about = facts()
    lines = [
        "Metadata-Version: 2.1", f"Name: {about['name']}", f"Version: {about['version']}",
        f"Summary: {about['description']}", f"Requires-Python: {about['requires-python']}",
        *(f"Requires-Dist: {needed}" for needed in about["dependencies"]),
    ]  # fmt: skip
    for extra, packages in about.get("optional-dependencies", {}).items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {needed}; extra == "{extra}"' for needed in packages)]
    readme = (HERE / "client" / "README.md").read_text(encoding="utf-8")
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme]).encode()


def commands() -> bytes:
    lines = (f"{name} = {target}\n" for name, target in facts()["scripts"].items())
    return f"[console_scripts]\n{''.join(lines)}".encode()


def hash_wheel_content(content: bytes) -> str:
    sum_ = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"sha256={sum_}"


WHEEL = f"Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode()
