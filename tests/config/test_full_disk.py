"""A full disk: a clear answer, nothing half stored, and afterwards the same request is done once."""

import pytest
from django.db import connection

from runs.models import Message, Run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def full_disk():
    """SQLite's own limit of pages stands for the end of the disk: the same error at the same place."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL's disk is not ours to fill")

    def limit(pages):
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA max_page_count = {pages}")

    def fill():
        with connection.cursor() as cursor:
            cursor.execute("VACUUM")  # other tests leave free pages, in which the message would find room
        limit(1)  # never fewer than there are: no page can be added

    yield fill
    limit(4294967294)


def test_a_message_on_a_full_disk_is_refused_and_can_be_sent_again(alice_api, agent, full_disk):
    agent.publish(author=agent.owner)
    body = {"message": "x" * 200_000}
    path, key = f"/api/v1/agents/{agent.name}/messages", {"Idempotency-Key": "one", "Prefer": "respond-async"}
    full_disk()
    refused = alice_api.post(path, body, headers=key)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "database_unavailable")
    assert not Run.objects.exists() and not Message.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA max_page_count = 4294967294")  # somebody made room
    assert [alice_api.post(path, body, headers=key).status_code for _ in range(2)] == [202, 202]
    assert Run.objects.count() == 1
