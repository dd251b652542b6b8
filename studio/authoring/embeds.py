"""The pages of embeds: agents for visitors, the line to paste, and the limits."""

from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later
from django.views.decorators.http import require_POST

from agents.exceptions import Invalid
from agents.models import Agent, AuditEvent
from runs.api.embeds import COSTS, DAILY_COST, page_url, read_cost_limits, save_embed
from runs.models import Embed

from ..base import render_shell_page, require_login

WRITES = "agents:write"
LISTED = 200
SNIPPET = '<script src="{server}/embed.js" data-key="{key}" async></script>'


class Lines(forms.CharField):
    """A list of texts, one a line."""

    widget = forms.Textarea(attrs={"rows": 3})

    def prepare_value(self, value: Any) -> Any:
        # A text is what was typed; a list comes from the row.
        if isinstance(value, list):
            return "\n".join(value)
        return value

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        lines = [line.strip() for line in (value or "").splitlines()]
        return [line for line in lines if line]


def build_dollar_field(label: Any) -> forms.DecimalField:
    return forms.DecimalField(
        label=label, required=False, min_value=0, max_digits=12, decimal_places=4, help_text=later("Empty: no limit.")
    )


class EmbedForm(forms.ModelForm):
    enabled = forms.BooleanField(required=False, label=later("Visitors may use it"))
    origins = Lines(
        required=False, help_text=later("One a line, such as https://shop.example.org. Empty: only the page.")
    )
    suggestions = Lines(required=False, label=later("Suggested questions"), help_text=later("One a line, at most six."))
    tools = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, label=later("Tools that visitors may use"),
        help_text=later("What is chosen here is open to strangers. Calls that change something ask you first."),
    )  # fmt: skip
    daily_cost = build_dollar_field(later("US dollars a day"))
    monthly_cost = build_dollar_field(later("US dollars a month"))

    class Meta:
        model = Embed
        fields = [
            "enabled", "title", "greeting", "suggestions", "colour", "origins", "tools", "daily_cost", "monthly_cost",
            "per_visitor", "per_minute", "max_characters",
        ]  # fmt: skip
        widgets = {"colour": forms.TextInput(attrs={"type": "color"}), "greeting": forms.Textarea(attrs={"rows": 2})}
        help_texts = dict.fromkeys(("per_visitor", "per_minute", "max_characters"), "")
        labels = {
            "per_visitor": later("Messages a minute of one visitor"), "per_minute": later("Messages a minute of all"),
            "max_characters": later("Characters of one message"),
        }  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        embed = kwargs["instance"]
        super().__init__(*args, initial=read_cost_limits(embed), **kwargs)
        names = sorted({*embed.tools_to_open(), *embed.tools})
        self.fields["tools"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]


@require_login(writes=WRITES)
def embed_list(request: HttpRequest) -> HttpResponse:
    """Every embed of this person. POST creates one, which is off."""
    mine = Agent.objects.editable_by(request.user).published().order_by("name")
    if request.method == "POST":
        name = request.POST.get("agent", "")[:64].replace("\0", "")
        agent = mine.filter(name=name).first()
        if agent is None:
            raise Invalid(_("Choose a published agent that you may change."))
        embed = save_embed(Embed(owner=request.user, agent=agent), {}, {"daily_cost": DAILY_COST})
        AuditEvent.record("embed.created", embed, actor=request.user, agent=agent.name)
        return redirect("page:embed", embed.pk)
    embeds = Embed.objects.visible_to(request.user).select_related("agent")[:LISTED]
    return render_shell_page(request, "embeds.html", _("Web sites"), embeds=embeds, agents=mine[:LISTED])


@require_login(writes=WRITES)
def embed_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One embed: what to paste, and its form."""
    embed = find_own(request, pk)
    is_sent = request.method == "POST"
    form = EmbedForm(request.POST if is_sent else None, instance=embed)
    if is_sent and form.is_valid():
        fields = dict(form.cleaned_data)
        costs = {name: fields.pop(name) for name in COSTS}
        save_embed(embed, fields, costs)
        AuditEvent.record("embed.changed", embed, actor=request.user, fields=form.changed_data, enabled=embed.enabled)
        messages.success(request, _("Saved."))
        return redirect("page:embed", embed.pk)
    # A form writes refused values to its row: the title is read anew.
    title = str(find_own(request, pk))
    snippet = SNIPPET.format(server=settings.PUBLIC_URL.rstrip("/"), key=embed.key)
    answer = render_shell_page(
        request, "embed.html", title, embed=embed, form=form, snippet=snippet, url=page_url(embed)
    )
    answer.status_code = 422 if form.errors else 200
    return answer


@require_POST
@require_login(writes=WRITES)
def handle_embed_action(request: HttpRequest, pk: UUID, verb: str) -> HttpResponse:
    """Give it another key, or delete it."""
    embed = find_own(request, pk)
    actions = {"rotate": "embed.rotated", "delete": "embed.deleted"}
    # Before the row is gone.
    AuditEvent.record(actions[verb], embed, actor=request.user)
    if verb == "delete":
        embed.delete()
        return redirect("page:embeds")
    embed.rotate()
    messages.success(request, _("It has another key. Paste the new line into your pages."))
    return redirect("page:embed", embed.pk)


def find_own(request: HttpRequest, pk: UUID) -> Embed:
    rows = Embed.objects.visible_to(request.user).select_related("agent", "owner").prefetch_related("budgets")
    embed = rows.filter(pk=pk).first()
    if embed is None:
        raise Http404("There is no such embed of yours.")
    return embed
