"""MCP servers that want a login of their own, on a fake and on the reference SDK's server."""

import base64
import re
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from django.core.management import call_command
from django.db import connection as database
from django.utils import timezone

from agents.models import AuditEvent, Secret, Tool
from agents.tools import ToolFailed
from connectors.logins import server_login
from connectors.logins.checking import check_logins
from connectors.models import Authorization, Connection
from connectors.toolsets import sessions
from connectors.toolsets.mcp import fetch_server_tools
from tests.connectors.fake_mcp_login import FakeMcpLogin
from tests.connectors.linked import call_tool, spec_of
from tests.connectors.loopback import Fault
from tests.servers import free_port, served

API = "/api/v1/connections"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def fake(settings, closed_sessions):
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    with FakeMcpLogin() as made:
        yield made


@pytest.fixture
def row(alice, fake):
    return Connection.objects.create(owner=alice, name="notes", provider="mcp", base_url=fake.address)


def begin(client, row):
    """What the browser is sent to the login service with."""
    answer = client.post(f"{API}/mcp/authorize", {"connection": row.pk})
    assert answer.status_code == 200, answer.json()
    return {key: values[0] for key, values in parse_qs(urlsplit(answer.json()["url"]).query).items()}


def come_back(client, fake, query, **more):
    code = fake.give_code(query["code_challenge"])
    return client.get(f"{API}/mcp/callback", {"state": query["state"], "code": code, **more})


@pytest.fixture
def linked(alice_api, fake, row):
    assert come_back(alice_api, fake, begin(alice_api, row)).status_code == 200
    row.refresh_from_db()
    return row


def call(user, **arguments):
    return call_tool(spec_of(Tool.objects.get(name="notes_echo"), deadline_s=60.0), user, arguments)


def refused(client, row):
    answer = client.post(f"{API}/mcp/authorize", {"connection": row.pk})
    assert answer.status_code == 422, answer.json()
    return answer.json()["error"]


def change(client, row, **fields):
    return client.patch(f"{API}/{row.pk}", fields, content_type="application/json")


# -- the way in ------------------------------------------------------------------------------------------------------


def test_a_server_that_wants_a_login_says_where_it_begins(alice, alice_api, row):
    with pytest.raises(ToolFailed) as failure:
        fetch_server_tools(row, alice.pk)
    assert failure.value.code == "reconnect_needed"
    link = failure.value.details["reconnect"]
    assert link.endswith(f"/connections/mcp/authorize?connection={row.pk}")
    shown = alice_api.get(f"{API}/{row.pk}").json()
    assert shown["reconnect"] == link and shown["is_linked"] is False and shown["health"] == "broken"


def test_a_person_logs_in_and_its_tools_can_be_called(alice, alice_api, fake, row):
    query = begin(alice_api, row)
    assert query["client_id"] == "client-1" and query["resource"] == fake.address
    assert query["scope"] == "notes offline_access" and query["code_challenge_method"] == "S256"
    assert fake.registered[0]["redirect_uris"] == [query["redirect_uri"]]
    answer = come_back(alice_api, fake, query)
    assert answer.status_code == 200 and answer.json()["health"] == "ok" and answer.json()["is_linked"]
    assert "access-" not in answer.content.decode() and "hush" not in answer.content.decode()
    assert fake.forms[0]["resource"] == fake.address and fake.forms[0]["client_secret"] == "hush-1"
    assert call(alice, text="hello").value == "hello"
    assert AuditEvent.objects.filter(action="connection.connected", actor=alice).exists()


def test_the_link_sends_a_browser_to_the_servers_login(alice, fake, row, signed_in):
    answer = signed_in(alice).get(f"{API}/mcp/authorize?connection={row.pk}")
    assert answer.status_code == 302 and answer["Location"].startswith(f"{fake.url}/authorize?")


def test_what_will_be_asked_for_is_told_and_its_meaning_not_invented(alice_api, row):
    answer = alice_api.post(f"{API}/mcp/authorize", {"connection": row.pk}).json()
    assert [(one["scope"], one["access"]) for one in answer["scopes"]] == [("notes", None), ("offline_access", None)]


def test_a_stranger_can_neither_begin_nor_end_it(alice_api, charlie_api, fake, row):
    assert charlie_api.post(f"{API}/mcp/authorize", {"connection": row.pk}).status_code == 404
    query = begin(alice_api, row)
    assert come_back(charlie_api, fake, query).status_code == 404
    assert come_back(alice_api, fake, query).status_code == 200


def test_which_server_must_be_said(alice_api):
    answer = alice_api.post(f"{API}/mcp/authorize", {})
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "connection_missing"


def test_the_second_login_uses_the_same_client(alice_api, fake, linked):
    assert begin(alice_api, linked)["client_id"] == "client-1" and len(fake.registered) == 1


def test_secrets_are_encrypted_at_rest_and_renewed(linked):
    with database.cursor() as cursor:
        cursor.execute("SELECT login, login_secret, access_token FROM connectors_connection")
        assert "hush" not in str(cursor.fetchone())
    call_command("rotate_secrets", verbosity=0)
    linked.refresh_from_db()
    assert linked.login_secret == "hush-1"


# -- what services may be like ---------------------------------------------------------------------------------------


def test_an_old_server_is_its_own_login_service(alice_api, fake, row):
    fake.resource, fake.challenge = {}, "Bearer"
    assert come_back(alice_api, fake, begin(alice_api, row)).status_code == 200


def test_a_service_below_a_path_is_found_where_openid_has_it(alice_api, fake, row):
    fake.described |= {"issuer": f"{fake.url}/tenant"}
    fake.resource["authorization_servers"] = [f"{fake.url}/tenant"]
    path = re.compile("/tenant/.well-known/openid-configuration")
    fake.routes.append(("GET", path, lambda asked: fake.described))
    assert begin(alice_api, row)["client_id"] == "client-1"


def test_a_client_may_show_itself_in_the_header(alice_api, fake, row):
    fake.described["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    assert come_back(alice_api, fake, begin(alice_api, row)).status_code == 200
    sent = next(asked for asked in fake.asked if asked.path == "/token").headers["authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"client-1:hush-1" and "client_secret" not in fake.forms[0]


def test_a_service_without_registration_takes_a_client_that_is_configured(alice, alice_api, fake, row):
    del fake.described["registration_endpoint"]
    error = refused(alice_api, row)
    assert error["code"] == "not_configured" and "/connections/mcp/callback" in error["hint"]
    Secret.objects.create(owner=alice, name="client", value="ours", hosts=["127.0.0.1"])
    changes = {"config": {"client_id": "muster-here"}, "secret_name": "client"}
    assert change(alice_api, row, **changes).status_code == 200
    query = begin(alice_api, row)
    assert query["client_id"] == "muster-here"
    assert come_back(alice_api, fake, query).status_code == 200 and fake.forms[0]["client_secret"] == "ours"
    assert call(alice, text="hello").value == "hello"


def test_a_clients_secret_is_not_sent_to_the_server_itself(alice, alice_api, fake, row):
    Secret.objects.create(owner=alice, name="client", value="ours", hosts=["127.0.0.1"])
    change(alice_api, row, config={"client_id": "muster-here"}, secret_name="client")
    with pytest.raises(ToolFailed):
        fetch_server_tools(Connection.objects.get(), alice.pk)
    assert not any("ours" in asked.headers.get("authorization", "") for asked in fake.asked)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"issuer": "https://elsewhere.example"}, "identifies itself"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"authorization_endpoint": "http://93.184.216.34/login"}, "TLS"),
        ({"token_endpoint": "https://10.0.0.1/token"}, "private"),
        ({"token_endpoint": None}, "not name an authorization endpoint"),
        ({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}, "private_key_jwt"),
    ],
)
def test_a_service_that_cannot_be_trusted_is_refused(alice_api, fake, row, told, says):
    fake.described |= told
    error = refused(alice_api, row)
    assert error["code"] == "login_unfit" and says in error["message"] and not fake.registered


def test_a_server_cannot_ask_for_another_servers_token(alice_api, fake, row):
    fake.resource["resource"] = "https://mail.example.com/mcp"
    assert "another server" in refused(alice_api, row)["message"]


@pytest.mark.parametrize(
    ("resource", "is_it"),
    [
        ("https://a.example/mcp", True), ("https://A.example", True), ("https://a.example/", True), ("https://a.example/m", False),
        ("http://a.example/mcp", False), ("https://a.example:8443/mcp", False), ("", False),
    ],
)  # fmt: skip
def test_a_resource_covers_its_own_server_only(resource, is_it):
    assert server_login.covers(resource, "https://a.example/mcp") is is_it


def test_a_server_that_wants_no_login_says_so(alice_api, fake, row):
    fake.live.add("")
    assert refused(alice_api, row)["code"] == "no_login"


def test_a_login_service_that_is_down_is_unavailable(alice_api, fake, row):
    fake.faults += [Fault("/.well-known/oauth-authorization-server", hang_up=True)]
    assert alice_api.post(f"{API}/mcp/authorize", {"connection": row.pk}).status_code == 503


@pytest.mark.parametrize(("body", "status"), [(b"[" * 100_000, 200), (b"<html>", 200), (b"x" * 300_000, 200)])
def test_garbage_for_a_description_is_none(alice_api, fake, row, body, status):
    fake.faults += [Fault("/.well-known/oauth-authorization-server", status=status, body=body)]
    assert alice_api.post(f"{API}/mcp/authorize", {"connection": row.pk}).status_code in (422, 503)


# -- the way back ----------------------------------------------------------------------------------------------------


def test_an_answer_of_another_service_is_refused(alice_api, fake, row):
    query = begin(alice_api, row)
    assert come_back(alice_api, fake, query, iss="https://evil.example").status_code == 422
    assert fake.count("/token") == 0


def test_a_service_that_names_itself_must_do_so(alice_api, fake, row):
    fake.described["authorization_response_iss_parameter_supported"] = True
    assert come_back(alice_api, fake, begin(alice_api, row)).status_code == 422
    assert come_back(alice_api, fake, begin(alice_api, row), iss=fake.url).status_code == 200


def test_a_login_begun_elsewhere_does_not_end_here(alice_api, fake, row):
    query = begin(alice_api, row)
    fake.described["token_endpoint"] = f"{fake.url}/other/token"
    begin(alice_api, row)
    assert come_back(alice_api, fake, query).status_code == 404
    assert fake.count("/token") == 0


def test_moving_the_server_forgets_its_login(alice_api, linked, fake):
    moved = change(alice_api, linked, base_url=f"{fake.url}/elsewhere").json()
    linked.refresh_from_db()
    assert moved["reconnect"] is None and linked.login == {} and linked.access_token == linked.login_secret == ""


def test_a_secret_takes_the_logins_place(alice, alice_api, linked, fake):
    fake.live.add("by-hand")
    Secret.objects.create(owner=alice, name="key", value="by-hand", hosts=["127.0.0.1"])
    assert change(alice_api, linked, secret_name="key").json()["reconnect"] is None
    fake.live.discard("access-0")
    assert call(alice, text="hello").value == "hello"


# -- while it lasts --------------------------------------------------------------------------------------------------


def test_a_token_that_ends_is_renewed_for_the_same_server(alice, linked, fake):
    Connection.objects.update(token_expires_at=timezone.now())
    assert call(alice, text="hello").value == "hello"
    assert fake.refreshes == 1 and fake.forms[-1]["resource"] == fake.address


def test_a_token_refused_in_the_middle_is_renewed_and_the_call_made_once(alice, linked, fake):
    assert call(alice, text="one").value == "one"
    fake.live.clear()
    assert call(alice, text="two").value == "two"
    assert fake.refreshes == 1 and fake.called == 2


def test_a_login_that_is_taken_back_says_so_once_and_then_waits_for_a_person(alice, linked, fake):
    fake.live.clear()
    fake.refresh_tokens.clear()
    for _ in range(2):
        with pytest.raises(ToolFailed) as failure:
            call(alice, text="hello")
        assert failure.value.code == "reconnect_needed"
    linked.refresh_from_db()
    assert linked.health == "broken" and linked.scopes == ["notes", "offline_access"]
    assert len([form for form in fake.forms if form["grant_type"] == "refresh_token"]) == 1


def test_a_service_that_forgot_us_registers_us_again(alice, alice_api, linked, fake):
    fake.live.clear()
    fake.error = "invalid_client"
    with pytest.raises(ToolFailed):
        call(alice, text="hello")
    fake.error = ""
    query = begin(alice_api, linked)
    assert query["client_id"] == "client-2"
    assert come_back(alice_api, fake, query).status_code == 200
    assert call(alice, text="hello").value == "hello"


def test_an_outage_of_the_server_does_not_end_its_login(alice, linked, fake):
    sessions.drop_all(linked)
    fake.faults += [Fault("/mcp", status=503)]
    with pytest.raises(ToolFailed):
        call(alice, text="hello")
    Connection.objects.update(token_expires_at=timezone.now() - timedelta(days=1))
    assert Connection.objects.get().health == "broken"
    assert call(alice, text="hello").value == "hello"
    assert Connection.objects.get().health == "ok"


def test_a_permission_that_is_missing_is_asked_for_at_the_next_login(alice, alice_api, linked, fake):
    fake.lacks = "notes:write"
    with pytest.raises(ToolFailed, match="does not grant") as failure:
        call(alice, text="hello")
    assert failure.value.code == "reconnect_needed" and fake.called == 0
    assert begin(alice_api, linked)["scope"] == "notes offline_access notes:write"


def test_a_login_that_nobody_uses_is_renewed_each_day(linked, fake):
    now = timezone.now()
    Connection.objects.update(checked_at=now - timedelta(days=2), token_expires_at=now)
    Connection.objects.create(owner=linked.owner, name="open", provider="mcp", base_url=fake.address)
    assert check_logins(now) == 1 and fake.refreshes == 1


def test_revoking_tells_the_service(alice_api, linked, fake):
    assert alice_api.post(f"{API}/{linked.pk}/revoke").json() == {"told_service": True}
    linked.refresh_from_db()
    assert fake.revoked == ["refresh-0"] and not linked.is_linked


def test_an_authorization_goes_with_its_server(alice_api, row):
    begin(alice_api, row)
    assert alice_api.delete(f"{API}/{row.pk}").status_code == 204
    assert not Authorization.objects.exists()


# -- the reference SDK's server --------------------------------------------------------------------------------------


@pytest.fixture
def reference(settings, closed_sessions):
    """In a process of its own; its address."""
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tests.connectors.mcp_login_server", str(port)]
    with served(command, f"{url}/.well-known/oauth-authorization-server", cwd=ROOT):
        yield url


def test_the_reference_servers_login_is_found_used_renewed_and_taken_back(alice, alice_api, reference):
    row = Connection.objects.create(owner=alice, name="notes", provider="mcp", base_url=f"{reference}/mcp")
    url = alice_api.post(f"{API}/mcp/authorize", {"connection": row.pk}).json()["url"]
    back = httpx2.get(url, follow_redirects=False)
    assert back.status_code == 302, back.text
    query = {key: values[0] for key, values in parse_qs(urlsplit(back.headers["location"]).query).items()}
    done = alice_api.get(f"{API}/mcp/callback", query)
    assert done.status_code == 200 and done.json()["health"] == "ok" and done.json()["scopes"] == ["sums"]
    tool = spec_of(Tool.objects.get(name="notes_add"), deadline_s=60.0)
    assert call_tool(tool, alice, {"a": 20, "b": 22}).value == {"result": 42}
    Connection.objects.update(token_expires_at=timezone.now())
    before = Connection.objects.get().access_token
    assert call_tool(tool, alice, {"a": 1, "b": 1}).value == {"result": 2}
    assert Connection.objects.get().access_token != before
    assert alice_api.post(f"{API}/{row.pk}/revoke").json() == {"told_service": True}
    with pytest.raises(ToolFailed, match="login"):
        call_tool(tool, alice, {"a": 1, "b": 1})
