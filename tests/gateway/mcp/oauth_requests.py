"""Requests of an OAuth client of the MCP endpoint."""

import base64
import hashlib
from urllib.parse import parse_qs, urlencode, urlsplit

BACK = "http://127.0.0.1:4711/callback"
RESOURCE = "http://testserver/mcp"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
SCOPE = "messages:write functions:execute runs:read"


def register(client, **more):
    body = {"client_name": "Desk", "redirect_uris": [BACK], "token_endpoint_auth_method": "none", **more}
    return client.post("/oauth/register/", body, content_type="application/json")


def asked(client, **more):
    return {
        "response_type": "code", "client_id": client, "redirect_uri": BACK, "scope": SCOPE, "state": "s1",
        "code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": RESOURCE, **more,
    }  # fmt: skip


def consent(browser, client_id, answer="true", **more):
    """Allow it on the page; the query of the redirect."""
    page = browser.get("/oauth/authorize/", asked(client_id, **more))
    assert page.status_code == 200, page.content
    form = {name: value or "" for name, value in page.context["form"].initial.items()}
    form |= {"allow": answer} if answer else {}
    back = browser.post("/oauth/authorize/", form)
    assert back.status_code == 302 and back["Location"].startswith(BACK), back.content
    return {name: values[0] for name, values in parse_qs(urlsplit(back["Location"]).query).items()}


def exchange(client, client_id, code, **more):
    form = {
        "grant_type": "authorization_code", "code": code, "redirect_uri": BACK, "client_id": client_id,
        "code_verifier": VERIFIER, "resource": RESOURCE, **more,
    }  # fmt: skip
    return send(client, "/oauth/token/", form)


def send(client, path, form):
    return client.post(path, urlencode(form), content_type="application/x-www-form-urlencoded")


def refresh(client, client_id, token):
    return send(
        client, "/oauth/token/", {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id}
    )
