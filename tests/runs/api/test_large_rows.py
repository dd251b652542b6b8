"""Lists stay small whatever rows hold, and another person does not wait for them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.http import sizes
from agents.models import Chain, ChainStep
from plumbing import clock
from runs.calls import pending
from runs.models import Approval, Message, Run, RunEvent, Session, ToolCallRecord

LARGE = "x" * 900_000


@pytest.fixture
def large_runs(alice):
    rows = [Run(principal=alice, status="succeeded", input={"text": LARGE, "n": n}) for n in range(30)]
    return Run.objects.bulk_create(rows)


def all_pages(api, path):
    pages = []
    while path:
        answer = api.get(path)
        assert answer.status_code == 200, answer.content
        pages.append(answer)
        path = answer.json()["next"]
    return pages


@pytest.mark.django_db
def test_a_page_ends_at_a_size_and_next_goes_on(alice_api, large_runs):
    pages = all_pages(alice_api, "/api/v1/runs/?limit=500&ordering=created_at")
    assert max(len(page.content) for page in pages) < 100_000
    found = [row["id"] for page in pages for row in page.json()["results"]]
    assert sorted(found) == sorted(str(run.pk) for run in large_runs) and len(pages) > 3
    first = pages[0].json()["results"][0]
    assert first["truncated"] == ["input"] and len(first["input"]["text"]) < 1100


@pytest.mark.django_db
def test_named_fields_are_whole_within_the_size_of_a_page(alice_api, large_runs):
    pages = all_pages(alice_api, "/api/v1/runs/?limit=500&fields=id,input")
    assert max(len(page.content) for page in pages) < sizes.PAGE_BYTES + 2_000_000
    rows = [row for page in pages for row in page.json()["results"]]
    assert len(rows) == 30 and {len(row["input"]["text"]) for row in rows} == {900_000}
    assert set(rows[0]) == {"id", "input"}
    refused = alice_api.get("/api/v1/runs/?fields=id,nothing")
    assert refused.status_code == 422 and refused.json()["error"]["code"] == "invalid_fields"
    assert len(alice_api.get(f"/api/v1/runs/{large_runs[0].pk}").json()["input"]["text"]) == 900_000


@pytest.mark.django_db
def test_a_page_holds_at_least_one_row(alice_api, large_runs, monkeypatch):
    monkeypatch.setattr(sizes, "PAGE_BYTES", 1)
    page = alice_api.get("/api/v1/runs/?limit=5").json()
    assert len(page["results"]) == 1 and page["next"]


@pytest.mark.django_db
def test_rows_that_belong_to_a_row_count_too(alice, alice_api):
    chains = Chain.objects.bulk_create(Chain(owner=alice, name=f"chain-{number}") for number in range(12))
    ChainStep.objects.bulk_create(
        ChainStep(chain=chain, key="only", target_kind="tool", target="t", input={"text": LARGE}) for chain in chains
    )
    pages = all_pages(alice_api, "/api/v1/chains/?limit=500&fields=name,steps")
    assert len(pages) > 1 and max(len(page.content) for page in pages) < sizes.PAGE_BYTES + 2_000_000
    names = [row["name"] for page in pages for row in page.json()["results"]]
    assert sorted(names) == sorted(chain.name for chain in chains)


@pytest.mark.django_db
def test_what_the_runs_of_a_page_wait_for_is_small(alice, alice_api, monkeypatch):
    monkeypatch.setattr(pending, "PAGE_BYTES", 2_000_000)
    later = timezone.now() + timedelta(days=1)
    for _ in range(6):
        run = Run.objects.create(principal=alice, status="waiting", waiting_for="approval")
        call = ToolCallRecord.objects.create(run=run, name="send", arguments={})
        Approval.objects.create(run=run, call=call, tool="send", arguments={"text": LARGE}, expires_at=later)
    rows = alice_api.get("/api/v1/runs/?fields=id,pending").json()["results"]
    sizes_of_text = [len(row["pending"][0]["arguments"]["text"]) for row in rows]
    assert sorted(size < 2_000 for size in sizes_of_text) == [False] * 2 + [True] * 4


@pytest.mark.django_db
def test_messages_and_events_end_at_a_size_too(alice, alice_api):
    session = Session.objects.create(owner=alice)
    run = Run.objects.create(principal=alice, status="running", session=session)
    Message.objects.bulk_create(
        Message(session=session, seq=seq, role="user", content=[{"type": "text", "text": LARGE}])
        for seq in range(1, 13)
    )
    RunEvent.objects.bulk_create(
        RunEvent(run=run, seq=seq, type="message", at=clock.now(), data={"t": LARGE}) for seq in range(1, 13)
    )
    pages = all_pages(alice_api, f"/api/v1/sessions/{session.pk}/messages/?limit=500")
    rows = [row for page in pages for row in page.json()["results"]]
    assert [row["seq"] for row in rows] == list(range(12, 0, -1)) and len(pages) > 1
    assert rows[0]["truncated"] == ["content", "text"] and rows[0]["content"][0]["type"] == "text"
    events = alice_api.get(f"/api/v1/runs/{run.pk}/events?limit=500")
    assert len(events.content) < sizes.PAGE_BYTES + 2_000_000 and events.json()["next"]


@pytest.mark.django_db
def test_a_small_row_names_nothing_as_cut(alice, alice_api):
    Run.objects.create(principal=alice, status="succeeded", input={"a": ["b", {"c": 1}]})
    [row] = alice_api.get("/api/v1/runs/").json()["results"]
    assert "truncated" not in row and row["input"] == {"a": ["b", {"c": 1}]}


@pytest.mark.django_db
def test_metadata_is_small(alice_api, make_agent):
    agent = make_agent()
    body = {"message": "Hello", "metadata": {"large": "x" * 70_000}}
    refused = alice_api.post(f"/api/v1/agents/{agent.name}/messages", body)
    assert refused.status_code == 422 and refused.json()["error"]["code"] == "metadata_too_large"
