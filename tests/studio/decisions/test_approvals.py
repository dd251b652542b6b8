"""What the cards of approvals say: why the person is asked, who decides, and what became of it."""

import html

import pytest
from django.utils import timezone

from agents import roles
from runs.models import Approval
from tests.runs.worker.notices.test_links import path_of

pytestmark = pytest.mark.django_db


def text(browser, path, status=200):
    answer = browser.get(path)
    assert answer.status_code == status
    return html.unescape(answer.content.decode())


def test_a_card_says_in_plain_words_why_the_person_is_asked(asked, signed_in, alice):
    asked()
    browser = signed_in(alice)
    assert "Why you are asked: “add” is set to ask before every call." in text(browser, "/approvals/")
    german = browser.get("/approvals/", headers={"accept-language": "de"}).content.decode()
    assert "Warum Sie gefragt werden: „add“ soll vor jedem Aufruf fragen." in html.unescape(german)


def test_a_viewer_of_the_site_reads_the_card_and_is_told_why_it_has_no_buttons(asked, signed_in, alice):
    approval = asked()
    roles.make_roles()
    alice.groups.add(roles.Group.objects.get(name="viewer"))
    for path in ("/approvals/", path_of(approval, alice)):
        page = text(signed_in(alice), path)
        assert 'value="approve"' not in page and "Your role on this site lets you read this" in page


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"status": "expired"}, "Nobody decided in time, so the call was not made."),
        ({"status": "approved"}, "Nobody decided in time, so the call was made"),
        ({"status": "void"}, "Its run ended before anybody decided."),
    ],
)
def test_an_old_link_says_what_became_of_the_approval(asked, signed_in, alice, fields, says):
    approval = asked()
    Approval.objects.update(decided_at=timezone.now(), **fields)
    page = text(signed_in(alice), path_of(approval, alice))
    assert says in page and f'href="/runs/{approval.run_id}/"' in page


def test_what_a_team_mate_decided_meanwhile_is_told_in_words_for_people(asked, signed_in, alice, bob, team):
    approval = asked(team=team, decides="team")
    page = signed_in(alice)
    signed_in(bob).post(f"/approvals/{approval.pk}/decide", {"decision": "deny", "note": "not today"})
    answer = page.post(f"/approvals/{approval.pk}/decide", {"decision": "approve"}, follow=True)
    shown = html.unescape(answer.content.decode())
    assert "already denied. The list of approvals says who decided, and when." in shown
    assert "GET" not in shown and "not today" in shown


def test_refused_arguments_stay_and_their_page_can_be_opened_again(asked, signed_in, alice):
    approval = asked()
    browser, path = signed_in(alice), f"/approvals/{approval.pk}/decide"
    refused = browser.post(path, {"decision": "approve", "arguments": "[1]"}, headers={"accept-language": "de"})
    page = html.unescape(refused.content.decode())
    assert refused.status_code == 422 and ">[1]</textarea>" in page and "schreiben Sie {…}" in page
    assert browser.get(path)["Location"] == "/approvals/"
