"""The pages of records: what waits is seen whole, decided once, and only by its owner."""

import pytest

from devices.models import Record


@pytest.fixture
def suggestion(alice, agent_call):
    made = agent_call(
        alice, "create_task", untrusted=True, title="Pay the bill", description="12 euros", assignees=["Ann"]
    )
    return Record.objects.get(pk=made["task"]["id"])


def text(answer):
    return answer.content.decode()


def test_what_waits_is_counted_listed_and_searched(alice, signed_in, suggestion, agent_call):
    agent_call(alice, "create_note", title="Elsewhere", content="Kept in the attic")
    browser = signed_in(alice)
    assert 'data-count="collections">2<' in text(browser.get("/"))  # at Knowledge, of which records are a part
    assert 'data-count="records">2<' in text(browser.get("/memory/"))
    found = text(browser.get("/records/?search=bill&review=waiting&kind=task&assignee=ann"))
    assert "Pay the bill" in found and "12 euros" in found and "from others" in found and "Elsewhere" not in found
    assert "Elsewhere" in text(browser.get("/records/?search=ATTIC"))
    for nothing in ("search=nowhere", "assignee=an", "kind=wish", "review=approved", "search=%00x"):
        assert "No record matches" in text(browser.get(f"/records/?{nothing}")), nothing


def test_an_empty_list_says_how_records_come_to_be(alice, signed_in):
    assert "mail clerk" in text(signed_in(alice).get("/records/"))


def test_the_page_shows_everything_and_approves_what_was_seen(alice, signed_in, suggestion, agent_call):
    browser, path = signed_in(alice), f"/records/{suggestion.pk}/"
    shown = text(browser.get(path))
    for part in ("Pay the bill", "12 euros", "Ann", "clerk", "read text from other people", "Approve as shown"):
        assert part in shown, part
    agent_call(alice, "update_task", task_id=str(suggestion.pk), description="1200 euros")
    stale = browser.post(f"{path}decide", {"decision": "approve", "version": "1"}, follow=True)
    assert "was changed in the meantime" in text(stale)
    suggestion.refresh_from_db()
    assert suggestion.review == "suggested", "what was not seen is not approved"
    for missing in ({}, {"version": "x"}):
        browser.post(f"{path}decide", {"decision": "approve", **missing})
    suggestion.refresh_from_db()
    assert suggestion.review == "suggested"
    assert "Approved." in text(browser.post(f"{path}decide", {"decision": "approve", "version": "2"}, follow=True))
    assert "already been approved" in text(
        browser.post(f"{path}decide", {"decision": "approve", "version": "3"}, follow=True)
    )


def test_a_person_edits_and_approves_in_one_step(alice, signed_in, suggestion):
    browser, path = signed_in(alice), f"/records/{suggestion.pk}/"
    form = {"version": "1", "title": "Pay it", "description": "a\r\nb", "assignees": "Ann Lee, Bo ,", "due_date": "2026-01-31",
            "state": "In Progress", "priority": "high", "project_id": "", "then": "approve"}  # fmt: skip
    assert "Saved and approved." in text(browser.post(path, form, follow=True))
    row = Record.objects.get()
    assert (row.review, row.version, row.data["assignees"], row.data["description"]) == (
        "approved",
        3,
        ["Ann Lee", "Bo"],
        "a\nb",
    )
    refused = browser.post(path, {**form, "version": "3", "title": "", "due_date": "", "description": "typed"})
    assert refused.status_code == 422 and "typed" in text(refused), "what was typed is not lost"
    stale = browser.post(path, {**form, "title": "Other", "description": "typed"})
    assert stale.status_code == 412 and "typed" in text(stale)
    assert Record.objects.get().data["title"] == "Pay it"


def test_a_suggested_change_is_shown_beside_what_is_there(alice, signed_in, suggestion, agent_call):
    browser, path = signed_in(alice), f"/records/{suggestion.pk}/"
    browser.post(f"{path}decide", {"decision": "approve", "version": "1"})
    agent_call(alice, "update_task", untrusted=True, task_id=str(suggestion.pk), title="Pay <b>Mallory</b>")
    shown = text(browser.get(path))
    assert "An agent suggests a change" in shown and "<ins>Pay &lt;b&gt;Mallory&lt;/b&gt;</ins>" in shown
    browser.post(f"{path}decide", {"decision": "reject", "version": "3", "reason": "not me"})
    row = Record.objects.get()
    assert (row.data["title"], row.suggested) == ("Pay the bill", None)
    shown = text(browser.get(path))
    assert "not me" in shown and "Pay &lt;b&gt;Mallory&lt;/b&gt;" in shown, "the history keeps what was refused"


def test_several_are_decided_at_once_each_in_its_version(alice, signed_in, agent_call):
    ids = [agent_call(alice, "create_task", title=f"{n}")["task"]["id"] for n in range(3)]
    agent_call(alice, "update_task", task_id=ids[0], title="changed")
    chosen = [f"{id}:1" for id in ids[:2]]
    answer = text(
        signed_in(alice).post("/records/", {"decision": "reject", "chosen": chosen, "reason": "no"}, follow=True)
    )
    assert "1 rejected." in answer and "was changed in the meantime" in answer
    rows = Record.objects.order_by("id").values_list("review", "reason")
    assert list(rows) == [("suggested", ""), ("rejected", "no"), ("suggested", "")]


def test_comments_are_written_decided_and_deleted(alice, signed_in, suggestion, agent_call):
    browser, path = signed_in(alice), f"/records/{suggestion.pk}/"
    browser.post(f"{path}decide", {"decision": "approve", "version": "1"})
    agent_call(alice, "add_task_comment", task_id=str(suggestion.pk), text="Seen in a mail")
    browser.post(f"{path}comment", {"text": "Mine\r\nin two lines"})
    assert "must not be empty" in text(browser.post(f"{path}comment", {"text": " "}, follow=True))
    shown = text(browser.get(path))
    assert "Seen in a mail" in shown and "Mine\nin two lines" in shown and "Approve comment" in shown
    theirs = Record.objects.get(kind="comment", is_ai_suggested=True)
    assert browser.get(f"/records/{theirs.pk}/").url == f"{path}#comment-{theirs.pk}"
    browser.post(f"/records/{theirs.pk}/decide", {"decision": "approve", "version": "1"})
    assert "Approve comment" not in text(browser.get(path))
    assert browser.post(f"/records/{theirs.pk}/delete").url == path
    assert Record.objects.filter(kind="comment").count() == 1


@pytest.mark.parametrize("kind", ["task", "note", "timeline", "project"])
def test_a_person_creates_each_kind(alice, signed_in, kind):
    browser, path = signed_in(alice), f"/records/new/{kind}/"
    assert f"Create {kind}" in text(browser.get(path))
    name = "name" if kind == "project" else "title"
    refused = browser.post(path, {name: " ", "description": "typed", "content": "typed"})
    assert refused.status_code == 422 and "typed" in text(refused)
    made = browser.post(path, {name: "Mine", "content": "text", "tags": "a, b", "project_id": ""})
    row = Record.objects.get()
    assert made.url == f"/records/{row.pk}/" and (row.review, str(row)) == ("approved", "Mine")
    assert browser.get("/records/new/wish/").status_code == 404


def test_nobody_else_sees_or_decides(alice, bob, charlie, site_admin, signed_in, suggestion):
    path = f"/records/{suggestion.pk}/"
    for other in (bob, charlie, site_admin):
        browser = signed_in(other)
        assert "Pay the bill" not in text(browser.get("/records/"))
        answers = [browser.get(path), browser.post(path, {"version": "1", "title": "Mine"}),
                   browser.post(f"{path}decide", {"decision": "approve", "version": "1"}),
                   browser.post(f"{path}comment", {"text": "hello"}), browser.post(f"{path}delete"),
                   browser.post("/records/", {"decision": "approve", "chosen": f"{suggestion.pk}:1"})]  # fmt: skip
        assert {answer.status_code for answer in answers} == {404}
    suggestion.refresh_from_db()
    assert (suggestion.review, suggestion.data["title"]) == ("suggested", "Pay the bill")


def test_the_pages_ask_as_often_for_one_record_as_for_thirty(
    alice, signed_in, agent_call, django_assert_max_num_queries
):
    task = agent_call(alice, "create_task", title="first")["task"]["id"]
    for number in range(30):
        agent_call(alice, "create_task", title=f"{number}")
        agent_call(alice, "update_task", task_id=task, title=f"first {number}")
        agent_call(alice, "add_task_comment", task_id=task, text=f"{number}")
    browser = signed_in(alice)
    for path in ("/records/", f"/records/{task}/"):
        # The same for one record: five of them are for the preference, the memories to approve, and the session.
        with django_assert_max_num_queries(12):
            assert browser.get(path).status_code == 200


def test_a_project_in_use_stays(alice, signed_in):
    browser = signed_in(alice)
    browser.post("/records/new/project/", {"name": "House"})
    project = Record.objects.get()
    browser.post("/records/new/task/", {"title": "Paint", "project_id": str(project.pk)})
    assert "belong to this project" in text(browser.post(f"/records/{project.pk}/delete", follow=True))
    assert Record.objects.count() == 2
