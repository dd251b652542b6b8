"""What the views of this API share: rows by name, conflicts, audited changes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, QuerySet, RestrictedError
from django.utils.translation import gettext_noop as _
from rest_framework import views, viewsets

from agents.exceptions import Conflict, NotFound
from agents.models import AuditEvent
from agents.models.team import SLUG, Owned, kind_name, the_one
from agents.sharing import dependents, remove_unshared_uses

from .idempotency import remember_request
from .resources import Tagged
from .throttles import client_address
from .unknown_parameters import check_known


class Checked:
    """Once a request has been found to be allowed, and before its handler: nothing that it sends is ignored, and a
    repeated POST is not carried out again.
    """

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)  # type: ignore[misc]
        check_known(request, self)
        remember_request(request, self)


class APIView(Checked, views.APIView):
    pass


class GenericViewSet(Checked, viewsets.GenericViewSet):
    pass


class ReadOnlyModelViewSet(Checked, viewsets.ReadOnlyModelViewSet):
    pass


class ModelViewSet(Checked, viewsets.ModelViewSet):
    pass


@contextmanager
def refusals(what: str, user: Any = None, *, is_deletion: bool = False) -> Iterator[None]:
    """One transaction; a refusal by the database becomes a conflict."""
    in_use = _("This %(kind)s is in use.") % {"kind": _(what)}
    try:
        with transaction.atomic():
            yield
    except (ProtectedError, RestrictedError) as error:
        rows = error.protected_objects if isinstance(error, ProtectedError) else error.restricted_objects
        users = ", ".join(dependents(rows, user))
        raise Conflict(in_use, code="in_use", hint=_("Used by: %(users)s.") % {"users": users})
    except IntegrityError:
        # A run that needs it started after we had looked.
        if is_deletion:
            raise Conflict(in_use, code="in_use", hint=_("Try again in a moment."))
        raise Conflict(
            _("Another %(kind)s already has that name.") % {"kind": _(what)},
            code="name_taken",
            hint=_("Choose another name."),
        )


def lock_row(row: Any) -> None:
    """Read a row again and keep it from others until the transaction ends, for a change that computes one column
    from others. Raises NotFound.
    """
    try:
        row.refresh_from_db(from_queryset=type(row)._base_manager.select_for_update(of=("self",)))
    except row.DoesNotExist:
        raise NotFound(_("It was deleted meanwhile."))


class Audited:
    """Every change through the API is one line in the audit log."""

    request: Any

    def audit(self, verb: str, row: Any, **details: Any) -> None:
        action = f"{row._meta.model_name}.{verb}"
        AuditEvent.record(action, row, actor=self.request.user, source=client_address(self.request), **details)


class ByName:
    """A view of the row that the name in its path means to this person (own → site → team), or with `?owner=`
    of the one of this owner (empty: the site's).
    """

    by_owner = True
    request: Any
    kwargs: dict[str, Any]

    def named(self, rows: Any) -> Any:
        """Raises NotFound, Conflict."""
        return rows.named(self.request.user, readable_name(self.kwargs["name"]), read_owner(self.request))

    def named_for_use(self, rows: Any) -> Any:
        """Raises NotFound, Conflict, Forbidden."""
        return rows.for_use(self.request.user, readable_name(self.kwargs["name"]), read_owner(self.request))


class NamedViewSet(ByName, Tagged, Audited, ModelViewSet):
    """Rows by name: 404 if not visible, 403 if visible but not editable."""

    model: Any
    lookup_field = "name"
    http_method_names = ["get", "post", "put", "patch", "delete", "head", "options"]
    page_ordering: tuple[str, ...] = ("name", "pk")
    orderings: tuple[str, ...] = ("name", "created_at", "updated_at")
    search_fields: tuple[str, ...] = ("name",)
    filterset_fields: Any = None
    filterset_class: Any = None

    def get_queryset(self) -> QuerySet:
        return self.model.objects.visible_to(self.request.user).select_related("owner", "team")

    def get_object(self) -> Any:
        """The row of this name, see `ByName`; to change it takes the right to."""
        name = self.kwargs["name"]
        rows: Any = self.get_queryset().filter(name=readable_name(name))
        owner = read_owner(self.request)
        if owner is not None:
            rows = rows.of_owner(owner)
        # A second one tells whether the name is ambiguous.
        candidates = list(rows.nearest_first(self.request.user)[:2])
        if not candidates:
            message = _("There is no %(kind)s “%(name)s” that you can see.")
            raise NotFound(message % {"kind": kind_name(self.model), "name": name[:80]})
        row = the_one(candidates, self.request.user)
        if self.request.method not in ("GET", "HEAD", "OPTIONS"):
            row.require_edit(self.request.user)
        return self.matched(row)

    def perform_create(self, serializer: Any) -> None:
        with refusals(self.model._meta.verbose_name_raw, self.request.user):
            self.audit("created", serializer.save())

    def perform_update(self, serializer: Any) -> None:
        with refusals(self.model._meta.verbose_name_raw, self.request.user):
            lock_row(serializer.instance)
            row = serializer.save()
            # It would leave fields with defaults out of the answer.
            serializer.partial = False
            self.audit("changed", row, fields=sorted(serializer.validated_data))
            self.changed(row)

    def changed(self, row: Any) -> None:
        """What else follows from a change."""

    def perform_destroy(self, row: Any) -> None:
        with refusals(self.model._meta.verbose_name_raw, self.request.user, is_deletion=True):
            self.audit("deleted", row)
            if isinstance(row, Owned):
                remove_unshared_uses(row)
            row.delete()


def readable_name(name: str) -> str:
    """A name in a path; an impossible name matches nothing."""
    if not re.match(SLUG.regex, name):
        raise NotFound(_("There is nothing with that name."))
    return name


def read_owner(request: Any) -> str | None:
    """The username of `?owner=`, "" for the site, None without it."""
    owner: str | None = request.query_params.get("owner")
    return owner


def read_body(serializer_class: Any, request: Any) -> dict[str, Any]:
    """The validated body of a serializer without context. Raises ValidationError."""
    body = {} if request.data is None else request.data
    return shared_serializer(serializer_class).run_validation(body)


@cache
def shared_serializer(serializer_class: Any) -> Any:
    """One instance of each: creating a serializer copies all its fields, and validating does not
    change it.
    """
    return serializer_class()


def make_view(viewset: Any, **verbs: str) -> Any:
    """A view of these actions, with what `@action` set for the first of them, as a router would
    create it.
    """
    first_action = next(iter(verbs.values()))
    options = getattr(getattr(viewset, first_action), "kwargs", {})
    # as_view() takes only what the class has.
    initial = {name: value for name, value in options.items() if hasattr(viewset, name)}
    return viewset.as_view(verbs, **initial)
