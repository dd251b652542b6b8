"""What people without an account may ask for costs the server little: every address, measured beside /healthz."""

import gzip
import json
import re
import threading
import time
from contextlib import nullcontext

import pytest
import yaml
from django.conf import global_settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.test import Client
from django.urls import URLPattern, get_resolver
from django.utils.module_loading import import_string

from agents.http import hashing
from config import schema
from config.settings import login
from devices import package
from runs.models import Embed

TIMES = 20  # the most that an address without a key may cost, in requests of /healthz
WORTH = {"uuid": "01900000-0000-7000-8000-000000000000", "int": "1"}  # for the parts of a route; others become "x"


def routes_in(patterns, before=""):
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield route
        else:
            yield from routes_in(pattern.url_patterns, route)


def path_of(route):
    route = re.sub(r"\(\?P<\w+>.*\)|[\^$]|\\Z", "x", route) if "(?P" in route else route
    return "/" + re.sub(r"<(?:(\w+):)?\w+>", lambda part: WORTH.get(part[1], "x"), route)


def is_of_the_same_view(path):
    """Every page of the admin sends a stranger to its sign-in."""
    return path.startswith("/admin/") and path.count("/") > 3


def cpu_of(client, method, path):
    """Seconds of CPU of this thread for one request."""
    began = time.thread_time()
    client.generic(method, path, "{}" if method == "POST" else "", "application/json")
    return time.thread_time() - began


def is_dear(client, method, path, tries):
    """Whether an address costs more than TIMES requests of /healthz in every one of several tries.

    What else runs on the machine slows both, so each try compares what it measured within a moment. What displaces the
    caches slows the longer one more, so tries are apart.
    """
    for number in range(tries):
        time.sleep(0.02 * number)
        healthz = min(cpu_of(client, "GET", "/healthz") for _ in range(3))
        spent = min(
            cpu_of(client, method, path) for _ in range(3)
        )  # what others have displaced from the caches is back
        if spent <= TIMES * healthz:
            return False
    return True


@pytest.fixture
def paths(alice, make_agent):
    """Of every view, and of those that find something at the address."""
    embed = Embed.objects.create(owner=alice, agent=make_agent(), enabled=True)
    found = [path_of(route) for route in routes_in(get_resolver().url_patterns)]
    real = ["/api/schema/?format=json", "/texts/de.js", f"/devices/client/{package.filename()}"]
    real += [f"/chat/{embed.key}/", f"/embed/v1/{embed.key}"]
    return [path for path in dict.fromkeys(found + real) if not is_of_the_same_view(path)]


@pytest.mark.django_db
def test_no_address_that_needs_no_key_costs_more_than_twenty_times_healthz(paths):
    stranger = Client(raise_request_exception=False, REMOTE_ADDR="203.0.113.9")  # the machine itself reads /metrics
    for path in ("/api/schema/", "/readyz", *paths[-5:]):
        stranger.get(path)  # what is made once in the life of a process
    every = [(method, path) for path in paths for method in ("GET", "POST")]
    dear = [one for one in every if is_dear(stranger, *one, tries=2)]
    dear = [one for one in dear if is_dear(stranger, *one, tries=30)]  # over nine seconds
    assert len(paths) > 300
    assert dear == []


@pytest.fixture
def documents(monkeypatch):
    monkeypatch.setattr(schema, "documents", schema.Documents())
    return schema.documents


def test_the_document_is_rendered_once_however_many_ask(client, documents, monkeypatch):
    rendered, may_go_on = [], threading.Event()

    def render():
        rendered.append(1)
        may_go_on.wait(60)
        return {("yaml", False): schema.make_document(b"openapi: 3.1.0")}

    monkeypatch.setattr(schema, "render_documents", render)
    answers = []
    readers = [
        threading.Thread(target=lambda: answers.append(Client().get("/api/schema/").status_code))
        for _ in range(schema.WAITERS + 4)
    ]
    for reader in readers:
        reader.start()
    while answers.count(503) < 4:  # those beyond the places are sent away while the others wait
        threading.Event().wait(0.01)
    may_go_on.set()
    for reader in readers:
        reader.join()
    assert rendered == [1]
    assert sorted(answers) == [200] * schema.WAITERS + [503] * 4


def test_the_document_is_compressed_for_those_who_accept_it_and_sent_once(client):
    plain = client.get("/api/schema/")
    packed = client.get("/api/schema/", headers={"Accept-Encoding": "br, gzip"})
    refused = client.get("/api/schema/", headers={"Accept-Encoding": "gzip;q=0"})
    assert packed["Content-Encoding"] == "gzip" and len(packed.content) < len(plain.content) / 5
    assert gzip.decompress(packed.content) == plain.content == refused.content
    assert "Content-Encoding" not in refused and packed["ETag"] != plain["ETag"]
    for first in (plain, packed):
        accepts = {"Accept-Encoding": first.get("Content-Encoding", "identity")}
        again = client.get("/api/schema/", headers={"If-None-Match": first["ETag"], **accepts})
        assert (again.status_code, again.content) == (304, b"") and again["ETag"] == first["ETag"]
    assert plain["Vary"].startswith("Accept, Accept-Encoding")


def test_both_formats_say_the_same(client):
    as_json = client.get("/api/schema/?format=json")
    assert as_json["Content-Type"].endswith("json")
    assert json.loads(as_json.content) == yaml.load(client.get("/api/schema/").content, yaml.CSafeLoader)


def test_passwords_keep_djangos_hasher():
    first = import_string(login.PASSWORD_HASHERS[0])
    assert first is PBKDF2PasswordHasher is import_string(global_settings.PASSWORD_HASHERS[0])


@pytest.mark.django_db
def test_one_password_per_core_is_checked_at_a_time_and_a_crowd_is_sent_away(alice, client, monkeypatch):
    monkeypatch.setattr(hashing, "places", threading.BoundedSemaphore(1))
    sent = {"username": "alice", "password": "wrong"}
    with hashing.password_turn():
        assert "Too many attempts" in client.post("/login/", sent).content.decode()
    assert "Too many attempts" not in client.post("/login/", sent).content.decode()


@pytest.mark.django_db
def test_a_guess_beyond_the_limit_is_refused_before_it_is_hashed(alice, client, settings, monkeypatch):
    settings.LOGIN_TRIES = 1
    monkeypatch.setattr(hashing, "places", threading.BoundedSemaphore(1))
    sent = {"username": "alice", "password": "wrong"}
    client.post("/login/", sent)
    turns = []
    monkeypatch.setattr("agents.http.login.password_turn", lambda: turns.append(1) or nullcontext())
    client.post("/login/", sent)
    assert turns == []
