"""The page on which a person answers invitations and leaves teams."""

from agents.models import AuditEvent, Invitation, Membership


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


def test_a_person_creates_a_team_invites_and_gives_roles(signed_in, alice, bob, charlie, team):
    browser = signed_in(charlie)
    assert browser.post("/teams/", {"name": "readers"}).headers["Location"] == "/teams/readers/"
    assert browser.post("/teams/readers/invite", {"username": "bob", "role": "author"}).status_code == 302
    invitation = Invitation.objects.get(team__name="readers")
    assert "bob" in browser.get("/teams/readers/").content.decode()
    signed_in(bob).post(f"/invitations/{invitation.pk}/accept")
    browser.post("/teams/readers/members", {"username": "bob", "role": "operator"})
    assert Membership.objects.get(user=bob, team__name="readers").role == "operator"
    browser.post("/teams/readers/members", {"username": "bob", "role": "remove"})
    assert not Membership.objects.filter(user=bob, team__name="readers").exists()
    browser.post("/teams/readers/invite", {"username": "alice", "role": "author"})
    withdrawn = Invitation.objects.get(user=alice)
    browser.post(f"/teams/readers/withdraw/{withdrawn.pk}")
    withdrawn.refresh_from_db()
    assert withdrawn.status == "withdrawn"
    names = AuditEvent.objects.filter(actor=charlie).order_by("pk").values_list("action", flat=True)
    assert list(names) == [
        "team.created", "team.invited", "team.changed", "team.changed", "team.invited", "team.invitation_withdrawn",
    ]  # fmt: skip


def test_a_taken_or_impossible_name_is_refused_with_a_reason(signed_in, alice, charlie, team):
    browser = signed_in(charlie)
    for name, reason in ((team.name, "called"), ("Not a name", "lower-case")):
        browser.post("/teams/", {"name": name})
        assert reason in browser.get("/teams/").content.decode()
    assert not Membership.objects.filter(user=charlie).exists()


def test_the_last_administrator_stays_one(signed_in, alice, bob, team):
    Membership.objects.filter(user=alice).update(role="administrator")
    refused = signed_in(alice).post(f"/teams/{team.name}/members", {"username": "alice", "role": "author"})
    assert refused.status_code == 422 and "needs an administrator" in refused.content.decode()
    assert Membership.objects.get(user=alice, team=team).role == "administrator"


def test_only_an_administrator_of_a_team_changes_it_and_only_members_see_it(signed_in, alice, bob, charlie, team):
    invitation = Invitation.objects.create(team=team, user=charlie, invited_by=alice)
    forms = {
        "invite": {"username": "charlie", "role": "author"},
        f"withdraw/{invitation.pk}": {},
        "members": {"username": "alice", "role": "remove"},
    }
    assert signed_in(bob).get(f"/teams/{team.name}/").status_code == 200
    assert "Invite a person" not in signed_in(bob).get(f"/teams/{team.name}/").content.decode()
    assert signed_in(charlie).get(f"/teams/{team.name}/").status_code == 404
    for path, form in forms.items():
        assert signed_in(bob).post(f"/teams/{team.name}/{path}", form).status_code == 403
        assert signed_in(charlie).post(f"/teams/{team.name}/{path}", form).status_code == 404
    invitation.refresh_from_db()
    assert invitation.status == "open" and Membership.objects.filter(team=team).count() == 2
