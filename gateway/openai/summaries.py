"""Summaries of conversations that a client keeps: encrypted, for one person, with the mark of untrusted text."""

import json
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from agents.fields import decrypt, encrypt
from gateway.parts import refuse_content_part
from runs.models import Run

INTRODUCTION = "Summary of the conversation before this point:\n"


def seal_summary(run: Run, text: str) -> str:
    """The client cannot change it: neither the text nor the mark that strangers have written in it."""
    summary = {"user": run.principal_id, "text": text, "untrusted": run.has_untrusted}
    return encrypt(json.dumps(summary))


def open_sealed_summary(content: Any, param: str) -> dict[str, Any]:
    """{"user", "text", "untrusted"}. Raises Invalid."""
    try:
        summary: dict[str, Any] = json.loads(decrypt(content))
        user = summary["user"]
        text = str(summary["text"])
        is_untrusted = summary["untrusted"] is True
        return {"user": user, "text": text, "untrusted": is_untrusted}
    except (ImproperlyConfigured, AttributeError, TypeError, KeyError, ValueError):
        raise refuse_content_part(param, "This is not a summary that Muster made.", "invalid_encrypted_content")
