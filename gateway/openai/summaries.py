"""Summaries of conversations that a client keeps: encrypted, for one person, with the mark of untrusted text."""

import json
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from agents.fields import decrypt, encrypt
from gateway.parts import refused
from runs.models import Run

INTRODUCTION = "Summary of the conversation before this point:\n"


def sealed(run: Run, text: str) -> str:
    return encrypt(json.dumps({"user": run.principal_id, "text": text, "untrusted": run.has_untrusted}))


def opened(content: Any, param: str) -> dict[str, Any]:
    """{"user", "text", "untrusted"}. Raises Invalid."""
    try:
        summary: dict[str, Any] = json.loads(decrypt(content))
        return {"user": summary["user"], "text": str(summary["text"]), "untrusted": summary["untrusted"] is True}
    except (ImproperlyConfigured, AttributeError, TypeError, KeyError, ValueError):
        raise refused(param, "This is not a summary that Muster made.", "invalid_encrypted_content")
