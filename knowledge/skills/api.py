"""The API of skills: write or import, publish, compare, export."""

from typing import Any

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound, TooLarge
from agents.http.openapi import IF_MATCH
from agents.http.parsers import JSONParser
from agents.http.resources import location_header
from agents.http.throttles import client_address
from agents.http.versioned import NUMBER, WITHOUT_LISTS, VersionedViewSet, read_version_number, serve_versions
from agents.http.viewsets import read_body, readable_name, refusals
from knowledge.models import Skill, SkillVersion
from plumbing.untrusted.archives import MOST_BYTES, MOST_FILES

from . import document, files, store
from .serializers import (
    PublishSkillSerializer,
    ReplacedSkillSerializer,
    SkillSerializer,
    SkillSummarySerializer,
    SkillUsersSerializer,
    SkillVersionSerializer,
    WholeSkillVersionSerializer,
    WrittenSkillSerializer,
)

ARCHIVE = {
    "type": "object",
    "description": "An archive of one skill (zip, tar, tar.gz); or the files of its folder, each in a part whose name "
    "is the path of the file, such as SKILL.md and scripts/fill.py.",
    "properties": {
        "archive": {"type": "string", "format": "binary"},
        "folder": {"type": "string", "description": "The folder of the skill, in an archive with several."},
    },
    "additionalProperties": {"type": "string", "format": "binary"},
}
BODIES = {"application/json": WrittenSkillSerializer, "multipart/form-data": ARCHIVE}
VERSION = OpenApiParameter("version", NUMBER, description="A published version; default: the draft.")
NEW = OpenApiExample(
    "A skill without files",
    request_only=True,
    media_type="application/json",
    value={"text": "---\nname: minutes\ndescription: Writes minutes. Use for notes of meetings.\n---\nBe brief.\n"},
)
# Nothing of a skill is run in the name of this site.
SAFE = {"Content-Security-Policy": "default-src 'none'; sandbox", "X-Content-Type-Options": "nosniff"}


class FormParser(MultiPartParser):
    """Raises TooLarge before a large form is read."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        request = (parser_context or {}).get("request") or stream
        length = request.META.get("CONTENT_LENGTH") or ""
        # The limit holds for the files; a form has more around them.
        if length.isdigit() and int(length) > 2 * MOST_BYTES:
            raise TooLarge(f"A skill may have {MOST_BYTES >> 20} MB.", hint="Leave out large files.")
        return super().parse(stream, media_type, parser_context)


@serve_versions("skills", SkillVersionSerializer, WholeSkillVersionSerializer)
@extend_schema_view(publish=extend_schema(request=PublishSkillSerializer))
class SkillViewSet(VersionedViewSet):
    """Skills in the form of the Agent Skills specification: SKILL.md and files, with versions."""

    model = Skill
    heavy = ("text", "files", "front")
    publishing = PublishSkillSerializer
    scope = "skills"
    queryset = Skill.objects.none()
    serializer_class = SkillSerializer
    parser_classes = (JSONParser, FormParser)
    filterset_fields = ["name", "untrusted"]
    search_fields = ("name", "description")
    parameters = {**VersionedViewSet.parameters, "export": ("version",), "file": ("version",)}

    def get_queryset(self) -> Any:
        rows = super().get_queryset().select_related("published", "bundle")
        if self.action != "list":
            return rows
        # A list shows no contents, which may be large.
        return rows.defer("text", "files", "published__text")

    @extend_schema(responses=SkillSummarySerializer(many=True))
    def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        rows = self.filter_queryset(self.get_queryset())
        page = self.paginate_queryset(rows)
        serializer = SkillSummarySerializer(page, many=True)
        return self.get_paginated_response(serializer.data)

    @extend_schema(request=BODIES, responses={201: SkillSerializer}, examples=[NEW])
    def create(self, request: Any) -> Response:
        """A new skill, which SKILL.md names: written as JSON, or imported by a form and then `untrusted`."""
        skill = self.stored(Skill(owner=request.user))
        serializer = self.get_serializer(skill)
        return Response(serializer.data, status=201, headers=location_header(request, skill.name))

    @extend_schema(
        request={**BODIES, "application/json": ReplacedSkillSerializer},
        responses={200: SkillSerializer},
        parameters=[IF_MATCH],
    )
    def update(self, request: Any, name: str) -> Response:
        """Replace the working row: SKILL.md and, as far as they are sent, its team and all other files."""
        skill = self.stored(self.get_object())
        serializer = self.get_serializer(skill)
        return Response(serializer.data)

    @extend_schema(request=SkillSerializer, responses={200: SkillSerializer}, parameters=[IF_MATCH])
    def partial_update(self, request: Any, name: str) -> Response:
        """Change SKILL.md (`text`), or the team that it is shared with. Files stay as they are."""
        skill = self.get_object()
        read = read_sent_text(request.data)
        source = client_address(request)
        with refusals("skill", request.user):
            fields = self.shared(skill, request.data)
            if "text" in fields:
                store.save_skill(
                    skill, fields["text"], None, user=request.user, untrusted=False, source=source, read=read
                )
        serializer = self.get_serializer(skill)
        return Response(serializer.data)

    def shared(self, skill: Skill, sent: Any) -> dict[str, Any]:
        """The fields of a change, whose team is stored."""
        serializer = self.get_serializer(skill, data=sent, partial=True)
        serializer.is_valid(raise_exception=True)
        fields: dict[str, Any] = serializer.validated_data
        if "team" in fields and fields["team"] != skill.team:
            store.share_skill(skill, fields["team"], user=self.request.user, source=client_address(self.request))
        return fields

    def perform_destroy(self, skill: Skill) -> None:
        source = client_address(self.request)
        with refusals("skill", self.request.user):
            store.delete_skill(skill, user=self.request.user, source=source)

    def stored(self, skill: Skill) -> Skill:
        """The working row with what the request contains."""
        # Only the fields of a form can have several values.
        is_form = hasattr(self.request.data, "getlist")
        if is_form:
            return self.store_form(skill)
        return self.store_json(skill)

    def store_json(self, skill: Skill) -> Skill:
        serializer_class = ReplacedSkillSerializer if skill.pk else WrittenSkillSerializer
        body = read_body(serializer_class, self.request)
        text = body["text"]
        user = self.request.user
        source = client_address(self.request)
        contents = None
        if "files" in body:
            contents = files.check_skill_files(files.join_kept_files(skill, body["files"]))
        read = document.parse_skill_document(text)
        archive = store.store_changed(skill, text, contents, untrusted=False)
        with refusals("skill", user):
            if "team" in body:
                self.shared(skill, {"team": body["team"]})
            return store.save_skill(
                skill, text, contents, user=user, untrusted=False, source=source, archive=archive, read=read
            )

    def store_form(self, skill: Skill) -> Skill:
        """Files that were imported are marked as text of strangers."""
        folder, text, contents = read_skill_form(self.request.data, self.request.FILES)
        user = self.request.user
        source = client_address(self.request)
        read = document.parse_skill_document(text, folder)
        archive = store.store_changed(skill, text, contents, untrusted=True, folder=folder)
        with refusals("skill", user):
            return store.save_skill(
                skill, text, contents, user=user, untrusted=True, source=source, archive=archive, read=read
            )

    def freeze(self, skill: Skill, body: dict[str, Any]) -> SkillVersion:
        source = client_address(self.request)
        return store.publish_skill(skill, user=self.request.user, source=source, **body)

    def go_back(self, skill: Skill, number: int) -> SkillVersion:
        source = client_address(self.request)
        return store.roll_back_skill(skill, number, user=self.request.user, source=source)

    def contents(self, version: SkillVersion) -> dict[str, Any]:
        return version.whole()

    def draft_contents(self, skill: Skill) -> dict[str, Any]:
        return skill.whole()

    @extend_schema(responses={(200, "application/zip"): OpenApiTypes.BINARY}, parameters=[VERSION])
    @action(detail=True, **WITHOUT_LISTS)
    def export(self, request: Any, name: str) -> HttpResponse:
        """The folder of the skill as a zip archive."""
        skill = self.get_object()
        content = files.build_skill_archive(self.chosen(skill), skill.name)
        return build_attachment_response(content, f"{skill.name}.zip", "application/zip")

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY}, parameters=[VERSION])
    @action(detail=True, **WITHOUT_LISTS)
    def file(self, request: Any, name: str, path: str) -> HttpResponse:
        """The content of one file."""
        row = self.chosen(self.get_object())
        content = files.read_one(row, path)
        if content is None:
            raise NotFound(f"“{readable_name(name)}” has no file “{path[:100]}”.")
        _, _, file_name = path.rpartition("/")
        return build_attachment_response(content, file_name, "application/octet-stream")

    def chosen(self, skill: Skill) -> Skill | SkillVersion:
        if "version" not in self.request.query_params:
            return skill
        return self.find_version(skill, read_version_number(self.request, "version"))

    @extend_schema(responses=SkillUsersSerializer)
    @action(detail=True, **WITHOUT_LISTS)
    def used_by(self, request: Any, name: str) -> Response:
        """Agents and chains that are granted the skill."""
        skill = self.get_object()
        skill.require_edit(request.user)
        users = store.find_skill_uses(skill, request.user)
        serializer = SkillUsersSerializer({"results": users, "next": None})
        return Response(serializer.data)


def build_attachment_response(content: bytes, name: str, media_type: str) -> HttpResponse:
    headers = {"Content-Disposition": content_disposition_header(True, name) or "", **SAFE}
    return HttpResponse(content, content_type=media_type, headers=headers)


def read_skill_form(fields: Any, uploads: Any) -> tuple[str, str, dict[str, bytes]]:
    """(name of the folder, SKILL.md, the other files) of a form. Raises Invalid, TooLarge."""
    size = 0
    for _, group in uploads.lists():
        size += sum(file.size for file in group)
    if size > MOST_BYTES:
        raise TooLarge(f"A skill may have {MOST_BYTES >> 20} MB.", hint="Leave out large files.")
    # A form's data contain its files as well.
    unknown = [name for name in fields if name not in uploads and name != "folder"]
    if unknown:
        raise Invalid(f"“{unknown[0][:60]}” is not a field of this form.", code="unknown_field", hint="Send files.")
    if "archive" in uploads:
        folder = str(fields.get("folder", ""))
        return files.from_archive(uploads["archive"].read(), folder[:240])
    if not uploads or len(uploads) > MOST_FILES:
        raise Invalid(f"Send an archive, or 1 to {MOST_FILES} files.", code="nothing_found")
    text, contents = files.from_parts({path: uploads[path].read() for path in uploads})
    return "", text, contents


def read_sent_text(sent: Any) -> document.Document | None:
    """SKILL.md in a change, read before a transaction begins, as that takes long. None if it is not there or not valid:
    what is wrong is then said in its turn.
    """
    text = sent.get("text") if isinstance(sent, dict) else None
    if not isinstance(text, str):
        return None
    try:
        return document.parse_skill_document(text)
    except (Invalid, TooLarge):
        return None
