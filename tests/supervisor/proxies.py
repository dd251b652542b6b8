"""nginx and Caddy with the files that are shipped, in front of a server of a test: without TLS, on a free port."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import free_port, served

SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "proxy"
PROXIES = ("nginx", "caddy")
KINDS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")  # of nginx's folders for what it buffers


@contextmanager
def proxied(
    name: str, upstream: int, folder: Path, *, port: int | None = None, change: Callable[[str], str] = str
) -> Iterator[str]:
    """The address of this proxy; both of its two web servers are the one at the port `upstream`. `change` edits the
    shipped file as its reader would.
    """
    program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    port = port or free_port()
    url = f"http://127.0.0.1:{port}"
    write = write_nginx if name == "nginx" else write_caddy
    arguments = write(folder, port, upstream, change)
    with served([program, *arguments], f"{url}/metrics", XDG_DATA_HOME=str(folder), XDG_CONFIG_HOME=str(folder)):
        yield url


def write_nginx(folder: Path, port: int, upstream: int, change: Callable[[str], str]) -> list[str]:
    shipped = to_test(change((SHIPPED / "nginx.conf").read_text()), upstream)
    shipped = shipped.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    shipped = re.sub(r"ssl_certificate(_key)? [^;]+;", "", shipped)
    shipped = shipped.replace("Host $host;", f"Host 127.0.0.1:{upstream};")
    user = "user root;" if os.geteuid() == 0 else ""  # who may write to the folders of this test
    folders = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in KINDS)
    head = f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}"
    (folder / "nginx.conf").write_text(f"{head} http {{ access_log off; {folders} {shipped} }}")
    return ["-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]


def write_caddy(folder: Path, port: int, upstream: int, change: Callable[[str], str]) -> list[str]:
    shipped = to_test(change((SHIPPED / "Caddyfile").read_text()), upstream)
    shipped = shipped.replace("muster.example.org {", f"http://:{port} {{\n\tbind 127.0.0.1")
    shipped = shipped.replace("header_up X-F", f"header_up Host 127.0.0.1:{upstream}\n\t\theader_up X-F")
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n}}\n{shipped}")
    return ["run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def to_test(shipped: str, upstream: int) -> str:
    assert "127.0.0.1:8001" in shipped
    return shipped.replace("127.0.0.1:8001", f"127.0.0.1:{upstream}").replace("127.0.0.1:8002", f"localhost:{upstream}")
