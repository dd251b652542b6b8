"""Collections and their documents over HTTP."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound
from agents.http.parsers import FileParser, JSONParser
from agents.http.resources import location_header
from agents.http.versioned import NUMBER, WITHOUT_LISTS
from agents.http.viewsets import NamedViewSet, read_body
from agents.models import StoredFile
from agents.storage import clean_name
from knowledge.models import Collection, Document

from . import catalog, storage
from .device_folders import Asker
from .filters import DocumentFilter
from .folders import search_all, serialize_search_results
from .search import build_chunk_place
from .serializers import (
    CollectionSerializer,
    DocumentSerializer,
    ErasedDocumentsSerializer,
    NewDocumentSerializer,
    PieceSerializer,
    ResultsSerializer,
    SearchSerializer,
    UploadedDocumentSerializer,
)
from .viewsets import InCollection

RETURNS = OpenApiExample("A question", request_only=True, value={"query": "How long may goods be returned?"})
RULES = OpenApiExample(
    "A text", request_only=True,
    value={"name": "returns.md", "media_type": "text/markdown", "text": "# Returns\n\nWithin 30 days."},
)  # fmt: skip


class CollectionViewSet(NamedViewSet):
    """Collections of documents: own, of the person's teams, and of the site."""

    model = Collection
    scope = "collections"
    scopes = {"search": "collections:read"}
    queryset = Collection.objects.none()
    serializer_class = CollectionSerializer
    filterset_fields = ["name"]
    search_fields = ("name", "description")

    def perform_create(self, serializer: Any) -> None:
        super().perform_create(serializer)
        catalog.save_collection_tools(serializer.instance)

    def changed(self, row: Collection) -> None:
        catalog.save_collection_tools(row)

    def perform_destroy(self, row: Collection) -> None:
        """Delete it with all its documents, their files and their text. 409 while agents are granted its tools."""
        catalog.delete_collection(row, self.request.user, audit=self.audit)

    @extend_schema(request=SearchSerializer, responses={200: ResultsSerializer}, examples=[RETURNS])
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def search(self, request: Any, name: str) -> Response:
        """The pieces of its documents that fit the question, and excerpts of your own devices, best first."""
        body = read_body(SearchSerializer, request)
        collection = self.named_for_use(Collection.objects.all())
        asker = Asker(request.user.pk)
        answer = search_all(collection, body["query"], asker, limit=body["limit"], version=body.get("version"))
        return Response(serialize_search_results(answer))


class DocumentViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, InCollection):
    """The documents of a collection. A new one waits until a worker has read it."""

    queryset = Document.objects.none()
    serializer_class = DocumentSerializer
    parser_classes = [JSONParser, FileParser]
    filterset_class = DocumentFilter
    search_fields = ("name", "url")
    orderings = ("name", "created_at")
    bodiless = ("reindex",)
    parameters = {"list": ("version",)}

    def get_queryset(self) -> Any:
        """Of the present version and what waits or failed, or of the version that is asked for; by its id, any."""
        rows = Document.objects.filter(collection=self.collection()).select_related("file")
        if self.action != "list":
            return rows
        number = parse_collection_version(self.request)
        if number is None:
            return rows.current()
        return rows.of_version(number)

    @extend_schema(parameters=[OpenApiParameter("version", NUMBER, description="The documents of this version.")])
    def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Newest first, each with its status."""
        return super().list(request, *args, **kwargs)

    @extend_schema(
        request={"application/json": NewDocumentSerializer, "multipart/form-data": UploadedDocumentSerializer},
        responses={200: DocumentSerializer, 202: DocumentSerializer},
        examples=[RULES],
    )
    def create(self, request: Any, name: str) -> Response:
        """Add a document, or replace the one of that name. 200 if it has this content already. Files as a form."""
        collection = self.collection()
        if request.content_type.startswith("multipart/"):
            body = read_body(UploadedDocumentSerializer, request)
            row, is_new = add_upload(collection, request.user, body)
        else:
            body = read_body(NewDocumentSerializer, request)
            row, is_new = add_posted_document(collection, request.user, body)
        if not is_new:
            return Response(DocumentSerializer(row).data)
        self.audit("added", row, collection=str(collection), kind=row.source)
        return Response(DocumentSerializer(row).data, status=202, headers=location_header(request, row.pk))

    def destroy(self, request: Any, name: str, pk: Any) -> Response:
        """Remove it from the next version on. Agents that keep to an earlier version still find it."""
        row = self.get_object()
        storage.remove_document(row)
        self.audit("removed", row, collection=name)
        return Response(status=204)

    @extend_schema(responses={200: ErasedDocumentsSerializer}, operation_id="collections_documents_erase")
    @action(detail=True, methods=["delete"], **WITHOUT_LISTS)
    def erase(self, request: Any, name: str, pk: Any) -> Response:
        """Delete it with all revisions of that name, from every version, the index and the disk."""
        row = self.get_object()
        self.audit("erased", row, collection=name)
        count = storage.erase_document(row)
        return Response({"erased": count})

    @extend_schema(request=None, responses={202: DocumentSerializer})
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def reindex(self, request: Any, name: str, pk: Any) -> Response:
        """Read it again, such as after a failure, or a page that may have changed."""
        row = storage.index_again(self.get_object())
        self.audit("reindexed", row, collection=name)
        return Response(DocumentSerializer(row).data, status=202)

    @extend_schema(responses=PieceSerializer(many=True), operation_id="collections_documents_text")
    @action(detail=True, filterset_class=None)
    def text(self, request: Any, name: str, pk: Any) -> Response:
        """Its text in order, piece by piece."""
        self.page_ordering = ("position",)
        chunks = self.get_object().chunks.defer("words")
        page: Any = self.paginate_queryset(chunks)
        pieces = [{"place": build_chunk_place(one), "text": one.text} for one in page]
        return self.get_paginated_response(pieces)


def add_posted_document(collection: Collection, user: Any, body: dict[str, Any]) -> tuple[Document, bool]:
    """Raises NotFound, Conflict, TooLarge."""
    if url := body.get("url"):
        return storage.add_url(collection, url, name=body.get("name") or url[:200])
    untrusted = body["untrusted"]
    if id := body.get("file"):
        file = StoredFile.objects.visible_to(user).filter(pk=id).first()
        if file is None:
            raise NotFound("You have no file with this id.")
        name = body.get("name") or file.name
        source = Document.Source.FILE
        return storage.add_file_document(collection, file, name=name, source=source, untrusted=untrusted)
    return storage.add_content(
        collection,
        user.pk,
        body["name"],
        body["text"].encode(),
        declared=body["media_type"],
        untrusted=untrusted,
        source=Document.Source.TEXT,
    )


def add_upload(collection: Collection, user: Any, body: dict[str, Any]) -> tuple[Document, bool]:
    """Raises Conflict, TooLarge, Invalid, Unavailable."""
    content = body["file"]
    name = clean_name(body.get("name") or content.name)
    # A field of a form is a text.
    untrusted = body["untrusted"] == "true"
    return storage.add_content(
        collection,
        user.pk,
        name,
        content,
        declared=content.content_type or "",
        untrusted=untrusted,
        source=Document.Source.UPLOAD,
    )


def parse_collection_version(request: Any) -> int | None:
    text = request.query_params.get("version")
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    if not is_number:
        raise Invalid("“version” must be a whole number.", code="invalid_version")
    return int(text)
