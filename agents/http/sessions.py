"""Login sessions in the database, each with its person, so that people see and end their own."""

import re
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.utils import timezone

from agents.models import BrowserSession

from .throttles import client_address

# How exactly the last use is kept.
EVERY = timedelta(minutes=5)
PROGRAMS = {"Edg": "Edge", "OPR": "Opera", "Firefox": "Firefox", "Chrome": "Chrome", "Safari": "Safari"}
SYSTEMS = {
    "iPhone": "iPhone", "iPad": "iPad", "Android": "Android", "Windows": "Windows", "Mac OS": "macOS", "Linux": "Linux"
}  # fmt: skip


class SessionStore(DatabaseStore):
    """Django's store, with the columns of BrowserSession filled from the session's data."""

    used_at: datetime | None = None

    @classmethod
    def get_model_class(cls) -> Any:
        return BrowserSession

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        row: Any = super().create_model_instance(data)
        if SESSION_KEY in data:
            row.user_id = int(data[SESSION_KEY])
        if "signed_in_at" in data:
            row.signed_in_at = datetime.fromisoformat(data["signed_in_at"])
        row.browser = data.get("browser", "")
        row.address = data.get("address", "")
        return row

    def _get_session_from_db(self) -> Any:
        row = super()._get_session_from_db()
        self.used_at = row.used_at if row else None
        return row


def note_use(request: Any) -> None:
    """Keep which browser it is at its first request, and every few minutes that it is used."""
    session = request.session
    if "signed_in_at" not in session:
        session["browser"] = name_browser(request.headers.get("User-Agent", ""))
        session["address"] = client_address(request)
        session["signed_in_at"] = timezone.now().isoformat()
    elif session.used_at and session.used_at < timezone.now() - EVERY:
        BrowserSession.objects.filter(pk=session.session_key).update(used_at=timezone.now())


def name_browser(user_agent: str) -> str:
    """Such as “Firefox, Linux”; empty if it does not say."""
    parts: list[str] = []
    for names in (PROGRAMS, SYSTEMS):
        # The first that fits: Edge also calls itself Chrome, and Chrome calls itself Safari.
        for word, name in names.items():
            if re.search(word, user_agent):
                parts.append(name)
                break
    return ", ".join(parts)
