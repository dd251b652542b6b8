"""First steps: provider, function, agent, message, approval, schedule. Each step performs the real action."""

from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.views import LoginView
from django.db.models import Case, F, Q, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later

from agents import available_models, roles
from agents.exceptions import MusterError
from agents.models import Agent, AuditEvent, Provider, Tool, ToolGrant
from agents.models.agent import provider_changed
from agents.models.provider import check_model_url
from functions import store
from functions.models import StoredFunction
from runs.models import Approval, Run, Schedule

from .base import add_refusal_message, render_shell_page, require_login
from .labels import in_language

EXAMPLE = '''def loan_payment(principal: float, yearly_rate: float, years: int) -> dict:
    """What a loan costs a month.

    Args:
        principal: The amount borrowed.
        yearly_rate: Interest in percent a year, such as 3.5.
        years: How long it runs.
    """
    months = years * 12
    rate = yearly_rate / 100 / 12
    payment = principal / months if rate == 0 else principal * rate / (1 - (1 + rate) ** -months)
    return {"monthly": round(payment, 2), "total": round(payment * months, 2)}
'''


class NamedForm(forms.Form):
    """A form that knows its user, and refuses a name that is taken."""

    model: Any
    name = forms.CharField(max_length=64)

    def __init__(self, *args: Any, user: Any, row: Any = None, **kwargs: Any) -> None:
        """`row`: the one that is changed; none for a new one."""
        super().__init__(*args, **kwargs)
        self.user = user
        self.row = row

    def clean_name(self) -> str:
        name = self.cleaned_data["name"]
        for check in self.model._meta.get_field("name").validators:
            check(name)
        owner = self.row.owner if self.row else self.user
        namesakes = self.model.objects.filter(owner=owner, name=name)
        if self.row:
            namesakes = namesakes.exclude(pk=self.row.pk)
        if namesakes.exists():
            raise forms.ValidationError(_("You already have one with that name."))
        return name


ONLINE = [choice for choice in Provider.Kind.choices if choice[0] != Provider.Kind.OFFLINE]


class ProviderForm(NamedForm):
    model = Provider
    kind = forms.ChoiceField(choices=partial(in_language, ONLINE))
    base_url = forms.URLField(
        required=False, assume_scheme="https", label=later("Address"), validators=[check_model_url],
        help_text=later("Only for your own server."),
    )  # fmt: skip
    api_key = forms.CharField(required=False, max_length=2000, label=later("API key"), widget=forms.PasswordInput)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("kind") == Provider.Kind.COMPATIBLE and not cleaned.get("base_url") and not self.errors:
            self.add_error("base_url", _("An OpenAI-compatible server needs its address."))
        return cleaned

    def save(self) -> str:
        """Keeps the provider only if its server answers. Raises NotServed, RateLimited."""
        provider = Provider.objects.create(owner=self.user, **self.cleaned_data)
        provider_changed(provider)
        try:
            names = available_models.models(provider, fresh=True)
        except MusterError:
            provider.delete()
            raise
        provider.default_model = available_models.suggest_default_model(provider, names)
        provider.save(update_fields=["default_model"])
        available_models.record_trial(provider, {"code": ""})
        AuditEvent.record("provider.created", provider, actor=self.user)
        text = _("“%(name)s” answered and lists %(number)s models. Agents that name none use “%(model)s”.")
        return text % {"name": provider, "number": len(names), "model": provider.default_model}


class FunctionForm(NamedForm):
    model = StoredFunction
    source = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 14, "class": "code", "spellcheck": "false"}), strip=False
    )

    def save(self) -> str:
        name = self.cleaned_data["name"]
        function = StoredFunction(owner=self.user, name=name, source=self.cleaned_data["source"])
        store.save_function(function, user=self.user)
        version = store.publish_function(function, user=self.user, note="First steps")
        return _("“%(name)s” is live as version %(number)s. Agents can now be granted it as a tool.") % {
            "name": function, "number": version.number,
        }  # fmt: skip


def best_first(user: Any) -> Any:
    """Providers that this person may use: their own newest one first, the offline one last."""
    is_offline = Q(kind=Provider.Kind.OFFLINE)
    is_own = Q(owner=user.pk)
    rank = Case(When(is_offline, then=2), When(is_own, then=0), default=1)
    return Provider.objects.usable_by(user).filter(enabled=True).order_by(rank, "-pk")


class AgentForm(NamedForm):
    model = Agent
    description = forms.CharField(max_length=500, label=later("What it does"))
    system_prompt = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 4}), label=later("Instructions"), required=False
    )
    provider = forms.ModelChoiceField(Provider.objects.none(), empty_label=None)
    model_name = forms.CharField(
        max_length=100, required=False, label=later("Model"), help_text=later("Empty: the provider's default model.")
    )
    tools = forms.ModelMultipleChoiceField(Tool.objects.none(), required=False, label=later("Tools it may use"))
    asks = forms.BooleanField(
        required=False, label=later("Ask me before each call of these tools"),
        help_text=later("You then approve or deny each call in the chat or on the page Approvals."),
    )  # fmt: skip

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, user=user, **kwargs)
        self.fields["provider"].queryset = best_first(user)
        tools = Tool.objects.usable_by(user).filter(enabled=True, kind=Tool.Kind.FUNCTION)
        # People's own functions first, then the newest: the one of the step before must be among them.
        own_first = tools.order_by(F("owner").asc(nulls_last=True), "-pk")
        offered_ids = list(own_first.values_list("pk", flat=True)[:OFFERED])
        self.fields["tools"].queryset = tools.filter(pk__in=offered_ids).order_by("name")
        self.fields["tools"].widget.attrs["size"] = 6

    def save(self) -> str:
        fields = dict(self.cleaned_data)
        tools = fields.pop("tools")
        mode = ToolGrant.Mode.ASK if fields.pop("asks") else ToolGrant.Mode.ALLOW
        agent = Agent.objects.create(owner=self.user, **fields)
        grants = [ToolGrant(agent=agent, tool=tool, mode=mode) for tool in tools]
        ToolGrant.objects.bulk_create(grants)
        version = agent.publish(author=self.user, note="First steps")
        AuditEvent.record("agent.published", agent, actor=self.user, version=version.number)
        return _("“%(name)s” is live. Send it a message.") % {"name": agent}


# Functions in the list of the agent's form; the admin searches among all tools.
OFFERED = 100
FORMS = {"provider": ProviderForm, "function": FunctionForm, "agent": AgentForm}
FIRST = {
    "provider": {"name": "openai", "kind": "openai"},
    "function": {"name": "loan-payment", "source": EXAMPLE},
    "agent": {
        "name": "money-helper",
        "description": "Calculates the cost of loans.",
        "system_prompt": "You help people understand loans. Use your tools to calculate; never guess a number.",
    },
}


class Login(LoginView):
    """Authors land on the dashboard, at first on the first steps; who does not author lands in the chat."""

    def form_valid(self, form: Any) -> HttpResponse:
        user = form.get_user()
        # Signing in sets `last_login`, so look before.
        is_first = user.last_login is None
        is_author = roles.allows(user, "agents:write")
        answer = super().form_valid(form)
        if self.get_redirect_url():
            return answer
        if not is_author:
            return redirect("page:playground")
        return redirect("page:start") if is_first else answer


@require_login(writes="agents:write")
def handle_start_step(request: HttpRequest) -> HttpResponse:
    """The page of the first steps. POST performs one and returns; errors are shown at their field."""
    roles.require(request.user, "agents:write")
    step = request.POST.get("step", "")
    filled = None
    if step in FORMS:
        filled = FORMS[step](request.POST, user=request.user, prefix=step)
        if filled.is_valid() and save_form(request, filled):
            return redirect("page:start")
    forms_of_steps = {}
    for name in FORMS:
        forms_of_steps[name] = filled if name == step else empty(name, request.user)
    done = progress(request)
    answer = render_shell_page(request, "start.html", _("First steps"), forms=forms_of_steps, done=done, failed=step)
    answer.status_code = 200 if filled is None else 422
    return answer


def save_form(request: HttpRequest, form: Any) -> bool:
    """Whether the step was performed; if not, the form or the page says why."""
    try:
        message = form.save()
    except MusterError as error:
        if error.code == "name_taken":
            form.add_error("name", f"{error} {error.hint}")
        elif error.details and "source" in form.fields:
            for detail in error.details:
                form.add_error("source", describe_line(detail))
        else:
            add_refusal_message(request, error)
        return False
    messages.success(request, message)
    return True


def describe_line(detail: dict[str, Any]) -> str:
    """What is wrong with one line of a function."""
    return _("Line %(line)s: %(message)s. %(hint)s") % {
        "line": detail.get("line", "?"),
        "message": detail["message"].removesuffix("."),
        "hint": detail.get("hint", ""),
    }


def empty(name: str, user: Any) -> Any:
    """The form of a step, filled with an example."""
    initial = dict(FIRST[name])
    if name == "agent":
        own_functions = Tool.objects.filter(owner=user, kind=Tool.Kind.FUNCTION)
        initial["provider"] = best_first(user).values_list("pk", flat=True).first()
        initial["tools"] = list(own_functions.values_list("pk", flat=True)[:5])
    return FORMS[name](user=user, prefix=name, initial=initial)


def progress(request: HttpRequest) -> dict[str, Any]:
    """What this person has done, not what the installation brought along; and what a next step can use."""
    user = request.user
    own_providers = Provider.objects.filter(owner=user, enabled=True)
    usable_providers = Provider.objects.usable_by(user).filter(enabled=True)
    own = [provider.name for provider in own_providers[:6] if provider.state in ("works", "ready")]
    usable = [] if own else list(usable_providers.values_list("name", flat=True)[:6])
    functions = StoredFunction.objects.filter(owner=user, published__isnull=False)
    agent = Agent.objects.filter(owner=user, published__isnull=False, enabled=True).order_by("-pk").first()
    can_try = False
    has_talked = False
    if agent is not None:
        can_try = agent.grants.filter(tool__name=FIRST["function"]["name"]).exists()
        has_talked = Run.objects.visible_to(user).filter(agent__owner=user).exists()
    return {
        "provider": own,
        "usable": usable,
        "function": functions.exists(),
        "agent": agent,
        "can_try": can_try,
        "talk": has_talked,
        "approval": Approval.objects.filter(decided_by=user).exists(),
        "schedule": Schedule.objects.filter(owner=user).order_by("-pk").first(),
    }
