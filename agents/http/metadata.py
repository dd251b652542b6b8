"""What OPTIONS says of the fields of a body."""

from typing import Any

from django.conf import settings
from django.utils import translation
from rest_framework.metadata import SimpleMetadata


class Metadata(SimpleMetadata):
    """In English, as the OpenAPI document: columns have their names in the reader's language (config/names.py)."""

    def determine_metadata(self, request: Any, view: Any) -> Any:
        with translation.override(settings.LANGUAGE_CODE):
            return super().determine_metadata(request, view)
