"""Muster's SQLite on a disk of its own that is full, then has room. `test_small_disk.py` runs it in namespaces of its own.

It prints one line of JSON: what was answered, and what is stored.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

DISK, SIZE = Path(sys.argv[1]), "24m"


def main() -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(DISK)], check=True)
    os.environ["DATABASE_URL"] = f"sqlite:///{DISK}/muster.sqlite3"
    import django

    django.setup()
    from django.apps import apps
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    settings.MIGRATION_MODULES = {app.label: None for app in apps.get_app_configs()}
    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", run_syncdb=True, verbosity=0)
    path, headers = set_up()
    client = Client(raise_request_exception=False)

    def send(number: int, characters: int = 20_000) -> tuple[int, dict]:
        body = {"message": f"{number} " + "x" * characters}
        given = headers | {"Idempotency-Key": str(number), "Prefer": "respond-async"}
        answer = client.post(path, body, content_type="application/json", headers=given)
        return answer.status_code, answer.json()

    accepted = [send(number)[0] for number in range(3)]
    fill()
    full = [send(number) for number in range(3, 40)]
    (DISK / "ballast").unlink()
    again = [send(number)[0] for number in range(3, 40)]

    from django.db import connection

    from runs.models import Message, Run
    from runs.worker.dispatcher import Work

    while Work().do("default", lambda: None):
        pass
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA integrity_check")
        (state,) = cursor.fetchone()
    refused = next((body["error"] for status, body in full if status == 503), {})
    print(json.dumps({
        "accepted": accepted, "full": [status for status, _ in full], "refused": refused, "again": again, "state": state,
        "messages": Message.objects.filter(role="user").count(),
        "ended": sorted(Run.objects.values_list("status", flat=True)),
    }))  # fmt: skip


def set_up() -> tuple[str, dict[str, str]]:
    from django.contrib.auth import get_user_model

    from agents.models import Agent, ApiKey, Provider

    alice = get_user_model().objects.create_user("alice", "alice@example.org", "correct horse battery")
    agent = Agent.objects.create(
        owner=alice, name="clerk", provider=Provider.objects.create(name="offline", kind="offline"), model_name="stub"
    )
    agent.publish(author=alice)
    _, secret = ApiKey.make(alice, ["*"], name="test")
    return "/api/v1/agents/clerk/messages", {"Authorization": f"Bearer {secret}"}


def fill() -> None:
    with (DISK / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))


main()
