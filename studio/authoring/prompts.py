"""The prompt library: a person's own saved texts, and those of their teams."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from agents.http.viewsets import refusals
from agents.models import AuditEvent, Membership, Prompt
from agents.models.prompt import LENGTH
from agents.serializers.people import PromptSerializer

from ..base import by_name, render_shell_page, require_login
from ..people.account import with_problems

OFFERED = 100


class PromptForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=64, help_text=gettext_lazy("Small letters, digits and - without spaces.")
    )
    description = forms.CharField(label=gettext_lazy("Description"), max_length=200, required=False)
    text = forms.CharField(
        label=gettext_lazy("Text"),
        max_length=LENGTH,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text=gettext_lazy("A place such as {{city}} is filled in when the prompt is used."),
    )
    team = forms.ChoiceField(label=gettext_lazy("Share with"), required=False)

    def __init__(self, user: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        mine = Membership.objects.filter(user_id=user.pk, role__in=Membership.SHARERS).order_by("team__name")
        names = mine.values_list("team__name", flat=True)[:OFFERED]
        teams = [(name, name) for name in names]
        self.fields["team"].choices = [("", _("Nobody else")), *teams]


@require_login
def prompt_list(request: HttpRequest) -> HttpResponse:
    """The prompts, and a form for a new one. `?text=` fills it, such as with a message of the chat."""
    text = request.GET.get("text", "")[:LENGTH]
    return render_prompts(request, PromptForm(request.user, initial={"text": text}))


@require_POST
@require_login(writes="prompts:write")
def save_prompt(request: HttpRequest) -> HttpResponse:
    """Create a prompt, or replace the one of that name."""
    form = PromptForm(request.user, request.POST)
    if not form.is_valid():
        return render_prompts(request, form)
    body = {**form.cleaned_data, "team": form.cleaned_data["team"] or None}
    existing = Prompt.objects.filter(owner_id=request.user.pk, name=body["name"]).first()
    # The serializer of the API checks what is written, so that both refuse the same.
    serializer = PromptSerializer(existing, data=body, partial=True, context={"request": request})
    if not serializer.is_valid():
        return render_prompts(request, with_problems(form, serializer.errors))
    action = "prompt.changed" if existing else "prompt.created"
    with refusals("prompt", request.user):
        prompt = serializer.save()
        AuditEvent.record(action, prompt, actor=request.user)
    messages.success(request, _("The prompt “%(name)s” is saved.") % {"name": prompt})
    return redirect("page:prompts")


@require_POST
@require_login(writes="prompts:write")
def delete_prompt(request: HttpRequest, pk: int) -> HttpResponse:
    prompt = Prompt.objects.editable_by(request.user).filter(pk=pk).first()
    if prompt is None:
        raise Http404(_("There is no such prompt of yours."))
    AuditEvent.record("prompt.deleted", prompt, actor=request.user)
    prompt.delete()
    messages.success(request, _("The prompt “%(name)s” is deleted.") % {"name": prompt})
    return redirect("page:prompts")


def render_prompts(request: HttpRequest, form: PromptForm) -> HttpResponse:
    rows = Prompt.objects.visible_to(request.user).select_related("owner", "team")
    prompts, paging = by_name(request, rows)
    return render_shell_page(request, "prompts.html", _("Prompts"), prompts=prompts, form=form, **paging)
