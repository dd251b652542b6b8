"""Logins that MCP servers want for themselves: found by the server's own word, with a client registered for us.

RFC 9728 says which login service, RFC 8414 where its doors are, RFC 7591 who we are there, RFC 8707 that a token is for
this server alone; the MCP specification of 2025-11-25 puts them together (docs/adr/0064). All of it is strangers' word:
every address is checked as one that a person typed, and no code is asked for that PKCE would not protect.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
from django.conf import settings

from agents.exceptions import Invalid, Unavailable
from connectors.mcp.client import INITIALIZE, VERSION, host_of, parameter_of
from connectors.models import Connection
from connectors.remote import bound_secret
from plumbing import outbound
from plumbing.addresses import host_refusal, url_refusal

DISCOVERY_S = 20.0
ANSWER_LIMIT = 256 * 1024
POST, BASIC, NONE = "client_secret_post", "client_secret_basic", "none"
METHODS = (POST, BASIC, NONE)  # how a client may show who it is, best first
DOORS = {
    "authorize": "authorization_endpoint", "token": "token_endpoint", "revoke": "revocation_endpoint",
    "register": "registration_endpoint",
}  # fmt: skip
KEPT = ("issuer", "doors", "resource", "names_issuer", "redirect_uri", "client_id", "method")
JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerLogin:
    """The login of one MCP server, as its connection keeps it; oauth.py and tokens.py use it as a providers.Login."""

    issuer: str
    doors: dict[str, str]
    resource: str
    scopes: tuple[str, ...]
    names_issuer: bool  # the callback must say who answers
    redirect_uri: str
    client_id: str
    client_secret: str
    method: str

    @property
    def extra(self) -> tuple[tuple[str, str], ...]:
        """More of the address that the browser is sent to."""
        return (("resource", self.resource),)

    def url(self, what: str) -> str:
        return self.doors.get(what, "")

    def hosts_for(self, url: str) -> list[str]:
        """Which private hosts a post may go to: a stranger's word adds none."""
        return list(settings.PRIVATE_HOSTS_ALLOWED)

    def credentials(self) -> tuple[dict[str, str], dict[str, str]]:
        """Form fields and headers of each post."""
        form = {"client_id": self.client_id, "resource": self.resource}
        if self.method == BASIC:
            pair = f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}"
            return form, {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        return form | ({"client_secret": self.client_secret} if self.method == POST else {}), {}


def kept(connection: Connection) -> ServerLogin:
    """What was found when the login was begun. Raises Invalid where none was."""
    row = connection.login
    if not row.get("client_id"):
        raise Invalid(f"“{connection.name}” has no login yet.", code="no_login", hint="Begin one, then come back.")
    same = {name: row[name] for name in KEPT}
    return ServerLogin(**same, scopes=tuple(row["scopes"]), client_secret=connection.login_secret)


def found(connection: Connection, user: Any, redirect_uri: str) -> ServerLogin:
    """Ask the server which login it wants, and become a client there. Kept in the row. Raises Invalid, Unavailable."""
    if not connection.base_url:
        raise Invalid("A program of this machine has no login.", code="no_login")
    try:
        with outbound.client(settings.PRIVATE_HOSTS_ALLOWED) as client, outbound.until(DISCOVERY_S):
            login = Search(client, connection, user, redirect_uri).login()
    except outbound.AddressRefused as error:
        raise Invalid(str(error), code="private_address")
    except httpx.HTTPError as error:
        raise Unavailable(f"The server's login service cannot be reached: {type(error).__name__}.")
    keep(connection, login)
    return login


def keep(connection: Connection, login: ServerLogin) -> None:
    """A login begun at another service must not end here: its code would go to the new one."""
    before = connection.login
    if (before.get("issuer"), before.get("doors")) != (login.issuer, login.doors):
        connection.authorizations.filter(used_at=None).delete()
    connection.login = {name: getattr(login, name) for name in KEPT} | {
        "scopes": list(login.scopes),
        "more_scopes": before.get("more_scopes", []),
    }
    connection.login_secret = login.client_secret
    connection.save(update_fields=["login", "login_secret", "updated_at"])


class Search:
    """One search for a server's login, in the order of the specification."""

    def __init__(self, client: httpx.Client, connection: Connection, user: Any, redirect_uri: str) -> None:
        self._client = client
        self._connection, self._user = connection, user
        self._url, self._redirect_uri = connection.base_url, redirect_uri

    def login(self) -> ServerLogin:
        challenge = self.challenge()
        resource = self.resource(parameter_of(challenge, "resource_metadata"))
        service = self.service(first(resource.get("authorization_servers")))
        doors = {what: self.door(service.get(name), name) for what, name in DOORS.items() if service.get(name)}
        if not {"authorize", "token"} <= doors.keys():
            raise unfit("names no place to log in")
        if "S256" not in words(service.get("code_challenge_methods_supported")):
            raise unfit("does not promise PKCE (S256), without which a login could be stolen on its way")
        asked = parameter_of(challenge, "scope").split() or words(resource.get("scopes_supported"))
        more = ["offline_access"] if "offline_access" in words(service.get("scopes_supported")) else []
        scopes = tuple(dict.fromkeys([*asked, *more, *self._connection.login.get("more_scopes", [])]))
        client_id, secret, method = self.client(service, doors, scopes)
        return ServerLogin(
            issuer=service["issuer"], doors=doors, resource=resource.get("resource") or self._url, scopes=scopes,
            names_issuer=service.get("authorization_response_iss_parameter_supported") is True,
            redirect_uri=self._redirect_uri, client_id=client_id, client_secret=secret, method=method,
        )  # fmt: skip

    # which login service

    def challenge(self) -> str:
        """What the server answers to somebody without a token."""
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": VERSION}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
        with self._client.stream("POST", self._url, json=message, headers=headers) as response:
            if response.is_success:
                raise Invalid("This server lets anybody in: it wants no login.", code="no_login")
            return response.headers.get("www-authenticate", "")[:4000]

    def resource(self, told: str) -> JSON:
        """What the server says of itself as a protected resource; {} where it says nothing."""
        name = "oauth-protected-resource"
        places = [told, well_known(self._url, name), well_known(origin_of(self._url), name)]
        for url in dict.fromkeys(filter(None, places)):
            if said := self.document(url):
                if not covers(str(said.get("resource", "")), self._url):
                    raise unfit(f"is for another server ({str(said.get('resource'))[:200]})")
                return said
        return {}

    def service(self, issuer: str) -> JSON:
        """The login service's own description. Older servers are their own."""
        issuer = issuer or origin_of(self._url)
        for url in descriptions(issuer):
            if said := self.document(url):
                if str(said.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
                    raise unfit(f"calls itself {str(said.get('issuer'))[:200]} at the address of {issuer[:200]}")
                return {**said, "issuer": str(said["issuer"])}
        raise unfit("does not describe itself where it should")

    # who we are there

    def client(self, service: JSON, doors: dict[str, str], scopes: Iterable[str]) -> tuple[str, str, str]:
        """Client id, secret and how to show them: as configured, as before, or registered now."""
        methods = words(service.get("token_endpoint_auth_methods_supported")) or [BASIC]
        if given := self._connection.config.get("client_id"):
            secret = bound_secret(self._connection, self._user.pk, host_of(doors["token"]))
            return str(given), secret.value if secret else "", fitting(methods) if secret else NONE
        before = self._connection.login
        same = (before.get("issuer"), before.get("redirect_uri")) == (service["issuer"], self._redirect_uri)
        if same and before.get("client_id"):
            return before["client_id"], self._connection.login_secret, before["method"]
        if "register" not in doors:
            raise Invalid(
                "This server's login service registers no clients by itself.", code="not_configured",
                hint=f"Register {self._redirect_uri} there; config.client_id is the client, secret_name its secret.",
            )  # fmt: skip
        return self.registered(doors["register"], fitting(methods), scopes)

    def registered(self, url: str, method: str, scopes: Iterable[str]) -> tuple[str, str, str]:
        wanted = {
            "client_name": "Muster", "redirect_uris": [self._redirect_uri], "response_types": ["code"],
            "grant_types": ["authorization_code", "refresh_token"], "token_endpoint_auth_method": method,
        }  # fmt: skip
        if scope := " ".join(scopes):
            wanted["scope"] = scope
        with self._client.stream("POST", url, json=wanted) as response:
            said = parsed(outbound.read_body(response, ANSWER_LIMIT))
            if not response.is_success or not isinstance(said.get("client_id"), str):
                why = str(said.get("error_description") or said.get("error") or response.status_code)
                raise unfit(f"refuses to register this site: {why[:200]}")
        secret = str(said.get("client_secret") or "")
        method = said.get("token_endpoint_auth_method") or method
        if method not in METHODS:
            raise unfit(f"wants its clients to show themselves by {str(method)[:60]}")
        return said["client_id"], secret, method if secret else NONE

    # what strangers say

    def document(self, url: str) -> JSON:
        """A description as a JSON object; {} where there is none."""
        self.door(url, "a description")
        with self._client.stream(
            "GET", url, headers={"Accept": "application/json", "MCP-Protocol-Version": VERSION}
        ) as response:
            return parsed(outbound.read_body(response, ANSWER_LIMIT)) if response.status_code == 200 else {}

    def door(self, url: Any, name: str) -> str:
        """The address if people and posts may be sent there: over TLS, or to a private host that is allowed."""
        allowed = settings.PRIVATE_HOSTS_ALLOWED
        if not isinstance(url, str) or (reason := url_refusal(url, allowed)):
            raise unfit(f"gives an address that cannot be used for {name}: {reason if isinstance(url, str) else url}")
        if urlsplit(url).scheme != "https" and not host_refusal(host_of(url), ()):
            raise unfit(f"is not protected by TLS: {url[:200]}")
        return url


def unfit(why: str) -> Invalid:
    return Invalid(
        f"The server's login service {why}.", code="login_unfit", hint="Tell whoever runs the server, or use a secret."
    )


def fitting(methods: list[str]) -> str:
    for method in METHODS:
        if method in methods:
            return method
    raise unfit(f"knows clients only by {', '.join(methods)[:200]}")


def covers(resource: str, url: str) -> bool:
    """Is this resource the server itself, or one that the server is a part of?"""
    mine, theirs = urlsplit(url), urlsplit(resource)
    if (mine.scheme, mine.netloc.lower()) != (theirs.scheme.lower(), theirs.netloc.lower()):
        return False
    return f"{mine.path.rstrip('/')}/".startswith(f"{theirs.path.rstrip('/')}/")


def descriptions(issuer: str) -> Iterator[str]:
    """Where a login service may describe itself, in the order of the specification."""
    yield well_known(issuer, "oauth-authorization-server")
    yield well_known(issuer, "openid-configuration")
    if urlsplit(issuer).path.strip("/"):
        yield f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def well_known(url: str, name: str) -> str:
    return f"{origin_of(url)}/.well-known/{name}{urlsplit(url).path.rstrip('/')}"


def origin_of(url: str) -> str:
    return urlunsplit((*urlsplit(url)[:2], "", "", ""))


def parsed(body: bytes) -> JSON:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def words(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def first(value: Any) -> str:
    return next(iter(words(value)), "")
