"""Folders of the list of conversations, and the one of schedules."""

import pytest

from runs.models import Run, Session

pytestmark = pytest.mark.django_db


def put_away(api, session, folder):
    return api.patch(f"/api/v1/sessions/{session.pk}", {"folder": folder}, content_type="application/json")


def test_a_conversation_is_put_into_a_folder_by_its_person_alone(
    signed_in, alice, make_agent, offline, alice_api, bob_api, charlie_api
):
    make_agent(provider=offline)
    session = Session.objects.create(owner=alice, title="Trip to Oslo")
    for other in (bob_api, charlie_api):
        assert put_away(other, session, "Travel").status_code == 404
    assert put_away(alice_api, session, "Travel").status_code == 200
    html = signed_in(alice).get("/playground/").content.decode()
    assert 'data-folder="Travel"' in html and html.index("Travel") < html.index("Trip to Oslo")
    assert [one["title"] for one in alice_api.get("/api/v1/sessions/?folder=Travel").json()["results"]] == [
        "Trip to Oslo"
    ]
    put_away(alice_api, session, "")
    assert "data-folder" not in signed_in(alice).get("/playground/").content.decode()


def test_what_a_schedule_starts_lies_in_a_folder_of_its_own(worker, alice, make_agent, offline, signed_in):
    from runs.intake import messages as intake

    agent = make_agent(provider=offline)
    intake.accept_message(user=alice, agent=agent, text="by the clock", trigger=Run.Trigger.SCHEDULE)
    intake.accept_message(user=alice, agent=agent, text="by a person")
    folders = dict(Session.objects.values_list("title", "folder"))
    assert folders == {"by the clock": "scheduled", "by a person": ""}
    assert "Scheduled runs" in signed_in(alice).get("/playground/").content.decode()


def test_a_name_with_html_stays_text(signed_in, alice, make_agent, offline):
    make_agent(provider=offline)
    Session.objects.create(owner=alice, title="x", folder='"><script>alert(1)</script>')
    assert "<script>alert" not in signed_in(alice).get("/playground/").content.decode()
