"""Whatever is deleted at the moment a run works with it, by two requests at once: a plain answer for each, and an end of
the run that says why; never a 500, never `internal_error`. `make exhaustive` tries each kind a hundred times.
"""

from contextlib import nullcontext

import pytest

from agents.models import Team
from runs.models import Run
from runs.queue import carriers
from runs.worker import runner
from tests.fakes import calls, says
from tests.matrices import is_exhaustive
from tests.people import ApiClient, make_person
from tests.runs.worker import test_deletes_beside_runs as beside
from tests.runs.worker.test_deleted_meanwhile import Silent, at_once

pytestmark = pytest.mark.django_db(transaction=True)
V1 = "/api/v1"
ROUNDS = 100 if is_exhaustive() else 2
ANSWERS = (*beside.ANSWERS, 401)  # of a key that deletes itself


class Nobody:
    """A worker that works only when a test lets it."""

    def capture(self, **_):
        return nullcontext()


def session(scene):
    return ""


def new_collection(scene):
    beside.new_document(scene)
    return f"{V1}/collections/papers"


KINDS = {
    "session": session,
    "agent": lambda scene: f"{V1}/agents/helper",
    "function": lambda scene: f"{V1}/functions/add",
    "provider": lambda scene: f"{V1}/providers/{scene.provider.name}",
    "team": beside.new_team,
    "collection": new_collection,
    **{make.__name__.removeprefix("new_").removeprefix("own_"): make for make in (*beside.USED, *beside.AROUND) if make is not beside.new_collection},
}  # fmt: skip


@pytest.fixture
def new_scene(db, api, stub, functions, monkeypatch):
    """A scene of a new person in each round, so that what an earlier round left is in nobody's way."""
    silent = Silent()
    monkeypatch.setattr(carriers, "current", lambda: silent)

    def make(number):
        person = make_person(f"person{number}")
        Team.objects.filter(name="crew").update(name=f"crew-{number}")
        body = {"name": "local", "kind": "openai-compatible", "base_url": stub.url, "api_key": "sk-stub"}
        client: ApiClient = api(person)
        assert client.post(f"{V1}/providers/", body).status_code == 201
        provider = beside.Provider.objects.get(owner=person)
        return beside.Scene(person, client, Nobody(), stub, functions, provider)

    return make


@pytest.mark.timeout(3600 if is_exhaustive() else 600)  # a hundred rounds take minutes on a busy machine
@pytest.mark.parametrize("kind", KINDS)
def test_a_thing_is_deleted_twice_at_once_beside_its_run(new_scene, api, stub, kind):
    for number in range(ROUNDS):
        scene = new_scene(number)
        path = KINDS[kind](scene)
        scene.grants = list({grant["tool"]: grant for grant in scene.grants}.values())  # of people before, too
        scene.publish()
        stub.turns.clear()
        stub.script(calls(("add", {"a": 1, "b": 2})), says("It is 3."))
        scene.made("agents/helper/messages", {"message": "Add 1 and 2"}, headers={"Prefer": "respond-async"})
        run = Run.objects.get(principal=scene.alice, trigger="message")
        path = path or f"{V1}/sessions/{run.session_id}"
        others = [api(scene.alice) for _ in range(2)]
        answers = at_once(
            *[lambda client=client, path=path: delete(client, path) for client in others],
            lambda run=run: runner.execute_run(str(run.pk)),
        )
        assert {answer.status_code for answer in answers[:2]} <= set(ANSWERS), [one.content for one in answers[:2]]
        runner.execute_run(str(run.pk))  # a worker that came too early for the claim
        beside.check_end(run)


def delete(client, path):
    return client.post(path) if path.endswith("/revoke") else client.delete(path)
