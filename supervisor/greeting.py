"""The start-up message: the login, and one real message processed through the API."""

import json
import secrets
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection

from agents.missing_settings import list_missing_settings
from agents.models import ApiKey

from . import postgres
from .logs import print_if_open

QUESTION = "Please calculate 240 * 12.5 / 100"
AGENT = "assistant"
SHOWN_ONCE = "shown this once"


def greet(address: str, seconds: float, *, speak: bool) -> None:
    """Runs in a child. Creates the first administrator and the development key if they are missing."""
    admin, password = first_administrator()
    key, key_is_new = development_key(admin)  # a program that waits for the next line finds it in its file
    print_if_open(f"\nMuster is ready at {address} after {seconds:.1f} s.")
    for sentence in [*find_other_database(), *list_missing_settings()]:
        print_if_open(f"  warning   {sentence}")
    # Once: each message may cost money, and a restart tells nothing new.
    if speak and key_is_new:
        show_first_message(address, key)
    print_if_open(f"  admin     {address}/admin/")
    print_if_open(
        f"  login     {admin.get_username()} / {password} ({SHOWN_ONCE})" if password else f"  login     {admin}"
    )
    print_if_open(
        f"  key       {key} ({SHOWN_ONCE}; kept in {key_file()})" if key_is_new else f"  key       in {key_file()}"
    )
    print_if_open("  try       " + curl_line(address))
    print_if_open("Ctrl-C stops everything.\n")


def first_administrator() -> tuple[Any, str]:
    """A superuser, and the password if it was just created. Change it with `manage.py
    changepassword admin`.
    """
    people = get_user_model().objects
    if administrator := people.filter(is_superuser=True).order_by("pk").first():
        return administrator, ""
    password = secrets.token_urlsafe(12)
    return people.create_superuser("admin", "admin@localhost", password), password


def development_key(user: Any) -> tuple[str, bool]:
    """The key for use on this machine, kept with mode 0600; a revoked or foreign one is replaced."""
    path = key_file()
    if path.exists() and ApiKey.find(kept := path.read_text().strip()):
        return kept, False
    _, secret = ApiKey.make(user, ["*"], name="development")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(secret + "\n")
    return secret, True


def find_other_database() -> list[str]:
    """A sentence about the embedded PostgreSQL of an earlier start, if this one uses SQLite beside it."""
    has_postgres = (postgres.home(settings.DATA_DIR) / "data" / "PG_VERSION").exists()
    if not has_postgres or connection.vendor == "postgresql":
        return []
    return [
        "An earlier start kept its data in the embedded PostgreSQL, and this one uses SQLite: "
        "set DB=postgres to have that data again."
    ]


def key_file() -> Path:
    return settings.DATA_DIR / "secrets" / "development_key"


def curl_line(address: str) -> str:
    return (
        f'curl -s {address}/api/v1/agents/{AGENT}/messages -H "Authorization: Bearer $(cat {key_file()})" '
        f"""-H 'Content-Type: application/json' -d '{json.dumps({"message": QUESTION})}'"""
    )


def show_first_message(address: str, key: str) -> None:
    """Ask the starter agent; a failure is reported and does not stop the service."""
    try:
        answer = send_first_message(address, key)
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        print_if_open(f"  message   “{QUESTION}” was not answered: {error}; run `manage.py doctor` to find the cause.")
        return
    print_if_open(f"  message   {QUESTION}")
    print_if_open(f"  {describe_outcome(answer)}")
    print_if_open(f"  run       {address}/runs/{read_run_id(answer)}/")


def describe_outcome(answer: dict[str, Any]) -> str:
    """One line: the reply, or the error of the run with what to do about it."""
    reply = answer.get("reply") or {}
    if reply.get("text"):
        return f"reply     {reply['text']}"
    error = answer.get("error") or {}
    if error:
        return f"error     {' '.join(filter(None, [error.get('message'), error.get('hint')]))}"
    status = answer.get("status") or (answer.get("run") or {}).get("status") or "unknown"
    return f"reply     none yet: the status of the run is “{status}”"


def send_first_message(address: str, key: str) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310  (our own address)
        f"{address}/api/v1/agents/{AGENT}/messages",
        data=json.dumps({"message": QUESTION}).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        answer = json.load(response)
    if not isinstance(answer, dict):
        raise ValueError(f"the answer is not a JSON object: {answer!r:.100}")
    return answer


def read_run_id(answer: dict[str, Any]) -> str:
    run = answer.get("run") or answer
    return run["id"] if isinstance(run, dict) else str(run)
