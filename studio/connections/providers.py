"""The pages of model providers: add, edit, test and delete one, with its models and prices."""

from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later
from django.views.decorators.http import require_POST
from rest_framework.exceptions import ValidationError as Refused

from agents import available_models, roles
from agents.exceptions import Forbidden, MusterError
from agents.http.viewsets import refusals
from agents.known_models import read_table
from agents.models import Agent, AuditEvent, Provider
from agents.models.agent import provider_changed
from agents.models.provider import check_model_url
from agents.serializers.providers import PricesField
from agents.sharing import remove_unshared_uses

from ..authoring.agents import find_teams
from ..base import render_shell_page, require_login
from ..labels import in_language
from ..owner_urls import address, find_by_name, mark_namesake, mark_namesakes
from ..start import NamedForm

WRITES = "providers:write"
LISTED = 200
KEY_PAGES = {
    Provider.Kind.OPENAI: "https://platform.openai.com/api-keys",
    Provider.Kind.ANTHROPIC: "https://console.anthropic.com/settings/keys",
    Provider.Kind.GOOGLE: "https://aistudio.google.com/apikey",
}


@dataclass(frozen=True)
class Fix:
    """What mends a failure: one sentence, and the text to copy."""

    words: str
    text: str


class ProviderForm(NamedForm):
    model = Provider
    kind = forms.ChoiceField(label=later("Kind"), choices=partial(in_language, Provider.Kind.choices))
    base_url = forms.URLField(
        required=False, assume_scheme="https", label=later("Base URL"),
        help_text=later("Empty: the provider's own address. A changed address clears the key."),
    )  # fmt: skip
    api_key = forms.CharField(
        required=False, max_length=2000, label=later("API key"),
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=later("Stored encrypted and never shown again. Empty: the stored key stays."),
    )  # fmt: skip
    default_model = forms.CharField(
        required=False, max_length=100, label=later("Default model"),
        widget=forms.TextInput(attrs={"list": "served", "autocomplete": "off"}),
        help_text=later("For agents that name no model. After the first test, the models of the server are suggested."),
    )  # fmt: skip
    api = forms.ChoiceField(
        label=later("API"), choices=partial(in_language, Provider.Api.choices), initial="chat",
        help_text=later("Which of OpenAI's APIs is spoken; other kinds have one."),
    )  # fmt: skip
    tool_calling = forms.ChoiceField(
        label=later("Tool calls"), choices=partial(in_language, Provider.ToolCalling.choices), initial="native"
    )
    thinking = forms.ChoiceField(
        label=later("Thoughts"), choices=partial(in_language, Provider.Thinking.choices), initial="split"
    )
    enabled = forms.BooleanField(label=later("Enabled"), required=False, initial=True)

    for_whom = forms.ChoiceField(
        required=False, label=later("For whom?"), initial="me",
        choices=[("me", later("For me, and for teams that I choose")), ("site", later("For everybody on this site"))],
        widget=forms.RadioSelect,
    )  # fmt: skip

    # What a new provider asks; the rest has usual values.
    FIRST = ("kind", "name", "base_url", "api_key", "for_whom")
    fix: Fix | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        may_be_for_site = self.user.is_superuser and self.row is None
        if not may_be_for_site:
            del self.fields["for_whom"]
        self.order_fields(self.FIRST)

    def first_fields(self) -> list[Any]:
        return [field for field in self if field.name in self.FIRST]

    def other_fields(self) -> list[Any]:
        return [field for field in self if field.name not in self.FIRST]

    def clean_name(self) -> str:
        """A provider of the site has a name that is free among those of the site."""
        is_for_site = "for_whom" in self.fields and self.data.get("for_whom") == "site"
        person = self.user
        if is_for_site:
            self.user = None
        try:
            return super().clean_name()
        finally:
            self.user = person

    def clean_base_url(self) -> str:
        url = self.cleaned_data["base_url"]
        if not url:
            return url
        try:
            check_model_url(url)
        except ValidationError as error:
            if error.code == "private_address":
                self.fix = private_fix(url)
            raise
        return url

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        needs_url = cleaned.get("kind") == Provider.Kind.COMPATIBLE
        # An address with an error of its own is empty here.
        if needs_url and not cleaned.get("base_url") and not self.errors:
            self.add_error("base_url", _("An OpenAI-compatible server needs its address."))
        prices: dict[str, dict[str, float]] = {}
        try:
            for model, row in read_prices(self.data).items():
                prices[model] = {end: read_amount(cost) for end, cost in row.items()}
            cleaned["prices"] = PricesField().run_validation(prices)
        except (Refused, ValueError):
            self.add_error(None, _("A price is a number of US dollars per million tokens, from 0."))
        return cleaned

    def save(self) -> Provider:
        fields = dict(self.cleaned_data)
        is_for_site = fields.pop("for_whom", "") == "site"
        provider = self.row or Provider(owner=None if is_for_site else self.user)
        has_moved = (fields["kind"], fields["base_url"]) != (provider.kind, provider.base_url)
        # An empty field leaves the stored key, which is never sent to another address.
        if not fields["api_key"] and not (has_moved and self.row):
            fields["api_key"] = provider.api_key
        for name, value in fields.items():
            setattr(provider, name, value)
        action = "provider.changed" if self.row else "provider.created"
        with refusals("provider", self.user):
            provider.save()
            AuditEvent.record(action, provider, actor=self.user, fields=sorted(self.changed_data))
            provider_changed(provider)
        return provider


def read_prices(data: Any) -> dict[str, dict[str, Any]]:
    """The rows of the table of prices. Rows without a model are left out."""
    models, inputs, outputs = (data.getlist(f"price_{name}")[:400] for name in ("model", "input", "output"))
    prices: dict[str, dict[str, Any]] = {}
    for model, input_cost, output_cost in zip(models, inputs, outputs, strict=False):
        name = model.strip()[:100]
        if name:
            prices[name] = {"input": input_cost or 0, "output": output_cost or 0}
    return prices


def read_amount(text: Any) -> float:
    """Raises ValueError for what is no number, also for an infinite one."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


@require_login(writes=WRITES)
def provider_list(request: HttpRequest) -> HttpResponse:
    """The providers that this person can see. POST adds one and tests it."""
    form = None
    if request.method == "POST":
        form = ProviderForm(request.POST, user=request.user)
        if form.is_valid():
            provider = form.save()
            remember_trial(request, provider)
            mark_namesake(request.user, provider)
            return redirect(address("page:provider", provider))
    visible_rows = Provider.objects.visible_to(request.user).select_related("owner", "team")
    rows = list(visible_rows.order_by("name", "pk")[:LISTED])
    mark_namesakes(Provider, rows, request.user)
    blank = ProviderForm(user=request.user, initial={"name": "openai", "kind": Provider.Kind.OPENAI})
    answer = render_shell_page(
        request,
        "providers.html",
        _("Providers"),
        providers=rows,
        form=form or blank,
        is_new=True,
        prices={},
        may_add=roles.allows(request.user, WRITES),
        failed=form is not None,
    )
    answer.status_code = 200 if form is None else 422
    return answer


@require_login(writes=WRITES)
def provider_page(request: HttpRequest, name: str) -> HttpResponse:
    """One provider. POST changes it and tests it."""
    provider = load_shown_provider(request, name)
    form = None
    if request.method == "POST":
        provider.require_edit(request.user)
        form = ProviderForm(request.POST, user=request.user, row=provider)
        if form.is_valid():
            saved = form.save()
            remember_trial(request, saved)
            return redirect(address("page:provider", saved))
        # Without what was refused.
        provider = load_shown_provider(request, name)
    table = read_table()
    may_edit = provider.may_edit(request.user) and roles.allows(request.user, WRITES)
    # The result of a trial is shown once.
    trial = request.session.pop(f"trial-{provider.pk}", None)
    answer = render_shell_page(
        request,
        "provider.html",
        provider.name,
        provider=provider,
        form=form or fill_form(provider, request.user),
        prices=read_prices(request.POST) if form else provider.prices,
        preset=table["kinds"].get(provider.kind),
        as_of=table["as_of"],
        may_edit=may_edit,
        trial=trial,
        choice=find_model_choice(provider) if trial and trial["ok"] and may_edit else {},
        teams=find_teams(request.user, provider) if provider.owner_id == request.user.pk else [],
        may_be_for_site=request.user.is_superuser and provider.owner_id == request.user.pk,
        agents=find_agents(provider, request.user),
    )
    answer.status_code = 200 if form is None else 422
    return answer


def find_model_choice(provider: Provider) -> dict[str, Any]:
    """{names, suggested} of the models that can become the default; {} if there is nothing to choose."""
    if provider.default_model:
        return {}
    try:
        # The trial has just asked the server, so its answer is kept.
        names = available_models.models(provider)
    except MusterError:
        return {}
    if not names:
        return {}
    return {"names": names, "suggested": available_models.suggest_default_model(provider, names)}


def find_agents(provider: Provider, user: Any) -> list[Agent]:
    agents = list(provider.agents.visible_to(user).select_related("owner").order_by("name", "pk")[:LISTED])
    mark_namesakes(Agent, agents, user)
    return agents


def load_shown_provider(request: HttpRequest, name: str) -> Provider:
    return find_by_name(request, Provider.objects.select_related("owner"), name)


def fill_form(provider: Provider, user: Any) -> ProviderForm:
    """The form with the provider's values; the key is never among them."""
    names = ("name", "kind", "base_url", "default_model", "api", "tool_calling", "thinking", "enabled")
    initial = {name: getattr(provider, name) for name in names}
    return ProviderForm(user=user, row=provider, initial=initial)


def remember_trial(request: HttpRequest, provider: Provider, *, with_requests: bool = False) -> None:
    """Try the provider now; the next page shows the result once. `with_requests`: also what its model can do."""
    if not provider.enabled:
        messages.success(request, _("Saved. A provider that is switched off is not tested."))
        return
    trial = available_models.try_provider(provider) if with_requests else available_models.verdict(provider)
    available_models.record_trial(provider, trial)
    AuditEvent.record("provider.tested", provider, actor=request.user, ok=trial["ok"], code=trial["code"])
    fix = find_fix(provider, trial["code"])
    request.session[f"trial-{provider.pk}"] = {**trial, "fix": vars(fix) if fix else None}


def find_fix(provider: Provider, code: str) -> Fix | None:
    """What the person can do about a trial that failed with this code."""
    if code == "private_address":
        return private_fix(provider.base_url)
    if code == "provider_key_refused" and provider.kind in KEY_PAGES:
        key_page = KEY_PAGES[Provider.Kind(provider.kind)]
        return Fix(_("Make a new key at this address, and enter it below."), key_page)
    if provider.kind == Provider.Kind.OLLAMA:
        if code == "unknown_model":
            return Fix(_("Load the model on the machine of the server."), f"ollama pull {provider.default_model}")
        if code == "provider_unreachable":
            return Fix(_("Start the server on its machine."), "ollama serve")
    # The usual mistake with a server that speaks OpenAI's API.
    is_compatible = provider.kind == Provider.Kind.COMPATIBLE
    if code == "provider_refused" and is_compatible and "/v1" not in provider.base_url:
        return Fix(_("Try this base URL."), f"{provider.base_url.rstrip('/')}/v1")
    return None


def private_fix(url: str) -> Fix:
    words = _("An administrator adds this to the settings of the server (the file .env) and restarts it.")
    host = urlsplit(url).hostname or ""
    return Fix(words, f"MUSTER_PRIVATE_HOSTS={host}")


@require_POST
@require_login(writes=WRITES)
def test(request: HttpRequest, name: str) -> HttpResponse:
    provider = load_shown_provider(request, name)
    provider.require_edit(request.user)
    remember_trial(request, provider, with_requests=True)
    return redirect(address("page:provider", provider))


@require_POST
@require_login(writes=WRITES)
def set_default_model(request: HttpRequest, name: str) -> HttpResponse:
    """The model of agents that name none. The page then shows what it can do."""
    provider = load_shown_provider(request, name)
    provider.require_edit(request.user)
    provider.default_model = request.POST.get("default_model", "").strip()[:100]
    provider.save(update_fields=["default_model", "updated_at"])
    AuditEvent.record("provider.changed", provider, actor=request.user, fields=["default_model"])
    provider_changed(provider)
    remember_trial(request, provider, with_requests=True)
    return redirect(address("page:provider", provider))


@require_POST
@require_login(writes=WRITES)
def give_to_site(request: HttpRequest, name: str) -> HttpResponse:
    """Make a provider of one's own one of the site, which everybody may use; only superusers do."""
    provider = load_shown_provider(request, name)
    if not request.user.is_superuser or provider.owner_id != request.user.pk:
        raise Forbidden(
            _("Only superusers give a provider of their own to the site."), hint=_("Share it with a team instead.")
        )
    with refusals("provider", request.user):
        provider.owner = None
        provider.team = None
        provider.save(update_fields=["owner", "team", "updated_at"])
        AuditEvent.record("provider.given_to_site", provider, actor=request.user)
    messages.success(request, _("Everybody on this site may use “%(name)s” now.") % {"name": provider})
    return redirect(address("page:provider", mark_namesake(request.user, provider)))


@require_POST
@require_login(writes=WRITES)
def delete_shown_provider(request: HttpRequest, name: str) -> HttpResponse:
    provider = load_shown_provider(request, name)
    provider.require_edit(request.user)
    with refusals("provider", request.user, is_deletion=True):
        AuditEvent.record("provider.deleted", provider, actor=request.user)
        remove_unshared_uses(provider)
        provider.delete()
    messages.success(request, _("“%(name)s” was deleted.") % {"name": name[:64]})
    return redirect("page:providers")
