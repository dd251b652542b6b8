"""The admin of StoredFunction: the form with its editor, the versions and the tests."""

from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later

from agents.admin import VersionedAdmin, VersionedForm
from agents.admin.authored import OWNER_FILTERS, SHARING
from agents.admin.fields import JsonField, NamedForm, make_fieldsets, translate_choices
from agents.admin.owned import shorten
from agents.admin.versioned import describe_error
from agents.diff import render_spec
from agents.exceptions import Forbidden, MusterError
from agents.models import Tool
from functions import catalogue, checks, store
from functions.models import FunctionTest, FunctionVersion, StoredFunction
from functions.spec import FunctionSpec
from plumbing.site_paths import add_site_prefix
from plumbing.texts import translate, translate_name

from .fields import CodeWidget, SchemaEditor
from .pages import TryPages

VALIDATE = add_site_prefix("/api/v1/functions/validate")
# The store records these actions itself.
RECORDED = {"created", "changed", "published", "rolled_back", "deleted"}


class TestForm(NamedForm):
    __test__ = False
    arguments = JsonField(rows=3, help_text=later("A JSON object."))
    expected = JsonField(rows=3, help_text=later("The value, a JSON Schema, or the error type in quotes."))

    class Meta:
        model = FunctionTest
        fields = ["name", "arguments", "expects", "expected", "tolerance"]

    def clean_arguments(self) -> dict[str, Any]:
        arguments = self.cleaned_data["arguments"] or {}
        if not isinstance(arguments, dict):
            raise forms.ValidationError(_('Write a JSON object, such as {"a": 1}.'))
        return arguments


class TestInline(admin.StackedInline):
    __test__ = False
    model = FunctionTest
    form = TestForm
    extra = 0
    classes = ["collapse"]
    verbose_name, verbose_name_plural = later("test"), later("Tests")


class FunctionForm(VersionedForm):
    # Set by the admin on the form class it creates for each request.
    user: Any = None

    source = forms.CharField(
        strip=False, widget=CodeWidget("python", rows=20, validate=VALIDATE, label=later("Source")),
        help_text=later(
            "Python. The last top-level def is the entry unless you name one; its annotations become the input schema."
        ),
    )  # fmt: skip
    description = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=later("Empty: the docstring is used."),
    )
    effect = forms.ChoiceField(
        choices=partial(translate_choices, Tool.Effect.choices), initial="read",
        help_text=later("The effect of a call outside the function."),
    )  # fmt: skip
    input_schema = SchemaEditor(
        help_text=later("JSON Schema of the arguments. If empty, it is derived from the signature.")
    )  # fmt: skip
    output_schema = SchemaEditor(help_text=later("JSON Schema of the result. If empty, any result is allowed."))
    override = forms.BooleanField(
        required=False, label=later("Publish even if a test fails"),
        help_text=later("Requires a permission and is recorded in the audit log."),
    )  # fmt: skip
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    class Meta:
        model = StoredFunction
        fields = "__all__"  # noqa: DJ007  (the admin's fieldsets choose)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        seen = self.fields.get("seen")
        if self.instance.pk and seen is not None:
            # A later change by somebody else is noticed by it.
            seen.initial = store.draft_hash(self.instance)

    def clean_input_schema(self) -> dict[str, Any]:
        return self.cleaned_data["input_schema"] or {}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        before = self.before()
        if before and cleaned.get("seen") and cleaned["seen"] != store.draft_hash(before):
            raise forms.ValidationError(
                _(
                    "Another user saved this function while you were editing it. Open it in another tab, "
                    "compare, and save again."
                )
            )
        return cleaned

    def before(self) -> StoredFunction | None:
        pk = self.instance.pk
        if not pk:
            return None
        return StoredFunction.objects.filter(pk=pk).first()

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]  # Django's own hook, which the stubs leave out
        if not self.errors:
            self.check_function(self.instance, self.before())

    def check_function(self, function: StoredFunction, before: StoredFunction | None) -> None:
        owner = function.owner
        if before is None and not self.user.is_superuser:
            owner = self.user
        namesakes = StoredFunction.objects.filter(owner=owner, name=function.name).exclude(pk=function.pk)
        if namesakes.exists():
            self.add_error("name", _("A function named “%(name)s” already exists.") % {"name": function.name})
        elif before is None or before.name != function.name:
            self.check_name(StoredFunction(pk=function.pk, name=function.name, owner=owner))
        if before:
            store.forget_derived(function, before)
        try:
            checks.require_permissions(function, before, self.user)
            refusals = checks.check_function(function, user=self.user)
        except Forbidden as error:
            field = "safe_mode"
            if error.details:
                field = error.details[0]["limit"]
            self.add_error(field, describe_with_hint(error))
            return
        except MusterError as error:
            self.add_error(None, describe_with_hint(error))
            return
        for refusal in refusals:
            self.add_refusal(refusal)

    def add_refusal(self, refusal: checks.Refusal) -> None:
        """The refusal beside its field; above the form if the form does not show the field."""
        field = refusal.get("field", "source")
        message = translate(refusal["message"]).rstrip(".")
        words = f"{message}. {translate(refusal['hint'])}"
        if field == "source":
            line = _("line %(line)s:") % {"line": refusal["line"]}
            words = f"{line} {words}"
        place = field if field in self.fields else None
        self.add_error(place, words)

    def check_name(self, function: StoredFunction) -> None:
        try:
            catalogue.require_free_name(function)
        except MusterError as error:
            self.add_error("name", describe_with_hint(error))


@admin.register(StoredFunction)
class FunctionAdmin(TryPages, VersionedAdmin):
    form = FunctionForm
    list_display = [
        "name",
        "short_description",
        "live_version",
        "effect",
        "test_count",
        "is_deprecated",
        "owner",
        "updated_at",
    ]
    list_filter = ["effect", "is_deprecated", *OWNER_FILTERS]
    search_fields = ["name", "description"]
    actions = ["publish_selected", "deprecate_selected", "export_selected"]
    definition_kind = "function"
    row_actions = ["show_versions", "try_out", "show_tests", "show_replay"]
    inlines = [TestInline]
    fieldsets = [
        *make_fieldsets(StoredFunction, instead={"description": ["description", "seen"]}),
        (later("Publish"), {"fields": ["version_note", "keep_as_draft", "override"]}),
        SHARING,
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(test_total=Count("tests"))

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        form.user = request.user
        return form

    @admin.display(description=later("What it does"))
    def short_description(self, function: StoredFunction) -> str:
        first_line, *_ = function.description.split("\n")
        return shorten(first_line)

    @admin.display(description=later("Tests"), ordering="test_total")
    def test_count(self, function: Any) -> int:
        return function.test_total

    # All changes go through the store --------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: StoredFunction, form: Any, change: bool) -> None:
        if not change and not request.user.is_superuser:
            obj.owner = request.user  # type: ignore[assignment]
        address = get_remote_address(request)
        store.save_function(obj, user=request.user, source=address)

    def publish_row(self, request: HttpRequest, row: StoredFunction, note: str) -> FunctionVersion:
        override = bool(request.POST.get("override"))
        address = get_remote_address(request)
        return store.publish_function(row, user=request.user, note=note, override=override, source=address)

    def rollback_row(self, request: HttpRequest, row: StoredFunction, number: int) -> FunctionVersion:
        address = get_remote_address(request)
        return store.rollback_function(row, number, user=request.user, source=address)

    def version_text(self, version: FunctionVersion) -> str:
        return render_spec(version.whole())

    def draft_text(self, row: StoredFunction) -> str:
        contents = FunctionSpec.of(row).model_dump(mode="json")
        contents["source"] = row.source
        return render_spec(contents)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        address = get_remote_address(request)
        store.delete_function(obj, user=request.user, source=address)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Deletes the function with its versions and tests. Executions are kept; a function in use
        cannot be deleted.
        """
        names = []
        used: list[str] = []
        for function in objs:
            names.append(_("%(function)s, its versions and its tests") % {"function": function})
            uses = catalogue.find_function_uses(function, request.user)
            used += map(describe_use, uses)
        counts = {_("functions"): len(names)}
        return names, counts, set(), used

    def audit(self, request: HttpRequest, verb: str, row: Any, **details: Any) -> None:
        if verb not in RECORDED:
            super().audit(request, verb, row, **details)

    @admin.action(description=later("Deprecate"), permissions=["change"])
    def deprecate_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for function in queryset:
            try:
                store.deprecate(function, True, user=request.user, source=get_remote_address(request))
            except MusterError as error:
                messages.error(request, describe_error(error))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, extra_context)
        except MusterError as error:
            messages.error(request, describe_error(error))
            return redirect(reverse("admin:functions_storedfunction_change", args=[object_id]))


def describe_use(use: dict[str, Any]) -> str:
    """What uses a function, such as “agent clerk”; others' agents and chains have no name."""
    kind = translate_name(use["kind"])
    name = use["name"] or _("(you cannot see it)")
    return f"{kind} {name}"


def describe_with_hint(error: MusterError) -> str:
    return f"{translate(str(error))} {translate(error.hint)}"


def get_remote_address(request: HttpRequest) -> str:
    return request.META.get("REMOTE_ADDR", "")
