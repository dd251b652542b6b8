"""OAuth logins that MCP servers require: discovered from the server, with a client registered
automatically.

RFC 9728 names the login service, RFC 8414 its endpoints, RFC 7591 the registration, RFC 8707 binds
a token to this server; the MCP specification of 2025-11-25 combines them. None of
this information is trusted: every address is checked like one typed by a user, and PKCE is
required.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx2
from django.conf import settings

from agents.exceptions import Invalid, Unavailable
from connectors.mcp.http import find_challenge_parameter
from connectors.mcp.messages import INITIALIZE, LEGACY, get_url_host
from connectors.models import Connection
from connectors.remote import bound_secret
from plumbing.http import outbound
from plumbing.http.addresses import host_refusal, url_refusal
from plumbing.http.failures import describe_failure

DISCOVERY_S = 20.0
ANSWER_LIMIT = 256 * 1024
LOOPBACK = ("localhost", "127.0.0.1", "::1")
POST, BASIC, NONE = "client_secret_post", "client_secret_basic", "none"
# Ways a client can authenticate, best first.
METHODS = (POST, BASIC, NONE)
DOORS = {
    "authorize": "authorization_endpoint", "token": "token_endpoint", "revoke": "revocation_endpoint",
    "register": "registration_endpoint",
}  # fmt: skip
KEPT = ("issuer", "doors", "resource", "names_issuer", "redirect_uri", "client_id", "method")
JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerLogin:
    """The login of one MCP server, as stored with its connection; oauth.py and tokens.py use it as
    a providers.Login.
    """

    issuer: str
    doors: dict[str, str]
    resource: str
    scopes: tuple[str, ...]
    # The callback must name its issuer.
    names_issuer: bool
    redirect_uri: str
    client_id: str
    client_secret: str
    method: str

    @property
    def extra(self) -> tuple[tuple[str, str], ...]:
        """Additional query parameters of the address that the browser opens."""
        return (("resource", self.resource),)

    def url(self, what: str) -> str:
        return self.doors.get(what, "")

    def hosts_for(self, url: str) -> list[str]:
        """Private hosts that a request may reach: the server's own statements add none."""
        return list(settings.PRIVATE_HOSTS_ALLOWED)

    def credentials(self) -> tuple[dict[str, str], dict[str, str]]:
        """Form fields and headers of each request."""
        form = {"client_id": self.client_id, "resource": self.resource}
        headers = {}
        if self.method == BASIC:
            # RFC 6749: both are quoted before they are joined, so that a colon in one divides nothing.
            pair = f"{quote(self.client_id, safe='')}:{quote(self.client_secret, safe='')}"
            encoded = base64.b64encode(pair.encode()).decode()
            headers["Authorization"] = f"Basic {encoded}"
        if self.method == POST:
            form["client_secret"] = self.client_secret
        return form, headers


def get_stored_login(connection: Connection) -> ServerLogin:
    """The login found when it was started. Raises Invalid if there is none."""
    row = connection.login
    if not row.get("client_id"):
        raise Invalid(
            f"“{connection.name}” has no login yet.", code="no_login", hint="Start the login first, then try again."
        )
    stored = {name: row[name] for name in KEPT}
    return ServerLogin(**stored, scopes=tuple(row["scopes"]), client_secret=connection.login_secret)


def fetch_server_login(connection: Connection, user: Any, redirect_uri: str) -> ServerLogin:
    """Discover the server's login and register as a client. Stored in the row. Raises Invalid,
    Unavailable.
    """
    if not connection.base_url:
        raise Invalid("A local program has no login.", code="no_login")
    try:
        with outbound.client(settings.PRIVATE_HOSTS_ALLOWED) as client, outbound.until(DISCOVERY_S):
            login = Search(client, connection, user, redirect_uri).login()
    except outbound.AddressRefused as error:
        raise Invalid(str(error), code="private_address")
    except httpx2.HTTPError as error:
        raise Unavailable(
            f"The server's login service cannot be reached: {describe_failure(error)}.",
            hint="Try again. If it lasts, check the address of the server.",
        )
    save_server_login(connection, login)
    return login


def save_server_login(connection: Connection, login: ServerLogin) -> None:
    """A login started at one service must not be completed at another, which would receive its
    code.
    """
    before = connection.login
    is_same_service = (before.get("issuer"), before.get("doors")) == (login.issuer, login.doors)
    if not is_same_service:
        connection.authorizations.filter(used_at=None).delete()
    row: JSON = {name: getattr(login, name) for name in KEPT}
    row["scopes"] = list(login.scopes)
    row["more_scopes"] = before.get("more_scopes", [])
    connection.login = row
    connection.login_secret = login.client_secret
    connection.save(update_fields=["login", "login_secret", "updated_at"])


class Search:
    """The discovery of one server's login, in the order of the specification."""

    def __init__(self, client: httpx2.Client, connection: Connection, user: Any, redirect_uri: str) -> None:
        self._client = client
        self._connection = connection
        self._user = user
        self._url = connection.base_url
        self._redirect_uri = redirect_uri

    def login(self) -> ServerLogin:
        challenge = self.challenge()
        resource = self.resource(find_challenge_parameter(challenge, "resource_metadata"))
        service = self.service(get_first_text(resource.get("authorization_servers")))
        doors = {what: self.door(service.get(name), name) for what, name in DOORS.items() if service.get(name)}
        if not {"authorize", "token"} <= doors.keys():
            raise unfit("does not name an authorization endpoint")
        if "S256" not in filter_text_values(service.get("code_challenge_methods_supported")):
            raise unfit("does not support PKCE (S256), which protects a login from being stolen")
        scopes = self.choose_scopes(challenge, resource, service)
        client_id, secret, method = self.client(service, doors, scopes)
        return ServerLogin(
            issuer=service["issuer"],
            doors=doors,
            resource=resource.get("resource") or self._url,
            scopes=scopes,
            names_issuer=service.get("authorization_response_iss_parameter_supported") is True,
            redirect_uri=self._redirect_uri,
            client_id=client_id,
            client_secret=secret,
            method=method,
        )

    def choose_scopes(self, challenge: str, resource: JSON, service: JSON) -> tuple[str, ...]:
        """The scopes that the server asked for, else all of its own, and those that a call lacked before."""
        scopes = find_challenge_parameter(challenge, "scope").split()
        if not scopes:
            scopes = filter_text_values(resource.get("scopes_supported"))
        # Some services issue a refresh token only if this is asked for.
        if "offline_access" in filter_text_values(service.get("scopes_supported")):
            scopes = [*scopes, "offline_access"]
        missing = self._connection.login.get("more_scopes", [])
        return tuple(dict.fromkeys([*scopes, *missing]))

    # which login service

    def challenge(self) -> str:
        """The server's answer to a request without a token."""
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": LEGACY}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
        with self._client.stream("POST", self._url, json=message, headers=headers) as response:
            if response.is_success:
                raise Invalid("This server does not require a login.", code="no_login")
            return response.headers.get("www-authenticate", "")[:4000]

    def resource(self, address: str) -> JSON:
        """The server's protected resource metadata; {} if it has none."""
        name = "oauth-protected-resource"
        places = [address, well_known(self._url, name), well_known(get_url_origin(self._url), name)]
        for url in dict.fromkeys(filter(None, places)):
            metadata = self.document(url)
            if not metadata:
                continue
            if not covers(str(metadata.get("resource", "")), self._url):
                raise unfit(f"is for another server ({str(metadata.get('resource'))[:200]})")
            return metadata
        return {}

    def service(self, issuer: str) -> JSON:
        """The metadata of the login service. Older servers are their own login service."""
        issuer = issuer or get_url_origin(self._url)
        for url in descriptions(issuer):
            metadata = self.document(url)
            if not metadata:
                continue
            named = str(metadata.get("issuer", ""))
            if named.rstrip("/") != issuer.rstrip("/"):
                raise unfit(
                    f"identifies itself as {str(metadata.get('issuer'))[:200]} at the address of {issuer[:200]}"
                )
            return {**metadata, "issuer": named}
        raise unfit("does not publish its metadata at the expected address")

    # who we are there

    def client(self, service: JSON, doors: dict[str, str], scopes: Iterable[str]) -> tuple[str, str, str]:
        """Client id, secret and authentication method: from the configuration, from an earlier
        login, or registered now.
        """
        # RFC 8414: a service that lists no methods has this one.
        methods = filter_text_values(service.get("token_endpoint_auth_methods_supported")) or [BASIC]
        if client_id := self._connection.config.get("client_id"):
            secret = bound_secret(self._connection, self._user.pk, get_url_host(doors["token"]))
            if secret is None:
                return str(client_id), "", NONE
            return str(client_id), secret.value, choose_auth_method(methods)
        before = self._connection.login
        is_same = (before.get("issuer"), before.get("redirect_uri")) == (service["issuer"], self._redirect_uri)
        if is_same and before.get("client_id"):
            return before["client_id"], self._connection.login_secret, before["method"]
        if "register" not in doors:
            raise Invalid(
                "This server's login service does not register clients automatically.", code="not_configured",
                hint=f"Register {self._redirect_uri} there, then set config.client_id to the client's id "
                    "and secret_name to its secret.",
            )  # fmt: skip
        return self.registered(doors["register"], choose_auth_method(methods), scopes)

    def registered(self, url: str, method: str, scopes: Iterable[str]) -> tuple[str, str, str]:
        is_local = get_url_host(self._redirect_uri) in LOOPBACK
        metadata = {
            "client_name": "Muster",
            "redirect_uris": [self._redirect_uri],
            "response_types": ["code"],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": method,
            "application_type": "native" if is_local else "web",
        }
        if scope := " ".join(scopes):
            metadata["scope"] = scope
        with self._client.stream("POST", url, json=metadata) as response:
            answer = parse_json_object(outbound.read_body(response, ANSWER_LIMIT))
            if not response.is_success or not isinstance(answer.get("client_id"), str):
                why = str(answer.get("error_description") or answer.get("error") or response.status_code)
                raise unfit(f"refuses to register this site: {why[:200]}")
        secret = str(answer.get("client_secret") or "")
        # The service may have registered another method than the one that was asked for.
        method = answer.get("token_endpoint_auth_method") or method
        if method not in METHODS:
            raise unfit(f"requires clients to authenticate by {str(method)[:60]}")
        if not secret:
            method = NONE
        return answer["client_id"], secret, method

    # what strangers say

    def document(self, url: str) -> JSON:
        """Metadata as a JSON object; {} if there is none."""
        self.door(url, "a description")
        headers = {"Accept": "application/json", "MCP-Protocol-Version": LEGACY}
        with self._client.stream("GET", url, headers=headers) as response:
            if response.status_code != 200:
                return {}
            body = outbound.read_body(response, ANSWER_LIMIT)
            return parse_json_object(body)

    def door(self, url: Any, name: str) -> str:
        """The address, if requests may go there: over TLS, or to an allowed private host."""
        allowed = settings.PRIVATE_HOSTS_ALLOWED
        if not isinstance(url, str) or (reason := url_refusal(url, allowed)):
            raise unfit(f"returned an unusable address for {name}: {reason if isinstance(url, str) else url}")
        if urlsplit(url).scheme != "https" and not host_refusal(get_url_host(url), ()):
            raise unfit(f"is not protected by TLS: {url[:200]}")
        return url


def unfit(why: str) -> Invalid:
    return Invalid(
        f"The server's login service {why}.",
        code="login_unfit",
        hint="Contact the operator of the server, or use a secret instead.",
    )


def choose_auth_method(methods: list[str]) -> str:
    for method in METHODS:
        if method in methods:
            return method
    raise unfit(f"only supports client authentication by {', '.join(methods)[:200]}")


def covers(resource: str, url: str) -> bool:
    """Whether this resource is the server itself, or one that contains it."""
    mine = urlsplit(url)
    theirs = urlsplit(resource)
    if mine.scheme != theirs.scheme.lower() or mine.netloc.lower() != theirs.netloc.lower():
        return False
    # With a slash at the end of both, /api does not contain /apix.
    my_path = f"{mine.path.rstrip('/')}/"
    their_path = f"{theirs.path.rstrip('/')}/"
    return my_path.startswith(their_path)


def descriptions(issuer: str) -> Iterator[str]:
    """The addresses where a login service may publish its metadata, in the order of the
    specification.
    """
    yield well_known(issuer, "oauth-authorization-server")
    yield well_known(issuer, "openid-configuration")
    if urlsplit(issuer).path.strip("/"):
        yield f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def well_known(url: str, name: str) -> str:
    path = urlsplit(url).path.rstrip("/")
    return f"{get_url_origin(url)}/.well-known/{name}{path}"


def get_url_origin(url: str) -> str:
    scheme, host, *_ = urlsplit(url)
    return urlunsplit((scheme, host, "", "", ""))


def parse_json_object(body: bytes) -> JSON:
    """{} if it is not one."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(answer, dict):
        return {}
    return answer


def filter_text_values(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [word for word in value if isinstance(word, str)]


def get_first_text(value: Any) -> str:
    texts = filter_text_values(value)
    return texts[0] if texts else ""
