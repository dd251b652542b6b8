"""The host's side of `ctx.http`: fetches one address for a function without network access. Does
not depend on Django.

    answer = fetch(request, Rules(hosts=("api.example.org", "*.example.com"), secret=find_secret))

Each address is checked after name resolution, and the connection is made to exactly the checked
address, so a name that later resolves to another address has no effect. Redirects are followed one
by one with the same checks as the first address; a secret is sent only to the hosts it is bound to.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from plumbing.http import outbound
from plumbing.http.addresses import matches
from plumbing.http.failures import describe_failure
from plumbing.untrusted.charsets import known_charset

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Only the host sets these; a function must not smuggle in a second request, another host or another user's session.
_OUR_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer",
                          "proxy-authorization", "proxy-connection", "keep-alive", "expect", "cookie"})  # fmt: skip
# Headers that are also sent to another host after a redirect; any other header may be a credential.
_HARMLESS = frozenset({"accept", "accept-language", "content-type", "content-language", "user-agent", "range",
                       "if-modified-since", "if-none-match"})  # fmt: skip
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


class HttpRefused(Exception):
    """The request is not allowed, or its response may not be returned. The message is for the
    function's author.
    """


@dataclass(frozen=True, slots=True)
class Auth:
    """A secret as a header, and the hosts it may be sent to. `header` and `value` are sent
    unchanged.
    """

    header: str
    value: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The record of one request, without bodies and secrets."""

    method: str
    url: str
    status: int
    address: str
    ms: float
    received: int


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits for the requests of one function. Hosts are exact names or `*.example.org`; sizes
    in bytes, times in seconds.
    """

    hosts: tuple[str, ...]
    secret: Callable[[str], Auth] | None = None
    record: Callable[[Fetched], None] | None = None
    plain_http_hosts: tuple[str, ...] = ()
    private_hosts: tuple[str, ...] = ()
    max_request: int = 1 << 20
    max_response: int = 1 << 20
    max_timeout_s: float = 20.0
    max_redirects: int = 5
    # The connections of the call, which closes them.
    sockets: outbound.Sockets | None = None
    # Replaces the system's resolver in tests.
    resolver: outbound.Resolver | None = None


@dataclass(slots=True)
class _Request:
    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    auth: Auth | None


def fetch_for_function(request: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """Make the request of a function's ctx.http() call: {status, headers, text, url}. Raises
    HttpRefused.
    """
    outgoing = _read(request, rules)
    seconds = _timeout(request.get("timeout"), rules)
    deadline = time.monotonic() + seconds
    transport = outbound.PinnedTransport(rules.private_hosts, rules.resolver)
    sockets = rules.sockets or outbound.Sockets()
    with (
        outbound.until(seconds),
        outbound.close_together(sockets),
        httpx2.Client(transport=transport, trust_env=False, follow_redirects=False) as client,
    ):
        for _ in range(rules.max_redirects + 1):
            response = _send(client, outgoing, rules, deadline)
            if response["status"] not in _REDIRECTS or "location" not in response["headers"]:
                return response
            outgoing = _redirected(outgoing, response)
    raise HttpRefused(f"more than {rules.max_redirects} redirects")


# Parsing the function's request: all of it is untrusted


def _read(request: Mapping[str, Any], rules: Rules) -> _Request:
    method = str(request.get("method") or "GET").upper()
    if method not in _METHODS:
        raise HttpRefused(f"the method {method[:20]} is not allowed; use one of {', '.join(sorted(_METHODS))}")
    url = request.get("url")
    if not isinstance(url, str) or len(url) > 4000:
        raise HttpRefused("the url must be a string of at most 4000 characters")
    headers = dict(_headers(request.get("headers")))
    body = _body(request, headers)
    if len(body) > rules.max_request:
        raise HttpRefused(f"the body has {len(body)} bytes; the maximum is {rules.max_request}")
    full_url = _with_params(url, request.get("params"))
    outgoing = _Request(method, full_url, headers, body, None)
    outgoing.auth = _auth(request.get("auth"), rules)
    return outgoing


def _headers(headers: Any) -> Iterator[tuple[str, str]]:
    if headers is None:
        return
    if not isinstance(headers, Mapping) or len(headers) > 50:
        raise HttpRefused("headers must be an object of at most 50 strings")
    for name, value in headers.items():
        if not isinstance(value, str) or not _HEADER_NAME.fullmatch(str(name)) or len(value) > 8000:
            raise HttpRefused(f"{str(name)[:50]!r} is not a valid header name")
        if not value.isascii():
            hint = "encode it first, for example with urllib.parse.quote or base64"
            raise HttpRefused(f"the header {name!r} contains non-ASCII characters: {hint}")
        if any(character in value for character in "\r\n\0"):
            raise HttpRefused(f"the header {name!r} contains a line break")
        if str(name).lower() in _OUR_HEADERS:
            raise HttpRefused(f"the header {name!r} cannot be set by a function")
        yield str(name).lower(), value


def _body(request: Mapping[str, Any], headers: dict[str, str]) -> bytes:
    if request.get("json") is not None:
        headers.setdefault("content-type", "application/json")
        return json.dumps(request["json"]).encode()
    body = request.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise HttpRefused("the body must be a string; for an object use json=")
    return body.encode("utf-8", "replace")


def _with_params(url: str, params: Any) -> str:
    if not params:
        return url
    refusal = "params must be an object of strings and numbers"
    if not isinstance(params, Mapping):
        raise HttpRefused(refusal)
    if not all(isinstance(value, str | int | float | bool) for value in params.values()):
        raise HttpRefused(refusal)
    texts = {str(key): value for key, value in params.items()}
    return str(httpx2.URL(url).copy_merge_params(texts))


def _auth(name: Any, rules: Rules) -> Auth | None:
    if name is None:
        return None
    if rules.secret is None or not isinstance(name, str):
        raise HttpRefused("this function has no secrets; add the secret's name to its settings")
    return rules.secret(name)


def _timeout(value: Any, rules: Rules) -> float:
    # True is an int in Python.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and value > 0:
        return min(float(value), rules.max_timeout_s)
    return rules.max_timeout_s


# One request of a redirect chain


def _send(client: httpx2.Client, outgoing: _Request, rules: Rules, deadline: float) -> dict[str, Any]:
    host = _checked(outgoing.url, rules)
    headers = outgoing.headers | {"accept-encoding": "identity"}
    if outgoing.auth is not None:
        headers[outgoing.auth.header.lower()] = _get_secret_value(outgoing.auth, host)
    # Otherwise two hosts at one address would share cookies.
    client.cookies.clear()
    began = time.monotonic()
    remaining_s = max(deadline - began, 0.01)
    request = client.build_request(
        outgoing.method, outgoing.url, headers=headers, content=outgoing.body or None, timeout=remaining_s
    )
    try:
        response = client.send(request, stream=True)
        address = response.extensions["network_stream"].get_extra_info("server_addr")[0]
        try:
            body = _receive(response, rules, deadline)
        finally:
            response.close()
    except outbound.AddressRefused:
        raise HttpRefused(f"{host} is not a public internet address") from None
    except httpx2.TimeoutException:
        raise HttpRefused(f"{host} did not answer in time") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise HttpRefused(f"{host} could not be fetched: {describe_failure(error)}") from None
    if rules.record is not None:
        ms = round((time.monotonic() - began) * 1000, 1)
        rules.record(
            Fetched(outgoing.method, _without_query(outgoing.url), response.status_code, address, ms, len(body))
        )
    return {"status": response.status_code, "headers": _given_back(response.headers), "url": outgoing.url,
            "text": body.decode(known_charset(response.charset_encoding or "") or "utf-8", "replace")}  # fmt: skip


def _checked(url: str, rules: Rules) -> str:
    """The host of an address, if it is on the list. Raises HttpRefused."""
    try:
        parts = urlsplit(url)
        # Reading the port validates it.
        _ = parts.port
        plain_host = (parts.hostname or "").rstrip(".")
        host = plain_host
        if host and ":" not in host:
            host = host.encode("idna").decode()
        # The client reads the address by rules of its own; both must see the same host.
        sent_host = httpx2.URL(url).host.rstrip(".").lower()
    except (ValueError, UnicodeError, httpx2.InvalidURL):
        raise HttpRefused("the url is not valid") from None
    agrees = sent_host in (host.lower(), plain_host.lower())
    if not host or not agrees or parts.username is not None or parts.password is not None:
        raise HttpRefused("the url must have a plain host name without user name and password")
    if not matches(host, rules.hosts):
        listed = ", ".join(rules.hosts) or "none"
        raise HttpRefused(f"{host} is not on this function's list of hosts (allowed: {listed})")
    if parts.scheme == "https":
        return host
    if parts.scheme == "http" and matches(host, rules.plain_http_hosts):
        return host
    raise HttpRefused("only https addresses are allowed")


def _get_secret_value(auth: Auth, host: str) -> str:
    if not matches(host, auth.hosts):
        bound = ", ".join(auth.hosts) or "no host"
        raise HttpRefused(f"this secret may not be sent to {host} (bound to: {bound})")
    if not auth.value.isascii():
        raise HttpRefused("this secret contains non-ASCII characters, which a header cannot contain")
    return auth.value


def _receive(response: httpx2.Response, rules: Rules, deadline: float) -> bytes:
    parts, size = [], 0
    for part in response.iter_raw():
        size += len(part)
        if size > rules.max_response:
            raise HttpRefused(f"the response is larger than {rules.max_response} bytes")
        if time.monotonic() > deadline:
            raise HttpRefused("the response took too long")
        parts.append(part)
    return b"".join(parts)


def _redirected(outgoing: _Request, response: dict[str, Any]) -> _Request:
    url = urljoin(outgoing.url, response["headers"]["location"])
    headers = outgoing.headers
    auth = outgoing.auth
    if urlsplit(url)[:2] != urlsplit(outgoing.url)[:2]:
        # Another origin gets neither the secret nor headers that may hold one.
        auth = None
        headers = {name: value for name, value in headers.items() if name in _HARMLESS}
    status = response["status"]
    # As browsers do it: the answer to a form is fetched, not sent again.
    becomes_get = status == 303 or (status in (301, 302) and outgoing.method == "POST")
    if not becomes_get or outgoing.method == "HEAD":
        return _Request(outgoing.method, url, headers, outgoing.body, auth)
    headers = {name: value for name, value in headers.items() if name != "content-type"}
    return _Request("GET", url, headers, b"", auth)


def _given_back(headers: httpx2.Headers) -> dict[str, str]:
    """The response headers that the function sees; cookies are left out."""
    lower = {name.lower(): value for name, value in headers.items()}
    lower.pop("set-cookie", None)
    return lower


def _without_query(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(query="", fragment="").geturl()
