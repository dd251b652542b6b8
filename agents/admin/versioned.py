"""Saving publishes unless "keep as draft" is ticked; versions can be read, compared and rolled back
to.
"""

from typing import Any

import pydantic
from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later

from agents.definitions import files
from agents.diff import render_spec, side_by_side
from agents.exceptions import MusterError
from plumbing.texts import translate

from .base import pill, row_action
from .fields import NamedForm
from .owned import OwnedAdmin


class VersionedForm(NamedForm):
    """A model form with the fields for publishing and its note."""

    version_note = forms.CharField(
        required=False, max_length=500, label=later("What changed"),
        help_text=later("Kept with the version, for its history."),
    )  # fmt: skip
    keep_as_draft = forms.BooleanField(
        required=False, label=later("Keep as draft"),
        help_text=later("Save without publishing: the live version does not change."),
    )  # fmt: skip


class VersionedAdmin(OwnedAdmin):
    """Base of the admins of agents, functions and chains: rows with `versions`, `published`, `publish`, `rollback`."""

    form = VersionedForm
    row_actions = ["show_versions"]
    actions = ["publish_selected", "export_selected"]
    # Its name in definition files.
    definition_kind = ""

    # What a subclass may replace ----------------------------------------------------------------------------------

    def publish_row(self, request: HttpRequest, row: Any, note: str) -> Any:
        """Publish and return the version. Raises MusterError or pydantic.ValidationError if it is
        refused.
        """
        return row.publish(author=request.user, note=note)

    def rollback_row(self, request: HttpRequest, row: Any, number: int) -> Any:
        return row.rollback(number)

    def version_text(self, version: Any) -> str:
        """The text that a diff compares."""
        return render_spec(version.spec)

    def draft_text(self, row: Any) -> str:
        """The working row as the same text; "" if it cannot be read."""
        try:
            return render_spec(row.draft_spec().model_dump(mode="json"))
        except (AttributeError, MusterError, pydantic.ValidationError):
            return ""

    # Save publishes -----------------------------------------------------------------------------------------------

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = []
        names: list[str] = []
        for title, options in super().get_fieldsets(request, obj):
            # A heading without fields is left out.
            if options["fields"]:
                fieldsets.append((title, options))
                names += options["fields"]
        if "keep_as_draft" not in names and self.may_save(request, obj):
            fieldsets.append((later("Publish"), {"fields": ["version_note", "keep_as_draft"]}))
        return fieldsets

    def may_save(self, request: HttpRequest, obj: Any) -> bool:
        if obj:
            return self.has_change_permission(request, obj)
        return self.has_add_permission(request)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Publish last, so that the version contains the inlines as well."""
        super().save_related(request, form, formsets, change)
        if not form.cleaned_data.get("keep_as_draft"):
            self.publish_and_tell(request, form.instance, form.cleaned_data.get("version_note", ""))

    def publish_and_tell(self, request: HttpRequest, row: Any, note: str = "") -> None:
        row.refresh_from_db()
        before = row.published_id
        try:
            version = self.publish_row(request, row, note)
        except (MusterError, pydantic.ValidationError) as error:
            words = {"row": row, "reason": describe_error(error)}
            messages.error(request, _("Saved as a draft; “%(row)s” was not published: %(reason)s") % words)
            return
        words = {"row": row, "number": version.number}
        if version.pk == before:
            messages.success(request, _("“%(row)s” is unchanged; version %(number)s.") % words)
            return
        self.audit(request, "published", row, version=version.number)
        messages.success(request, _("“%(row)s” is live as version %(number)s.") % words)

    @admin.action(description=later("Publish"), permissions=["change"])
    def publish_selected(self, request: HttpRequest, queryset: Any) -> None:
        for row in queryset:
            if self.is_editable(request, row):
                self.publish_and_tell(request, row)

    @admin.action(description=later("Export as YAML"), permissions=["view"])
    def export_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        """A file that `manage.py apply_definitions` reads. Secrets are never in it."""
        kind = files.kinds()[self.definition_kind]
        text = files.dump_definitions(kind.read(row) for row in queryset)
        name = f"{self.definition_kind}s.yaml" if queryset.count() > 1 else f"{queryset.first()}.yaml"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(text, content_type="application/yaml; charset=utf-8", headers=headers)

    # Versions -----------------------------------------------------------------------------------------------------

    @admin.display(description=later("Live"))
    def live_version(self, row: Any) -> str:
        """For list_display; the list selects `published` with each row."""
        if row.published is None:
            return pill("draft")
        return pill(f"v{row.published.number}", "live")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("published")

    @row_action(description=later("Versions"), url_path="versions")
    def show_versions(self, request: HttpRequest, row: Any) -> HttpResponse:
        versions = list(row.versions.select_related("author").order_by("-number")[:500])
        older, newer = self.chosen(request, versions)
        older_text = self.text_of(row, older)
        newer_text = self.text_of(row, newer)
        context = {
            **self.admin_site.each_context(request),
            "title": _("Versions of “%(row)s”") % {"row": row},
            "opts": self.model._meta,
            "original": row,
            "versions": versions,
            "older": older,
            "newer": newer,
            "rows": side_by_side(older_text, newer_text),
            "may_change": self.has_change_permission(request, row),
            "rollback_name": f"admin:{self.url_name('rollback')}",
        }
        return TemplateResponse(request, "admin/muster/versions.html", context)

    def chosen(self, request: HttpRequest, versions: list[Any]) -> tuple[Any, Any]:
        """The two versions to compare: ?from&to, else the live version and the working row. None is
        the working row.
        """
        by_number = {str(version.number): version for version in versions}
        newer = by_number.get(request.GET.get("to", ""))
        older = by_number.get(request.GET.get("from", ""))
        if older is not None:
            return older, newer
        # The newest one before; they stand in descending order.
        for version in versions:
            if newer is None or version.number < newer.number:
                return version, newer
        return None, newer

    def text_of(self, row: Any, version: Any) -> str:
        if version is None:
            return self.draft_text(row)
        return self.version_text(version)

    def roll_back(self, request: HttpRequest, object_id: str, number: int) -> HttpResponse:
        row = self.row_or_404(request, object_id)
        if request.method != "POST" or not self.has_change_permission(request, row):
            raise PermissionDenied
        try:
            version = self.rollback_row(request, row, number)
        except MusterError as error:
            messages.error(request, translate(str(error)))
        else:
            self.audit(request, "rolled_back", row, version=version.number)
            words = {"row": row, "number": version.number}
            messages.success(request, _("“%(row)s” is live in version %(number)s again.") % words)
        return redirect(reverse(f"admin:{self.url_name('show_versions')}", args=[row.pk]))

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.roll_back)
        name = self.url_name("rollback")
        return [path("<path:object_id>/versions/<int:number>/rollback/", view, name=name), *super().get_urls()]


def describe_error(error: Exception) -> str:
    """The error as one sentence."""
    if isinstance(error, pydantic.ValidationError):
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        return f"{path}: {first['msg']}"
    sentences = [str(error)]
    details = [detail for detail in getattr(error, "details", []) if isinstance(detail, dict)]
    for detail in details[:3]:
        sentences.append(str(detail.get("message", detail)))
    sentences.append(getattr(error, "hint", ""))
    return " ".join(translate(sentence) for sentence in sentences).strip()
