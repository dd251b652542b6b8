"""The page on which a person answers invitations and leaves teams."""

from agents.models import Invitation, Membership


def test_a_person_accepts_with_a_click(signed_in, alice, charlie, team):
    invitation = Invitation.objects.create(team=team, user=charlie, invited_by=alice, role="operator")
    browser = signed_in(charlie)
    shown = browser.get("/teams/").content.decode()
    assert "alice invites you as operator" in shown and f"/invitations/{invitation.pk}/accept" in shown
    assert browser.post(f"/invitations/{invitation.pk}/accept").status_code == 302
    assert Membership.objects.get(user=charlie).role == "operator"
    assert "No invitation is open" in browser.get("/teams/").content.decode()


def test_a_person_declines_and_leaves_with_a_click(signed_in, alice, bob, charlie, team):
    invitation = Invitation.objects.create(team=team, user=charlie, invited_by=alice)
    assert signed_in(charlie).post(f"/invitations/{invitation.pk}/decline").status_code == 302
    assert signed_in(bob).post(f"/teams/{team.name}/leave").status_code == 302
    assert [member.user for member in Membership.objects.all()] == [alice]


def test_nobody_answers_for_another_person_or_by_a_link(signed_in, alice, bob, charlie, team):
    invitation = Invitation.objects.create(team=team, user=charlie, invited_by=alice)
    for person in (alice, bob):
        assert signed_in(person).post(f"/invitations/{invitation.pk}/accept").status_code == 404
    assert signed_in(charlie).get(f"/invitations/{invitation.pk}/accept").status_code == 405
    assert signed_in(charlie).post(f"/teams/{team.name}/leave").status_code == 404
    assert not Membership.objects.filter(user=charlie).exists()
