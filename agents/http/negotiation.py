"""What an answer is written in: JSON, whoever asks for a stream of events gets one from the views that have one."""

from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation


class Negotiation(DefaultContentNegotiation):
    """`Accept: text/event-stream` refuses no JSON: EventSource sends nothing else, and errors are JSON."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: str | None = None) -> tuple[Any, str]:
        if "text/event-stream" in request.META.get("HTTP_ACCEPT", ""):
            return renderers[0], renderers[0].media_type
        return super().select_renderer(request, renderers, format_suffix)
