"""Which server to use, and with which API key.

An argument wins over the environment (`MUSTER_URL`, `MUSTER_API_KEY`), and the environment over the
file that `muster login` writes.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from .errors import ConfigurationError

# Traffic to these does not leave the machine, so it needs no TLS.
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Settings:
    """An address such as `https://muster.example.org`, and a key, which `repr` does not show."""

    url: str
    api_key: str = field(repr=False)

    @property
    def is_exposed(self) -> bool:
        """Without TLS and not on this machine: others on the network can read the key."""
        parts = urlsplit(self.url)
        return parts.scheme != "https" and parts.hostname not in LOCAL


def settings(url: str | None = None, api_key: str | None = None) -> Settings:
    """Raises ConfigurationError if the server or the key is not known.

    A stored key is used only for the server that it was stored for.
    """
    stored = load()
    address = url or os.environ.get("MUSTER_URL") or ""
    if not address and stored:
        address = stored.url
    if not address:
        raise ConfigurationError("No server is known. Set MUSTER_URL, or run `muster login`.")
    address = check_url(address)
    key = api_key or os.environ.get("MUSTER_API_KEY") or ""
    if not key and stored and stored.url == address:
        key = stored.api_key
    if not key:
        raise ConfigurationError(f"There is no API key for {address}. Set MUSTER_API_KEY, or run `muster login`.")
    return Settings(address, check_key(key))


def check_url(url: str) -> str:
    """The address without a slash at its end. Raises ConfigurationError."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(f"“{url}” is not the address of a server. Write it as https://muster.example.org.")
    if parts.username or parts.password:
        raise ConfigurationError("The address of the server contains a user name. Use an API key instead.")
    return url.strip().rstrip("/")


def check_key(key: str) -> str:
    """Raises ConfigurationError for a text that cannot stand in a header."""
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError("The API key contains characters that no key has.")
    return key


def path() -> Path:
    """`MUSTER_CONFIG`, else `muster/credentials.json` in the user's configuration directory."""
    if folder := os.environ.get("MUSTER_CONFIG"):
        return Path(folder).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "muster" / "credentials.json"


def load() -> Settings | None:
    """What `save` stored. Raises ConfigurationError if other users can read it, or if it is damaged."""
    file = path()
    try:
        with file.open() as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
                raise ConfigurationError(f"Other users can read {file}. Run: chmod 600 {file}")
            row = json.load(opened)
        return Settings(str(row["url"]), str(row["api_key"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{file} cannot be read ({error}). Run `muster login` again.") from error


def save(values: Settings) -> Path:
    """Write the file anew, readable by its owner alone from the first byte."""
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Created with the mode 0600.
    number, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(number, "w") as opened:
            json.dump({"url": values.url, "api_key": values.api_key}, opened)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return file


def forget() -> bool:
    """Delete the stored key; whether there was one."""
    try:
        path().unlink()
    except FileNotFoundError:
        return False
    return True
