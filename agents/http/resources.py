"""The addresses and versions of rows over HTTP: `Location`, `ETag`, `If-Match` and `If-None-Match`."""

import json
from contextlib import ExitStack
from functools import cache
from hashlib import sha256
from typing import Any

from django.db import connection, transaction
from django.utils.cache import get_conditional_response
from django.utils.translation import gettext_noop as _
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound, PreconditionFailed

CHANGES = ("PUT", "PATCH", "DELETE")
WRITES = ("INSERT", "UPDATE", "DELETE")
SHOWN = ("retrieve", "create", "update", "partial_update")


class Located:
    """POST of a new row names its address, which is the list's followed by the row's name or id."""

    request: Any
    lookup_field = "pk"

    def get_success_headers(self, data: Any) -> dict[str, str]:
        key_field = "name" if self.lookup_field == "name" else "id"
        return location_header(self.request, data[key_field])


def location_header(request: Any, key: Any) -> dict[str, str]:
    return {"Location": f"{request.path}{key}"}


class Tagged(Located):
    """A row has an `ETag`, a hash of what a client can write. A change with another one in `If-Match`
    gets 412; the comparison and the change are one transaction.

    It begins with the first write: what takes long, such as compiling a source, reading an archive or resolving a
    name, comes before, so nobody waits for it.
    """

    has_etag = True
    is_in_transaction = False
    change: ExitStack
    # The row of a change with If-Match, until its first write.
    compared: Any = None
    # Actions by POST that take If-Match too; they must be quick.
    conditional: tuple[str, ...] = ()
    action: str

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_conditional(request):
            return super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        with ExitStack() as self.change:
            self.change.enter_context(connection.execute_wrapper(self.compare_before_writing))
            response = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
            if response.status_code >= 400 and self.is_in_transaction:
                transaction.set_rollback(True)
        return response

    def compare_before_writing(self, execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        """A wrapper of all statements: the first one that writes finds the row locked, and as it was read."""
        row = self.compared
        if row is not None and sql.startswith(WRITES):
            self.compared = None
            # Where a transaction has begun, it is that of the change: a view whose first write belongs to something
            # else opens one around both.
            if not transaction.get_connection().in_atomic_block:
                self.change.enter_context(transaction.atomic())
                self.is_in_transaction = True
            self.require_same(row)
        return execute(sql, parameters, many, context)

    def is_conditional(self, request: Any) -> bool:
        if "If-Match" not in request.headers:
            return False
        if request.method in CHANGES:
            return True
        action = getattr(self, "action_map", {}).get("post")
        return request.method == "POST" and action in self.conditional

    def get_object(self) -> Any:
        return self.matched(super().get_object())  # type: ignore[misc]

    def matched(self, row: Any) -> Any:
        """The row, if it is what the request names in If-Match; it is compared again before the first write. Raises
        PreconditionFailed.
        """
        if not self.is_conditional(self.request):
            return row
        row = self.require_match(row)
        self.compared = row
        return row

    def require_same(self, row: Any) -> None:
        """Under its lock. Raises NotFound, PreconditionFailed."""
        # The lock first, then the row with its joins: PostgreSQL locks no row of an outer join.
        type(row)._base_manager.select_for_update().filter(pk=row.pk).first()
        self.require_match(row)

    def require_match(self, row: Any) -> Any:
        """The row, read again. Raises NotFound, PreconditionFailed."""
        row = self.get_queryset().filter(pk=row.pk).first()  # type: ignore[attr-defined]
        if row is None:
            raise NotFound(_("It was deleted meanwhile."))
        data = self.get_serializer(row).data  # type: ignore[attr-defined]
        tag = make_etag(self.get_serializer_class(), data)  # type: ignore[attr-defined]
        answer = get_conditional_response(self.request._request, etag=tag)
        if answer is not None and answer.status_code == 412:
            raise PreconditionFailed(hint=_("Read it again, then repeat your change."), headers={"ETag": tag})
        return row

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)  # type: ignore[misc]
        if not isinstance(response, Response) or response.status_code >= 300:
            return response
        if self.action not in SHOWN:
            return response
        tag = make_etag(self.get_serializer_class(), response.data)  # type: ignore[attr-defined]
        response["ETag"] = tag
        if self.action != "retrieve":
            return response
        # 304 for a client that has this version.
        return get_conditional_response(request._request, etag=tag, response=response)


def make_etag(serializer_class: Any, data: Any) -> str:
    values = {name: data[name] for name in find_written_fields(serializer_class)}
    text = json.dumps(values, sort_keys=True, default=str)
    digest = sha256(text.encode()).hexdigest()
    return f'"{digest[:32]}"'


@cache
def find_written_fields(serializer_class: Any) -> list[str]:
    """The fields that a client writes and reads. A secret cannot be read, so its row's last change counts."""
    fields = serializer_class().fields
    names: list[str] = []
    has_secret = False
    for name, field in fields.items():
        if field.write_only:
            has_secret = True
        elif not field.read_only:
            names.append(name)
    if has_secret and "updated_at" in fields:
        names.append("updated_at")
    return names


def version_seen(request: Any) -> int | None:
    """The number in If-Match, for rows that count their versions; None without one. Raises Invalid."""
    text = request.headers.get("If-Match", "*").strip()
    if text == "*":
        return None
    number = text.removeprefix("W/").strip('"')
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    if not is_number:
        raise Invalid(_('If-Match must be the ETag of the row, such as "3".'), code="invalid_header")
    return int(number)
