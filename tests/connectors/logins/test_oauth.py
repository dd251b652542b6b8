import threading
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.management import call_command
from django.db import connection as database
from django.db import connections as databases
from django.utils import timezone

from agents.fields import cipher
from agents.models import AuditEvent
from agents.tools import ToolFailed
from connectors.logins import tokens
from connectors.models import Authorization, Connection
from tests.connectors.loopback import Fault

API = "/api/v1/connections"


def authorize(client, provider="gmail", **body):
    answer = client.post(f"{API}/{provider}/authorize", body)
    assert answer.status_code == 200, answer.json()
    return {key: values[0] for key, values in parse_qs(urlsplit(answer.json()["url"]).query).items()}, answer.json()


def come_back(client, fake, query, provider="gmail", **more):
    code = fake.give_code(query["code_challenge"])
    return client.get(f"{API}/{provider}/callback", {"state": query["state"], "code": code, **more})


def test_a_person_connects_an_account(alice, alice_api, gmail):
    query, shown = authorize(alice_api, access=["read", "send"])
    assert query["code_challenge_method"] == "S256" and query["access_type"] == "offline"
    assert query["redirect_uri"].endswith("/api/v1/connections/gmail/callback")
    assert [one["access"] for one in shown["scopes"]] == ["read", "send"] and all(one["why"] for one in shown["scopes"])
    answer = come_back(alice_api, gmail, query)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["name"], body["account"], body["health"]) == ("gmail", "alice@example.org", "ok")
    assert body["scopes"] == query["scope"].split()
    assert "access-" not in answer.content.decode() and "refresh-" not in answer.content.decode()
    assert AuditEvent.objects.filter(action="connection.connected", actor=alice).exists()


def test_only_reading_is_asked_for_unless_more_is_wanted(alice_api, gmail):
    query, _ = authorize(alice_api)
    assert query["scope"] == "https://www.googleapis.com/auth/gmail.readonly"


def test_the_link_sends_a_browser_to_the_service(alice, gmail, signed_in):
    answer = signed_in(alice).get(f"{API}/gmail/authorize?access=send")
    assert answer.status_code == 302 and answer["Location"].startswith(f"{gmail.url}/auth?")


def test_a_callback_replayed_is_refused(alice_api, gmail):
    query, _ = authorize(alice_api)
    assert come_back(alice_api, gmail, query).status_code == 200
    answer = come_back(alice_api, gmail, query)
    assert answer.status_code == 409 and Connection.objects.count() == 1


def test_a_foreign_or_unknown_state_is_not_there(alice_api, charlie_api, gmail):
    query, _ = authorize(alice_api)
    assert come_back(charlie_api, gmail, query).status_code == 404
    assert come_back(alice_api, gmail, {**query, "state": "made-up"}).status_code == 404
    assert come_back(alice_api, gmail, query, provider="outlook").status_code == 404
    assert Connection.objects.count() == 0
    assert come_back(alice_api, gmail, query).status_code == 200


def test_a_state_that_took_too_long_is_refused(alice_api, gmail):
    query, _ = authorize(alice_api)
    Authorization.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert come_back(alice_api, gmail, query).status_code == 409


def test_a_code_of_another_login_fails_its_pkce_check(alice_api, gmail):
    query, _ = authorize(alice_api)
    stolen = {**query, "code_challenge": "somebody-elses"}
    answer = come_back(alice_api, gmail, stolen)
    assert answer.status_code == 422 and answer.json()["error"]["code"] == "login_refused"


def test_a_person_who_says_no_is_told_so(alice_api, gmail):
    query, _ = authorize(alice_api)
    answer = alice_api.get(f"{API}/gmail/callback", {"state": query["state"], "error": "access_denied"})
    assert answer.status_code == 422 and "access_denied" in answer.json()["error"]["message"]


def test_a_service_that_is_down_is_unavailable_not_a_crash(alice_api, gmail):
    query, _ = authorize(alice_api)
    gmail.faults += [Fault("/token", status=502, body=b"<html>bad gateway", headers={"Content-Type": "text/html"})]
    assert come_back(alice_api, gmail, query).status_code == 503


def test_without_an_oauth_client_the_administrator_is_told_what_to_set(alice_api, gmail, settings):
    settings.GOOGLE_CLIENT_ID = ""
    answer = alice_api.post(f"{API}/gmail/authorize", {})
    assert answer.status_code == 422 and "MUSTER_GOOGLE_CLIENT_ID" in answer.json()["error"]["hint"]


def test_reconnecting_keeps_the_row_and_adds_the_scope(alice, alice_api, gmail, connect):
    row = connect(alice, "gmail", scopes=["https://www.googleapis.com/auth/gmail.readonly"], health="broken")
    query, _ = authorize(alice_api, connection=row.pk, access=["send"])
    assert set(query["scope"].split()) == {
        "https://www.googleapis.com/auth/gmail.readonly", "https://www.googleapis.com/auth/gmail.send",
    }  # fmt: skip
    assert come_back(alice_api, gmail, query).json()["id"] == str(row.pk)
    row.refresh_from_db()
    assert row.health == "ok" and len(row.scopes) == 2


def test_a_stranger_cannot_reconnect_or_see_it(alice, charlie_api, gmail, connect):
    row = connect(alice, "gmail")
    assert charlie_api.post(f"{API}/gmail/authorize", {"connection": row.pk}).status_code == 404
    for path in ("", "/health", "/tools/"):
        assert charlie_api.get(f"{API}/{row.pk}{path}").status_code == 404
    for path in ("/revoke", "/tools/refresh", "/tools/x/approve", "/import"):
        body = {"sha256": "x"} if "approve" in path else {"text": "{}"} if "import" in path else {}
        assert charlie_api.post(f"{API}/{row.pk}{path}", body).status_code == 404
    assert charlie_api.delete(f"{API}/{row.pk}").status_code == 404
    assert charlie_api.get(f"{API}/").json()["results"] == []


def test_a_key_without_the_scope_is_refused(alice, api, gmail):
    reader = api(alice, "connections:read")
    assert reader.get(f"{API}/providers").status_code == 200
    assert reader.post(f"{API}/gmail/authorize", {}).status_code == 403
    assert reader.get(f"{API}/gmail/callback?state=x").status_code == 403


# -- tokens ----------------------------------------------------------------------------------------------------------


def expire(row):
    Connection.objects.filter(pk=row.pk).update(token_expires_at=timezone.now() + timedelta(seconds=30))
    row.refresh_from_db()


def test_tokens_are_encrypted_at_rest_and_rotated_with_the_keys(alice, gmail, connect, settings):
    row = connect(alice, "gmail", access_token="in-the-clear")

    def stored():
        with database.cursor() as cursor:
            cursor.execute("SELECT access_token FROM connectors_connection WHERE id = %s", [row.pk])
            return cursor.fetchone()[0]

    before = stored()
    assert "in-the-clear" not in before
    settings.FIELD_KEYS = ["a new key", *settings.FIELD_KEYS]
    call_command("rotate_secrets", verbosity=0)
    assert stored() != before
    assert cipher(("a new key",)).decrypt(stored().encode()) == b"in-the-clear"


def test_a_token_is_refreshed_before_it_ends_and_saved_at_once(alice, gmail, connect, use):
    row = connect(alice, "gmail")
    gmail.rotates = True
    expire(row)
    use(alice, "gmail", "labels")
    row.refresh_from_db()
    assert (row.refresh_token, row.token_version, row.health) == ("refresh-1", 1, "ok")
    assert row.token_expires_at > timezone.now() + timedelta(minutes=50)
    use(alice, "gmail", "labels")
    assert gmail.refreshes == 1


def test_a_401_refreshes_once_and_goes_on(alice, gmail, connect, use):
    """Our clock says the token lives; the service knows better."""
    connect(alice, "gmail", access_token="stale")
    assert use(alice, "gmail", "labels").ok
    assert gmail.refreshes == 1


def test_a_service_whose_tokens_end_at_once_is_not_asked_for_ever(alice, gmail, connect, use):
    """Or a clock that runs ahead: the token that just came is used, however old it claims to be."""
    gmail.expires_in = 1
    connect(alice, "gmail", token_expires_at=timezone.now() - timedelta(days=1))
    assert use(alice, "gmail", "labels").ok
    assert gmail.refreshes == 1


def test_a_revoked_token_is_broken_once_and_says_how_to_reconnect(alice, gmail, connect, use):
    row = connect(alice, "gmail", access_token="stale")
    gmail.refresh_tokens.clear()
    for _ in range(3):
        with pytest.raises(ToolFailed) as failure:
            use(alice, "gmail", "labels")
        assert failure.value.code == "reconnect_needed"
        assert failure.value.details["reconnect"].endswith(f"/connections/gmail/authorize?connection={row.pk}")
    row.refresh_from_db()
    assert row.health == "broken" and "invalid_grant" in row.last_error
    assert gmail.count("/token") == 1
    assert AuditEvent.objects.filter(action="connection.broken").count() == 1


def test_a_login_service_that_is_down_does_not_break_the_account(alice, gmail, connect, use):
    row = connect(alice, "gmail", access_token="stale")
    gmail.faults += [Fault("/token", status=503)]
    with pytest.raises(ToolFailed) as failure:
        use(alice, "gmail", "labels")
    assert failure.value.code == "login_unavailable"
    row.refresh_from_db()
    assert row.health != "broken" and row.refreshing_until is None
    assert use(alice, "gmail", "labels").ok


def test_an_outage_that_a_check_found_does_not_end_the_login(alice, alice_api, gmail, connect, use):
    row = connect(alice, "gmail", token_expires_at=timezone.now())
    gmail.faults += [Fault("/token", status=503)]
    assert alice_api.get(f"{API}/{row.pk}/health").json()["health"] == "broken"
    assert use(alice, "gmail", "labels").ok


@pytest.mark.django_db(transaction=True)
def test_a_storm_of_workers_makes_one_refresh(alice, gmail, connect):
    row = connect(alice, "gmail", access_token="stale")
    gmail.rotates, gmail.refresh_s = True, 0.3
    found, gate = [], threading.Barrier(12)

    def ask():
        gate.wait()
        found.append(tokens.access_token(Connection.objects.get(pk=row.pk), refused="stale"))
        databases.close_all()

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 12 and len(set(found)) == 1
    assert gmail.refreshes == 1


def test_a_worker_that_died_refreshing_holds_nobody_up_for_ever(alice, gmail, connect, use):
    connect(alice, "gmail", access_token="stale", refreshing_until=timezone.now() - timedelta(seconds=1))
    assert use(alice, "gmail", "labels").ok


def test_a_login_that_ends_soon_is_warned_of(alice, gmail, connect):
    row = connect(alice, "gmail", login_ends_at=timezone.now() + timedelta(days=2))
    row.mark_ok()
    row.refresh_from_db()
    assert row.health == "expiring"


def test_revoking_tells_the_service_and_forgets_the_tokens(alice, alice_api, gmail, connect):
    row = connect(alice, "gmail")
    assert alice_api.post(f"{API}/{row.pk}/revoke").json() == {"told_service": True}
    row.refresh_from_db()
    assert gmail.revoked == ["refresh-0"] and row.access_token == row.refresh_token == "" and row.health == "broken"


def test_revoking_forgets_the_tokens_even_when_the_service_is_down(alice, alice_api, gmail, connect):
    row = connect(alice, "gmail")
    gmail.faults += [Fault("/revoke", status=500)]
    assert alice_api.post(f"{API}/{row.pk}/revoke").json() == {"told_service": False}
    row.refresh_from_db()
    assert not row.is_linked


def test_health_asks_the_service_now(alice, alice_api, gmail, connect):
    row = connect(alice, "gmail")
    assert alice_api.get(f"{API}/{row.pk}/health").json()["health"] == "ok"
    gmail.live.clear()
    gmail.refresh_tokens.clear()
    Connection.objects.update(checked_at=None)
    answer = alice_api.get(f"{API}/{row.pk}/health").json()
    assert answer["health"] == "broken" and answer["reconnect"]


# -- device code -----------------------------------------------------------------------------------------------------


def test_a_headless_server_logs_in_by_device_code(alice_api, graph, time_machine):
    graph.device_answers = ["authorization_pending", "slow_down", "ok"]
    begun = alice_api.post(f"{API}/outlook/device", {"access": ["read"]}).json()
    assert begun["user_code"] == "ABCD-EFGH" and begun["interval"] == 5

    def poll(seconds):
        time_machine.move_to(timezone.now() + timedelta(seconds=seconds), tick=False)
        return alice_api.post(f"{API}/outlook/device/poll", {"id": begun["id"]})

    assert poll(6).status_code == 202
    assert poll(1).status_code == 202 and graph.count("/token") == 1  # asked too soon: the service is left alone
    assert poll(6).status_code == 202
    assert poll(6).status_code == 202 and graph.count("/token") == 2  # it said: slow down
    done = poll(20)
    assert done.status_code == 200, done.json()
    assert done.json()["account"] == "alice@example.org"
    assert poll(20).status_code == 409


def test_a_stranger_cannot_poll_a_login(alice_api, charlie_api, graph):
    begun = alice_api.post(f"{API}/outlook/device", {}).json()
    assert charlie_api.post(f"{API}/outlook/device/poll", {"id": begun["id"]}).status_code == 404
