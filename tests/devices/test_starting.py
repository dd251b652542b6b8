"""What keeps the client from starting is one line that says what to do."""

import codecs
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from devices.client import __main__, connection
from devices.client.exceptions import Fatal
from devices.client.home import Home

IDENTITY = {"server": "http://127.0.0.1:9", "device": "d", "credential": "c", "account": "a", "name": "laptop"}
CONFIG = '[roots]\ndocs = "/tmp"\n'
ROOT = Path(__file__).resolve().parents[2]
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path / "home")
    (made.path / "device.json").write_text(json.dumps(IDENTITY))
    return made.path


def start(capsys, *words):
    """What the program prints when it ends by itself."""
    code = __main__.main([*words])
    said = capsys.readouterr()
    assert code == 1, said
    [line] = said.err.splitlines()
    return line


def test_settings_may_begin_with_a_byte_order_mark(home):
    (home / "config.toml").write_bytes(codecs.BOM_UTF8 + CONFIG.encode())
    (home / "device.json").write_bytes(codecs.BOM_UTF8 + json.dumps(IDENTITY).encode())
    assert Home(home).config().roots == {"docs": "/tmp"}
    assert Home(home).identity().credential == "c"


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (CONFIG.encode("utf-16"), "save it as UTF-8"),
        ('[roots]\n"é" = "/tmp"'.encode("latin-1"), "save it as UTF-8"),
        (b"[mcp.servers.a]\nargs = []", "command"),
        (b"[mcp.servers]\na = 1", "must be a table"),
        (b'[mcp.servers.a]\ncommand = "x"\nargs = 1', "list of texts"),
        (b'[mcp.servers.a]\ncommand = "x"\nenv = ["a"]', "table of texts"),
        (b"[mcp.servers.a]\ncommand = 1", "command"),
        (b'[roots]\ndocs = "~nobody-of-this-name/a"', "home directory"),
        (b'[roots]\ndocs = "/nowhere"', "/nowhere"),
    ],
)
def test_wrong_settings_are_one_line(home, config, wanted, capsys):
    (home / "config.toml").write_bytes(config)
    assert wanted in start(capsys, "--home", str(home), "run")


@pytest.mark.parametrize("name", ["config.toml", "device.sqlite3", "lock"])
def test_a_folder_in_place_of_a_file_is_one_line(home, name, capsys):
    (home / name).mkdir()
    assert "cannot be used" in start(capsys, "--home", str(home), "run")


@pytest.mark.parametrize("words", [["run"], ["review"]])
def test_damaged_records_are_one_line(home, words, capsys):
    (home / "device.sqlite3").write_text("no database" * 500)
    assert "not a database" in start(capsys, "--home", str(home), *words)


@pytest.mark.parametrize("identity", ["", "[1]", "{}", json.dumps(dict.fromkeys(IDENTITY, 1))])
def test_a_damaged_identity_is_one_line(home, identity, capsys):
    (home / "device.json").write_text(identity)
    assert "pair the device again" in start(capsys, "--home", str(home), "run")


def test_a_data_directory_that_cannot_be_made_is_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert "cannot be used" in start(capsys, "--home", str(tmp_path / "file" / "home"), "status")


@pytest.mark.parametrize(
    "proxy", ["http://", "http://[::1", "http://a:secret@h:99999", "ftp://x", "http://h:port", "http://secret@h", "socks5://h"]
)  # fmt: skip
def test_a_proxy_that_can_never_be_used_is_one_line(home, proxy, capsys, monkeypatch):
    for name in PROXIES:
        monkeypatch.setenv(name, proxy if name != "no_proxy" else "")
    line = start(capsys, "--home", str(home), "run")
    assert "proxy" in line and "secret" not in line


def test_a_proxy_may_be_named_without_a_scheme(monkeypatch):
    monkeypatch.setattr(urllib.request, "getproxies", lambda: {"https": "proxy.example:3128"})
    assert connection.find_proxy("wss://muster.example.org/") == "http://proxy.example:3128"


@pytest.mark.parametrize("proxy", ["http://h:port", "http://a b", "http://"])
def test_pairing_through_a_proxy_that_is_none_is_one_line(tmp_path, proxy, capsys, monkeypatch):
    for name in PROXIES:
        monkeypatch.setenv(name, proxy if name != "no_proxy" else "")
    words = ["pair", "--server", "https://muster.example.org", "--code", "x", "--yes"]
    assert "cannot be reached" in start(capsys, "--home", str(tmp_path), *words)


@pytest.mark.parametrize("server", ["http://[", "https://a b", "https://x:port", "https://x:99999", "https://x\n"])
def test_an_address_that_is_none_is_one_line(tmp_path, server, capsys):
    line = start(capsys, "--home", str(tmp_path), "pair", "--server", server, "--code", "x", "--yes")
    assert "is not an address" in line


def test_the_errors_of_the_settings_are_ours(home):
    (home / "config.toml").write_text("[roots]\ndocs = \n")
    with pytest.raises(Fatal, match=r"config\.toml"):
        Home(home).config()


def test_windows_is_refused_in_words():
    """Its Python lacks modules that the client is made of: without the check it would end in a traceback."""
    code = "import asyncio, runpy, sys; sys.platform = 'win32'; runpy.run_module('devices.client', run_name='__main__')"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert "WSL" in line
