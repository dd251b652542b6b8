"""Chains: their steps and grants inline; publishing checks the graph."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as later
from django.utils.translation import pgettext

from agents.models import Chain, ChainStep

from .authored import OWNER_FILTERS, SHARING, GrantInline
from .base import row_action
from .fields import JsonField, LinesField, NamedForm, make_fieldsets
from .owned import count_references, shorten
from .versioned import VersionedAdmin


class StepForm(NamedForm):
    needs = LinesField(help_text=later("Keys of the steps that must end first, one per line."))
    input = JsonField(rows=4, help_text=ChainStep._meta.get_field("input").help_text)
    options = JsonField(rows=4, help_text=ChainStep._meta.get_field("options").help_text)

    class Meta:
        model = ChainStep
        fields = ["key", "position", "target_kind", "target", "target_version", "needs", "input", "when", "for_each"]
        fields += ["options"]

    def clean_input(self) -> Any:
        return self.cleaned_data["input"] or {}

    def clean_options(self) -> Any:
        return self.cleaned_data["options"] or {}


class StepInline(admin.StackedInline):
    model = ChainStep
    form = StepForm
    extra = 0
    classes = ["collapse"]


class ChainGrantInline(GrantInline):
    fk_name = "chain"


@admin.register(Chain)
class ChainAdmin(VersionedAdmin):
    list_display = ["name", "short_description", "strategy", "live_version", "enabled", "step_count", "owner"]
    list_filter = ["enabled", "strategy", *OWNER_FILTERS]
    search_fields = ["name", "description"]
    inlines = [StepInline, ChainGrantInline]
    row_actions = ["try_out", "show_versions"]
    definition_kind = "chain"
    readonly_fields = ["picture"]
    fieldsets = [*make_fieldsets(Chain, instead={"session": ["session", "picture"]}), SHARING]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(step_total=count_references(ChainStep, "chain"))

    @row_action(description=later("Try"), url_path="try")
    def try_out(self, request: HttpRequest, chain: Chain) -> HttpResponse:
        """The chain's page, with a form that starts a run."""
        return redirect(reverse("page:chain", args=[chain.name]))

    @admin.display(description=later("Picture of the draft"))
    def picture(self, chain: Chain) -> str:
        """The graph of the draft; an unsaved chain has none."""
        if chain.pk is None:
            return "–"
        # By its key: names differ between users.
        address = reverse("page:chain-picture", args=[chain.pk])
        words = "; ".join(map(describe_step_place, chain.steps.all()))
        return format_html('<img src="{}" alt="{}">', address, words)

    @admin.display(description=later("What it does"))
    def short_description(self, chain: Chain) -> str:
        return shorten(chain.description)

    @admin.display(description=later("Steps"), ordering="step_total")
    def step_count(self, chain: Any) -> int:
        return chain.step_total


def describe_step_place(step: ChainStep) -> str:
    """The place of a step. Its context keeps so general a text out of plumbing/texts.py."""
    if not step.needs:
        return pgettext("chain", "%(step)s after nothing") % {"step": step.key}
    return pgettext("chain", "%(step)s after %(needs)s") % {"step": step.key, "needs": ", ".join(step.needs)}
