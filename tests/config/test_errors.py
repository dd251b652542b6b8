"""The one handler of errors: what Django refuses by itself is told in the same words."""

import pytest

pytestmark = pytest.mark.django_db
V1 = "/api/v1"


def test_more_query_parameters_than_are_read_are_400(alice_api):
    answer = alice_api.get(f"{V1}/agents/?{'&'.join(f'a{number}=1' for number in range(1001))}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed")
