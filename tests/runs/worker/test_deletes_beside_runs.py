"""Whatever a person deletes while a run uses it: a plain answer for the person, and an end with a reason for the run."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import RequestFactory
from django.urls import reverse

from agents.models import ApiKey, Provider, Tool
from agents.tools import ToolResult
from connectors.models import Connection
from devices import catalog as device_catalog
from devices.models import Device
from knowledge.full_text import scrub
from runs.models import Run
from runs.queue import endings
from tests.devices.scripted import paired
from tests.fakes import calls, says
from tests.functions import library
from tests.knowledge.skills.samples import skill_md

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
JSON = {"content_type": "application/json"}
ANSWERS = (200, 202, 204, 302, 403, 404, 409)
MOMENTS = ["queued", "calling", "asked", "ending"]


class Scene:
    """An agent of Alice's that calls `add`, and what a test adds to it before the agent is published again."""

    def __init__(self, alice: Any, api: Any, worker: Any, stub: Any, functions: Any, provider: Provider) -> None:
        self.alice, self.api, self.worker, self.stub, self.functions = alice, api, worker, stub, functions
        self.provider = provider
        library.publish(alice)
        self.grants = [{"tool": "add", "mode": "allow"}]
        self.parts: list[dict[str, Any]] = []
        body = {"name": "helper", "provider": provider.name, "model_name": "stub", "system_prompt": "You help."}
        self.made("agents/", {**body, "description": "It helps."})

    def made(self, path: str, body: dict[str, Any], **more: Any) -> Any:
        answer = self.api.post(f"{V1}/{path}", body, **more)
        assert answer.status_code < 300, answer.content
        return answer.json()

    def publish(self) -> None:
        answer = self.api.patch(f"{V1}/agents/helper", {"grants": self.grants}, **JSON)
        assert answer.status_code == 200, answer.content
        self.made("agents/helper/publish", {})

    def send(self) -> Run:
        content = [{"type": "text", "text": "Add 1 and 2"}, *self.parts]
        with self.worker.capture(execute=True):
            self.made("agents/helper/messages", {"message": content}, headers={"Prefer": "respond-async"})
        return Run.objects.get(trigger="message")

    def work(self) -> None:
        self.worker.work()


@pytest.fixture
def scene(alice, api, worker, stub, stub_provider, functions) -> Scene:
    return Scene(alice, api(alice), worker, stub, functions, stub_provider)


def granted(scene: Scene, *tools: str) -> None:
    scene.grants += [{"tool": name, "mode": "allow"} for name in tools]


def new_skill(scene: Scene) -> str:
    scene.made("skills/", {"text": skill_md()})
    scene.made("skills/invoices/publish", {})
    granted(scene, "invoices")
    return f"{V1}/skills/invoices"


def new_collection(scene: Scene) -> str:
    return f"{V1}/collections/papers"


def new_document(scene: Scene) -> str:
    scene.made("collections/", {"name": "papers", "description": "Papers."})
    granted(scene, *Tool.objects.filter(name__contains="papers").values_list("name", flat=True))
    document = scene.made("collections/papers/documents/", {"name": "a.txt", "text": "Words"})
    return f"{V1}/collections/papers/documents/{document['id']}"


def new_connection(scene: Scene) -> str:
    shop = {"operationId": "getItem", "summary": "One item."}
    document = {"openapi": "3.0.3", "servers": [{"url": "http://127.0.0.1:9"}], "paths": {"/items": {"get": shop}}}
    row = Connection.objects.create(owner=scene.alice, provider="openapi", name="shop")
    scene.made(f"connections/{row.pk}/import", {"document": document})
    granted(scene, *Tool.objects.filter(kind="http").values_list("name", flat=True))
    return f"{V1}/connections/{row.pk}"


def new_file(scene: Scene) -> str:
    file = scene.made("files/", {"name": "a.txt", "text": "Words"})
    scene.parts.append({"type": "file", "file": file["id"]})
    return f"{V1}/files/{file['id']}"


def new_chain(scene: Scene) -> str:
    steps = [{"key": "one", "agent": "helper", "input": {"message": "'Hi'"}}]
    scene.publish()
    scene.made("chains/", {"name": "digest", "steps": steps})
    scene.made("chains/digest/publish", {})
    return f"{V1}/chains/digest"


def new_schedule(scene: Scene) -> str:
    scene.publish()
    schedule = {"name": "morning", "agent": "helper", "text": "Hi", "crontab": "0 9 * * *", "timezone": "UTC"}
    scene.made("schedules/", schedule)
    return f"{V1}/schedules/morning"


def new_trigger(scene: Scene) -> str:
    scene.publish()
    scene.made("triggers/", {"name": "orders", "kind": "run_ended", "agent": "helper", "on_agent": "helper"})
    return f"{V1}/triggers/orders"


def new_webhook(scene: Scene) -> str:
    body = {"url": "http://127.0.0.1:9/hook", "events": ["run.finished"]}
    return f"{V1}/webhooks/{scene.made('webhooks/', body)['id']}"


def new_hook(scene: Scene) -> str:
    library.publish(scene.alice, "def look(event: dict) -> dict:\n    return {}\n", "look")
    hook = scene.made("run-hooks/", {"place": "before_tool", "function": "look", "agent": "helper", "tools": ["other"]})
    return f"{V1}/run-hooks/{hook['id']}"


def new_budget(scene: Scene) -> str:
    return f"{V1}/budgets/{scene.made('budgets/', {'period': 'day', 'max_runs': 50})['id']}"


def new_embed(scene: Scene) -> str:
    scene.publish()
    return f"{V1}/embeds/{scene.made('embeds/', {'agent': 'helper'})['id']}"


def new_device(scene: Scene) -> str:
    device, _ = paired(scene.alice)
    Device.objects.update(tools={"list_directory": ""})
    device_catalog.ensure_tools()
    granted(scene, "list_directory")
    return f"{V1}/devices/{device.pk}/revoke"


def new_memory(scene: Scene) -> str:
    return f"{V1}/memory/{scene.made('memory/', {'text': 'Likes tea.'})['id']}"


def new_secret(scene: Scene) -> str:
    scene.made("secrets/", {"name": "key", "value": "hush", "hosts": ["example.org"]})
    return f"{V1}/secrets/key"


def new_team(scene: Scene) -> str:
    scene.made("teams/", {"name": "crew"})
    for path in ("agents/helper", "functions/add"):
        assert scene.api.patch(f"{V1}/{path}", {"team": "crew"}, **JSON).status_code == 200
    return f"{V1}/teams/crew"


def own_key(scene: Scene) -> str:
    return f"{V1}/keys/{ApiKey.objects.get(user=scene.alice).pk}"


# What is deleted, in this order, at one moment of one run.
USED = [new_skill, new_document, new_collection, new_connection, new_file, new_device, new_memory, new_secret]
AROUND = [new_hook, new_budget, new_schedule, new_trigger, new_webhook, new_embed, new_chain, own_key]
GROUPS: dict[str, list[Callable[[Scene], str]]] = {
    "used": USED,
    "around": AROUND,
    "agent": [lambda scene: f"{V1}/agents/helper"],
    "function": [lambda scene: f"{V1}/functions/add"],
    "provider": [lambda scene: f"{V1}/providers/{scene.provider.name}"],
    "team": [new_team],
}


def delete(scene: Scene, path: str) -> None:
    """As a person does who means it: what uses the thing is taken away from the agent, if that is in the way."""
    verb = scene.api.post if path.endswith("/revoke") else scene.api.delete
    answer = verb(path)
    if answer.status_code == 409:
        scene.api.patch(f"{V1}/agents/helper", {"grants": []}, **JSON)
        scene.api.post(f"{V1}/agents/helper/publish", {})
        answer = verb(path)
    assert answer.status_code in ANSWERS, (path, answer.status_code, answer.content)
    forget_scrubbing()


def forget_scrubbing() -> None:
    """It must not happen in a transaction, such as a test's."""
    connection.run_on_commit = [one for one in connection.run_on_commit if one[1] is not scrub]


def run_through(scene: Scene, moment: str, remove: Callable[[], None], monkeypatch: Any) -> Run:
    """A run with one call of `add`; `remove` happens at that moment of it."""
    happened = []

    def once() -> None:
        if not happened:
            happened.append(moment)
            remove()

    if moment == "asked":
        scene.grants[0]["mode"] = "ask"
    scene.publish()
    scene.stub.script(calls(("add", {"a": 1, "b": 2})), says("It is 3."))
    run = scene.send()
    if moment == "queued":
        once()
    if moment == "calling":
        scene.functions.answers.append(lambda call, context: (once(), ToolResult(ok=True, value=3))[1])
    if moment == "ending":
        finish = endings.finish_run
        monkeypatch.setattr(endings, "finish_run", lambda *args, **more: (once(), finish(*args, **more))[1])
    scene.work()
    if moment == "asked":
        approval = run.approvals.get()
        once()
        decide(scene, approval)
        scene.work()
    assert happened
    return run


def decide(scene: Scene, approval: Any) -> None:
    with scene.worker.capture(execute=True):
        answer = scene.api.post(f"{V1}/approvals/{approval.pk}", {"decision": "approve"})
    assert answer.status_code in (200, 401, 404, 409), answer.content


def check_end(run: Run) -> None:
    run = Run.objects.filter(pk=run.pk).first()
    if run is None:
        return
    assert run.is_done or run.waiting_for == "approval", run.status
    assert (run.error or {}).get("code") != "internal_error", run.error


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("group", GROUPS)
def test_things_that_are_deleted_while_a_run_uses_them(scene, api, group, moment, monkeypatch):
    paths = [make(scene) for make in GROUPS[group]]

    def remove() -> None:
        scene.api = api(scene.alice)  # the key of the run is deleted too
        for path in paths:
            delete(scene, path)

    check_end(run_through(scene, moment, remove, monkeypatch))


PAGES = {
    new_skill: "skills/invoices/delete",
    new_file: "files/{key}/delete",
    new_device: "devices/{key}/revoke",
    new_memory: "memory/{key}/delete",
    new_schedule: "schedules/morning/delete",
    new_embed: "clients/embeds/{key}/delete",
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_things_that_are_deleted_on_pages_while_a_run_uses_them(scene, signed_in, moment, monkeypatch):
    keys = {make: make(scene).removesuffix("/revoke").rpartition("/")[2] for make in PAGES}
    scene.made("collections/", {"name": "papers", "description": "Papers."})
    paths = [path.format(key=keys[make]) for make, path in PAGES.items()]
    paths += ["collections/papers/delete", f"providers/{scene.provider.name}/delete"]
    browser = signed_in(scene.alice)

    def remove() -> None:
        for path in paths:
            answer = browser.post(f"/{path}", {"confirm": "yes"})
            assert answer.status_code in ANSWERS, (path, answer.status_code)
            forget_scrubbing()

    check_end(run_through(scene, moment, remove, monkeypatch))


def deletable(person: Any) -> list[Any]:
    """The models whose rows an administrator can delete in the admin; people last."""
    request = RequestFactory().get("/")
    request.user = person
    models = [model for model, page in admin.site._registry.items() if page.has_delete_permission(request)]
    return sorted(models, key=lambda model: model._meta.model_name == "user")


@pytest.mark.parametrize("moment", ["calling", "asked"])
def test_things_that_an_administrator_deletes_while_a_run_uses_them(scene, site_admin, signed_in, moment, monkeypatch):
    for make in [new_team, new_secret, new_hook, new_budget, new_schedule, new_trigger, new_embed, new_chain]:
        make(scene)
    browser = signed_in(site_admin)

    def remove() -> None:
        for model in deletable(site_admin):
            for row in model._base_manager.exclude(pk=site_admin.pk if model is type(site_admin) else None):
                name = f"admin:{model._meta.app_label}_{model._meta.model_name}_delete"
                answer = browser.post(reverse(name, args=[row.pk]), {"post": "yes"})
                assert answer.status_code in ANSWERS, (model, answer.status_code)

    check_end(run_through(scene, moment, remove, monkeypatch))
