"""The doors: addresses of every interface, each with the kind of thing behind it, what is done there, and its scope."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.attacks.people.model import Thing
from tests.gateway.mcp.test_protocol import modern

V1 = "/api/v1"
JSON = {"content_type": "application/json"}
A2A = {"HTTP_A2A_VERSION": "1.0"}
LATER = {"headers": {"Prefer": "respond-async"}}
HELLO = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
Call = Callable[[Any, Thing, Any], Any]  # of a client, the thing and its row: the answer


@dataclass(frozen=True)
class Door:
    name: str
    kind: str
    verb: str  # see, use, change, delete
    scope: str
    call: Call
    is_page: bool = False  # for a browser; others for a key
    is_refused: Callable[[Any], bool] | None = None  # of an answer that tells it in its body


def is_refused(answer: Any) -> bool:
    to_login = answer.status_code == 302 and "/login" in answer["Location"]
    return to_login or answer.status_code in (401, 403, 404)


def of_rpc(answer: Any) -> bool:
    return is_refused(answer) or "error" in answer.json()


def rest(kind: str, path: str, *, see: str, **verbs: Any) -> list[Door]:
    """The doors of the REST API that most kinds have. `verbs`: (verb, method, path below, body, scope)."""
    doors = [Door(f"GET {path}", kind, "see", see, lambda api, thing, row: api.get(at(path, thing, row)))]
    for name, (verb, method, below, body, scope) in verbs.items():
        doors.append(Door(f"{name} {path}{below}", kind, verb, scope, sender(method, path + below, body)))
    return doors


def at(path: str, thing: Thing, row: Any) -> str:
    return path.format(name=thing.mark, pk=row.pk, run=getattr(row, "pk", ""), session=getattr(row, "session_id", ""))


def sender(method: str, path: str, body: Any) -> Call:
    def send(api: Any, thing: Thing, row: Any) -> Any:
        content = [] if body is None else [body, "application/json"]
        return getattr(api, method)(at(path, thing, row), *content, **LATER)

    return send


def page(kind: str, verb: str, path: str, scope: str = "", form: dict[str, Any] | None = None) -> Door:
    def open_page(browser: Any, thing: Thing, row: Any) -> Any:
        address = at(path, thing, row)
        return browser.get(address) if form is None else browser.post(address, form)

    return Door(f"page {path}", kind, verb, scope, open_page, is_page=True)


def named(kind: str, resource: str, verbs: dict[str, Any] | None = None) -> list[Door]:
    """A kind whose rows have names."""
    path, write = f"{V1}/{resource}/{{name}}", f"{resource}:write"
    if kind == "team":
        return rest(kind, path, see=f"{resource}:read")
    changes = {"patch": ("change", "patch", "", {}, write), **(verbs or {})}
    return rest(kind, path, see=f"{resource}:read", **changes)


def agui(api: Any, thing: Thing, row: Any) -> Any:
    message = {"id": "m1", "role": "user", "content": "hello"}
    body = {"threadId": f"t-{row.pk}-{id(api)}", "runId": "r1", "messages": [message], "tools": [], "context": [],
            "state": {}, "forwardedProps": {}}  # fmt: skip
    return api.post(f"/agui/{thing.mark}", body)


def responses(api: Any, thing: Thing, row: Any) -> Any:
    return api.post("/v1/responses", {"model": thing.mark, "input": "hello", "background": True})


def langgraph_run(api: Any, thing: Thing, row: Any) -> Any:
    content = {"messages": [{"role": "user", "content": "hello"}]}
    return api.post("/langgraph/runs", {"assistant_id": thing.mark, "input": content})


def a2a_send(api: Any, thing: Thing, row: Any) -> Any:
    params = {"message": HELLO, "configuration": {"returnImmediately": True}}
    return api.post(f"/a2a/{thing.mark}", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}, **A2A)


def mcp_call(api: Any, thing: Thing, row: Any) -> Any:
    return modern(api, "tools/call", {"name": thing.mark, "arguments": {"n": 1}})


def mcp_prompt(api: Any, thing: Thing, row: Any) -> Any:
    return modern(api, "prompts/get", {"name": thing.mark, "arguments": {}})


def a2a_task(api: Any, thing: Thing, row: Any) -> Any:
    return api.get(f"/a2a/{thing.refers[0]}/tasks/{row.pk}", **A2A)


def a2a_cancel(api: Any, thing: Thing, row: Any) -> Any:
    return api.post(f"/a2a/{thing.refers[0]}/tasks/{row.pk}:cancel", {}, **A2A)


def agui_thread(api: Any, thing: Thing, row: Any) -> Any:
    return api.get(f"/agui/{thing.refers[0]}/threads/{row.session_id}")


def decide_on_page(browser: Any, thing: Thing, row: Any) -> Any:
    """The inbox, which says what became of it."""
    answer = browser.post(f"/approvals/{row.pk}/decide", DECISION)
    return answer if is_refused(answer) else browser.get("/approvals/")


def of_page(answer: Any) -> bool:
    text = "" if is_refused(answer) else answer.content.decode()
    return is_refused(answer) or "not allowed to decide" in text or "must not decide" in text


DECISION = {"decision": "deny"}
DOORS = [
    *named("agent", "agents", {
        "message": ("use", "post", "/messages", {"message": "hello"}, "messages:write"),
        "publish": ("change", "post", "/publish", {}, "agents:write"),
        "rollback": ("change", "post", "/rollback", {"version": 1}, "agents:write"),
    }),
    *rest("agent", f"{V1}/agents/{{name}}/grants/", see="agents:read",
          put=("change", "put", "", [], "agents:write")),
    *rest("agent", f"{V1}/agents/{{name}}/versions/", see="agents:read"),
    page("agent", "see", "/agents/{name}/"),
    Door("openai model", "agent", "use", "messages:read", lambda api, thing, row: api.get(f"/v1/models/{thing.mark}")),
    Door("openai responses", "agent", "use", "messages:write", responses),
    Door("langgraph runs", "agent", "use", "messages:write", langgraph_run),
    Door("a2a SendMessage", "agent", "use", "messages:write", a2a_send, is_refused=of_rpc),
    Door("agui", "agent", "use", "messages:write", agui),
    *named("function", "functions", {
        "publish": ("change", "post", "/publish", {}, "functions:write"),
        "execute": ("use", "post", "/execute", {"arguments": {"n": 2}}, "functions:execute"),
    }),
    *rest("function", f"{V1}/functions/{{name}}/versions/1", see="functions:read"),
    page("function", "see", "/functions/{name}/"),
    Door("mcp tools/call", "function", "use", "functions:execute", mcp_call, is_refused=of_rpc),
    *named("chain", "chains", {
        "run": ("use", "post", "/runs", {}, "runs:write"),
        "publish": ("change", "post", "/publish", {}, "chains:write"),
    }),
    *rest("chain", f"{V1}/chains/{{name}}/graph", see="chains:read"),
    page("chain", "see", "/chains/{name}/"),
    *named("prompt", "prompts"),
    *named("provider", "providers"),
    page("provider", "see", "/providers/{name}/"),
    *named("secret", "secrets"),
    *named("collection", "collections", {
        "search": ("use", "post", "/search", {"query": "goods"}, "collections:read"),
    }),
    page("collection", "see", "/collections/{name}/"),
    *rest("run", f"{V1}/runs/{{pk}}", see="runs:read", cancel=("change", "post", "/cancel", {}, "runs:write")),
    *rest("run", f"{V1}/runs/{{pk}}/events", see="runs:read"),
    *rest("run", f"{V1}/runs/{{pk}}/tool-calls/", see="runs:read"),
    *rest("run", f"{V1}/runs/{{pk}}/artifacts/", see="runs:read"),
    *rest("run", f"{V1}/sessions/{{session}}", see="sessions:read",
          patch=("change", "patch", "", {}, "sessions:write")),
    *rest("run", f"{V1}/sessions/{{session}}/messages/", see="sessions:read"),
    page("run", "see", "/runs/{pk}/"),
    page("run", "change", "/runs/{pk}/cancel", "runs:write", {}),
    page("run", "see", "/sessions/{session}/"),
    Door("openai response", "run", "see", "messages:read",
         lambda api, thing, row: api.get(f"/v1/responses/resp_{row.pk.hex}")),
    Door("openai cancel", "run", "change", "messages:write",
         lambda api, thing, row: api.post(f"/v1/responses/resp_{row.pk.hex}/cancel", {})),
    *rest("run", "/langgraph/threads/{session}", see="sessions:read"),
    *rest("run", "/langgraph/threads/{session}/state", see="sessions:read"),
    *rest("run", "/langgraph/threads/{session}/runs/{pk}", see="runs:read"),
    Door("a2a GetTask", "run", "see", "messages:read", a2a_task),
    Door("a2a CancelTask", "run", "change", "messages:write", a2a_cancel),
    Door("agui thread", "run", "see", "messages:read", agui_thread),
    *rest("approval", f"{V1}/approvals/{{pk}}", see="approvals:read",
          decide=("use", "post", "", DECISION, "approvals:decide")),
    Door("page decide", "approval", "use", "approvals:decide", decide_on_page, is_page=True, is_refused=of_page),
    *rest("file", f"{V1}/files/{{pk}}", see="messages:read"),
    *rest("file", f"{V1}/files/{{pk}}/content", see="messages:read"),
    *rest("embed", f"{V1}/embeds/{{pk}}", see="agents:read",
          patch=("change", "patch", "", {}, "agents:write"),
          rotate=("change", "post", "/rotate", None, "agents:write")),
    page("embed", "see", "/clients/embeds/{pk}/"),
    *rest("key", f"{V1}/keys/{{pk}}", see="keys:read"),
    *named("team", "teams"),
    page("team", "see", "/teams/{name}/"),
]  # fmt: skip

LISTS = [
    *[(f"GET {resource}", kind, "see", f"{resource}:read", f"{V1}/{resource}/?limit=500") for kind, resource in (
        ("agent", "agents"), ("function", "functions"), ("chain", "chains"), ("prompt", "prompts"),
        ("provider", "providers"), ("secret", "secrets"), ("collection", "collections"), ("team", "teams"),
        ("approval", "approvals"), ("key", "keys"),
    )],
    ("GET embeds", "embed", "see", "agents:read", f"{V1}/embeds/?limit=500"),
    ("GET sessions", "run", "see", "sessions:read", f"{V1}/sessions/?limit=500"),
    ("GET files", "file", "see", "messages:read", f"{V1}/files/?limit=500"),
    ("openai models", "agent", "use", "messages:read", "/v1/models"),
]  # fmt: skip
# Answers that need not name everything, but must name nothing that the person may not see.
GLANCES = [
    ("", "/"), ("", "/playground/"), ("", "/agents/"), ("", "/functions/"), ("", "/chains/"), ("", "/runs/"),
    ("", "/sessions/"), ("", "/approvals/"), ("", "/files/"), ("", "/teams/"), ("", "/prompts/"), ("", "/providers/"),
    ("", "/collections/"), ("", "/clients/"), ("", "/clients/embeds/"), ("", "/account/"),
]  # fmt: skip
SEARCHES = [
    ("tools:read", lambda api: api.get(f"{V1}/tools/?limit=500")),
    ("tools:read", lambda api: api.post(f"{V1}/tools/search", {"query": "zq"})),
    ("messages:read", lambda api: modern(api, "tools/list")),
    ("messages:read", lambda api: modern(api, "prompts/list")),
    ("messages:read", lambda api: modern(api, "resources/list")),
    ("agents:read", lambda api: api.post("/langgraph/assistants/search", {"limit": 100})),
    ("sessions:read", lambda api: api.post("/langgraph/threads/search", {"limit": 100})),
    ("runs:read", lambda api: api.get(f"{V1}/runs/?limit=500")),
    ("runs:read", lambda api: api.get(f"{V1}/usage/")),
    ("runs:read", lambda api: api.get(f"{V1}/runs/live")),
    ("agents:read", lambda api: api.get(f"{V1}/definitions/")),
    ("messages:read", lambda api: api.get("/v1/files")),
    ("agents:read", lambda api: api.get(f"{V1}/agents/?search=zq")),
    ("messages:write", lambda api: api.post(f"{V1}/messages/route", {"message": "zd zq hello"})),
]  # fmt: skip
