"""What OPTIONS says of the fields of a body."""

from typing import Any

from django.conf import settings
from django.utils import translation
from rest_framework.metadata import SimpleMetadata

from agents.exceptions import Forbidden


class Metadata(SimpleMetadata):
    """In English, as the OpenAPI document: columns have their names in the reader's language (config/names.py)."""

    def determine_metadata(self, request: Any, view: Any) -> Any:
        with translation.override(settings.LANGUAGE_CODE):
            return super().determine_metadata(request, view)

    def determine_actions(self, request: Any, view: Any) -> Any:
        """The fields of a body; none for a row that the person sees and may not change."""
        try:
            return super().determine_actions(request, view)
        except Forbidden:
            return {}
