"""Workers are killed in the middle of a sync: no message is missed, none is handed over twice."""

import signal
import time
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.connectors.fake_gmail import FakeGmail
from tests.fakes import StubOpenAI, calls, says
from tests.live import Live, copy_prepared, data_directory, database_of, wait_for

pytestmark = pytest.mark.live
MESSAGES, BATCH = 120, 30


class SlowGmail(FakeGmail):
    """Each message takes a moment, so that a kill finds the sync at work."""

    def one(self, asked, identity):
        time.sleep(0.05)
        return super().one(asked, identity)


def sync_all(body):
    """What the model does: fetch until nothing is left."""
    last = body["messages"][-1]
    if last["role"] == "tool" and '"has_more": false' in last["content"].replace('":false', '": false'):
        return says("all is read")
    return calls(("gmail_fetch_new", {"limit": BATCH}))


@contextmanager
def muster_for(prepared, config, gmail, model):
    environment = {
        "MUSTER_PRIVATE_HOSTS": "127.0.0.1", "MUSTER_LEASE": "3", "MUSTER_GMAIL_URL": gmail.url,
        "MUSTER_GOOGLE_OAUTH_URL": gmail.url, "MUSTER_GOOGLE_AUTHORIZE_URL": f"{gmail.url}/auth",
        "MUSTER_GOOGLE_CLIENT_ID": "client", "MUSTER_GOOGLE_CLIENT_SECRET": "hush", **database_of(config),
    }  # fmt: skip
    with data_directory() as directory:
        copy_prepared(prepared, directory)
        made = Live(directory, "--no-greeting", **environment)
        connect(made, gmail)
        make_reader(made, model)
        yield made
        made.stop()


def connect(muster, gmail):
    """Through the login, as a person does."""
    begun = muster.http.post("/api/v1/connections/gmail/authorize", json={"access": ["read"]}).json()
    query = {key: values[0] for key, values in parse_qs(urlsplit(begun["url"]).query).items()}
    back = {"state": query["state"], "code": gmail.give_code(query["code_challenge"])}
    answer = muster.http.get("/api/v1/connections/gmail/callback", params=back)
    assert answer.status_code == 200, answer.text


def make_reader(muster, model):
    def post(path, **body):
        answer = muster.http.post(f"/api/v1/{path}", json=body)
        assert answer.status_code < 300, answer.text

    post("providers/", name="stub", kind="openai-compatible", base_url=model.url, api_key="x")
    grants = [{"tool": "gmail_fetch_new", "mode": "allow"}]
    post(
        "agents/", name="reader", provider="stub", model_name="stub", system_prompt="Read.", grants=grants, timeout=300
    )
    post("agents/reader/publish")


def calls_of(muster, run):
    return muster.http.get(f"/api/v1/runs/{run}/tool-calls/").json()["results"]


@pytest.mark.timeout(600)
def test_a_worker_that_is_killed_in_a_sync_misses_and_doubles_nothing(prepared, request):
    with SlowGmail() as gmail, StubOpenAI() as model, muster_for(prepared, request.config, gmail, model) as muster:
        model.otherwise = sync_all
        wanted = [gmail.deliver(f"Mail {number}") for number in range(MESSAGES)]
        headers = {"Prefer": "respond-async"}
        sent = muster.http.post("/api/v1/agents/reader/messages", json={"message": "any mail?"}, headers=headers)
        run = sent.json()["run"]["id"]
        for read in (BATCH // 2, 2 * BATCH + BATCH // 2):  # in the middle of the first and of a later batch
            wait_for(lambda read=read: gmail.count("/messages/m") >= read)
            muster.programs()["worker"].send_signal(signal.SIGKILL)
        ended = wait_for(
            lambda: (state := muster.http.get(f"/api/v1/runs/{run}").json()).get("finished_at") and state, within=200
        )
        assert ended["status"] == "succeeded", ended["error"]
        got = [
            one["id"] for call in calls_of(muster, run) if call["outcome"] == "ok" for one in call["result"]["messages"]
        ]
        assert got == wanted
        events = muster.http.get(f"/api/v1/runs/{run}/events?limit=500").json()["results"]
        assert sum(event["type"] == "run.recovered" for event in events) == 2
