"""The owner's records over REST: seen, searched, created, edited, decided, and closed to everybody else."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from agents.models import AuditEvent
from agents.tools import ToolFailed
from devices.models import Record, RecordChange

URL = "/api/v1/records/"
TASKS = f"{URL}tasks/"


@pytest.fixture
def suggestion(alice, agent_call):
    return agent_call(alice, "create_task", title="Pay the bill", assignees=["Ann Lee"], source="thread-1")["task"]


def test_a_persons_own_record_needs_no_approval(alice_api):
    answer = alice_api.post(TASKS, {"title": "Buy milk", "due_date": "2026-01-31"})
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert (made["title"], made["state"], made["due_date"]) == ("Buy milk", "ToDo", "2026-01-31")
    assert (made["review"], made["is_ai_suggested"], made["version"], answer["ETag"]) == ("approved", False, 1, '"1"')
    assert alice_api.get(f"{TASKS}{made['id']}").json() == made
    assert AuditEvent.objects.filter(action="record.created", actor__username="alice").count() == 1


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "title", "invalid"),
        ({"title": 3}, "title", "invalid"),
        ({"title": "a", "desciption": "b"}, "desciption", "unknown_field"),
        ({"title": "a", "owner": 1}, "owner", "unknown_field"),
        ({"title": "a", "state": "Lost"}, "state", "invalid"),
        ({"title": "a", "assignees": [1]}, "assignees", "invalid"),
    ],
)
def test_values_follow_the_schema_of_the_kind(alice_api, body, field, code):
    answer = alice_api.post(TASKS, body)
    assert answer.status_code == 422
    assert (field, code) in [(one["field"], one["code"]) for one in answer.json()["error"]["details"]]
    assert not Record.objects.exists()


@pytest.mark.parametrize(
    "body", [{"title": "a", "due_date": "soon"}, {"title": " "}, {"title": "a", "project_id": "x"}, [1]]
)
def test_what_the_tools_refuse_is_refused_here(alice_api, body):
    assert alice_api.post(TASKS, body).status_code == 422
    assert not Record.objects.exists()


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_text_that_no_database_takes_is_refused(alice_api, text):
    assert alice_api.post(TASKS, {"title": text}).status_code in (400, 422)
    made = alice_api.post(TASKS, {"title": "a"}).json()
    path = f"{TASKS}{made['id']}"
    assert alice_api.patch(path, {"title": text}, content_type="application/json").status_code in (400, 422)
    assert alice_api.post(f"{path}/comments/", {"text": text}).status_code in (400, 422)


def test_every_kind_has_its_collection(alice_api):
    for name, body in {
        "projects": {"name": "House"},
        "notes": {"title": "a", "content": "b"},
        "timelines": {"title": "a", "start_date": "2026-01-01"},
    }.items():
        assert alice_api.post(f"{URL}{name}/", body).status_code == 201
        assert len(alice_api.get(f"{URL}{name}/").json()["results"]) == 1
    assert len(alice_api.get(URL).json()["results"]) == 3
    assert alice_api.get(f"{URL}wishes/").status_code == 404


def test_lists_are_filtered_searched_ordered_and_paged(alice, alice_api, suggestion):
    own = [alice_api.post(TASKS, {"title": f"Über {n}"}).json() for n in range(3)]
    alice_api.patch(f"{TASKS}{own[0]['id']}", {"state": "Completed"}, content_type="application/json")

    def titles(query, path=URL):
        answer = alice_api.get(f"{path}?{query}")
        assert answer.status_code == 200, answer.json()
        return [one["title"] for one in answer.json()["results"]]

    assert titles("waiting=true") == titles("review=suggested") == ["Pay the bill"]
    assert titles("search=BILL pay") == ["Pay the bill"] and titles("search=über") == ["Über 2", "Über 1", "Über 0"]
    assert titles("assignee=ann lee") == ["Pay the bill"] and titles("assignee=ann") == []
    assert titles("source=thread-1", TASKS) == ["Pay the bill"]
    assert titles("state=Completed", TASKS) == ["Über 0"]
    assert titles("ordering=-updated_at&kind=task")[0] == "Über 0"
    assert titles("kind=note") == []
    assert titles("search=100%25") == []
    first = alice_api.get(f"{URL}?limit=3").json()
    assert len(alice_api.get(first["next"]).json()["results"]) == 1
    for wrong in ("kind=wish", "waiting=perhaps", "ordering=title", "run=x", "serch=a", "search=%00"):
        assert alice_api.get(f"{URL}?{wrong}").status_code == 422, wrong


def test_a_list_takes_as_many_queries_as_it_has_rows(alice_api, alice, agent_call, django_assert_max_num_queries):
    for number in range(5):
        agent_call(alice, "create_task", title=f"{number}")
    alice_api.get(URL)
    with django_assert_max_num_queries(3):
        assert len(alice_api.get(URL).json()["results"]) == 5


def test_a_suggestion_is_approved_once_and_its_comments_with_it(alice, alice_api, suggestion, agent_call):
    agent_call(alice, "add_task_comment", task_id=suggestion["id"], text="from the mail")
    path = f"{TASKS}{suggestion['id']}"
    assert alice_api.get(path).json()["review"] == "suggested"
    assert alice_api.post(f"{path}/approve").json()["review"] == "approved"
    again = alice_api.post(f"{path}/approve")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "nothing_to_decide")
    comment = alice_api.get(f"{path}/comments/").json()["results"][0]
    assert (comment["review"], comment["author"], comment["text"]) == ("approved", "clerk", "from the mail")
    assert AuditEvent.objects.filter(action="record.approved").count() == 1


def test_a_rejected_suggestion_is_kept_with_its_reason_and_hidden_from_agents(alice, alice_api, suggestion, agent_call):
    path = f"{TASKS}{suggestion['id']}"
    answer = alice_api.post(f"{path}/reject", {"reason": "paid already"})
    assert (answer.json()["review"], answer.json()["reason"]) == ("rejected", "paid already")
    assert alice_api.post(f"{path}/reject", {}).status_code == 409
    assert agent_call(alice, "list_tasks")["tasks"] == []
    with pytest.raises(ToolFailed, match="paid already") as refused:
        agent_call(alice, "update_task", task_id=suggestion["id"], title="Pay again")
    assert refused.value.code == "rejected"
    assert alice_api.post(f"{path}/approve").json()["review"] == "approved", "a person may change their mind"


def test_an_edited_suggestion_stays_one(alice_api, suggestion):
    path = f"{TASKS}{suggestion['id']}"
    edited = alice_api.patch(path, {"title": "Pay it", "assignees": ["Bo"]}, content_type="application/json").json()
    assert (edited["title"], edited["assignees"], edited["review"], edited["version"]) == (
        "Pay it",
        ["Bo"],
        "suggested",
        2,
    )
    assert len(alice_api.get(f"{URL}?assignee=bo").json()["results"]) == 1
    for wrong in ({"task_id": suggestion["id"], "title": "a"}, {"kind": "note"}, {"source": "x"}, {}, {"title": None}):
        assert alice_api.patch(path, wrong, content_type="application/json").status_code == 422, wrong


def test_after_untrusted_text_a_change_of_an_approved_record_waits(alice, alice_api, suggestion, agent_call):
    path = f"{TASKS}{suggestion['id']}"
    alice_api.post(f"{path}/approve")
    agent_call(alice, "update_task", task_id=suggestion["id"], state="In Progress")
    assert alice_api.get(path).json()["state"] == "In Progress", "nothing untrusted was read"
    said = agent_call(alice, "update_task", untrusted=True, task_id=suggestion["id"], due_date="2026-03-01")["task"]
    assert said["due_date"] == "" and said["suggestedChange"]["due_date"] == "2026-03-01"
    agent_call(alice, "update_task", untrusted=True, task_id=suggestion["id"], title="Pay the large bill")
    shown = alice_api.get(path).json()
    assert (shown["title"], shown["due_date"], shown["review"], shown["untrusted"]) == (
        "Pay the bill",
        "",
        "approved",
        True,
    )
    assert [one["id"] for one in alice_api.get(f"{URL}?waiting=true").json()["results"]] == [suggestion["id"]]
    done = alice_api.post(f"{path}/approve").json()
    assert (done["title"], done["due_date"], done["suggested_change"]) == ("Pay the large bill", "2026-03-01", None)
    assert done["untrusted"] is True, "the text is still a stranger's"
    assert alice_api.post(f"{path}/approve").status_code == 409


def test_a_refused_change_leaves_the_record_and_stays_in_its_history(alice, alice_api, suggestion, agent_call):
    path = f"{TASKS}{suggestion['id']}"
    alice_api.post(f"{path}/approve")
    agent_call(alice, "update_task", untrusted=True, task_id=suggestion["id"], title="Pay Mallory")
    refused = alice_api.post(f"{path}/reject", {"reason": "not me"}).json()
    assert (refused["title"], refused["review"], refused["suggested_change"]) == ("Pay the bill", "approved", None)
    assert refused["untrusted"] is False
    last = alice_api.get(f"{path}/changes/").json()["results"][0]
    assert (last["action"], last["note"], last["author"]) == ("rejected", "not me", "alice")
    assert last["fields"]["title"] == ["Pay the bill", "Pay Mallory"]


def test_a_change_that_no_longer_holds_is_refused_and_still_waits(alice, alice_api, agent_call):
    line = alice_api.post(f"{URL}timelines/", {"title": "Trip", "start_date": "2026-01-01"}).json()
    agent_call(alice, "update_timeline", untrusted=True, timeline_id=line["id"], end_date="2026-01-05")
    path = f"{URL}timelines/{line['id']}"
    alice_api.patch(path, {"start_date": "2026-02-01"}, content_type="application/json")
    assert alice_api.post(f"{path}/approve").status_code == 422
    assert alice_api.get(path).json()["suggested_change"]["end_date"] == "2026-01-05"


def test_two_writers_do_not_overwrite_each_other(alice, alice_api, suggestion, agent_call):
    path = f"{TASKS}{suggestion['id']}"
    seen = alice_api.get(path)["ETag"]
    agent_call(alice, "update_task", task_id=suggestion["id"], title="Pay Mallory")

    def stale(answer):
        assert (answer.status_code, answer.json()["error"]["code"]) == (412, "changed_meanwhile")

    headers = {"If-Match": seen}
    stale(alice_api.patch(path, {"state": "Completed"}, content_type="application/json", headers=headers))
    stale(alice_api.post(f"{path}/approve", headers=headers))
    stale(alice_api.post(f"{path}/reject", {}, headers=headers))
    stale(alice_api.delete(path, headers=headers))
    assert alice_api.get(path).json()["review"] == "suggested", "what was not seen is not approved"
    fresh = {"If-Match": alice_api.get(path)["ETag"]}
    assert alice_api.post(f"{path}/approve", headers=fresh).status_code == 200
    assert alice_api.post(f"{path}/approve", headers={"If-Match": "yesterday"}).status_code == 422


def test_the_same_key_creates_one_record(alice_api, bob_api):
    headers = {"Idempotency-Key": "k1"}
    first = alice_api.post(TASKS, {"title": "Buy milk"}, headers=headers)
    second = alice_api.post(TASKS, {"title": "Buy milk"}, headers=headers)
    assert (first.status_code, second.status_code) == (201, 201) and first.json()["id"] == second.json()["id"]
    assert alice_api.get(TASKS).json()["results"] == [first.json()]
    other = alice_api.post(TASKS, {"title": "Buy bread"}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_mismatch")
    assert bob_api.post(TASKS, {"title": "Buy milk"}, headers=headers).status_code == 201
    assert alice_api.post(TASKS, {"title": "a"}, headers={"Idempotency-Key": "k" * 256}).status_code == 422


def test_the_history_says_who_changed_what_in_which_run(alice, alice_api, agent_call):
    run = str(uuid.uuid4())
    task = agent_call(alice, "create_task", run=run, title="Pay")["task"]
    path = f"{TASKS}{task['id']}"
    alice_api.patch(path, {"title": "Pay it"}, content_type="application/json")
    changed, created = alice_api.get(f"{path}/changes/").json()["results"]
    assert (created["action"], created["author"], created["is_agent"], created["run"]) == (
        "created",
        "clerk",
        True,
        run,
    )
    assert (changed["action"], changed["author"], changed["is_agent"], changed["run"]) == (
        "changed",
        "alice",
        False,
        None,
    )
    assert changed["fields"] == {"title": ["Pay", "Pay it"]} and created["fields"]["title"] == [None, "Pay"]
    assert [one["id"] for one in alice_api.get(f"{URL}?run={run}").json()["results"]] == [task["id"]]


def test_comments_bear_their_author(alice_api):
    task = alice_api.post(TASKS, {"title": "Pay"}).json()
    note = alice_api.post(f"{URL}notes/", {"title": "a", "content": "b"}).json()
    for path in (f"{TASKS}{task['id']}", f"{URL}notes/{note['id']}"):
        made = alice_api.post(f"{path}/comments/", {"text": "Done by noon."})
        assert (made.status_code, made.json()["author"], made.json()["review"]) == (201, "alice", "approved")
        assert [one["text"] for one in alice_api.get(f"{path}/comments/").json()["results"]] == ["Done by noon."]
        assert alice_api.post(f"{path}/comments/", {"text": " "}).status_code == 422
        assert alice_api.post(f"{path}/comments/", {"text": "a", "author": "bob"}).status_code == 422
    mine = f"{URL}comments/{made.json()['id']}"
    assert alice_api.patch(mine, {"text": "b"}, content_type="application/json").status_code == 422
    assert alice_api.post(f"{URL}comments/", {"text": "b"}).status_code == 422
    assert {one["author"] for one in alice_api.get(f"{URL}comments/").json()["results"]} == {"alice"}
    assert alice_api.delete(mine).status_code == 204


def test_a_project_in_use_is_not_deleted(alice_api):
    project = alice_api.post(f"{URL}projects/", {"name": "House"}).json()
    task = alice_api.post(TASKS, {"title": "Paint", "project_id": project["id"]}).json()
    refused = alice_api.delete(f"{URL}projects/{project['id']}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "in_use")
    assert alice_api.delete(f"{TASKS}{task['id']}").status_code == 204
    assert alice_api.delete(f"{URL}projects/{project['id']}").status_code == 204
    assert not Record.objects.exists() and not RecordChange.objects.exists()


def test_neither_a_team_mate_nor_a_stranger_reaches_a_record(alice, bob_api, charlie_api, suggestion, api, site_admin):
    path = f"{TASKS}{suggestion['id']}"
    for other in (bob_api, charlie_api, api(site_admin)):
        assert other.get(URL).json()["results"] == other.get(f"{URL}?waiting=true").json()["results"] == []
        answers = [
            other.get(path),
            other.patch(path, {"title": "Mine"}, content_type="application/json"),
            other.delete(path),
            other.post(f"{path}/approve"),
            other.post(f"{path}/reject", {}),
            other.get(f"{path}/comments/"),
            other.post(f"{path}/comments/", {"text": "hello"}),
            other.get(f"{path}/changes/"),
        ]
        assert {answer.status_code for answer in answers} == {404}
        foreign = other.post(f"{URL}notes/", {"title": "a", "content": "b", "project_id": suggestion["id"]})
        assert foreign.status_code == 422
    row = Record.objects.get(pk=suggestion["id"])
    assert (row.data["title"], row.review) == ("Pay the bill", "suggested")


def test_a_key_needs_the_scope(alice, api, suggestion, client):
    path = f"{TASKS}{suggestion['id']}"
    assert client.get(path).status_code == 401
    assert api(alice, "runs:read").get(path).status_code == 403
    assert api(alice, "records:read").get(path).status_code == 200
    assert api(alice, "records:read").post(f"{path}/approve").status_code == 403
    assert api(alice, "records:write").post(f"{path}/approve").status_code == 200


def test_a_call_made_again_writes_nothing_a_second_time(alice, alice_api, suggestion, agent_call):
    id = str(uuid.uuid4())
    agent_call(alice, "update_task", id=id, task_id=suggestion["id"], title="Pay today")
    path = f"{TASKS}{suggestion['id']}"
    alice_api.patch(path, {"title": "Pay tomorrow"}, content_type="application/json")
    agent_call(alice, "update_task", id=id, task_id=suggestion["id"], title="Pay today")
    assert alice_api.get(path).json()["title"] == "Pay tomorrow"


def test_agents_find_records_before_they_create_others(alice, suggestion, agent_call):
    agent_call(alice, "create_note", title="Bank", content="IBAN", source="thread-1")
    agent_call(alice, "create_timeline", title="Trip", source="thread-2")
    found = [one["id"] for one in agent_call(alice, "list_tasks", source="thread-1")["tasks"]]
    assert found == [suggestion["id"]]
    assert agent_call(alice, "list_tasks", search="the BILL")["tasks"][0]["id"] == suggestion["id"]
    assert agent_call(alice, "list_tasks", assignee="ann lee")["tasks"]
    assert agent_call(alice, "list_tasks", search="nothing like it")["tasks"] == []
    assert agent_call(alice, "list_notes", search="iban", source="thread-1")["notes"][0]["title"] == "Bank"
    assert agent_call(alice, "list_timelines", source="thread-1")["timelines"] == []


def test_the_history_of_a_long_text_is_bounded(alice, alice_api, agent_call):
    note = agent_call(alice, "create_note", title="a", content="x" * 50_000)["note"]
    path = f"{URL}notes/{note['id']}"
    alice_api.patch(path, {"content": "y" * 50_000}, content_type="application/json")
    before, after = alice_api.get(f"{path}/changes/?fields=fields").json()["results"][0]["fields"]["content"]
    assert len(before) < 21_000 and after.endswith("[cut: 30000 more characters]")
    assert len(alice_api.get(path).json()["content"]) == 50_000


@pytest.mark.django_db(transaction=True)
def test_of_two_approvals_and_two_equal_requests_at_once_one_counts(alice, alice_api, agent_call, api):
    task = agent_call(alice, "create_task", title="Pay")["task"]
    clients = [api(alice) for _ in range(4)]

    def at_once(ask):
        with ThreadPoolExecutor(4) as pool:
            return sorted(answer.status_code for answer in pool.map(closing(ask), clients))

    def closing(ask):
        def work(client):
            try:
                return ask(client)
            finally:
                connections.close_all()

        return work

    assert at_once(lambda client: client.post(f"{TASKS}{task['id']}/approve")) == [200, 409, 409, 409]
    headers = {"Idempotency-Key": "k1"}
    made = at_once(lambda client: client.post(TASKS, {"title": "Buy milk"}, headers=headers))
    assert 201 in made and set(made) <= {201, 409}, "409 while the first is at work"
    assert Record.objects.filter(data__title="Buy milk").count() == 1
    assert AuditEvent.objects.filter(action="record.created").count() == 1
