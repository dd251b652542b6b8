"""Questions of runs on the page Approvals: those of the person alone, and counted in the menu."""

import json

import pytest

pytestmark = pytest.mark.django_db


def listed(page):
    html = page.content.decode()
    if 'id="open-questions"' not in html:
        return []
    return json.loads(html.split('id="open-questions"')[1].split(">", 1)[1].split("</script>")[0])


def test_the_inbox_has_the_questions_of_ones_own_runs(question, signed_in, alice, bob, charlie):
    page = signed_in(alice).get("/approvals/")
    [asked] = listed(page)
    assert (asked["id"], asked["prompt"], asked["run"]) == (str(question.pk), "Which?", str(question.run_id))
    for other in (bob, charlie):
        assert listed(signed_in(other).get("/approvals/")) == []


def test_a_prompt_with_html_stays_data(question, signed_in, alice):
    type(question).objects.update(prompt="</script><img src=x onerror=alert(1)>")
    page = signed_in(alice).get("/approvals/")
    assert b"<img src=x" not in page.content and listed(page)[0]["prompt"].startswith("</script>")


def test_questions_count_in_the_menu_until_they_are_answered(question, signed_in, api, alice, charlie):
    browser = signed_in(alice)
    assert browser.get("/approvals/count").json() == {"open": 1}
    assert signed_in(charlie).get("/approvals/count").json() == {"open": 0}
    assert api(charlie).post(f"/api/v1/inputs/{question.pk}", {"value": 1}).status_code == 404
    assert api(alice).post(f"/api/v1/inputs/{question.pk}", {"value": "this"}).status_code == 200
    assert browser.get("/approvals/count").json() == {"open": 0}
