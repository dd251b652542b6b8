"""A worker is killed while it reads documents: nothing is lost, nothing is there twice, and the next one goes on."""

import sqlite3
from contextlib import closing

import pytest

from tests.live import wait_for

pytestmark = [pytest.mark.live, pytest.mark.slow]
URL = "/api/v1/collections/box"
SLOW = "<p>Bicycles are repaired slowly.</p>" + "<i></i>" * 700_000  # takes seconds to parse
QUICK = [f"quick-{number}.md" for number in range(8)]


def add(live, name, text, media_type="text/markdown"):
    live.http.post(f"{URL}/documents/", files={"file": (name, text.encode(), media_type)}).raise_for_status()


def states(live):
    rows = live.http.get(f"{URL}/documents/", params={"limit": 50}).json()["results"]
    return {row["name"]: row["status"] for row in rows}


def database(live, statement):
    with closing(sqlite3.connect(live.data_dir / "muster.sqlite3", timeout=60)) as line, line:
        return line.execute(statement).fetchall()


def test_a_worker_killed_in_the_middle_of_a_document_loses_and_doubles_nothing(own_live):
    live = own_live
    live.http.post("/api/v1/collections/", json={"name": "box"}).raise_for_status()
    add(live, "first.md", "Parcels leave on Mondays.")
    wait_for(lambda: states(live) == {"first.md": "ready"}, within=120)
    add(live, "slow.html", SLOW, "text/html")
    for name in QUICK:
        add(live, name, f"The document {name} has its own words.")
    wait_for(lambda: states(live)["slow.html"] == "indexing", within=120)
    killed = live.programs()["web"]
    killed.kill()
    assert states(live)["slow.html"] == "indexing", "it was killed too late for this test"
    wait_for(lambda: live.programs().get("web", killed).pid != killed.pid, within=120)
    assert "Mondays" in str(found(live, "parcels")), "what was ready is searched all the time"
    database(live, "UPDATE knowledge_document SET lease_expires_at = '2000-01-01 00:00:00' WHERE status = 'indexing'")
    wait_for(lambda: set(states(live).values()) == {"ready"}, within=240, told=lambda: str(states(live)))
    assert set(states(live)) == {"first.md", "slow.html", *QUICK}
    assert len(found(live, "bicycles repaired")) == 1
    for name in QUICK:
        assert [one["document"]["name"] for one in found(live, name)][:1] == [name]
    assert database(live, "SELECT count(*), count(DISTINCT document_id) FROM knowledge_chunk") == [(10, 10)]
    attempts = dict(database(live, "SELECT name, attempts FROM knowledge_document"))
    assert attempts["first.md"] == 1 and attempts["slow.html"] == 2


def found(live, question):
    answer = live.http.post(f"{URL}/search", json={"query": question})
    answer.raise_for_status()
    return answer.json()["results"]
