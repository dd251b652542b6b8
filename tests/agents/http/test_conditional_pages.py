"""A change with If-Match by somebody who is signed in to the pages, whose request is checked before it is carried out."""

import pytest

from tests.functions.library import publish


@pytest.mark.django_db(transaction=True)
def test_a_person_who_is_signed_in_publishes_what_they_have_seen(alice, signed_in, alice_api):
    publish(alice)
    step = {"key": "a", "tool": "add", "input": {"a": {"value": 1}, "b": {"value": 2}}}
    assert alice_api.post("/api/v1/chains/", {"name": "three", "steps": [step]}).status_code == 201
    browser = signed_in(alice)
    for number, change in enumerate(({"note": ""}, {"note": "again"}), 1):
        tag = browser.get("/api/v1/chains/three/").headers["ETag"]
        answer = browser.post(
            "/api/v1/chains/three/publish", change, content_type="application/json", headers={"If-Match": tag}
        )
        assert (answer.status_code, answer.json()["version"]) == (200, 1), number
    answer = browser.patch(
        "/api/v1/chains/three/",
        {"description": "https://example.com/"},
        content_type="application/json",
        headers={"If-Match": browser.get("/api/v1/chains/three/").headers["ETag"]},
    )
    assert answer.status_code == 200
