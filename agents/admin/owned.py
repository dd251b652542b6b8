"""OwnedAdmin: users see and choose only rows visible to them, and change only rows they may edit."""

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.contrib.auth import get_user_model
from django.db.models import Count, Field, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest

from agents.exceptions import MusterError
from agents.fields import EncryptedTextField
from agents.models import AuditEvent
from agents.models.team import Owned
from agents.sharing import carry, check_share, remove_unshared_uses
from plumbing.texts import translate

from .base import ModelAdmin
from .fields import form_field
from .searched import SearchedSelect

# a select with ten thousand options is unusable
SEARCHED = {"agents.agent", "agents.chain", "agents.tool", "agents.user"}


class VisibleChoices:
    """Limits foreign-key choices to visible rows; for an admin and for its inlines."""

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        """Choices among many rows are searched on the server, if the user may view such rows."""
        fields = (field for field in self.model._meta.concrete_fields if field.is_relation)  # type: ignore[attr-defined]
        return [field.name for field in fields if self.is_searched(field.related_model, request)]

    def is_searched(self, model: type[Model], request: HttpRequest) -> bool:
        site: AdminSite = self.admin_site  # type: ignore[attr-defined]
        if model._meta.label_lower not in SEARCHED or not site.is_registered(model):
            return False
        return site.get_model_admin(model).has_view_permission(request)

    def formfield_for_dbfield(self, db_field: Field, request: HttpRequest, **kwargs: Any) -> Any:
        """A choice offers no deletion of the chosen row, which looks like emptying the field."""
        if (field := form_field(db_field)) is not None:
            return field
        field = super().formfield_for_dbfield(db_field, request, **kwargs)  # type: ignore[misc]
        if isinstance(getattr(field, "widget", None), RelatedFieldWidgetWrapper):
            field.widget.can_delete_related = False
        return field

    def formfield_for_foreignkey(self, db_field: Field, request: HttpRequest, **kwargs: Any) -> Any:
        if "queryset" not in kwargs:
            rows = db_field.related_model._default_manager.all()
            kwargs["queryset"] = find_choosable(rows, request.user)
        if "widget" not in kwargs and db_field.name in self.get_autocomplete_fields(request):
            kwargs["widget"] = SearchedSelect(db_field, self.admin_site, using=kwargs.get("using"))  # type: ignore[attr-defined]
        return super().formfield_for_foreignkey(db_field, request, **kwargs)  # type: ignore[misc]


class OwnedAdmin(VisibleChoices, ModelAdmin):
    """Base of every admin whose rows have an owner.

    `owner_field` names the column with the owner ("owner", "user", "principal"); "" if it is
    reached through a relation. Rows are limited by the QuerySet's `visible_to`, changes by its
    `editable_by` if it has one.
    """

    owner_field = "owner"
    # Drawing a row takes two milliseconds.
    list_per_page = 30
    # Avoids a second COUNT(*) over a large table.
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        rows = find_choosable(super().get_queryset(request), request.user)
        if not self.owner_field:
            return rows
        return rows.select_related(self.owner_field)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        # Without a row Django asks about the kind: whether there is a list at all.
        may_view_some = super().has_view_permission(request, obj)
        return may_view_some and (obj is None or self.is_visible(request, obj))

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may_change_some = super().has_change_permission(request, obj)
        return may_change_some and (obj is None or self.is_editable(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may_delete_some = super().has_delete_permission(request, obj)
        return may_delete_some and (obj is None or self.is_editable(request, obj))

    def is_visible(self, request: HttpRequest, row: Any) -> bool:
        return self.get_queryset(request).filter(pk=row.pk).exists()

    def is_editable(self, request: HttpRequest, row: Any) -> bool:
        if request.user.is_superuser:
            return True
        rows = self.model._default_manager.all()
        if hasattr(rows, "editable_by"):
            return rows.editable_by(request.user).filter(pk=row.pk).exists()
        return self.is_visible(request, row)

    def get_exclude(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Only a superuser can set the owner; everyone else creates their own rows.

        A page without a form would show what is encrypted as plain text.
        """
        excluded = list(super().get_exclude(request, obj) or [])
        if obj is not None and not self.has_change_permission(request, obj):
            excluded += encrypted_fields(self.model)
        if self.owner_field and not request.user.is_superuser:
            excluded.append(self.owner_field)
        return excluded

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        hidden = set(self.get_exclude(request, obj))
        fieldsets = []
        for title, options in super().get_fieldsets(request, obj):
            fields = [field for field in options["fields"] if field not in hidden]
            fieldsets.append((title, {**options, "fields": fields}))
        return fieldsets

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial = super().get_changeform_initial_data(request)
        if not self.owner_field:
            return initial
        # What the address says comes first.
        return {self.owner_field: request.user.pk, **initial}

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """The form also refuses what may not be shared."""
        form = super().get_form(request, obj, change=change, **kwargs)
        if not issubclass(self.model, Owned):
            return form
        return sharing_form(form, request.user)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change and self.owner_field and not request.user.is_superuser:
            setattr(obj, self.owner_field, request.user)
        super().save_model(request, obj, form, change)
        if isinstance(obj, Owned):
            carry(obj)
        self.audit(request, "changed" if change else "created", obj, fields=sorted(form.changed_data))

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        self.audit(request, "deleted", obj)
        if isinstance(obj, Owned):
            remove_unshared_uses(obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        """One by one, so that each deletion is checked and audited."""
        for row in queryset:
            if self.is_editable(request, row):
                self.delete_model(request, row)

    def audit(self, request: HttpRequest, verb: str, row: Any, **details: Any) -> None:
        """One line in the audit log; `details` must not contain a secret."""
        action = f"{row._meta.model_name}.{verb}"
        source = request.META.get("REMOTE_ADDR", "")
        AuditEvent.record(action, row, actor=request.user, source=source, **details)


def sharing_form(form: type, user: Any) -> type:
    """The same form, asking `check_share` at the end: it needs to know who saves."""

    class Sharing(form):  # type: ignore[misc,valid-type]
        def clean(self) -> Any:
            cleaned = super().clean() or {}
            row = self.instance
            before = row if row.pk is None else type(row)._default_manager.get(pk=row.pk)
            if before.pk is None:
                before.owner = cleaned.get("owner") if user.is_superuser else user
            try:
                check_share(before, user, cleaned.get("team", before.team), cleaned.get("name", before.name))
            except MusterError as error:
                place = "team" if "team" in self.fields else None
                self.add_error(place, f"{translate(str(error))} {translate(error.hint)}")
            return cleaned

    return Sharing


class ReadOnlyAdmin(OwnedAdmin):
    """Rows that the platform writes: they are listed, searched and read."""

    owner_field = ""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def count_references(model: type[Model], column: str) -> Any:
    """Counts rows of `model` that point here by `column`, for the rows shown only: a join would
    group all rows.
    """
    rows = model._default_manager.filter(**{column: OuterRef("pk")}).order_by().values(column)
    return Coalesce(Subquery(rows.annotate(total=Count("pk")).values("total")), 0)


def shorten(text: str, length: int = 80) -> str:
    """The start of a text, for a list."""
    if len(text) <= length:
        return text
    # Cut between two words.
    start = text[: length - 1].rsplit(" ", 1)[0]
    return f"{start}…"


def encrypted_fields(model: type[Model]) -> list[str]:
    return [field.name for field in model._meta.concrete_fields if isinstance(field, EncryptedTextField)]


def find_choosable(rows: QuerySet, user: Any) -> QuerySet:
    """The rows of a model visible to this user: all for a superuser, no other user's rows for
    everyone else.
    """
    if user.is_superuser:
        return rows
    if hasattr(rows, "visible_to"):
        return rows.visible_to(user)
    if rows.model is get_user_model():
        return rows.filter(pk=user.pk)
    return rows
