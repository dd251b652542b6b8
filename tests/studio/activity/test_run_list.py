"""The list of runs: what a row shows, each filter, saved filters, live rows, and two runs compared."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs.models import Message, Run, SavedFilter, StepRun, ToolCallRecord
from studio.activity.run_list import describe_input


def listed(browser, query=""):
    html = browser.get(f"/runs/?{query}").content.decode()
    return {str(pk) for pk in Run.objects.values_list("pk", flat=True) if f'data-run="{pk}"' in html}


def ids(*runs):
    return {str(run.pk) for run in runs}


def change(run, **values):
    Run._base_manager.filter(pk=run.pk).update(**values)


def test_a_row_shows_message_agent_duration_tokens_and_cost(alice, signed_in, make_run):
    run = make_run()
    change(
        run, cost=Decimal("0.5"), input_tokens=700, output_tokens=70, finished_at=run.created_at + timedelta(seconds=90)
    )
    html = signed_in(alice).get("/runs/").content.decode()
    for words in ("Find Moby-Dick", "librarian", "1 min 30 s", "770", "$0.50"):
        assert words in html


def test_a_parents_row_and_page_count_its_children(alice, signed_in, make_run):
    parent, child = make_run(1), make_run(2)
    change(parent, cost=Decimal("0.25"))
    change(child, cost=Decimal("1.5"), parent=parent, root=parent)
    browser = signed_in(alice)
    assert "$1.75" in browser.get("/runs/").content.decode()
    page = browser.get(f"/runs/{parent.pk}/").content.decode()
    assert "$1.75" in page and "With the runs that it started; its own part is $0.25." in page
    assert "With the runs that it started" not in browser.get(f"/runs/{child.pk}/").content.decode()
    assert listed(browser, "min_cost=1.6") == ids(parent)
    assert listed(browser, "max_cost=1.6") == ids(child)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("status=failed", "other"), ("trigger=schedule", "other"), ("agent=librarian", "both"), ("agent=nobody", "none"),
        ("text=moby", "one"), ("text=Wüste", "other"), ("text=w%C3%BCste+moby", "none"), ("text=teapot", "other"),
        ("text=books+1", "one"), ("tool_failed=true", "other"), ("min_tokens=100", "other"), ("max_tokens=99", "one"),
        ("min_seconds=60", "other"), ("max_seconds=60", "one"), ("since=2001-01-01", "both"), ("until=2001-01-01", "none"),
        ("since=9999-12-31", "none"), ("until=9999-12-31", "both"), ("min_cost=0.9", "other"), ("status=", "both"),
        ("chain=none", "none"),
    ],
)  # fmt: skip
def test_each_filter(query, wanted, alice, signed_in, make_run):
    one, other = make_run(1), make_run(2, status="failed", trigger="schedule")
    change(one, finished_at=one.created_at + timedelta(seconds=2))
    change(
        other, cost=1, input_tokens=60, output_tokens=60, finished_at=other.created_at + timedelta(seconds=100),
        error={"code": "tool_failed", "message": "I am a teapot"},
    )  # fmt: skip
    Message.objects.filter(run=other).update(content=[{"type": "text", "text": "Sand der Wüste"}])
    ToolCallRecord.objects.filter(run=other).update(outcome="failed")
    expected = {"one": ids(one), "other": ids(other), "both": ids(one, other), "none": set()}[wanted]
    assert listed(signed_in(alice), query) == expected


def test_a_wrong_filter_is_named_and_the_others_hold(alice, signed_in, make_run):
    failed, _ = make_run(1, status="failed"), make_run(2)
    browser = signed_in(alice)
    assert listed(browser, "status=failed&min_cost=plenty") == ids(failed)
    assert b"min_cost: Enter a number." in browser.get("/runs/?min_cost=plenty").content


def test_the_api_has_the_same_filters(alice_api, charlie_api, make_run):
    failed = make_run(1)
    make_run(2)
    ToolCallRecord.objects.filter(run=failed).update(outcome="failed")
    found = alice_api.get("/api/v1/runs/?tool_failed=true&text=moby&min_seconds=1&max_cost=0.1&min_tokens=0").json()
    assert [run["id"] for run in found["results"]] == [str(failed.pk)]
    assert alice_api.get("/api/v1/runs/?tool_failed=perhaps").status_code == 422
    assert charlie_api.get("/api/v1/runs/?text=moby").json()["results"] == []


def test_only_a_superuser_filters_by_person(alice, charlie, bob, site_admin, signed_in, make_run):
    run = make_run()
    assert listed(signed_in(site_admin), "everyone=1&person=alice") == ids(run)
    assert listed(signed_in(site_admin), "everyone=1&person=bob") == set()
    for stranger in (bob, charlie):
        assert listed(signed_in(stranger), "everyone=1&person=alice") == set()


def test_a_persons_filters_are_kept_under_a_name(alice, bob, charlie, signed_in, make_run):
    browser = signed_in(alice)
    answer = browser.post("/runs/filters", {"name": "Bad ones", "query": "status=failed&part=rows&x=1"})
    assert answer["Location"] == "/runs/?status=failed"
    browser.post("/runs/filters", {"name": "Bad ones", "query": "status=expired"})
    saved = SavedFilter.objects.get()
    assert (saved.name, saved.query) == ("Bad ones", "status=expired")
    assert b'href="?status=expired"' in browser.get("/runs/").content
    for other in (bob, charlie):
        assert b"Bad ones" not in signed_in(other).get("/runs/").content
        signed_in(other).post(f"/runs/filters/{saved.pk}/delete")
        assert SavedFilter.objects.exists()
    signed_in(alice).post(f"/runs/filters/{saved.pk}/delete")
    assert not SavedFilter.objects.exists()


def test_filters_need_a_name_and_have_a_limit(alice, signed_in):
    browser = signed_in(alice)
    for body in ({"name": "", "query": "status=failed"}, {"name": "x", "query": ""}, {"name": "x", "query": "who=me"}):
        browser.post("/runs/filters", body)
    assert not SavedFilter.objects.exists()
    for number in range(SavedFilter.MOST + 2):
        browser.post("/runs/filters", {"name": f"f{number}", "query": "status=failed"})
    assert SavedFilter.objects.count() == SavedFilter.MOST


def test_a_look_returns_new_rows_and_those_that_were_open(alice, bob, signed_in, make_run):
    old, was_open, fresh = make_run(1), make_run(2), make_run(3)
    browser = signed_in(alice)
    query = f"part=rows&newest={was_open.pk}&watch={was_open.pk}"
    html = browser.get(f"/runs/?{query}").content.decode()
    assert "<html" not in html and f'data-run="{fresh.pk}"' in html and f'data-run="{was_open.pk}"' in html
    assert f'data-run="{old.pk}"' in html, "ids of the last half minute are read again: servers commit in another order"
    assert listed(browser, f"{query}&status=failed") == ids(was_open), "a watched row shows its new state"
    assert listed(signed_in(bob), query) == set()
    for made_up in ("part=rows", "part=rows&newest=x&watch=,,x", f"part=rows&newest={'f' * 32}"):
        assert browser.get(f"/runs/?{made_up}").status_code == 200


def test_a_list_asks_the_same_number_of_queries_for_one_run_and_for_fifty(alice, signed_in, make_run):
    browser, query = (
        signed_in(alice),
        "text=moby&tool_failed=false&min_cost=0&min_tokens=0&min_seconds=0&since=2020-01-01",
    )
    root = make_run()
    counts = []
    for size in (1, 40):
        for number in range(size):
            run = make_run(number)
            change(run, parent=root, root=root) if number % 2 else None
        with CaptureQueriesContext(connection) as asked:
            assert browser.get(f"/runs/?{query}").status_code == 200
        counts.append(len(asked))
    assert counts[1] <= counts[0] + 2, "two for the runs below nested ones"


@pytest.mark.parametrize("query", ["text=moby", "tool_failed=true", "min_cost=1", "min_seconds=5", "status=failed"])
def test_a_filter_reads_through_indexes(query, alice, signed_in, make_run):
    """No part of the query reads a whole table (SQLite's plan)."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL reads small tables whole, whatever indexes they have")
    make_run()
    with CaptureQueriesContext(connection) as asked:
        signed_in(alice).get(f"/runs/?{query}")
    [listing] = [one["sql"] for one in asked if "input_start" in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + listing.replace("%", "%%"))
        plan = [row[-1] for row in cursor.fetchall()]
    assert not [line for line in plan if line.startswith("SCAN")], plan


def test_two_runs_stand_side_by_side(
    alice, bob, charlie, site_admin, signed_in, make_run, django_assert_max_num_queries
):
    one, two = make_run(1), make_run(2, status="failed")
    change(one, input={"n": 1})
    change(two, input={"n": 2})
    ToolCallRecord.objects.create(
        run=two, name="search", arguments={"q": "whales"}, outcome="failed", error={"message": "away"}
    )
    for run, state in ((one, "succeeded"), (two, "failed")):
        StepRun.objects.create(run=run, key="read", status=state)
    path = f"/runs/compare/?run={two.pk}&run={one.pk}"
    browser = signed_in(alice)
    with django_assert_max_num_queries(20):
        answer = browser.get(path)
    rows = {row.name: row for name in ("figures", "texts", "steps", "calls") for row in answer.context[name]}
    differing = {name for name, row in rows.items() if row.differs}
    assert {"State", "Input", "read", "search"} <= differing
    assert not {"Message", "lookup", "Agent or chain", "Turns"} & differing
    assert rows["search"].left == "" and "whales" in rows["search"].right, "the older run is on the left"
    assert answer.content.decode().count("differs</span>") == len(differing)
    assert "untrusted content" not in answer.content.decode()
    change(one, has_untrusted=True)
    assert "untrusted content" in browser.get(path).content.decode()
    assert signed_in(site_admin).get(path).status_code == 200
    for stranger in (bob, charlie):
        assert signed_in(stranger).get(path).status_code == 404
    for wrong in (
        "",
        f"?run={one.pk}",
        f"?run={one.pk}&run={one.pk}",
        f"?run={one.pk}&run=x",
        f"?run={one.pk}&run=" + "0" * 32,
    ):
        assert browser.get(f"/runs/compare/{wrong}").status_code in (302, 404), wrong


def test_the_waterfall_links_a_span_to_its_raw_request(alice, staff, signed_in, make_run):
    run = make_run()
    path = f"/runs/{run.pk}/model-calls/{run.model_calls.get().pk}/"
    assert path not in signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert path in signed_in(staff(alice)).get(f"/runs/{run.pk}/").content.decode()


@pytest.mark.parametrize(("start", "shown"), [("{}", ""), (None, ""), ('{"a": 1}', '{"a": 1}')])
def test_an_empty_input_of_a_chain_is_no_message(start, shown):
    assert describe_input(start) == shown
