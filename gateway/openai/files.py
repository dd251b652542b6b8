"""Files: the person's files in Muster, for `file_id` in messages. What a run made is here too."""

from hashlib import sha256
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from agents import storage
from agents.exceptions import NotFound
from agents.http.files import answer_with_file
from agents.http.pagination import read_page
from agents.http.parsers import FileParser
from agents.http.viewsets import Audited
from agents.models import StoredFile
from gateway.parts import refuse_content_part

from .requests import SENT_FILE, Prompt
from .views import OpenAIView

PREFIX = "file-"
PURPOSES = ("user_data", "assistants", "vision")
# Files of one page.
MOST = 1000


@extend_schema(exclude=True)
class FilesView(Audited, OpenAIView):
    """POST and GET /v1/files"""

    parser_classes = [FileParser]
    parameters = {"get": ("limit", "after", "order", "purpose")}

    def post(self, request: Any) -> Response:
        """Store a file. Its purpose is checked, and means nothing else here."""
        sent = request.FILES.get("file")
        purpose = request.data.get("purpose", "user_data")
        if sent is None:
            raise refuse_content_part("file", "Send the content as “file” (multipart/form-data).")
        if purpose not in PURPOSES:
            message = f"“purpose” must be one of: {', '.join(PURPOSES)}."
            raise refuse_content_part("purpose", message, "unsupported_parameter")
        unknown = sorted({*request.data} - {"file", "purpose"})
        if unknown:
            name = unknown[0][:80]
            raise refuse_content_part(name, f"There is no parameter “{name}”.", "unknown_parameter")
        # The type that the client declares is only a hint: the content decides.
        row = storage.save_file(request.user.pk, sent.name or "file", sent, declared=sent.content_type or "")
        self.audit("created", row)
        return Response(file_json(row))

    def get(self, request: Any) -> Response:
        query = request.query_params
        limit = query.get("limit", "1000")
        if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:6]) <= MOST):
            raise refuse_content_part("limit", f"“limit” must be a number from 1 to {MOST}.")
        order = query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise refuse_content_part("order", "“order” can be asc or desc.")
        is_newest_first = order == "desc"
        rows = StoredFile.objects.visible_to(request.user)
        rows = rows.order_by("-id" if is_newest_first else "id")
        if "after" in query:
            after = load_openai_file(request.user, query["after"]).pk
            # Ids are made in the order of time.
            rows = rows.filter(pk__lt=after) if is_newest_first else rows.filter(pk__gt=after)
        page, has_more = read_page(rows, int(limit))
        data = [file_json(row) for row in page]
        ids = [None]
        if data:
            ids = [file["id"] for file in data]
        body = {"object": "list", "data": data, "first_id": ids[0], "last_id": ids[-1], "has_more": has_more}
        return Response(body)


@extend_schema(exclude=True)
class FileView(Audited, OpenAIView):
    """GET and DELETE /v1/files/{id}"""

    def get(self, request: Any, id: str) -> Response:
        row = load_openai_file(request.user, id)
        return Response(file_json(row))

    def delete(self, request: Any, id: str) -> Response:
        row = load_openai_file(request.user, id)
        self.audit("deleted", row)
        own = StoredFile.objects.visible_to(request.user)
        storage.delete_files(own.filter(pk=row.pk))
        return Response({"id": id, "object": "file", "deleted": True})


@extend_schema(exclude=True)
class ContentView(OpenAIView):
    """GET /v1/files/{id}/content"""

    def perform_content_negotiation(self, request: Any, force: bool = False) -> Any:
        # The SDKs accept application/binary alone.
        return super().perform_content_negotiation(request, force=True)

    def get(self, request: Any, id: str) -> Any:
        row = load_openai_file(request.user, id)
        return answer_with_file(row, "application/octet-stream", as_attachment=True)


def store_sent_files(user: Any, prompt: Prompt) -> None:
    """Files that the messages bring along become files of the person. Raises TooLarge, Conflict, Invalid.

    A stateless client sends its whole conversation each time: the same file is stored once, so that the messages are
    the same, too.
    """
    sent_messages = [one.parts for one in prompt.earlier]
    for parts in (prompt.parts, *sent_messages):
        for place, part in enumerate(parts):
            if part["type"] == SENT_FILE:
                row = store_sent_file(user, part)
                parts[place] = {"type": "file", "file": str(row.pk)}


def store_sent_file(user: Any, part: dict[str, Any]) -> StoredFile:
    digest = sha256(part["content"]).hexdigest()
    uploads = StoredFile.objects.visible_to(user).filter(source=StoredFile.Source.UPLOAD, untrusted=True)
    row = uploads.filter(sha256=digest, name=storage.clean_name(part["name"])).order_by("pk").first()
    if row is not None:
        return row
    return storage.save_file(user.pk, part["name"], part["content"], declared=part["media_type"])


def load_openai_file(user: Any, id: str) -> StoredFile:
    """Raises NotFound."""
    rows = StoredFile.objects.visible_to(user)
    row = None
    try:
        row = rows.filter(pk=UUID(id.removeprefix(PREFIX))).first()
    except ValueError:
        pass  # no UUID, so no file has it
    if row is None:
        raise NotFound(f"There is no file “{id[:80]}”.", code="file_not_found")
    return row


def file_json(row: StoredFile) -> dict[str, Any]:
    is_upload = row.source == "upload"
    return {
        "id": f"{PREFIX}{row.pk}",
        "object": "file",
        "bytes": row.size,
        "created_at": int(row.created_at.timestamp()),
        "filename": row.name,
        "purpose": "user_data" if is_upload else "assistants_output",
        "status": "processed",
    }
