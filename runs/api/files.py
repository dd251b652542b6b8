"""Files for messages, {"type": "file", "file": id}, and files that runs made. Only their owner can use them."""

import base64
import binascii
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action

from agents import storage
from agents.exceptions import Invalid
from agents.http import viewsets
from agents.http.files import answer_with_file
from agents.http.parsers import FileParser, JSONParser
from agents.http.resources import Located
from agents.http.strict import Choice, Pattern, StrictModelSerializer, Text
from agents.http.viewsets import Audited, refusals
from agents.models import StoredFile
from runs.models import Artifact

# A type and a subtype, as RFC 6838 restricts their names.
MEDIA_TYPE = r"^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*$"
REPORT = OpenApiExample(
    "A text", request_only=True, value={"name": "report.txt", "media_type": "text/plain", "text": "All systems normal."}
)


class StoredSerializer(StrictModelSerializer):
    """A file without its content."""

    media_type = Pattern(
        MEDIA_TYPE,
        max_length=100,
        default="text/plain",
        help_text="Which kind of text a text is. The type of other content is determined from its first bytes.",
    )
    size = serializers.IntegerField(read_only=True, help_text="Bytes.")
    source = serializers.ChoiceField(StoredFile.Source.choices, read_only=True)  # type: ignore[assignment]

    class Meta:
        model = StoredFile
        fields = ["id", "name", "media_type", "untrusted", "size", "sha256", "source", "created_at"]
        read_only_fields = ["id", "sha256", "created_at"]

    def create(self, fields: dict[str, Any]) -> StoredFile:
        declared = fields.pop("media_type")
        owner = fields.pop("owner")
        name = fields.pop("name")
        return storage.save_file(owner.pk, name, declared=declared, **fields)


class FileSerializer(StoredSerializer):
    """Send the content as `text`, or as `data` (base64)."""

    name = Text(max_length=200)
    text = Text(write_only=True, required=False, allow_blank=True, trim_whitespace=False)
    data = Text(write_only=True, required=False, help_text="Base64.")  # type: ignore[assignment]

    class Meta(StoredSerializer.Meta):
        fields = [*StoredSerializer.Meta.fields, "text", "data"]

    def validate_data(self, data: str) -> bytes:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise serializers.ValidationError("This is not valid base64.")

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        text = fields.pop("text", None)
        data = fields.pop("data", None)
        if (text is None) == (data is None):
            raise serializers.ValidationError("Send either “text” or “data”.")
        content = data if text is None else text.encode()
        return {**fields, "content": content}


class UploadSerializer(StoredSerializer):
    """The content as it is, in the part `file` of a form. All values of a form are texts."""

    file = serializers.FileField(write_only=True, allow_empty_file=True)
    name = Text(max_length=200, required=False, help_text="By default, that of the part `file`.")
    untrusted = Choice(choices=[("true", "true"), ("false", "false")], default="true")

    class Meta(StoredSerializer.Meta):
        fields = [*StoredSerializer.Meta.fields, "file"]

    def validate(self, fields: dict[str, Any]) -> dict[str, Any]:
        upload = fields.pop("file")
        name = fields.pop("name", "") or upload.name
        is_untrusted = fields["untrusted"] == "true"
        return {**fields, "name": name, "untrusted": is_untrusted, "content": upload}

    def to_representation(self, row: StoredFile) -> dict[str, Any]:
        """The same answer as for a file that was sent as JSON."""
        return FileSerializer(context=self.context).to_representation(row)


class ArtifactSerializer(serializers.ModelSerializer):
    """A file that a run made. Its content: `GET /api/v1/files/{file}/content`."""

    name = serializers.CharField(source="file.name", read_only=True)
    media_type = serializers.CharField(source="file.media_type", read_only=True)
    size = serializers.IntegerField(source="file.size", read_only=True, help_text="Bytes.")
    sha256 = serializers.CharField(source="file.sha256", read_only=True)
    untrusted = serializers.BooleanField(source="file.untrusted", read_only=True)

    class Meta:
        model = Artifact
        fields = ["id", "file", "name", "media_type", "size", "sha256", "untrusted", "run", "call", "created_at"]
        read_only_fields = fields


@extend_schema(examples=[REPORT])
class FileViewSet(
    Located,
    Audited,
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    mixins.ListModelMixin,
    mixins.DestroyModelMixin,
    viewsets.GenericViewSet,
):
    """Files of messages and runs: upload, list, read, delete. A deleted file is no longer shown to
    models either.
    """

    scope = "messages"
    serializer_class = FileSerializer
    parser_classes = [JSONParser, FileParser]
    filterset_fields = {"source": ["exact"]}
    queryset = StoredFile.objects.none()
    search_fields = ("name",)
    orderings = ("name", "created_at")

    def get_queryset(self) -> QuerySet[StoredFile]:
        return StoredFile.objects.visible_to(self.request.user)

    def get_serializer_class(self) -> Any:
        # There is no request while the schema is generated.
        content_type = getattr(self.request, "content_type", None) or ""
        if content_type.startswith("multipart/"):
            return UploadSerializer
        return FileSerializer

    @extend_schema(
        request={"application/json": FileSerializer, "multipart/form-data": UploadSerializer},
        responses={201: FileSerializer},
    )
    def create(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a form (`multipart/form-data`) for large files, and JSON for texts."""
        return super().create(request, *args, **kwargs)

    def perform_create(self, serializer: Any) -> None:
        row = serializer.save(owner=self.request.user)
        self.audit("created", row)

    def perform_destroy(self, row: StoredFile) -> None:
        with refusals("file", self.request.user):
            self.audit("deleted", row)
            storage.delete_files(self.get_queryset().filter(pk=row.pk))

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    @action(detail=True, pagination_class=None)
    def content(self, request: Any, pk: Any = None) -> HttpResponse:
        """The content as a download: it is never displayed as a page of this site."""
        row = self.get_object()
        return answer_with_file(row, "application/octet-stream", as_attachment=True)

    @extend_schema(responses={(200, "image/*"): OpenApiTypes.BINARY})
    @action(detail=True, pagination_class=None)
    def preview(self, request: Any, pk: Any = None) -> HttpResponse:
        """A PNG, JPEG, GIF or WebP image for display in a page. 422 for files of other types."""
        row = self.get_object()
        if not row.is_image:
            raise Invalid("Only images have a preview.", code="no_preview", hint="Download the content.")
        return answer_with_file(row, row.media_type, as_attachment=False)
