"""Reads the environment, and keeps generated keys in the data directory."""

import io
import os
import re
import secrets
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parents[2]
env = environ.Env()


def read_env_file(path: str) -> None:
    """Adds the lines NAME=value of this file to the environment, which wins where both set a variable.

    Nothing happens without the file or with an empty path. Raises ImproperlyConfigured.
    """
    if not path or not Path(path).is_file():
        return
    try:
        # With or without a byte order mark: editors on Windows write one.
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{path} cannot be read: {error}. Correct it, or set MUSTER_ENV_FILE.")
    for number, line in enumerate(text.splitlines(), start=1):
        # What django-environ takes; it passes over other lines without a word.
        is_setting = re.match(r"(export )?[A-Za-z_][A-Za-z0-9_]*=", line)
        is_blank_or_comment = not line.strip() or line.lstrip().startswith("#")
        if not is_setting and not is_blank_or_comment:
            # The line itself is not shown: it may hold a key.
            raise ImproperlyConfigured(f"Line {number} of {path} is not of the form NAME=value.")
    environ.Env.read_env(io.StringIO(text))


# a file with settings of this machine; by default `.env` beside manage.py
read_env_file(env.str("MUSTER_ENV_FILE", default=str(BASE_DIR / ".env")))

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
