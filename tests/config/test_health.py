"""/healthz, /readyz and /metrics, and the headers of every answer."""

import pytest

from config import health
from functions import sandbox
from plumbing.release import VERSION
from runs.queue import carriers
from runs.queue.carriers.redis_list import RedisList


def test_a_process_that_answers_is_healthy(client):
    assert client.get("/healthz").json() == {"status": "ok", "version": VERSION}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_health_check_by_address_is_answered(client, db, path):
    assert client.get(path, headers={"host": "10.1.2.3:8000"}).status_code == 200
    assert client.get("/login/", headers={"host": "10.1.2.3:8000"}).status_code == 400


def test_it_is_ready_when_database_broker_and_sandbox_work(client, db):
    answer = client.get("/readyz")

    assert answer.json()["checks"] == {"database": "ok", "broker": "ok", "sandbox": "ok"}
    assert answer.status_code == 200


def test_it_is_not_ready_without_the_broker_of_its_carrier(client, db, settings, monkeypatch):
    settings.QUEUE_URL = "unix:///nowhere/valkey.sock"
    away = RedisList()
    monkeypatch.setattr(carriers, "current", lambda: away)

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["checks"]["broker"].startswith("not reachable")


def test_metrics_count_runs_and_requests(client, db):
    client.get("/healthz")

    text = client.get("/metrics").content.decode()

    assert 'muster_http_requests_total{method="GET",route="healthz",status="200"}' in text
    assert "muster_oldest_queued_seconds 0.0" in text


@pytest.mark.parametrize("headers", [{"REMOTE_ADDR": "10.1.2.3"}, {"HTTP_X_FORWARDED_FOR": "10.1.2.3"}])
def test_metrics_are_not_for_strangers(client, db, headers):
    assert client.get("/metrics", **headers).status_code == 403


def test_charlie_may_not_read_metrics_and_a_superuser_may(db, api, charlie, site_admin):
    assert api(charlie).get("/metrics", REMOTE_ADDR="10.1.2.3").status_code == 403
    assert api(site_admin).get("/metrics", REMOTE_ADDR="10.1.2.3").status_code == 200


def test_every_answer_bears_the_request_s_id_and_a_strict_policy(client):
    answer = client.get("/healthz", headers={"X-Request-ID": "given-by-caller-1"})

    assert answer["X-Request-ID"] == "given-by-caller-1"
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_an_id_that_could_forge_log_lines_is_replaced(client):
    assert client.get("/healthz", headers={"X-Request-ID": 'x" level="error'})["X-Request-ID"] != 'x" level="error'


def test_it_is_not_ready_without_a_sandbox_and_says_why(client, db, monkeypatch):
    pool = sandbox.Pool()
    pool.refuse_everything("the boundary does not hold")
    monkeypatch.setattr(sandbox, "_pool", pool)
    monkeypatch.setattr(health, "last_self_test", (0.0, "never run"))

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["checks"]["sandbox"] == "a test function ended with refused: the boundary does not hold"


@pytest.mark.parametrize("header", ["HTTP_X_REAL_IP", "HTTP_FORWARDED", "HTTP_VIA"])
def test_metrics_behind_any_proxy_need_a_key(client, db, header):
    assert client.get("/metrics", **{header: "1.1 proxy"}).status_code == 403


def test_words_that_a_caller_makes_up_are_no_labels_of_metrics(client, db):
    client.generic("MADEUP", "/healthz")
    client.get("/no/such/path/made-up-by-a-caller")

    text = client.get("/metrics").content.decode()

    assert "MADEUP" not in text and "made-up-by-a-caller" not in text and 'method="other"' in text


@pytest.mark.parametrize("path", ["/api/v1/me", "/api/v1/agents/", "/api/v1/agents/nobody", "/", "/admin/"])
def test_what_is_personal_is_kept_by_no_cache(alice_api, db, path):
    assert alice_api.get(path)["Cache-Control"].find("no-store") >= 0
