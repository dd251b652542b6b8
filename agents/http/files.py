"""The content of a stored file as an HTTP response that a browser runs nothing of."""

from django.http import HttpResponse
from django.utils.http import content_disposition_header

from agents import storage
from agents.exceptions import NotFound
from agents.models import StoredFile

# Even a browser that ignores the other headers runs nothing of a file in the name of this site.
SANDBOX = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def answer_with_file(row: StoredFile, content_type: str, *, as_attachment: bool) -> HttpResponse:
    content = storage.read_stored_file(row)
    if content is None:
        raise NotFound("The content of this file was deleted.")
    disposition = content_disposition_header(as_attachment, row.name) or "attachment"
    return HttpResponse(content, content_type=content_type, headers={**SANDBOX, "Content-Disposition": disposition})
