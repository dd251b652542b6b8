"""Read-only links to conversations: off by default, revocable, text only, and useful for nothing but reading."""

import pytest

from agents.models import AuditEvent
from runs.models import Message, Run, Session, SharedLink

pytestmark = pytest.mark.django_db
NOTE = "This answer is based on untrusted content and may repeat its claims."


@pytest.fixture(autouse=True)
def allowed(settings):
    settings.SHARED_LINKS = True


@pytest.fixture
def session(alice):
    made = Session.objects.create(owner=alice, title="Weather")
    made.add_message("system", [{"type": "text", "text": "secret instructions"}])
    made.add_message("user", [{"type": "text", "text": "How is <b>Paris</b>?"}])
    call = {"id": "1", "name": "look_up", "arguments": {"token": "hunter2"}}
    made.add_message("assistant", [{"type": "text", "text": "It rains."}], tool_calls=[call])
    made.add_message("tool", [{"type": "text", "text": "raw tool result"}], tool_call_id="1")
    return made


def path(session):
    return f"/api/v1/sessions/{session.pk}/share"


def put(api, session, **body):
    return api.put(path(session), body, content_type="application/json")


def local(link):
    return "/" + link["url"].split("/", 3)[3]


def test_nothing_is_shared_until_its_person_asks_and_then_strangers_read_text_alone(alice_api, client, session):
    assert alice_api.get(path(session)).status_code == 404
    link = put(alice_api, session).json()
    page = client.get(local(link))
    html = page.content.decode()
    assert "It rains." in html and "&lt;b&gt;Paris&lt;/b&gt;" in html
    for hidden in ("secret instructions", "raw tool result", "hunter2", "look_up", "alice", "<form", str(session.pk)):
        assert hidden not in html, hidden
    assert "noindex" in page["X-Robots-Tag"] and 'content="noindex' in html and page["Cache-Control"] == "no-store"
    assert page["Referrer-Policy"] == "no-referrer"
    assert len(link["url"].rstrip("/").split("/")[-1]) == 86


def test_the_database_alone_opens_no_conversation(alice_api, client, session):
    link = put(alice_api, session).json()
    kept = " ".join(str(value) for value in SharedLink.objects.values_list().get())
    token = link["url"].rstrip("/").split("/")[-1]
    assert token not in kept and SharedLink.objects.get().handle == token[:22]
    for guess in (token[:22], token[:22] + "0" * 64, token[:-1], token + "0", token[:-1] + "é"):
        assert client.get(f"/shared/{guess}/").status_code == 404, guess
    assert client.get(f"/shared/{token}/").status_code == 200
    gone = client.get("/shared/gone/").content.decode()
    assert "no longer shared" in gone and "dashboard" not in gone, "a reader may have no account"


def test_arguments_of_tools_are_shown_if_that_was_chosen_and_results_never(alice_api, client, session):
    html = client.get(local(put(alice_api, session, shows_tools=True).json())).content.decode()
    assert "hunter2" in html and "look_up" in html and "raw tool result" not in html


def test_later_messages_are_not_shown_until_it_is_shared_again(alice_api, client, session):
    link = put(alice_api, session).json()
    session.add_message("user", [{"type": "text", "text": "said later"}])
    assert "said later" not in client.get(local(link)).content.decode()
    again = put(alice_api, session).json()
    assert again["url"] == link["url"] and "said later" in client.get(local(link)).content.decode()


def test_a_revoked_link_is_gone_at_once_and_the_next_is_another(alice_api, client, session):
    link = put(alice_api, session).json()
    assert alice_api.delete(path(session)).status_code == 204
    assert client.get(local(link)).status_code == 404
    assert put(alice_api, session).json()["url"] != link["url"]
    actions = AuditEvent.objects.filter(subject_kind="session").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["session.shared", "session.unshared", "session.shared"]


def test_the_site_can_forbid_it_and_then_old_links_open_nothing(alice_api, client, session, settings):
    link = put(alice_api, session).json()
    settings.SHARED_LINKS = False
    refused = put(alice_api, session)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "sharing_off")
    assert client.get(local(link)).status_code == 404


def test_team_mates_and_strangers_cannot_share_see_or_revoke(alice_api, bob_api, charlie_api, client, session):
    for other in (bob_api, charlie_api):
        assert put(other, session).status_code == 404
    put(alice_api, session)
    for other in (bob_api, charlie_api):
        assert other.get(path(session)).status_code == 404 and other.delete(path(session)).status_code == 404
    assert client.get(path(session)).status_code == 401 and SharedLink.objects.count() == 1


def test_a_stranger_can_only_read(alice_api, client, session):
    address = local(put(alice_api, session).json())
    for method in (client.post, client.put, client.patch, client.delete):
        assert method(address).status_code == 405
    assert not Run.objects.exists() and Message.objects.count() == 4


def test_links_of_people_who_were_switched_off_open_nothing(alice_api, alice, client, session):
    address = local(put(alice_api, session).json())
    alice.is_active = False
    alice.save()
    assert client.get(address).status_code == 404


@pytest.mark.parametrize("token", ["x", "0" * 43, "../../admin", "%00", "a" * 5000])
def test_a_guessed_link_opens_nothing(alice_api, client, session, token):
    put(alice_api, session)
    assert client.get(f"/shared/{token}/").status_code == 404


def test_unknown_fields_are_refused(alice_api, session):
    assert put(alice_api, session, until=3).status_code == 422 and not SharedLink.objects.exists()


def test_an_answer_that_may_repeat_strangers_text_is_marked_for_readers_too(alice_api, client, session):
    session.add_message("user", [{"type": "text", "text": "What does the mail say?"}])
    assert NOTE not in client.get(local(put(alice_api, session).json())).content.decode()
    session.add_message("assistant", [{"type": "text", "text": "Pay Mallory."}], untrusted=True)
    session.refresh_from_db()
    html = client.get(local(put(alice_api, session).json())).content.decode()
    assert html.count(NOTE) == 1 and html.index("It rains.") < html.index(NOTE) < html.index("Pay Mallory.")


def test_the_token_is_not_in_the_log_of_requests(alice_api, client, session, settings, caplog):
    settings.LOG_REQUESTS = True
    link = local(put(alice_api, session).json())
    caplog.clear()
    with caplog.at_level("INFO", "muster.request"):
        assert client.get(link).status_code == 200
    [line] = [record.getMessage() for record in caplog.records if record.name == "muster.request"]
    assert line.startswith("GET /shared/<slug:token>/ 200"), line
