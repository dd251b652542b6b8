"""Exchanges a one-time code for a device credential."""

import http.client
import ipaddress
import json
import platform
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from .exceptions import Fatal
from .home import Home, Identity

JSON = Any


def preview_pairing(server: str, code: str) -> dict[str, JSON]:
    """The account that the code belongs to: {account, server}. The code stays valid. Raises Fatal."""
    return post_pairing(server, {"code": code, "preview": True})


def pair_device(home: Home, server: str, code: str, name: str) -> Identity:
    """Use the code and store the credential. Raises Fatal."""
    answer = post_pairing(server, {"code": code, "name": name, "platform": platform_name()})
    address = check_server_address(server)
    identity = Identity(address, answer["device"], answer["credential"], answer["account"], name)
    home.keep_identity(identity)
    return identity


def post_pairing(server: str, body: dict[str, JSON]) -> dict[str, JSON]:
    url = f"{check_server_address(server)}/api/v1/devices/pair"
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310  (scheme checked)
    try:
        with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
            return dict(json.load(response))
    except urllib.error.HTTPError as error:
        raise Fatal(read_refusal_reason(error))
    except (OSError, ValueError, http.client.HTTPException) as error:  # also if the address of the proxy is not one
        raise Fatal(f"{server} cannot be reached: {getattr(error, 'reason', error)}")


def read_refusal_reason(error: urllib.error.HTTPError) -> str:
    try:
        problem = json.load(error)["error"]
        return f"{problem['message']} {problem.get('hint', '')}".strip()
    except (ValueError, KeyError, TypeError):
        return f"the server answered {error.code}; is this the address of a Muster site?"


def check_server_address(server: str) -> str:
    """The server's address. TLS is required unless the server is this machine. A path is kept, as a proxy may serve
    the site below one; that of the page where people read the code is not. Raises Fatal.
    """
    url = server
    if "://" not in url:
        url = f"https://{server}"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        # A port that is no number is an error.
        _ = parts.port
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https") or not server.isprintable() or " " in server:
        raise Fatal(f"{server!r} is not an address such as https://muster.example.org")
    if parts.scheme == "http" and not is_loopback(host):
        raise Fatal(f"{server} is not encrypted: use https, so that the credential is not sent in plain text")
    path = parts.path.rstrip("/").removesuffix("/devices")
    return f"{parts.scheme}://{parts.netloc}{path}"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def platform_name() -> str:
    return f"{platform.system()} {platform.machine()}"[:100]
