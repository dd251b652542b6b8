"""Every page: only for people who are signed in, only one's own rows, a constant number of queries."""

import json
import shlex

import pytest

from agents.models import Agent, AuditEvent, Membership
from connectors.models import Connection
from devices import pairing, presence, protocol
from devices.client.__main__ import parser as client_parser
from devices.models import OfferedTool
from functions import store
from functions.models import StoredFunction
from runs.models import Approval, Run, Schedule

EMPTY = [
    "/",
    "/start/",
    "/playground/",
    "/playground/?compare=1",
    "/runs/",
    "/sessions/",
    "/approvals/",
    "/audit/",
    "/agents/",
    "/agents/new/",
    "/functions/",
    "/functions/new/",
    "/chains/",
    "/records/",
    "/records/new/note/",
    "/account/",
    "/teams/",
]


@pytest.mark.parametrize("path", EMPTY)
def test_a_page_asks_to_sign_in(path, client, db):
    answer = client.get(path)
    assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/login/")


@pytest.mark.parametrize("path", EMPTY)
def test_a_page_opens_with_nothing_in_it(path, alice, signed_in):
    answer = signed_in(alice).get(path)
    assert answer.status_code == 200
    assert b"<h1>" in answer.content


@pytest.mark.parametrize("path", EMPTY)
def test_a_page_opens_for_a_superuser_who_looks_at_everyone(path, site_admin, make_run, signed_in):
    make_run()
    assert signed_in(site_admin).get(path + ("&" if "?" in path else "?") + "everyone=1").status_code == 200


@pytest.mark.parametrize("path", EMPTY)
def test_no_page_holds_inline_script_or_style(path, alice, signed_in, make_run):
    make_run()
    html = signed_in(alice).get(path).content.decode()
    assert " style=" not in html
    assert "<style" not in html
    assert "onclick" not in html
    assert "<script>" not in html


MADE_UP = (
    "before=%00",
    "before=abc",
    "status=%00",
    "agent=%00",
    "search=%00%00",
    "session=x",
    "agent=" + "a" * 500,
    "before=99999999999999999999",
)


@pytest.mark.parametrize("path", EMPTY)
def test_a_made_up_query_never_breaks_a_page(path, alice, signed_in, make_run):
    make_run()
    browser = signed_in(alice)
    statuses = {query: browser.get(path.split("?")[0] + "?" + query).status_code for query in MADE_UP}
    assert {query: status for query, status in statuses.items() if status not in (200, 404)} == {}


def test_charlie_sees_nothing_of_alices(charlie, signed_in, make_run, alice):
    run = make_run()
    AuditEvent.record("agent.published", run.agent, actor=alice)
    browser = signed_in(charlie)
    for path in EMPTY:
        html = browser.get(path + ("&" if "?" in path else "?") + "everyone=1").content
        assert b"Moby-Dick" not in html
        assert b"librarian" not in html
    hidden = [
        f"/runs/{run.pk}/",
        f"/runs/{run.pk}/?part=live",
        f"/sessions/{run.session_id}/",
        f"/playground/?session={run.session_id}",
    ]
    for path in hidden:
        assert browser.get(path).status_code == 404, path
    approval = Approval.objects.get()
    for path in (
        f"/runs/{run.pk}/cancel",
        f"/runs/{run.pk}/again",
        f"/runs/{run.pk}/retry",
        f"/approvals/{approval.pk}/decide",
        f"/sessions/{run.session_id}/close",
    ):
        assert browser.post(path, {"decision": "approve"}).status_code == 404, path
    forked = browser.post(
        "/playground/fork", json.dumps({"session": str(run.session_id), "run": str(run.pk)}), "application/json"
    )
    assert forked.status_code == 404
    approval.refresh_from_db()
    assert approval.status == "open"


@pytest.fixture
def stored(alice):
    function = StoredFunction(owner=alice, name="double", source="def double(n: int) -> int:\n    return 2 * n\n")
    store.save_function(function, user=alice)
    store.publish_function(function, user=alice)
    return function


def test_the_workbench_is_for_who_can_see_the_function(alice, bob, charlie, signed_in, stored, team):
    assert b"return 2 * n" in signed_in(alice).get("/functions/double/").content
    assert signed_in(charlie).get("/functions/double/").status_code == 404
    assert b"double" not in signed_in(charlie).get("/functions/").content
    StoredFunction.objects.filter(pk=stored.pk).update(team=team)
    Membership.objects.filter(user=bob).update(role="viewer")
    page = signed_in(bob).get("/functions/double/").content
    assert b"return 2 * n" in page
    assert b"data-publish" not in page


@pytest.mark.parametrize("name", ["%00", "Not-a-slug", "nothing"])
def test_an_impossible_function_is_just_not_there(name, alice, signed_in):
    assert signed_in(alice).get(f"/functions/{name}/").status_code == 404


@pytest.mark.parametrize("path", [*EMPTY, "run", "session"])
def test_a_page_asks_as_often_for_one_row_as_for_thirty(
    path, alice, signed_in, make_run, django_assert_max_num_queries
):
    runs = [make_run(number, status=["succeeded", "failed"][number % 2]) for number in range(30)]
    path = {"run": f"/runs/{runs[0].pk}/", "session": f"/sessions/{runs[0].session_id}/"}.get(path, path)
    browser = signed_in(alice)
    with django_assert_max_num_queries(23):  # the start page's: one is for the memories to approve
        assert browser.get(path).status_code == 200


def test_lists_go_on_with_older_rows(alice, signed_in, agent, version):
    Run.objects.bulk_create(Run(principal=alice, agent=agent, version=version, status="failed") for _ in range(60))
    browser = signed_in(alice)
    page = browser.get("/runs/?status=failed")
    assert len(page.context["runs"]) == 50
    assert "status=failed" in page.context["older"]
    assert len(browser.get("/runs/?" + page.context["older"]).context["runs"]) == 10


def test_the_first_steps_really_do_it(alice, signed_in, offline):
    browser = signed_in(alice)
    steps = browser.get("/start/").context["forms"]
    function = {
        "step": "function",
        "function-name": "loan-payment",
        "function-source": steps["function"]["source"].value(),
    }
    assert browser.post("/start/", function).status_code == 302
    agent = {"step": "agent", "agent-name": "money-helper", "agent-description": "Loans.", "agent-provider": offline.pk}
    agent["agent-tools"] = [str(pk) for pk in browser.get("/start/").context["forms"]["agent"]["tools"].value()]
    assert browser.post("/start/", agent).status_code == 302
    made = Agent.objects.get(name="money-helper")
    assert made.published.read_spec().grants[0].tool == "loan-payment"
    assert browser.get("/start/").context["done"]["agent"] == made


@pytest.mark.parametrize(
    ("step", "fields", "wrong"),
    [
        ("provider", {"name": "Not a slug", "kind": "openai"}, "name"),
        ("provider", {"name": "mine", "kind": "magic"}, "kind"),
        ("function", {"name": "broken", "source": "def f(:\n"}, "source"),
        ("function", {"name": "broken", "source": "import os\ndef f(): return os.getcwd()\n"}, "source"),
        ("agent", {"name": "publish", "description": "x"}, "name"),
    ],
)
def test_a_wrong_step_is_told_at_its_field_and_keeps_what_was_typed(step, fields, wrong, alice, signed_in, offline):
    body = {"step": step, **{f"{step}-{name}": value for name, value in fields.items()}}
    answer = signed_in(alice).post("/start/", body)
    form = answer.context["forms"][step]
    assert answer.status_code == 422
    assert wrong in form.errors
    assert form[wrong].value() == fields[wrong]


def test_a_schedule_is_made_shown_run_paused_and_resumed(alice, charlie, signed_in, agent, version):
    browser = signed_in(alice)
    body = {
        "name": "mornings",
        "agent": "librarian",
        "text": "Good morning",
        "crontab": "0 8 * * 1-5",
        "timezone": "Europe/Berlin",
        "missed_policy": "once",
        "overlap_policy": "skip",
    }
    assert browser.post("/schedules/", body).status_code == 302
    assert b"mornings" in browser.get("/schedules/?month=2027-01").content
    page = browser.get("/schedules/mornings/")
    assert len(page.context["upcoming"]) == 5
    browser.post("/schedules/mornings/run-now")
    assert Schedule.objects.get().occurrences.get().is_manual
    browser.post("/schedules/mornings/pause")
    assert not Schedule.objects.get().enabled
    browser.post("/schedules/mornings/resume")
    assert Schedule.objects.get().enabled
    assert browser.post("/schedules/mornings/explode").status_code == 404
    stranger = signed_in(charlie)
    assert b"mornings" not in stranger.get("/schedules/").content
    assert stranger.get("/schedules/mornings/").status_code == 404
    assert stranger.post("/schedules/mornings/run-now").status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("crontab", "every day"),
        ("crontab", "0 8 31 2 *"),
        ("timezone", "Mars/Olympus"),
        ("agent", "nobody"),
        ("name", "new"),
        ("text", ""),
    ],
)
def test_a_wrong_schedule_is_told_at_its_field_and_kept(field, value, alice, signed_in, agent, version):
    body = {
        "name": "mornings",
        "agent": "librarian",
        "text": "Hi",
        "crontab": "0 8 * * *",
        "timezone": "UTC",
        "missed_policy": "once",
        "overlap_policy": "skip",
        field: value,
    }
    answer = signed_in(alice).post("/schedules/", body)
    assert answer.status_code == 422
    assert field in answer.context["form"].errors
    assert answer.context["form"][field].value() == value
    assert not Schedule.objects.exists()


@pytest.mark.parametrize("month", ["x", "0000-00", "9999-12", "1-1", "%00", "2026-13"])
def test_an_impossible_month_shows_this_one(month, alice, signed_in):
    assert signed_in(alice).get(f"/schedules/?month={month}").status_code == 200


def test_a_device_is_paired_looked_at_and_revoked(alice, charlie, signed_in):
    browser = signed_in(alice)
    shown = browser.post("/devices/pair").context
    code, command = shown["code"], shlex.split(shown["command"])
    assert pairing.find_pairing_account(code) == alice
    assert client_parser().parse_args(command[1:]).code == code, "the client understands what the page tells to type"
    device = pairing.pair_with_code(code, name="laptop", platform="Linux").device
    offer = OfferedTool.objects.create(device=device, name="lamp", hash="0" * 64, input_schema={"type": "object"})
    assert b"laptop" in browser.get("/devices/").content
    assert b"lamp" in browser.get(f"/devices/{device.pk}/").content
    hello = protocol.DeviceHello(1, folders=("papers", "<b>"))
    presence.arrive(device.pk, "1-x", hello)
    about = browser.get(f"/devices/{device.pk}/").content
    assert b"<code>papers</code>" in about and b"<code>&lt;b&gt;</code>" in about
    stranger = signed_in(charlie)
    assert b"laptop" not in stranger.get("/devices/").content
    assert stranger.get(f"/devices/{device.pk}/").status_code == 404
    assert stranger.post(f"/devices/{device.pk}/revoke").status_code == 404
    assert stranger.post(f"/devices/{device.pk}/offers/{offer.pk}", {"decision": "approve"}).status_code == 404
    browser.post(f"/devices/{device.pk}/offers/{offer.pk}", {"decision": "reject"})
    offer.refresh_from_db()
    assert offer.status == "rejected"
    browser.post(f"/devices/{device.pk}/revoke")
    device.refresh_from_db()
    assert device.revoked_at
    assert stranger.post(f"/devices/{device.pk}/remove").status_code == 404
    assert browser.post(f"/devices/{device.pk}/remove").url == "/devices/"
    assert not type(device).objects.filter(pk=device.pk).exists()


def test_a_connection_is_for_who_can_see_it(alice, charlie, signed_in):
    made = Connection.objects.create(name="weather", provider="mcp", base_url="https://example.com/mcp", owner=alice)
    assert b"weather" in signed_in(alice).get("/connections/").content
    assert signed_in(alice).get(f"/connections/{made.pk}/").status_code == 200
    assert b"weather" not in signed_in(charlie).get("/connections/").content
    assert signed_in(charlie).get(f"/connections/{made.pk}/").status_code == 404
