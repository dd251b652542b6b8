"""The fields that clients of others rely on are in the answers of real runs with the offline provider. More may be
there; none of these may go.
"""

import pytest

from agents.models import AuditEvent
from devices.serializers import DeviceCallSerializer
from runs.models import Run
from tests.files import stored

pytestmark = pytest.mark.django_db
V1, JSON = "/api/v1", "application/json"
ASYNC = {"Prefer": "respond-async"}
ADD = 'def add(a: int, b: int = 2) -> int:\n    """Add two numbers."""\n    print(a)\n    return a + b\n'
RUN = [
    "id",
    "status",
    "waiting_for",
    "agent",
    "agent_version",
    "session",
    "parent",
    "root",
    "depth",
    "trigger",
    "created_at",
    "started_at",
    "finished_at",
    "input",
    "output",
    "error",
    "turns",
    "usage",
    "counts",
    "urls",
    "pending",
]
USAGE = ["input_tokens", "output_tokens", "cost"]
EXECUTED = ["execution", "status", "result", "printed", "wall_ms", "cpu_ms", "peak_kb", "isolation", "version"]
FUNCTION = {
    "name": "add", "source": ADD, "description": "Adds.", "entry": "add", "allowed_imports": ["math"],
    "allowed_hosts": ["example.com"], "timeout": 5, "memory_limit": 256, "is_async": False, "requires_context": False,
    "safe_mode": True, "output_schema": {"type": "integer"}, "note": "First.",
}  # fmt: skip
AGENT = {
    "name": "clerk", "description": "Adds numbers.", "system_prompt": "Be brief.", "provider": "offline",
    "model_name": "offline",
    "model_params": {"temperature": 0.1, "top_p": 0.9, "presence_penalty": 0, "frequency_penalty": 0,
                     "max_tokens": 100},
    "input_schema": None, "output_schema": None, "capabilities": ["sums"], "max_steps": 5, "timeout": 30,
    "max_chain_depth": 2, "grants": [{"tool": "add", "mode": "allow", "version": 1}],
}  # fmt: skip


def has(answer, names):
    assert not (lacking := set(names) - set(answer)), f"lacks {sorted(lacking)}: {answer}"
    return answer


@pytest.fixture
def function(alice_api):
    said = alice_api.post(f"{V1}/functions/", FUNCTION)
    assert said.status_code == 201, said.json()
    published = alice_api.post(f"{V1}/functions/add/publish", {})
    assert published.status_code == 200 and has(published.json(), ["version", "sha256"])["version"] == 1
    return said.json()


@pytest.fixture
def clerk(alice_api, function, offline):
    said = alice_api.post(f"{V1}/agents/", AGENT)
    assert said.status_code == 201, said.json()
    assert alice_api.post(f"{V1}/agents/clerk/publish", {}).status_code == 200
    return said.json()


@pytest.fixture
def send(alice_api, worker, clerk):
    """A message, and the run as it is after the worker's work."""

    def send(path="agents/clerk/messages", status=202, **body):
        with worker.capture(execute=True):
            said = alice_api.post(f"{V1}/{path}", {"message": "add a=3 b=4", **body}, headers=ASYNC)
        assert said.status_code == status, said.json()
        if status != 202:
            return said.json()["error"]
        worker.work()
        return said.json(), alice_api.get(f"{V1}/runs/{said.json()['run']['id']}").json()

    return send


# -- functions and tools --------------------------------------------------------------------------------------------


def test_a_function(alice_api, function):
    has(function, [*FUNCTION.keys() - {"note"}, "published_version", "input_schema", "refusals"])
    assert AuditEvent.objects.get(action="function.created").details["note"] == "First."
    assert (function["published_version"], function["refusals"]) == (None, [])
    assert function["input_schema"]["required"] == ["a"]
    tool = alice_api.get(f"{V1}/tools/?search=add&kind=function").json()["results"][0]
    has(tool, ["name", "kind", "description", "input_schema", "output_schema", "effect"])
    assert (tool["name"], tool["kind"]) == ("add", "function")


def test_a_refused_source(alice_api):
    said = alice_api.post(
        f"{V1}/functions/", {"name": "bad", "source": "import os\n\ndef f():\n    return eval('1')\n"}
    )
    assert said.status_code == 422 and len(said.json()["error"]["details"]) > 1
    for detail in said.json()["error"]["details"]:
        has(detail, ["code", "message", "hint", "line", "column"])


def test_an_execution(alice_api, function):
    said = alice_api.post(f"{V1}/functions/add/execute", {"arguments": {"a": 1}, "version": 1})
    done = has(said.json(), EXECUTED)
    assert said.status_code == 200 and (done["status"], done["result"], done["version"]) == ("ok", 3, 1)
    assert done["printed"] == "1\n"
    assert alice_api.post(f"{V1}/functions/add/execute", {"arguments": {"a": "x"}}).status_code == 422
    tried = {"name": "other", "source": "def f(a: int) -> int:\n    return 1 // a\n", "arguments": {"a": 0}}
    failed = alice_api.post(f"{V1}/functions/try", tried)
    assert failed.status_code == 200 and has(failed.json(), EXECUTED)["status"] == "error"
    has(failed.json()["error"], ["type", "message", "line"])


# -- agents and runs ------------------------------------------------------------------------------------------------


def test_a_provider_and_an_agent(alice_api, clerk):
    has(clerk, [*AGENT, "hooks"])
    provider = alice_api.get(f"{V1}/providers/offline").json()
    assert has(provider, ["name", "kind", "base_url", "enabled"]) and "api_key" not in provider
    grants = alice_api.get(f"{V1}/agents/clerk/grants/").json()
    entry = (grants["results"] if isinstance(grants, dict) else grants)[0]
    assert (entry["tool"], entry["mode"], entry["version"]) == ("add", "allow", 1)


def test_a_message_and_its_run(alice_api, send):
    accepted, run = send(metadata={"from": "test"})
    has(accepted, ["run", "session", "reply", "usage"])
    has(run, RUN), has(run["usage"], USAGE), has(run["counts"], ["processed", "created", "updated"])
    has(run["urls"], ["self", "events", "stream", "cancel"])
    assert (run["status"], run["agent"], run["agent_version"], run["pending"]) == ("succeeded", "clerk", 1, [])
    events = alice_api.get(f"{V1}/runs/{run['id']}/events?after=0").json()["results"]
    assert (
        has(events[0], ["seq", "type", "at", "data"])["type"] == "run.queued" and events[-1]["type"] == "run.finished"
    )
    reply = has(events[-1]["data"]["reply"], ["role", "content", "text"])
    assert reply["role"] == "assistant" and reply["content"][0]["type"] == "text" and "7" in reply["text"]
    again = alice_api.post(f"{V1}/agents/clerk/messages", {"message": "x", "wait": 0})
    assert again.status_code == 202 and again.headers["Location"]


def test_a_routed_message(alice_api, send):
    text = "Do the sums: add a=3 b=4"
    accepted, run = send("messages", message=text)
    route = alice_api.post(f"{V1}/messages/route", {"message": text}).json()
    has(route, ["agent", "method", "candidates", "reason"])
    has(route["candidates"][0], ["agent", "score", "reason"])
    assert run["agent"] == route["agent"] == "clerk"


MESSAGE_FIELDS = {
    "model": "offline", "instructions": "In Norwegian.", "variables": {}, "max_steps": 3, "timeout": 20,
    "output_schema": {"type": "object"}, "tool_policy": {"blocked": ["add"]},
}  # fmt: skip


@pytest.mark.parametrize("field", [*MESSAGE_FIELDS, "tools"])
def test_a_field_of_a_message_is_recorded_in_its_run(send, field):
    tool = {"name": "weather", "description": "Of a city.", "input_schema": {"type": "object"}}
    value = [tool] if field == "tools" else MESSAGE_FIELDS[field]
    _, run = send(**{field: value})
    shown = run["options"][field]
    if field == "tool_policy":
        shown = {"blocked": shown["blocked"]}
    assert shown == (["weather"] if field == "tools" else value) and run["options"]["asked"] == [field]


def test_a_field_that_does_not_exist_starts_nothing(send):
    assert send(status=422, modell="x")["code"] == "invalid" and not Run.objects.exists()


def test_the_same_key_is_the_same_run_and_another_body_is_a_conflict(alice_api, clerk, worker):
    headers = {**ASYNC, "Idempotency-Key": "once"}
    with worker.capture(execute=True):
        one, two = (
            alice_api.post(f"{V1}/agents/clerk/messages", {"message": "add a=1"}, headers=headers) for _ in range(2)
        )
        other = alice_api.post(f"{V1}/agents/clerk/messages", {"message": "add a=2"}, headers=headers)
    assert one.json()["run"]["id"] == two.json()["run"]["id"] and other.status_code == 409


def test_a_waiting_run_its_approval_and_how_it_is_resumed(alice_api, send, worker):
    asking = {"grants": [{"tool": "add", "mode": "ask"}]}
    assert alice_api.patch(f"{V1}/agents/clerk", asking, JSON).status_code == 200
    alice_api.post(f"{V1}/agents/clerk/publish", {})
    _, run = send()
    assert (run["status"], run["waiting_for"]) == ("waiting", "approval")
    [entry] = run["pending"]
    has(entry, ["id", "kind", "name", "arguments", "schema", "text", "expires_at"])
    assert (entry["kind"], entry["name"], entry["arguments"]) == ("approval", "add", {"a": 3, "b": 4})
    approval = alice_api.get(f"{V1}/approvals/{entry['id']}").json()
    has(approval, ["id", "run", "tool", "arguments", "expires_at", "default", "status"])
    body = {"inputs": {entry["id"]: {"answer": {"decision": "approve"}}}}
    with worker.capture(execute=True):
        resumed = alice_api.post(f"{V1}/runs/{run['id']}/resume", body)
    assert resumed.status_code == 202 and has(resumed.json(), RUN)["id"] == run["id"]
    worker.work()
    assert alice_api.get(f"{V1}/runs/{run['id']}").json()["status"] == "succeeded"
    assert alice_api.post(f"{V1}/runs/{run['id']}/resume", body).status_code == 409
    assert AuditEvent.objects.filter(action="run.resumed").count() == 1


def test_a_call_of_a_device():
    has(
        DeviceCallSerializer().fields,
        ["id", "device", "tool", "arguments", "state", "attempt", "deadline", "result", "error", "late"],
    )


# -- errors, lists, people ------------------------------------------------------------------------------------------


def test_lists_and_errors_have_one_form(alice_api, charlie_api, clerk, client):
    has(alice_api.get(f"{V1}/agents/?limit=1").json(), ["results", "next"])
    for said, status in (
        (client.get(f"{V1}/agents/"), 401),
        (charlie_api.get(f"{V1}/agents/clerk"), 404),
        (alice_api.post(f"{V1}/agents/", {"name": "x"}), 422),
        (alice_api.post(f"{V1}/agents/", AGENT), 409),
    ):
        assert said.status_code == status, said.content
        has(said.json()["error"], ["code", "message", "hint", "details", "request_id"])


def test_a_key_is_shown_once_and_pairing_has_its_fields(alice_api):
    made = alice_api.post(f"{V1}/keys/", {"name": "mine", "scopes": ["runs:read"]}).json()
    assert made["key"] and "key" not in alice_api.get(f"{V1}/keys/{made['id']}").json()
    code = has(alice_api.post(f"{V1}/devices/pairings", {}).json(), ["code", "expires_at"])["code"]
    paired = alice_api.post(f"{V1}/devices/pair", {"code": code, "name": "laptop", "platform": "linux"}).json()
    has(paired, ["device", "credential", "account", "server"])


def test_a_file_and_a_record(alice, alice_api):
    row = stored(alice)
    assert alice_api.get(f"{V1}/files/{row.pk}").status_code == 200
    made = alice_api.post(f"{V1}/records/tasks/", {"title": "Water the plants"})
    assert made.status_code == 201 and alice_api.get(f"{V1}/records/tasks/{made.json()['id']}").status_code == 200


def test_openai_embeddings_and_models_of_an_agent(alice_api, clerk):
    names = [one["id"] for one in alice_api.get("/v1/models").json()["data"]]
    assert {"clerk", "router"} <= set(names)
    said = alice_api.post("/v1/embeddings", {"model": "clerk", "input": "a cat"}).json()
    has(said, ["object", "data", "model", "usage"]), has(said["data"][0], ["object", "index", "embedding"])
