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
# Modules that server and client share.
BESIDE = ("protocol.py", "wire.py")
TAG = "py3-none-any"
# The oldest time of a zip archive.
EPOCH = (1980, 1, 1, 0, 0, 0)


@cache
def facts() -> dict[str, Any]:
    """The table `project` of the client's pyproject.toml."""
    text = (HERE / "client" / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]


@cache
def filename() -> str:
    """As pip expects it: name, version and tag."""
    return f"{base_name()}-{TAG}.whl"


def base_name() -> str:
    about = facts()
    name = about["name"].replace("-", "_")
    return f"{name}-{about['version']}"


@cache
def wheel() -> bytes:
    info = f"{base_name()}.dist-info"
    files = {
        **sources(),
        f"{info}/METADATA": metadata(),
        f"{info}/WHEEL": WHEEL,
        f"{info}/entry_points.txt": commands(),
    }
    record = ""
    for name, content in files.items():
        record += f"{name},{hash_wheel_content(content)},{len(content)}\n"
    # The record cannot contain its own hash.
    record += f"{info}/RECORD,,\n"
    files[f"{info}/RECORD"] = record.encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            about = zipfile.ZipInfo(name, EPOCH)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = 0o644 << 16
            archive.writestr(about, content)
    return packed.getvalue()


def sources() -> dict[str, bytes]:
    modules = [HERE / name for name in BESIDE]
    modules += sorted((HERE / "client").glob("*.py"))
    modules += sorted((HERE / "client" / "tools").glob("*.py"))
    contents = {}
    for path in modules:
        name = path.relative_to(HERE).as_posix()
        contents[f"devices/{name}"] = path.read_bytes()
    return contents


def metadata() -> bytes:
    about = facts()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {about['name']}",
        f"Version: {about['version']}",
        f"Summary: {about['description']}",
        f"Requires-Python: {about['requires-python']}",
    ]
    for package in about["dependencies"]:
        lines.append(f"Requires-Dist: {package}")
    for extra, packages in about.get("optional-dependencies", {}).items():
        lines.append(f"Provides-Extra: {extra}")
        for package in packages:
            lines.append(f'Requires-Dist: {package}; extra == "{extra}"')
    readme = (HERE / "client" / "README.md").read_text(encoding="utf-8")
    lines += ["Description-Content-Type: text/markdown", "", readme]
    return "\n".join(lines).encode()


def commands() -> bytes:
    text = "[console_scripts]\n"
    for name, target in facts()["scripts"].items():
        text += f"{name} = {target}\n"
    return text.encode()


def hash_wheel_content(content: bytes) -> str:
    digest = hashlib.sha256(content).digest()
    encoded = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return f"sha256={encoded}"


WHEEL = f"Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode()
