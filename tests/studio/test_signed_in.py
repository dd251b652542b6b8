"""Signed-in browsers on the account page: one's own, and signed out from another one."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import AuditEvent, BrowserSession

pytestmark = pytest.mark.django_db
FIREFOX = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
IPHONE = {
    "User-Agent": "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Safari/604"
}


def handle_of(client):
    return BrowserSession.objects.get(pk=client.session.session_key).handle


def test_both_browsers_are_listed_by_name_and_their_keys_are_not(signed_in, alice):
    here, phone = signed_in(alice), signed_in(alice)
    phone.get("/", headers=IPHONE)
    here.get("/", headers=FIREFOX)
    html = here.get("/account/", headers=FIREFOX).content.decode()
    assert "Firefox, Linux" in html and "Safari, iPhone" in html
    for key in (here.session.session_key, phone.session.session_key):
        assert key not in html


def test_one_browser_or_all_others_are_signed_out_at_once(signed_in, alice):
    here, phone, tablet = signed_in(alice), signed_in(alice), signed_in(alice)
    assert here.post("/account/sign-out", {"browser": handle_of(phone)}).status_code == 302
    assert phone.get("/account/").status_code == 302 and tablet.get("/account/").status_code == 200
    assert here.post("/account/sign-out").status_code == 302
    assert tablet.get("/account/").status_code == 302 and here.get("/account/").status_code == 200
    told = AuditEvent.objects.filter(action="account.signed_out").order_by("pk")
    assert [one.details["browsers"] for one in told] == [1, 1]


def test_nobody_sees_or_ends_anothers(signed_in, client, alice, bob, charlie, team):
    browser = signed_in(alice)
    browser.get("/account/", headers=FIREFOX)
    for other in (bob, charlie):
        theirs = signed_in(other)
        assert "Firefox" not in theirs.get("/account/").content.decode()
        assert theirs.post("/account/sign-out", {"browser": handle_of(browser)}).status_code == 404
        theirs.post("/account/sign-out")
    assert client.post("/account/sign-out", {"browser": handle_of(browser)})["Location"].startswith("/login/")
    assert browser.get("/account/").status_code == 200


def test_the_last_use_is_kept_every_few_minutes_and_not_at_each_request(signed_in, alice, django_assert_num_queries):
    browser = signed_in(alice)
    browser.get("/approvals/")
    row = BrowserSession.objects.get()
    browser.get("/approvals/")
    assert BrowserSession.objects.get().used_at == row.used_at
    BrowserSession.objects.update(used_at=timezone.now() - timedelta(hours=1))
    browser.get("/approvals/")
    assert BrowserSession.objects.get().used_at > timezone.now() - timedelta(minutes=1)


def test_a_name_that_a_browser_invents_stays_text(signed_in, alice):
    browser = signed_in(alice)
    html = browser.get("/account/", headers={"User-Agent": "<script>Firefox</script>"}).content.decode()
    assert "<script>Firefox" not in html and BrowserSession.objects.get().browser == "Firefox"


def test_a_deleted_person_has_no_session(signed_in, charlie):
    browser = signed_in(charlie)
    assert browser.get("/account/").status_code == 200
    charlie.delete()
    assert not BrowserSession.objects.exists() and browser.get("/account/").status_code == 302


def test_a_form_that_is_sent_signed_out_leads_back_to_its_page(client, db):
    """Its own address would answer 405 after signing in."""
    sent = client.post("/devices/pair", headers={"referer": "http://testserver/devices/?x=1"})
    assert sent["Location"] == "/login/?next=/devices/%3Fx%3D1"
    for referer in ("https://evil.example/devices/", "http://testserver:1/", ""):
        sent = client.post("/devices/pair", headers={"referer": referer})
        assert sent["Location"] == "/login/?next=/devices/pair"


@pytest.mark.parametrize(
    ("path", "back"),
    [("/devices/pair", "/devices/"), ("/clients/mcp/key", "/clients/"), ("/account/password", "/account/")],
)
def test_a_page_that_answers_a_form_can_be_opened_again(signed_in, alice, path, back):
    assert signed_in(alice).get(path)["Location"] == back
