"""Files for messages: {"type": "file", "file": id}. Only their owner can use them."""

import base64
import binascii
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action

from agents.exceptions import Conflict
from agents.http.strict import KnownFields, Text
from runs.models import RunFile

MOST = 1000  # files per user
MEDIA_TYPE = r"^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*$"
REPORT = OpenApiExample(
    "A text", request_only=True, value={"name": "report.txt", "media_type": "text/plain", "text": "All systems normal."}
)


class FileSerializer(KnownFields, serializers.ModelSerializer):
    """Send the content as `text`, or as `data` (base64)."""

    name = Text(max_length=200)
    media_type = serializers.RegexField(MEDIA_TYPE, max_length=100, default="text/plain")
    text = Text(write_only=True, required=False, allow_blank=True, trim_whitespace=False)
    data = Text(write_only=True, required=False, help_text="Base64.")  # type: ignore[assignment]
    size = serializers.IntegerField(read_only=True, help_text="Bytes.")

    class Meta:
        model = RunFile
        fields = ["id", "name", "media_type", "untrusted", "size", "created_at", "text", "data"]
        read_only_fields = ["id", "created_at"]

    def validate_data(self, data: str) -> bytes:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise serializers.ValidationError("This is not valid base64.")

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        text, data = fields.pop("text", None), fields.pop("data", None)
        if (text is None) == (data is None):
            raise serializers.ValidationError("Send either “text” or “data”.")
        return {**fields, "content": data if text is None else text.encode()}


@extend_schema(examples=[REPORT])
class FileViewSet(
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    mixins.ListModelMixin,
    mixins.DestroyModelMixin,
    viewsets.GenericViewSet,
):
    """Files for messages: upload, list, read, delete. A deleted file is no longer shown to models
    either.
    """

    scope = "messages"
    serializer_class = FileSerializer
    queryset = RunFile.objects.none()
    search_fields = ("name",)
    orderings = ("name", "created_at")

    def get_queryset(self) -> QuerySet[RunFile]:
        rows = RunFile.objects.visible_to(self.request.user)
        return rows if self.action == "content" else rows.defer("content").annotate(size=Length("content"))

    def perform_create(self, serializer: Any) -> None:
        if RunFile.objects.visible_to(self.request.user).count() >= MOST:
            raise Conflict(f"You already have {MOST} files.", code="too_many_files", hint="Delete some.")
        row = serializer.save(owner=self.request.user)
        row.size = len(row.content)

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    @action(detail=True, pagination_class=None)
    def content(self, request: Any, pk: Any = None) -> HttpResponse:
        """The content as a download: uploaded content is never displayed as a page of this site."""
        row = self.get_object()
        headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
        return HttpResponse(bytes(row.content), content_type="application/octet-stream", headers=headers)
