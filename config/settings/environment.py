"""Reads the environment, and keeps generated keys in the data directory."""

import os
import secrets
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parents[2]
env = environ.Env()

# directory of the database, keys, logs and embedded servers
DATA_DIR = Path(env.str("MUSTER_DATA_DIR", default=str(BASE_DIR / "var"))).resolve()


def kept_secret(name: str) -> str:
    """The environment's value, else one generated once and kept in the data directory (mode 0600)."""
    if value := env.str(name, default=""):
        return value
    path = DATA_DIR / "secrets" / name.lower()
    try:
        return path.read_text().strip() if path.exists() else store_secret(path)
    except OSError as error:
        raise ImproperlyConfigured(f"{error.filename} cannot be used ({error.strerror}): set MUSTER_DATA_DIR.")


def store_secret(path: Path) -> str:
    """Stores a new secret at `path` unless another process was first; returns what is stored."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.touch(mode=0o600)
    temporary.write_text(secrets.token_urlsafe(48))
    try:
        os.link(temporary, path)  # the first of two starting processes wins; both read the same file
    except FileExistsError:
        pass
    temporary.unlink()
    return path.read_text().strip()


def read_file(path: str) -> str:
    """The text of this file; empty without one."""
    try:
        return Path(path).read_text() if path else ""
    except OSError as error:
        raise ImproperlyConfigured(f"{path} cannot be read ({error.strerror}).")
