"""Providers, agents and tools."""

from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later

from agents import available_models, prompts
from agents.models import Agent, Provider, Tool, ToolGrant
from agents.models.agent import provider_changed, tool_changed
from agents.spec import ModelParams
from plumbing.texts import translate

from .base import row_action
from .fields import JsonField, NamedForm, make_fieldsets, translate_choices
from .owned import OwnedAdmin, VisibleChoices, count_references, shorten
from .versioned import VersionedAdmin, VersionedForm

OWNER_FILTERS: list[Any] = [("owner", admin.RelatedOnlyFieldListFilter), ("team", admin.RelatedOnlyFieldListFilter)]
SHARING: Any = (later("Sharing"), {"fields": ["owner", "team"], "classes": ["collapse"]})


class ProviderForm(NamedForm):
    base_url = forms.URLField(
        required=False, assume_scheme="https", label=later("Base URL"),
        help_text=Provider._meta.get_field("base_url").help_text,
    )  # fmt: skip
    api_key = forms.CharField(
        required=False, strip=True, label=later("API key"), widget=forms.PasswordInput(render_value=False),
        help_text=later("Write-only: leave empty to keep the stored key."),
    )  # fmt: skip
    prices = JsonField(rows=4, help_text=Provider._meta.get_field("prices").help_text)

    class Meta:
        model = Provider
        fields = "__all__"  # noqa: DJ007  (the admin's fieldsets choose)

    def clean_api_key(self) -> str:
        """A new key, else the stored one: the key is never sent to the page."""
        return self.cleaned_data["api_key"] or self.instance.api_key

    def clean_prices(self) -> dict:
        return self.cleaned_data["prices"] or {}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        moved = bool({"kind", "base_url"} & set(self.changed_data))
        if self.instance.pk and moved and not self.data.get("api_key"):
            # A key must not be sent to another address.
            cleaned["api_key"] = ""
        return cleaned


# A provider is tried when one of these changed.
TRIED = {"kind", "base_url", "api_key", "enabled", "default_model"}


@admin.register(Provider)
class ProviderAdmin(OwnedAdmin):
    form = ProviderForm
    list_display = ["name", "kind", "base_url", "has_key", "enabled", "agent_count", "owner"]
    list_filter = ["kind", "enabled", *OWNER_FILTERS]
    search_fields = ["name", "base_url"]
    row_actions = ["try_out"]
    fieldsets = [*make_fieldsets(Provider, instead={"base_url": ["kind", "base_url", "api_key"]}), SHARING]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(agent_total=count_references(Agent, "provider"))

    @row_action(description=later("Test"), url_path="test", permission="change", changes=True)
    def try_out(self, request: HttpRequest, provider: Provider) -> HttpResponse:
        """Ask its server for its models, and its model what it can do; say what came of it."""
        self.tell_trial(request, provider, available_models.try_provider(provider))
        self.audit(request, "tested", provider)
        return redirect(reverse("admin:agents_provider_change", args=[provider.pk]))

    def tell_trial(self, request: HttpRequest, provider: Provider, trial: dict[str, Any]) -> None:
        sentences = [trial["message"], trial["hint"]]
        for ability in trial.get("abilities", ()):
            sentences.append(ability["message"])
        words = " ".join(translate(sentence) for sentence in sentences if sentence)
        level = messages.SUCCESS if trial["ok"] else messages.WARNING
        messages.add_message(request, level, words)

    @admin.display(description=later("Key"), boolean=True)
    def has_key(self, provider: Provider) -> bool:
        return bool(provider.api_key)

    @admin.display(description=later("Agents"), ordering="agent_total")
    def agent_count(self, provider: Any) -> int:
        return provider.agent_total

    def save_model(self, request: HttpRequest, obj: Provider, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        changed = set(form.changed_data)
        if change and "api_key" in form.initial and changed:
            provider_changed(obj)
        has_moved = change and changed & {"kind", "base_url"}
        if has_moved and not obj.api_key:
            words = _("The address changed, so the stored key was cleared. Enter the key for the new address.")
            messages.info(request, words)
            return
        has_server = obj.enabled and obj.kind != Provider.Kind.OFFLINE
        if has_server and changed & TRIED:
            # No transaction waits for a server.
            transaction.on_commit(lambda: self.tell_trial(request, obj, available_models.verdict(obj)))


class GrantForm(NamedForm):
    """A new grant without a mode gets the default mode of its tool's effect."""

    mode = forms.ChoiceField(
        choices=partial(
            translate_choices,
            [("", later("default for the effect: asks if the call cannot be undone")), *ToolGrant.Mode.choices],
        ),
        required=False,
    )
    decides = forms.ChoiceField(
        choices=partial(translate_choices, ToolGrant.Decider.choices), required=False, help_text=later("Who answers.")
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.pk:
            self.initial["mode"] = ""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not cleaned.get("mode") and cleaned.get("tool"):
            cleaned["mode"] = cleaned["tool"].mode_when_granted
        cleaned["decides"] = cleaned.get("decides") or ToolGrant.Decider.STARTER
        return cleaned


class GrantInline(VisibleChoices, admin.TabularInline):
    model = ToolGrant
    form = GrantForm
    fk_name = "agent"
    fields = [
        "tool", "mode", "pinned_version", "deadline_s", "offline", "allow_after_untrusted", "decides", "decider_role",
        "not_starter",
    ]  # fmt: skip
    extra = 0
    verbose_name, verbose_name_plural = later("tool"), later("Tools it may use")

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).select_related("tool", "agent")


def build_number_field(low: float, high: float, label: Any, words: Any) -> forms.FloatField:
    """An optional number."""
    widget = forms.NumberInput(attrs={"step": "any"})
    return forms.FloatField(
        required=False, min_value=low, max_value=high, label=label, help_text=words, widget=widget
    )  # fmt: skip


class AgentForm(VersionedForm):
    temperature = build_number_field(0, 2, later("Temperature"), later("0 to 2; empty: the model's default."))
    top_p = build_number_field(0, 1, later("Top p"), later("0 to 1"))
    presence_penalty = build_number_field(-2, 2, later("Presence penalty"), later("−2 to 2"))
    frequency_penalty = build_number_field(-2, 2, later("Frequency penalty"), later("−2 to 2"))
    max_tokens = forms.IntegerField(required=False, min_value=1, max_value=1_000_000, label=later("Max tokens"))

    class Media:
        js = (forms.Script("muster/models.js", type="module"),)

    class Meta:
        model = Agent
        exclude = ["model_params"]  # noqa: DJ006  (asked for as five separate fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "model_name" in self.fields:
            self.fields["model_name"].widget.attrs |= {"data-models": "", "list": "served-models"}
        for name in ModelParams.model_fields:
            if name in self.fields:
                self.fields[name].initial = self.instance.model_params.get(name)

    def clean_variables(self) -> dict:
        variables = self.cleaned_data["variables"] or {}
        problems = prompts.check_variables(variables)
        if problems:
            raise ValidationError([f"{problem['field']}: {problem['message']}" for problem in problems])
        return variables

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        params = {name: cleaned.get(name) for name in ModelParams.model_fields}
        self.instance.model_params = {name: value for name, value in params.items() if value is not None}
        return cleaned


@admin.register(Agent)
class AgentAdmin(VersionedAdmin):
    form = AgentForm
    list_display = [
        "name",
        "short_description",
        "provider",
        "model_name",
        "live_version",
        "enabled",
        "tool_count",
        "owner",
    ]
    list_filter = ["enabled", ("provider", admin.RelatedOnlyFieldListFilter), *OWNER_FILTERS]
    search_fields = ["name", "description"]
    row_actions = ["try_out", "show_versions", "duplicate"]
    definition_kind = "agent"
    inlines = [GrantInline]
    fieldsets = [*make_fieldsets(Agent, instead={"model_params": [*ModelParams.model_fields]}), SHARING]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        rows = super().get_queryset(request).select_related("provider")
        return rows.annotate(tool_total=count_references(ToolGrant, "agent"))

    def has_copy_permission(self, request: HttpRequest, row: Agent) -> bool:
        return self.has_add_permission(request)

    @row_action(description=later("Try"), url_path="try")
    def try_out(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        """The playground, with this agent chosen."""
        if agent.published is None:
            messages.warning(request, _("“%(agent)s” is a draft: publish it before you try it.") % {"agent": agent})
            return redirect(reverse("admin:agents_agent_change", args=[agent.pk]))
        return redirect(f"{reverse('page:playground')}?{urlencode({'agent': agent.name})}")

    @admin.display(description=later("Purpose"))
    def short_description(self, agent: Agent) -> str:
        return shorten(agent.description)

    @admin.display(description=later("Tools"), ordering="tool_total")
    def tool_count(self, agent: Any) -> int:
        return agent.tool_total

    @row_action(description=later("Duplicate"), url_path="duplicate", permission="copy", changes=True)
    def duplicate(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        """A draft copy for the current user."""
        copy = copy_agent(agent, request.user)
        self.audit(request, "created", copy, copied_from=str(agent.pk))
        messages.success(request, _("“%(copy)s” is your copy; it is a draft until you save it.") % {"copy": copy})
        return redirect(reverse("admin:agents_agent_change", args=[copy.pk]))


def copy_agent(agent: Agent, user: Any) -> Agent:
    """A copy with its grants under an unused name."""
    grants = list(agent.grants.all())
    copy = Agent.objects.get(pk=agent.pk)
    # Without its key, a row is stored as a new one.
    copy.pk = None
    copy._state.adding = True
    copy.owner = user
    copy.team = None
    copy.published = None
    copy.live_hash = ""
    copy.name = find_free_agent_name(agent.name, user)
    # A name has at most one public card.
    copy.public_card = False
    copy.save()
    for grant in grants:
        grant.pk = None
        grant._state.adding = True
        grant.agent = copy
    ToolGrant.objects.bulk_create(grants)
    return copy


def find_free_agent_name(name: str, user: Any) -> str:
    """The name with “-copy”, or “-copy2”, “-copy3”…, whichever this person does not use yet."""
    similar = Agent.objects.filter(owner=user, name__startswith=name[:50])
    existing = set(similar.values_list("name", flat=True))
    # At most 64 characters.
    stem = f"{name[:56]}-copy"
    candidate = stem
    number = 1
    while candidate in existing:
        number += 1
        candidate = f"{stem}{number}"
    return candidate


@admin.register(Tool)
class ToolAdmin(OwnedAdmin):
    """The catalogue follows functions, devices and connections; users can only switch a tool off or
    change its marks.
    """

    list_display = ["name", "kind", "effect", "short_description", "enabled", "untrusted", "grant_count", "owner"]
    list_filter = ["kind", "effect", "enabled", "untrusted", *OWNER_FILTERS]
    search_fields = ["name", "description"]
    readonly_fields = [
        "name", "kind", "description", "input_schema", "output_schema", "source", "definition_hash", "owner", "team",
    ]  # fmt: skip
    BESIDE = {
        "description": ["kind", "description"],
        "output_schema": ["output_schema", "source", "definition_hash"],
    }
    fieldsets = [*make_fieldsets(Tool, instead=BESIDE), SHARING]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(grant_total=count_references(ToolGrant, "tool"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Tool, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        # Or agents that are cached would go on with the tool as it was.
        tool_changed(obj)

    @admin.display(description=later("What it does"))
    def short_description(self, tool: Tool) -> str:
        return shorten(tool.description)

    @admin.display(description=later("Grants"), ordering="grant_total")
    def grant_count(self, tool: Any) -> int:
        return tool.grant_total
