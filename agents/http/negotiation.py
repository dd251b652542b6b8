"""Content negotiation: JSON, or an event stream from the views that support it."""

from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation


class Negotiation(DefaultContentNegotiation):
    """`Accept: text/event-stream` also accepts JSON: EventSource sends nothing else, and errors are
    JSON.
    """

    def select_renderer(self, request: Any, renderers: Any, format_suffix: str | None = None) -> tuple[Any, str]:
        if "text/event-stream" in request.META.get("HTTP_ACCEPT", ""):
            return renderers[0], renderers[0].media_type
        return super().select_renderer(request, renderers, format_suffix)
