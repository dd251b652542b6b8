"""The data directory of a device: its identity, its configuration, its records and journal.

device.json (0600) holds the server's address and the credential, config.toml the user's choices,
device.sqlite3 the records and the journal.
"""

import fcntl
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .exceptions import Fatal

JSON = Any
DEFAULT = "~/.muster-device"
MODES = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class Identity:
    """The device's identity at its server."""

    server: str
    device: str
    credential: str
    account: str
    name: str


@dataclass(frozen=True, slots=True)
class McpServer:
    """A local MCP server over stdio, mounted under a name."""

    name: str
    command: str
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    roots: dict[str, str] = field(default_factory=dict)
    approvals: dict[str, str] = field(default_factory=dict)
    default_approval: str = "allow"
    offered_approval: str = "ask"
    mcp_servers: tuple[McpServer, ...] = ()

    def approval(self, tool: str, *, is_offered: bool) -> str:
        if tool in self.approvals:
            return self.approvals[tool]
        if is_offered:
            return self.offered_approval
        return self.default_approval


class Home:
    def __init__(self, path: str | Path | None = None) -> None:
        self.path = expand_home(path or os.environ.get("MUSTER_DEVICE_HOME") or DEFAULT)
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.lock: Any = None

    @property
    def database(self) -> Path:
        return self.path / "device.sqlite3"

    def identity(self) -> Identity:
        """Raises Fatal if the device is not paired."""
        path = self.path / "device.json"
        damaged = Fatal(f"{path} is damaged: pair the device again")
        try:
            values = json.loads(read_settings(path))
            identity = Identity(**values)
        except FileNotFoundError:
            raise Fatal("this device is not paired yet: run `muster-device pair --server URL --code CODE`")
        except (ValueError, TypeError):
            raise damaged
        if not all(isinstance(value, str) for value in values.values()):
            raise damaged
        return identity

    def keep_identity(self, identity: Identity) -> None:
        """Replaced atomically and flushed before use: losing the credential means pairing again."""
        values = {name: getattr(identity, name) for name in Identity.__slots__}
        path = self.path / ".device.json"
        # Readable for this person alone from the first byte on.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump(values, file)
            file.flush()
            os.fsync(file.fileno())
        path.replace(self.path / "device.json")

    def config(self) -> Config:
        """Raises Fatal, naming the invalid line of the file."""
        path = self.path / "config.toml"
        if not path.exists():
            return Config()
        try:
            return read_config(tomllib.loads(read_settings(path)))
        except ValueError as error:
            raise Fatal(f"{path}: {error}")

    def take(self) -> None:
        """Only one client per home: two would share a credential and disconnect each other. Raises
        Fatal.
        """
        self.lock = (self.path / "lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Fatal(f"another client is already running with {self.path}")

    def is_running(self) -> bool:
        with (self.path / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
            return False


def read_settings(path: Path) -> str:
    """The text of a file that an editor may have begun with a byte order mark. Raises OSError and ValueError."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not written in UTF-8: save it as UTF-8")


def expand_home(path: str | Path) -> Path:
    """With the home directory in place of `~`. Raises Fatal."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise Fatal(f"{path}: there is no such home directory")


def read_config(values: Mapping[str, JSON]) -> Config:
    """Raises ValueError."""
    folders = read_table(values, "roots")
    approvals = {name: check_mode(mode) for name, mode in read_table(values, "approvals").items()}
    # These two are no names of tools.
    default = approvals.pop("default", "allow")
    offered = approvals.pop("offered", "ask")
    servers = read_table(read_table(values, "mcp"), "servers")
    roots = {}
    for name, path in folders.items():
        roots[str(name)] = str(expand_home(str(path)))
    return Config(
        roots=roots,
        approvals=approvals,
        default_approval=default,
        offered_approval=offered,
        mcp_servers=tuple(read_server(name, server) for name, server in servers.items()),
    )


def read_server(name: str, values: JSON) -> McpServer:
    """Raises ValueError."""
    place = f"[mcp.servers.{name}]"
    if not isinstance(values, dict) or not isinstance(values.get("command"), str):
        raise ValueError(f'{place} must be a table with command = "…"')
    arguments = values.get("args", [])
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise ValueError(f"args of {place} must be a list of texts")
    environment = values.get("env", {})
    if not isinstance(environment, dict) or not all(isinstance(value, str) for value in environment.values()):
        raise ValueError(f"env of {place} must be a table of texts")
    return McpServer(name, values["command"], list(arguments), dict(environment))


def read_table(values: Mapping[str, JSON], name: str) -> dict[str, JSON]:
    section = values.get(name, {})
    if not isinstance(section, dict):
        raise ValueError(f"[{name}] must be a table")
    return section


def check_mode(mode: JSON) -> str:
    if mode not in MODES:
        raise ValueError(f"an approval must be allow, ask or deny, not {mode!r}")
    return str(mode)
