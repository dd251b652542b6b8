"""1,000 new messages through one connection, and a storm of token refreshes.

`python -m benchmarks.connectors` · the loopback fake, and the emulator of Google where `make emulators` has installed
it; an SQLite file of its own.
"""

import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks import site

MESSAGES = 1000
WORKERS = 16


def main() -> None:
    site.set_up()
    storm()
    with_fake()
    with_emulator()


def with_fake() -> None:
    from tests.connectors.fake_gmail import FakeGmail

    with FakeGmail() as fake:
        point_at(fake.url, fake.url)
        fake.live.add("token")
        for number in range(MESSAGES):
            fake.deliver(f"Mail {number}", "word " * 200)
        sync("the loopback fake", "token")


def with_emulator() -> None:
    from tests.connectors import emulator

    if reason := emulator.why_absent():
        print(f"skipped the emulator: {reason}")
        return
    from connectors.logins import oauth

    with emulator.running(Path(site.fresh_folder()), oauth.redirect_uri("gmail")) as google:
        point_at(google.url, f"{google.url}/oauth2")
        token = log_in(google)
        for number in range(MESSAGES):
            google.deliver(token, f"Mail {number}", "word " * 200)
        sync("the emulator", token)


def point_at(api: str, login: str) -> None:
    from django.conf import settings

    settings.GMAIL_URL, settings.GOOGLE_OAUTH_URL = api, login
    settings.GOOGLE_CLIENT_ID, settings.GOOGLE_CLIENT_SECRET = "client", "hush"
    settings.GOOGLE_AUTHORIZE_URL = f"{api}/o/oauth2/v2/auth"


def log_in(google: Any) -> str:
    from django.contrib.auth import get_user_model

    from connectors.logins import oauth

    person = get_user_model().objects.create_user(f"login-{uuid4()}")
    url, _ = oauth.start_oauth_login(person, "gmail", access=["read", "write", "send"])
    back = google.log_in(url)
    return oauth.finish_oauth_login(person, "gmail", state=back["state"], code=back["code"]).access_token


def sync(what: str, token: str) -> None:
    """All messages in calls of 200, a restart in the middle (a new client, the same cursor), none twice."""
    connection = link(token)
    began, seen = time.perf_counter(), []
    while batch := fetch(connection):
        seen += batch
    wall = time.perf_counter() - began
    assert len(seen) == len(set(seen)) >= MESSAGES, (len(seen), len(set(seen)))
    print(f"{len(seen):5} new messages from {what}: {wall:5.1f} s ({len(seen) / wall:.0f} a second), none twice")


def link(token: str) -> Any:
    from django.contrib.auth import get_user_model

    from connectors.models import Connection

    person = get_user_model().objects.create_user(f"bench-{uuid4()}")
    return Connection.objects.create(
        owner=person, name="gmail", provider="gmail", access_token=token, refresh_token="refresh-0"
    )


def fetch(connection: Any) -> list[str]:
    from connectors.accounts.catalog import CONNECTORS
    from connectors.tools import open_api

    with open_api(connection) as api:
        batch = CONNECTORS["gmail"](connection, api).fetch_new(call_id=str(uuid4()), limit=200)
    return [message["id"] for message in batch["messages"]]


def storm() -> None:
    """Many workers find the token refused at once; the service takes 0.3 s to give a new one."""
    from django.db import connections as databases

    from connectors.logins import tokens
    from connectors.models import Connection
    from tests.connectors.fake_gmail import FakeGmail

    with FakeGmail() as fake:
        point_at(fake.url, fake.url)
        fake.refresh_s = 0.3
        row = link("stale")
        waits: list[float] = []

        def ask() -> None:
            began = time.perf_counter()
            tokens.access_token(Connection.objects.get(pk=row.pk), refused="stale")
            waits.append(time.perf_counter() - began)
            databases.close_all()

        threads = [threading.Thread(target=ask) for _ in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        slowest = max(waits)
        print(
            f"{WORKERS} workers at once: {fake.refreshes} refresh, the slowest waited {slowest:.2f} s (service: 0.3 s)"
        )


if __name__ == "__main__":
    main()
