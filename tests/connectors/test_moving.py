"""An import that moves a connection counts as a change of its address."""

from typing import Any

import pytest

from connectors.models import Connection

pytestmark = pytest.mark.django_db


def document(host: str) -> dict[str, Any]:
    reply = {"200": {"description": "ok"}}
    paths = {"/a": {"get": {"operationId": "look", "responses": reply}}}
    return {"openapi": "3.0.0", "info": {"title": "x", "version": "1"}, "servers": [{"url": host}], "paths": paths}


def test_an_import_to_another_server_keeps_neither_secret_nor_approvals(alice: Any, alice_api: Any) -> None:
    row = Connection.objects.create(name="shop", owner=alice, provider="openapi", secret_name="key")
    where = f"/api/v1/connections/{row.pk}/import"
    first = alice_api.post(where, {"document": document("https://1.1.1.1")})
    assert first.status_code == 200, first.content
    row.refresh_from_db()
    assert row.secret_name == "key" and row.remote_tools.get().approved_hash
    moved = alice_api.post(where, {"document": document("https://1.1.1.1"), "base_url": "https://8.8.8.8"})
    assert moved.status_code == 200, moved.content
    row.refresh_from_db()
    assert (row.base_url, row.secret_name, row.remote_tools.get().approved_hash) == ("https://8.8.8.8", "", "")
