"""The addresses that clients of others rely on: each exists, with these methods. A path that has to move needs a
redirect or an entry in the changelog, not an edit here alone.
"""

import pytest
from django.core.management import get_commands
from django.urls import resolve

from devices.protocol import PATH as DEVICES
from gateway.openai.socket import ResponsesConsumer
from runs.api.urls import websocket_urlpatterns

ID = "01900000-0000-7000-8000-000000000000"
METHODS = ("get", "post", "put", "patch", "delete")
ROW = "get put patch delete"
API = {
    "me": "get", "keys/": "get post", "keys/1": "get delete", "providers/": "get post", "providers/x": ROW,
    "agents/": "get post", "agents/x": ROW, "agents/x/publish": "post", "agents/x/versions/": "get",
    "agents/x/versions/1": "get", "agents/x/diff": "get", "agents/x/rollback": "post", "agents/x/grants/": "get put",
    "agents/x/messages": "post", "messages": "post", "messages/route": "post", "tools/": "get", "tools/x": "get",
    "functions/": "get post", "functions/x": ROW, "functions/x/versions/": "get", "functions/x/versions/1": "get",
    "functions/x/publish": "post", "functions/x/diff": "get", "functions/x/rollback": "post",
    "functions/validate": "post", "functions/try": "post", "functions/x/execute": "post",
    "functions/x/executions/": "get", "functions/x/tests/": "get post", "functions/x/tests/run": "post",
    "functions/x/replay": "post", "chains/": "get post", "chains/x": ROW, "chains/x/publish": "post",
    "chains/x/versions/": "get", "chains/x/versions/1": "get", "chains/x/diff": "get", "chains/x/rollback": "post",
    "chains/x/runs": "get post", "chains/x/graph": "get", "runs/": "get", "runs/ID": "get", "runs/ID/events": "get",
    "runs/ID/stream": "get", "runs/ID/cancel": "post", "runs/ID/retry": "post", "runs/ID/resume": "post",
    "runs/ID/tool-calls/": "get", "runs/ID/children/": "get", "runs/ID/artifacts/": "get", "runs/ID/claim": "post",
    "runs/ID/heartbeat": "post", "runs/ID/finish": "post", "approvals/": "get", "approvals/ID": "get post",
    "sessions/": "get", "sessions/ID": "get", "sessions/ID/messages/": "get", "schedules/": "get post",
    "schedules/x": ROW, "schedules/x/occurrences/": "get", "schedules/x/preview": "get", "schedules/x/run-now": "post",
    "schedules/x/pause": "post", "schedules/x/resume": "post", "devices/": "get", "devices/pairings": "post",
    "devices/pair": "post", "devices/ID/revoke": "post", "devices/ID/calls/": "get", "devices/ID/offers/": "get",
    "devices/ID/offers/0ab/approve": "post", "connections/": "get post", "connections/1": ROW,
    "connections/gmail/authorize": "post", "connections/gmail/callback": "get", "connections/1/health": "get",
    "budgets/": "get post", "usage/": "get", "teams/": "get post", "teams/x": ROW,
    "teams/x/invitations/": "get post", "teams/x/leave": "post", "invitations/": "get",
    "invitations/1/accept": "post", "invitations/1/decline": "post", "secrets/": "get post", "secrets/x": ROW,
    "audit/": "get", "triggers/": "get post", "hooks/ID": "post", "webhooks/": "get post", "workers/": "get",
    "files/": "get post", "files/ID": "get", "memory/": "get", "memory/ID": "get", "memory/search": "get",
    "collections/": "get post", "collections/x": ROW, "collections/x/documents/": "get post",
    "collections/x/search": "post", "collections/x/questions/": "get post", "collections/x/questions/ID": "delete",
    "collections/x/evaluate": "post", "collections/x/evaluations/": "get",
    "collections/x/folders/": "get post", "collections/x/folders/ID": "delete",
    "collections/x/accounts/": "get post", "collections/x/accounts/ID": "delete",
    "skills/": "get post", "skills/x": ROW, "skills/x/publish": "post", "skills/x/rollback": "post",
    "skills/x/versions/": "get", "skills/x/versions/1": "get", "skills/x/diff": "get", "skills/x/export": "get",
    "skills/x/files/a/b": "get", "skills/x/used-by": "get", "skills/x/functions": "post",
    "memory/import/functions": "post",
    "records/tasks/": "get post", "records/notes/": "get post", "records/projects/": "get post",
    "records/timelines/": "get post", "records/tasks/ID": "get", "records/tasks/ID/approve": "post",
    "records/tasks/ID/reject": "post",
}  # fmt: skip
OTHERS = {
    "api/schema/": "get", "api/docs/": "get", "healthz": "get", "readyz": "get", "metrics": "get",
    "v1/models": "get", "v1/models/x": "get", "v1/models/x@3": "get", "v1/chat/completions": "post",
    "v1/responses": "post", "v1/responses/compact": "post", "v1/embeddings": "post", "v1/files": "get post",
    "mcp": "post", ".well-known/oauth-protected-resource/mcp": "get", "agui/x": "post", "agui/x/threads/y": "get",
    ".well-known/agent-card.json": "get", "a2a/x/.well-known/agent-card.json": "get", "a2a/x": "post",
    "a2a/x/": "post", "a2a/x/message:send": "post", "langgraph/info": "get", "langgraph/threads": "post",
    "langgraph/assistants/search": "post", "langgraph/threads/x/runs": "post", "langgraph/store/items": "put",
    "chat/pub_x/": "get", "embed.js": "get",
}  # fmt: skip
CATCH_ALLS = {"other_spelling", "UnknownView"}
COMMANDS = ("serve", "doctor", "init_db", "create_key", "rotate_secrets", "prune")


def methods_of(path):
    view = resolve(path).func
    kind = getattr(view, "cls", None) or getattr(view, "view_class", None)
    assert getattr(kind or view, "__name__", "") not in CATCH_ALLS, f"{path} does not exist"
    if actions := getattr(view, "actions", None):
        return set(actions)
    return {name for name in METHODS if hasattr(kind, name)} if kind else set(METHODS)


@pytest.mark.parametrize(("path", "methods"), [*((f"/api/v1/{path}", methods) for path, methods in API.items()),
                                               *((f"/{path}", methods) for path, methods in OTHERS.items())])  # fmt: skip
def test_the_address_exists_with_its_methods(path, methods):
    assert set(methods.split()) <= methods_of(path.replace("ID", ID))


def test_the_sockets_are_there():
    places = [str(place.pattern) for place in websocket_urlpatterns]
    assert places == ["ws/sessions/<uuid:session_id>/", "ws/runs/<uuid:run_id>/"]
    assert DEVICES == "/ws/devices/" and ResponsesConsumer.needs == "messages:write"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_is_there(name):
    assert name in get_commands()


def test_an_address_that_does_not_exist_is_noticed():
    with pytest.raises(AssertionError, match="does not exist"):
        methods_of("/api/v1/nothing")
