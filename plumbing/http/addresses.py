"""Which network addresses the URLs of users may lead to: public ones, and private ones that an administrator allows."""

import ipaddress
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from plumbing.waits import run_blocking

LOOKUP_S = 10.0
# Bits: whoever has an IPv6 address has all addresses of its network.
IPV6_HOME = 64
KNOWN_HOSTS: ContextVar[dict[str, list[str] | Exception]] = ContextVar("known_hosts", default={})  # noqa: B039
# Each look-up holds a thread until the system's resolver gives up.
LOOKUPS = threading.BoundedSemaphore(64)

NOT_PUBLIC_V6 = [
    ipaddress.ip_network(text)
    for text in (
        "::/96",  # IPv4-compatible, deprecated
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # NAT64 for local use
        "2001::/32",  # Teredo
        "2002::/16",  # 6to4
        "fec0::/10",  # site-local, deprecated
    )
]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def url_refusal(url: str, allowed: Iterable[str], *, must_resolve: bool = True) -> str:
    """Why this URL may not be called, or "". Resolves the host name; with `must_resolve` False an
    unknown host is accepted.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"“{url}” is not an http or https address."
    if parts.username or parts.password:
        return "An address must not contain a user name or password."
    return host_refusal(parts.hostname, allowed, must_resolve=must_resolve)


def host_refusal(host: str, allowed: Iterable[str], *, must_resolve: bool = True) -> str:
    """Why this host may not be called, or "". The message never says which address it leads to."""
    allowed = list(allowed)
    if matches(host, allowed):
        return ""
    try:
        addresses = known_or_resolved(host)
    except (OSError, UnicodeError):
        return f"The host “{host}” cannot be found." if must_resolve else ""
    return "" if all(is_allowed(address, allowed) for address in addresses) else private(host)


@contextmanager
def resolve_hosts_first(urls: Iterable[str]) -> Iterator[None]:
    """Resolve the hosts of these addresses now, so that `url_refusal` need not do so inside a transaction."""
    answers: dict[str, list[str] | Exception] = {}
    for url in urls:
        try:
            host = urlsplit(url).hostname
            if host and host not in answers:
                answers[host] = resolve(host)
        except (OSError, UnicodeError) as error:
            answers[host or ""] = error
        except ValueError:
            # It is no address, as its check will say.
            continue
    token = KNOWN_HOSTS.set(answers)
    try:
        yield
    finally:
        KNOWN_HOSTS.reset(token)


def known_or_resolved(host: str) -> list[str]:
    """Raises OSError, UnicodeError."""
    answer = KNOWN_HOSTS.get().get(host.lower())
    if isinstance(answer, Exception):
        raise answer
    return resolve(host) if answer is None else answer


def private(host: str) -> str:
    return f"“{host}” leads to a private address; an administrator can allow it (MUSTER_PRIVATE_HOSTS)."


def matches(host: str, patterns: Iterable[str]) -> bool:
    """Whether a host name is on a list of names and `*.names`. A star stands for at least one label."""
    host = host.lower().rstrip(".")
    return any(is_match(host, pattern.lower().rstrip(".")) for pattern in patterns)


def is_match(host: str, pattern: str) -> bool:
    if host == pattern:
        return True
    # *.example.org: the host ends with .example.org, and something stands before it.
    if not pattern.startswith("*."):
        return False
    return host.endswith(pattern[1:]) and len(host) >= len(pattern)


def resolve(host: str, port: int | None = None, *, within: float | None = LOOKUP_S) -> list[str]:
    """The addresses of a host, each once, in the order to try them. Raises OSError (TimeoutError),
    UnicodeError.
    """
    entries = run_blocking(look_up, host, port, LOOKUP_S if within is None else within)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def look_up(host: str, port: int | None, seconds: float) -> list[Any]:
    """The system's resolver has no time limit, so it runs on a thread of its own, which is
    abandoned when it is too slow.
    """
    end = monotonic() + seconds
    places = LOOKUPS
    if not places.acquire(timeout=seconds):
        raise TimeoutError("too many names are being looked up")
    answers: SimpleQueue[list[Any] | Exception] = SimpleQueue()
    threading.Thread(target=ask_resolver, args=(host, port, answers, places), daemon=True, name="resolver").start()
    try:
        answer = answers.get(timeout=max(end - monotonic(), 0.01))
    except Empty:
        raise TimeoutError("the resolver took too long")
    if isinstance(answer, Exception):
        raise answer
    return answer


def ask_resolver(
    host: str, port: int | None, answers: SimpleQueue[list[Any] | Exception], places: threading.Semaphore
) -> None:
    try:
        answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except Exception as error:
        # Raised again in the calling thread.
        answers.put(error)
    finally:
        places.release()


def is_allowed(address: str, allowed: Iterable[str]) -> bool:
    """Is this IP address public, or inside one of the allowed networks?"""
    # Behind “%” stands the interface of a link-local address.
    plain, _, _ = address.partition("%")
    ip = unwrap_mapped_address(ipaddress.ip_address(plain))
    if is_public(ip):
        return True
    return any(ip in network for network in networks(allowed) if network.version == ip.version)


def is_within(host: str, networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    """Whether this is an address in one of these networks; an IPv4 address may be written as an IPv6 one."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    plain = unwrap_mapped_address(address)
    return any(address in network or plain in network for network in networks)


def unwrap_mapped_address(ip: Address) -> Address:
    """The IPv4 address inside an IPv4-mapped IPv6 one, else the address itself."""
    if ip.version == 4:
        return ip
    return getattr(ip, "ipv4_mapped", None) or ip


def is_public(ip: Address) -> bool:
    """An address of the open internet. Translated and tunnelled IPv6 addresses are refused: they can end anywhere."""
    if any(ip in network for network in NOT_PUBLIC_V6 if network.version == ip.version):
        return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def networks(allowed: Iterable[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    ranges = []
    for entry in allowed:
        try:
            ranges.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            # This is a host name, which is compared as such.
            continue
    return ranges


def group_client_address(host: str) -> str:
    """Who counts as one client: an IPv4 address, or the network of an IPv6 address."""
    try:
        address = unwrap_mapped_address(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, IPV6_HOME), strict=False))
    return str(address)
