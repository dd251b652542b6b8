"""Schedules as crons, through LangGraph's SDK."""

import pytest
from langgraph_sdk import errors

from tests.gateway.langgraph.sdk import human

pytestmark = pytest.mark.live


def test_crons_are_schedules(client, agents, stranger):
    live, _ = agents
    thread = client.threads.create()["thread_id"]
    cron = client.crons.create(
        "plain", schedule="0 9 * * 1-5", input=human("Good morning"), timezone="Europe/Berlin", enabled=False
    )
    assert (cron["schedule"], cron["timezone"], cron["enabled"]) == ("0 9 * * 1-5", "Europe/Berlin", False)
    assert cron["payload"]["input"]["messages"] == [{"role": "user", "content": "Good morning"}]
    assert live.http.get(f"/api/v1/schedules/{cron['metadata']['name']}").json()["text"] == "Good morning"
    changed = client.crons.update(cron["cron_id"], schedule="30 9 * * *", enabled=True)
    assert changed["schedule"] == "30 9 * * *" and changed["next_run_date"]
    assert [one["cron_id"] for one in client.crons.search(assistant_id="plain")] == [cron["cron_id"]]
    assert client.crons.count(assistant_id="plain") == 1 and client.crons.search(enabled=False) == []
    assert stranger.crons.search() == [] and stranger.crons.count() == 0
    for refused in (
        lambda: stranger.crons.update(cron["cron_id"], enabled=False),
        lambda: stranger.crons.delete(cron["cron_id"]),
        lambda: stranger.crons.create("plain", schedule="0 9 * * *", input=human("mine")),
    ):
        with pytest.raises(errors.NotFoundError):
            refused()
    for refused in (
        lambda: client.crons.create("plain", schedule="at noon", input=human("hi")),
        lambda: client.crons.create_for_thread(thread, "plain", schedule="0 9 * * *", input=human("hi")),
        lambda: client.crons.create("plain", schedule="0 9 * * *", input=human("hi"), webhook="https://example.org"),
    ):
        with pytest.raises(errors.UnprocessableEntityError):
            refused()
    client.crons.delete(cron["cron_id"])
    assert client.crons.count(assistant_id="plain") == 0
