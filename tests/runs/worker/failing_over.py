"""A worker and callers that wait, in a process of their own; `test_failover.py` says on its standard input what to do.

Its tool writes a line into the ledger, which nobody can take back, and then works until the file `go` is there.
"""

import sys
import threading
import time
import uuid
from pathlib import Path

import django

FOLDER, MODEL = Path(sys.argv[1]), sys.argv[2]


def main() -> None:
    django.setup()
    from django.apps import apps
    from django.conf import settings
    from django.core.management import call_command

    settings.MIGRATION_MODULES = {app.label: None for app in apps.get_app_configs()}
    call_command("migrate", run_syncdb=True, verbosity=0)
    agent = set_up()
    say("ready")
    for line in sys.stdin:
        if line.strip() == "work":
            from runs.worker.process import Worker

            Worker().start()
            say("works")
        else:
            threading.Thread(target=ask, args=(agent,), daemon=True).start()


def say(text: str) -> None:
    print(text, flush=True)


def set_up():
    from django.contrib.auth import get_user_model

    from agents.models import Agent, Provider, Tool, ToolGrant
    from registry import toolsets

    alice = get_user_model().objects.create_user("alice", "alice@example.org", "correct horse battery")
    provider = Provider.objects.create(
        owner=alice, name="local", kind="openai-compatible", base_url=MODEL, api_key="sk-stub"
    )
    agent = Agent.objects.create(
        owner=alice, name="sender", provider=provider, model_name="stub", system_prompt="Send."
    )
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    tool = Tool.objects.create(
        owner=alice, name="send", kind="function", effect="sends_out", description="Sends.", input_schema=schema
    )
    ToolGrant.objects.create(agent=agent, tool=tool, mode="allow")
    agent.publish(author=alice)
    toolsets.TOOLSETS["function"] = Till()
    return agent


class Till:
    def call(self, tool, call, context):
        from agents.tools import ToolResult

        with (FOLDER / "ledger").open("a") as ledger:
            ledger.write(f"{call.id}\n")
        while not (FOLDER / "go").exists():
            time.sleep(0.05)
        return ToolResult(ok=True, value={"sent": True})


def ask(agent) -> None:
    """Send a message and wait for its end, as a web server does."""
    from agents.exceptions import MusterError
    from runs.events import waiting
    from runs.intake import messages as intake

    key = uuid.uuid4().hex
    run = until_answered(
        lambda: intake.accept_message(user=agent.owner, text="send it", agent="sender", idempotency_key=key).run
    )
    say(f"accepted {run.pk}")
    waiting.LOOK_AGAIN_S = 1.0
    try:
        ended = until_answered(lambda: waiting.wait_for_end(run.pk, 240))
    except MusterError as error:
        say(f"{error.code} {run.pk}")
    else:
        say(f"{ended['status'] if ended else 'still at work'} {run.pk}")


def until_answered(request):
    """A web server answers 503 while the database is away, and its caller sends the request again."""
    from django.db import connections

    from plumbing.database import DATABASE_GONE
    from plumbing.waits import sleep_until

    while True:
        try:
            return request()
        except DATABASE_GONE:
            connections.close_all()
            sleep_until(0.2)


main()
