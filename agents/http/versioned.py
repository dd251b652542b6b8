"""The API of rows with immutable, numbered versions: publish, roll back, list, read and compare."""

from collections.abc import Callable
from typing import Any

import pydantic
from django.db import transaction
from django.utils.translation import gettext_noop as _
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.response import Response

from agents import diff
from agents.exceptions import Invalid, NotFound
from agents.models.team import kind_name
from agents.models.tool import MOST_GRANTS

from .grant_serializers import GrantSerializer, read_grants, replace_grants
from .version_serializers import DiffSerializer, PublishedSerializer, PublishSerializer, RollbackSerializer
from .viewsets import NamedViewSet, read_body, refusals

NUMBER = {"type": "integer", "minimum": 0, "maximum": 999_999_999}
NUMBER_OR_DRAFT = {"oneOf": [NUMBER, {"type": "string", "enum": ["draft"]}]}
# For `action`: the filters of the rows' list are no parameters of it, and its answer has no pages.
WITHOUT_FILTERS: dict[str, Any] = {"filterset_fields": None, "filterset_class": None}
WITHOUT_LISTS: dict[str, Any] = {"pagination_class": None, **WITHOUT_FILTERS}


def serve_versions(plural: str, listed: Any, whole: Any) -> Callable[[Any], Any]:
    """Class decorator: sets the serializers of a version, `listed` in a list and `whole` alone, and describes both
    in OpenAPI, where `plural` begins the names of the operations.
    """

    def decorate(view: Any) -> Any:
        view.listed, view.whole = listed, whole
        return extend_schema_view(
            versions=extend_schema(responses=listed(many=True), operation_id=f"{plural}_versions_list"),
            version=extend_schema(responses=whole, operation_id=f"{plural}_versions_retrieve"),
        )(view)

    return decorate


class VersionedViewSet(NamedViewSet):
    """The actions of a row with versions; `serve_versions` sets `listed` and `whole`, the serializers of a version."""

    # Fields that a list of versions leaves out.
    heavy: tuple[str, ...] = ("spec",)
    # Only quick actions take If-Match, and publishing a function runs its tests.
    conditional: tuple[str, ...] = ("rollback",)
    parameters: dict[str, Any] = {"diff": ("from", "to")}
    # Reads the body of a request to publish.
    publishing: Any = PublishSerializer
    listed: Any
    whole: Any

    @extend_schema(request=PublishSerializer, responses={200: PublishedSerializer})
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def publish(self, request: Any, name: str) -> Response:
        """Check the working row, store it as a new version and make it live. 422 lists each
        problem.

        Equal content gives the same version again.
        """
        row = self.get_object()
        try:
            body = read_body(self.publishing, request)
            return published_response(self.freeze(row, body))
        except pydantic.ValidationError as error:
            message = _("The %(kind)s cannot be published.") % {"kind": kind_name(row)}
            raise Invalid(message, details=list_problems(error))

    def freeze(self, row: Any, body: dict[str, Any]) -> Any:
        with transaction.atomic():
            version = row.publish(author=self.request.user, note=body["note"])
            self.audit("published", row, version=version.number)
        return version

    @extend_schema(request=RollbackSerializer, responses={200: PublishedSerializer})
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def rollback(self, request: Any, name: str) -> Response:
        """Make an earlier version live again."""
        row = self.get_object()
        body = read_body(RollbackSerializer, request)
        return published_response(self.go_back(row, body["version"]))

    def go_back(self, row: Any, number: int) -> Any:
        with transaction.atomic():
            version = row.rollback(number)
            self.audit("rolled_back", row, version=version.number)
        return version

    @action(detail=True, **WITHOUT_FILTERS)
    def versions(self, request: Any, name: str) -> Response:
        """Newest first."""
        row = self.get_object()
        self.page_ordering = ("-number",)
        # Each version compares itself with the live one, so its row is loaded too.
        versions = row.versions.select_related("author", self.listed.of).defer(*self.heavy)
        page = self.paginate_queryset(versions)
        return self.get_paginated_response(self.listed(page, many=True).data)

    @action(detail=True, **WITHOUT_LISTS)
    def version(self, request: Any, name: str, number: int) -> Response:
        """One version with its content."""
        version = self.find_version(self.get_object(), number)
        return Response(self.whole(version).data)

    @extend_schema(
        responses=DiffSerializer,
        parameters=[OpenApiParameter(name, NUMBER_OR_DRAFT, required=True) for name in ("from", "to")],
    )
    @action(detail=True, **WITHOUT_LISTS)
    def diff(self, request: Any, name: str) -> Response:
        """What changed between two versions, or between a version and the draft (`draft`)."""
        row = self.get_object()
        old_number, old = self.read_side(row, request, "from")
        new_number, new = self.read_side(row, request, "to")
        old_text = diff.render_spec(old)
        new_text = diff.render_spec(new)
        text = diff.diff_texts(old_text, new_text, version_label(old_number), version_label(new_number))
        body = {"from": old_number, "to": new_number, "changes": diff.changes(old, new), "text": text}
        return Response(DiffSerializer(body).data)

    def read_side(self, row: Any, request: Any, name: str) -> tuple[int | None, dict[str, Any]]:
        """The number and the content that the parameter names, for a comparison; None is the draft's number."""
        if request.query_params.get(name) != "draft":
            number = read_version_number(request, name)
            version = self.find_version(row, number)
            return number, self.contents(version)
        try:
            return None, self.draft_contents(row)
        except pydantic.ValidationError as error:
            message = _("The draft of “%(row)s” is not complete.") % {"row": row.name}
            raise Invalid(message, details=list_problems(error))

    def contents(self, version: Any) -> dict[str, Any]:
        """What is compared of a version."""
        return version.spec

    def draft_contents(self, row: Any) -> dict[str, Any]:
        """What is compared of the working row, in the form of `contents`."""
        return row.draft_spec().model_dump(mode="json")

    def find_version(self, row: Any, number: int) -> Any:
        version = row.versions.select_related("author", self.listed.of).filter(number=number).first()
        if version is None:
            raise NotFound(_("“%(name)s” has no version %(number)s.") % {"name": row.name, "number": number})
        return version


class GrantedViewSet(VersionedViewSet):
    """The actions of a row with versions that also has granted tools."""

    conditional = ("publish", "rollback")

    @extend_schema(methods=["GET"], responses=GrantSerializer(many=True))
    @extend_schema(methods=["PUT"], request=GrantSerializer(many=True), responses={200: GrantSerializer(many=True)})
    @action(detail=True, methods=["get", "put"], **WITHOUT_FILTERS)
    def grants(self, request: Any, name: str) -> Response:
        """The granted tools; PUT replaces the whole list (of the draft: publish to make it live).

        PUT accepts a list of grants, or the object in which GET returns them.
        """
        row = self.get_object()
        if request.method == "PUT":
            data = request.data
            if isinstance(data, dict):
                data = data.get("results")
            serializer = GrantSerializer(  # type: ignore[call-arg]
                data=data, many=True, max_length=MOST_GRANTS, context=self.get_serializer_context()
            )
            serializer.is_valid(raise_exception=True)
            with refusals("grant"):
                replace_grants(row, read_grants(request.user, serializer.validated_data, row))
                self.audit("changed", row, fields=["grants"])
        self.page_ordering = ("pk",)
        page = self.paginate_queryset(row.grants.select_related("tool"))
        return self.get_paginated_response(GrantSerializer(page, many=True).data)


def published_response(version: Any) -> Response:
    body = {"version": version.number, "sha256": version.sha256}
    return Response(PublishedSerializer(body).data)


def list_problems(error: pydantic.ValidationError) -> list[dict[str, str]]:
    """One detail for each problem; its field is a path with dots, such as `steps.0.key`."""
    details = []
    for problem in error.errors():
        path = ".".join(str(part) for part in problem["loc"])
        details.append({"field": path, "code": problem["type"], "message": problem["msg"]})
    return details


def version_label(number: int | None) -> str:
    return "draft" if number is None else f"v{number}"


def read_version_number(request: Any, name: str) -> int:
    text = request.query_params.get(name, "")
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    if not is_number:
        raise Invalid(_("“%(name)s” must be the number of a version.") % {"name": name}, code="invalid_version")
    return int(text)
