"""Answers of the API as JSON: errors, problems and reasons in the language that the request names."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import get_language
from rest_framework.renderers import JSONRenderer

from plumbing.texts import translate

TEXTS = frozenset(("message", "hint", "reason", "why", "paused_reason", "last_error"))
BESIDE = frozenset(("code", "hint", "severity", "step", "field", "outcome", "status", "problem", "last_error"))
CONTENT = frozenset(("input", "output", "arguments", "result", "content", "value", "data", "metadata", "schema"))


class TextsRenderer(JSONRenderer):
    """Rows keep their texts in English (plumbing/texts.py); contents of messages and results stay as they are."""

    def render(self, data: Any, accepted_media_type: Any = None, renderer_context: Any = None) -> Any:
        if (get_language() or "en") != "en":
            data = translate_texts(data)
        return super().render(data, accepted_media_type, renderer_context)


def translate_texts(data: Any) -> Any:
    """The same JSON; a text in an object that also has a code or a place is in the active language."""
    if isinstance(data, Mapping):
        is_text = not BESIDE.isdisjoint(data)
        return {key: translate_value(key, value, is_text) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [translate_texts(value) for value in data]
    return data


def translate_value(key: Any, value: Any, is_text: bool) -> Any:
    if not isinstance(value, str):
        return value if key in CONTENT else translate_texts(value)
    if is_text and key in TEXTS:
        return translate(value)
    return value
