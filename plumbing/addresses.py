"""Which network addresses people's URLs may lead to: public ones, and the private ones an administrator named."""

import ipaddress
import socket
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

LOOKUP_S = 10.0
LOOKUPS = threading.BoundedSemaphore(64)  # each holds a thread until the system's resolver gives up

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def url_refusal(url: str, allowed: Iterable[str], *, must_resolve: bool = True) -> str:
    """Why this URL may not be called, or "". Resolves the host name; one that is not found passes where it may."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"“{url}” is not an http or https address."
    if parts.username or parts.password:
        return "An address must not carry a user name or password."
    return host_refusal(parts.hostname, allowed, must_resolve=must_resolve)


def host_refusal(host: str, allowed: Iterable[str], *, must_resolve: bool = True) -> str:
    allowed = list(allowed)
    if host.lower() in {name.lower() for name in allowed}:
        return ""
    try:
        found = resolve(host)
    except (OSError, UnicodeError):
        return f"The host “{host}” cannot be found." if must_resolve else ""
    refused = sorted(str(address) for address in found if not is_allowed(str(address), allowed))
    if refused:
        return (
            f"“{host}” leads to the private address {refused[0]}; an administrator may allow it (MUSTER_PRIVATE_HOSTS)."
        )
    return ""


def resolve(host: str, port: int | None = None, *, within: float | None = LOOKUP_S) -> list[str]:
    """The addresses of a host, each once, in the order to try them. Raises OSError (TimeoutError), UnicodeError."""
    found = look_up(host, port, LOOKUP_S if within is None else within)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def look_up(host: str, port: int | None, seconds: float) -> list[Any]:
    """The system's resolver takes no time limit: it is asked on a thread of its own, which is left behind."""
    end, places = monotonic() + seconds, LOOKUPS
    if not places.acquire(timeout=seconds):
        raise TimeoutError("too many names are being looked up")
    told: SimpleQueue[list[Any] | Exception] = SimpleQueue()
    threading.Thread(target=ask_resolver, args=(host, port, told, places), daemon=True, name="resolver").start()
    try:
        answer = told.get(timeout=max(end - monotonic(), 0.01))
    except Empty:
        raise TimeoutError("the resolver took too long")
    if isinstance(answer, Exception):
        raise answer
    return answer


def ask_resolver(
    host: str, port: int | None, told: SimpleQueue[list[Any] | Exception], places: threading.Semaphore
) -> None:
    try:
        told.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except Exception as error:  # it is raised where it was asked for
        told.put(error)
    finally:
        places.release()


def is_allowed(address: str, allowed: Iterable[str]) -> bool:
    """Is this IP address public, or inside one of the allowed networks?"""
    ip = plain(ipaddress.ip_address(address.partition("%")[0]))
    return is_public(ip) or any(ip in network for network in networks(allowed) if network.version == ip.version)


def plain(ip: Address) -> Address:
    """An IPv4 address that hides in an IPv6 one counts as itself."""
    return (getattr(ip, "ipv4_mapped", None) or ip) if ip.version == 6 else ip


def is_public(ip: Address) -> bool:
    return ip.is_global and not ip.is_multicast


def networks(allowed: Iterable[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    found = []
    for entry in allowed:
        try:
            found.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            continue  # a host name, compared as such
    return found
