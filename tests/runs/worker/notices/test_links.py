"""A signed link opens one approval for one person, and decides nothing by itself."""

from datetime import timedelta

import pytest
from django.core import signing
from django.utils import timezone

from runs.events import links
from runs.models import Approval, Webhook, WebhookDelivery

pytestmark = pytest.mark.django_db


def path_of(approval, person):
    return "/" + links.sign_approval_link(approval.pk, person.pk).split("/", 3)[3]


def is_open(approval):
    return Approval.objects.get(pk=approval.pk).status == "open"


def test_opening_a_link_shows_the_approval_and_decides_nothing(asked, signed_in, alice):
    approval = asked()
    path = path_of(approval, alice)
    for question in ("", "?decision=approve", "?decision=approve&note=x"):
        page = signed_in(alice).get(path + question)
        assert page.status_code == 200 and b"Approve" in page.content
    assert is_open(approval)


def test_a_post_of_its_person_decides_and_the_link_then_only_shows_how(asked, signed_in, alice):
    approval = asked()
    browser, path = signed_in(alice), path_of(approval, alice)
    assert browser.post(path, {"decision": "approve", "note": "fine"}).status_code == 302
    approval.refresh_from_db()
    assert (approval.status, approval.decided_by, approval.note) == ("approved", alice, "fine")
    page = browser.get(path).content.decode()
    assert "Decided by alice" in page and 'value="deny"' not in page
    browser.post(path, {"decision": "deny"})
    assert Approval.objects.get(pk=approval.pk).status == "approved"


def test_who_is_not_signed_in_is_asked_to_and_comes_back(asked, client, alice):
    approval = asked()
    path = path_of(approval, alice)
    for answer in (client.get(path), client.post(path, {"decision": "approve"})):
        assert answer.status_code == 302 and answer["Location"].startswith("/login/?next=/approvals/link/")
    assert is_open(approval)


def test_a_post_from_another_site_is_refused(asked, alice):
    from django.test import Client

    approval = asked()
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    assert browser.post(path_of(approval, alice), {"decision": "approve"}).status_code == 403
    assert is_open(approval)


def test_a_link_for_another_person_opens_nothing(asked, signed_in, alice, bob, charlie, team):
    """Also if the one who has it may decide the same approval: each has a link of their own."""
    approval = asked(team=team, decides="team")
    path = path_of(approval, alice)
    for person in (bob, charlie):
        for answer in (signed_in(person).get(path), signed_in(person).post(path, {"decision": "approve"})):
            assert answer.status_code == 403 and "somebody else" in answer.content.decode()
            assert str(approval.pk) not in answer.content.decode()
    assert is_open(approval)
    assert signed_in(bob).post(path_of(approval, bob), {"decision": "approve"}).status_code == 302
    assert not is_open(approval)


def test_a_link_gives_nobody_a_right(asked, signed_in, alice, bob, charlie, team):
    """The sharing table decides: a stranger's and a team-mate's own links to Alice's approval open nothing."""
    approval = asked(team=team)
    for person in (bob, charlie):
        path = path_of(approval, person)
        assert signed_in(person).get(path).status_code == 404
        assert signed_in(person).post(path, {"decision": "approve"}).status_code == 404
    assert is_open(approval)


def test_the_starter_who_must_not_decide_sees_it_and_cannot(asked, signed_in, alice, bob, team):
    approval = asked(team=team, decides="team", not_starter=True)
    browser, path = signed_in(alice), path_of(approval, alice)
    page = browser.get(path)
    assert page.status_code == 200 and b'value="approve"' not in page.content
    browser.post(path, {"decision": "approve"})
    assert is_open(approval)


def test_the_arguments_wrap_and_who_may_decide_is_named(asked, signed_in, alice):
    page = signed_in(alice).get(path_of(asked(), alice)).content.decode()
    assert '<textarea class="code wraps"' in page and "To be decided by alice." in page


def test_an_expired_link_says_so(asked, signed_in, alice, monkeypatch):
    approval = asked()
    path = path_of(approval, alice)
    browser = signed_in(alice)
    monkeypatch.setattr(links, "GOOD_S", -1)
    answer = browser.get(path)
    assert answer.status_code == 410 and "expired" in answer.content.decode()
    assert '<a class="button primary" href="/approvals/">' in answer.content.decode()
    assert browser.post(path, {"decision": "approve"}).status_code == 410
    assert is_open(approval)


@pytest.mark.parametrize("place", [0, 5, -30, -1])
def test_a_changed_link_opens_nothing(asked, signed_in, alice, place):
    approval = asked()
    token = path_of(approval, alice).split("/")[3]
    other = "A" if token[place] != "A" else "B"
    changed = token[:place] + other + token[place:][1:]
    browser = signed_in(alice)
    assert browser.get(f"/approvals/link/{changed}/").status_code == 404
    assert browser.post(f"/approvals/link/{changed}/", {"decision": "approve"}).status_code == 404
    assert is_open(approval)


@pytest.mark.parametrize("content", [[], ["x", 1], ["00" * 16], {"a": 1}, "text", [None, None]])
def test_what_is_signed_for_something_else_opens_nothing(signed_in, alice, content):
    for salt in (links.SALT, "another"):
        token = signing.dumps(content, salt=salt)
        assert signed_in(alice).get(f"/approvals/link/{token}/").status_code == 404


def test_a_webhook_gets_a_link_for_its_owner(asked, signed_in, alice, settings):
    Webhook.objects.create(owner=alice, url="https://hooks.example.com/", events=["approval.requested"])
    approval = asked()
    [delivery] = WebhookDelivery.objects.all()
    link = delivery.body["link"]
    assert link.startswith(settings.PUBLIC_URL) and links.read_approval_link(link.split("/")[-2]) == links.Link(
        approval.pk, alice.pk
    )
    assert signed_in(alice).get("/" + link.split("/", 3)[3]).status_code == 200


def test_a_link_ends_with_its_approval(asked, signed_in, alice):
    approval = asked()
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    signed_in(alice).post(path_of(approval, alice), {"decision": "approve"})
    assert is_open(approval)
