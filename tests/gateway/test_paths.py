"""Addresses that nobody means are refused, on both databases."""

import pytest

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", ["%00", "plain%00", "%ED%A0%80"])
def test_a_model_s_name_with_what_cannot_be_stored_is_no_model(alice_api, name):
    answer = alice_api.get(f"/v1/models/{name}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_the_state_at_a_checkpoint_is_only_read(alice_api):
    path = "/langgraph/threads/01a20aaa-77c1-73f5-b62e-685a4ce5139c/state/1"
    assert alice_api.post(path, {"values": {}}).status_code == 405
    assert alice_api.get(path).status_code == 404
