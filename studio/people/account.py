"""The page of one's own account: password, e-mail address, and secrets for functions and tools."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.forms.models import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST
from rest_framework.exceptions import ValidationError

from agents.http.login import PasswordForm
from agents.http.viewsets import refusals
from agents.models import ApiKey, AuditEvent, BrowserSession, Preference, Secret
from agents.serializers.people import SecretSerializer
from agents.sharing import remove_unshared_uses
from runs.api.account import change_preferences
from runs.models import PushSubscription

from ..base import redirect_unless_posted, render_shell_page, require_login

SECRETS = 200
SESSIONS, KEYS = 100, 50


class EmailForm(forms.Form):
    email = forms.EmailField(
        label=_("E-mail address"),
        required=False,
        max_length=254,
        help_text=_("Only administrators of the site see it."),
    )


class SettingsForm(forms.Form):
    """Language, time zone, and notices. The rules are those of the API."""

    language = forms.ChoiceField(
        label=_("Language"), required=False, choices=[("", _("As the browser")), *settings.LANGUAGES]
    )
    zone = forms.CharField(
        label=_("Time zone"),
        max_length=64,
        required=False,
        help_text=_("An IANA name such as Europe/Berlin. Empty: the browser's."),
        widget=forms.TextInput(attrs={"list": "zones", "autocomplete": "off"}),
    )


class NoticesForm(forms.Form):
    email_notices = forms.BooleanField(label=_("By e-mail"), required=False)
    push_notices = forms.BooleanField(label=_("In the browsers below"), required=False)
    teams_url = forms.CharField(
        label=_("In Microsoft Teams"),
        max_length=2000,
        required=False,
        widget=forms.URLInput(attrs={"autocomplete": "off"}),
        help_text=_("The address of a workflow that posts to a chat or channel. It is stored encrypted."),
    )
    no_teams = forms.BooleanField(label=_("Remove the address of Teams"), required=False)

    def as_body(self) -> dict[str, Any]:
        body = {name: self.cleaned_data[name] for name in ("email_notices", "push_notices")}
        if self.cleaned_data["no_teams"]:
            body["teams_url"] = ""
        # The stored address is never shown: an empty field leaves it.
        elif self.cleaned_data["teams_url"]:
            body["teams_url"] = self.cleaned_data["teams_url"]
        return body


class SecretForm(forms.Form):
    """The rules are the serializer's; this is how it looks."""

    name = forms.CharField(max_length=64, help_text=_("An existing name replaces that secret's value."))
    value = forms.CharField(
        max_length=20_000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("It is stored encrypted and never shown again."),
    )
    hosts = forms.CharField(required=False, help_text=_("Hosts it may be sent to, separated by spaces."))
    header = forms.CharField(max_length=64, initial="Authorization", help_text=_("The request header that carries it."))
    template = forms.CharField(
        max_length=100, initial="Bearer {secret}", help_text=_("The header's value; {secret} is replaced.")
    )

    def as_body(self) -> dict[str, Any]:
        hosts = self.cleaned_data["hosts"].replace(",", " ").split()
        return {**self.cleaned_data, "hosts": hosts}


@require_login
def account(request: HttpRequest) -> HttpResponse:
    return render_account(request)


@sensitive_post_parameters()
@redirect_unless_posted("page:account")
@require_login(writes="")
def password(request: HttpRequest) -> HttpResponse:
    """Every other browser of this person is signed out; API keys and devices go on working."""
    form = PasswordForm(request, request.POST)
    if not form.is_valid():
        return render_account(request, password=form)
    form.save()
    update_session_auth_hash(request, form.user)
    AuditEvent.record("user.password_changed", form.user, actor=form.user)
    messages.success(request, _("The password is changed. Your other browsers are signed out."))
    return redirect("page:account")


@require_POST
@require_login(writes="")
def sign_out(request: HttpRequest) -> HttpResponse:
    """Sign out one other browser of this person (`browser` is its handle), or all others."""
    person: Any = request.user
    others = BrowserSession.objects.filter(user_id=person.pk).exclude(pk=request.session.session_key)
    handle = request.POST.get("browser", "")
    ended = [session for session in others[:SESSIONS] if handle in ("", session.handle)]
    for session in ended:
        session.delete()
    if handle and not ended:
        raise Http404(_("You have no such browser."))
    AuditEvent.record("account.signed_out", person, actor=person, browsers=len(ended))
    messages.success(request, _("Signed out."))
    return redirect("page:account")


def own_sessions(request: HttpRequest) -> list[BrowserSession]:
    """Signed-in browsers, this one first."""
    rows = BrowserSession.objects.filter(user_id=request.user.pk, expire_date__gt=timezone.now())
    sessions = list(rows.order_by("-used_at")[:SESSIONS])
    for session in sessions:
        session.is_this = session.session_key == request.session.session_key
    return sorted(sessions, key=lambda session: not session.is_this)


@redirect_unless_posted("page:account")
@require_login(writes="")
def email(request: HttpRequest) -> HttpResponse:
    form = EmailForm(request.POST)
    if not form.is_valid():
        return render_account(request, email=form)
    user: Any = request.user
    user.email = form.cleaned_data["email"]
    user.save(update_fields=["email"])
    AuditEvent.record("user.email_changed", user, actor=user)
    messages.success(request, _("The e-mail address is saved."))
    return redirect("page:account")


@sensitive_post_parameters("teams_url")
@redirect_unless_posted("page:account")
@require_login(writes="")
def settings_form(request: HttpRequest) -> HttpResponse:
    """Save one of two forms: `which` is settings or notices."""
    form: Any
    if request.POST.get("which") == "notices":
        name = "notices"
        form = NoticesForm(request.POST)
    else:
        name = "settings"
        form = SettingsForm(request.POST)
    if not form.is_valid():
        return render_account(request, **{name: form})
    body = form.as_body() if name == "notices" else form.cleaned_data
    try:
        change_preferences(request, body)
    except ValidationError as error:
        problems: Any = error.detail
        return render_account(request, **{name: with_problems(form, problems)})
    messages.success(request, _("The settings are saved."))
    return redirect("page:account")


@sensitive_post_parameters("value")
@redirect_unless_posted("page:account")
@require_login(writes="secrets:write")
def save_secret(request: HttpRequest) -> HttpResponse:
    """Create a secret of one's own, or replace the one of that name."""
    form = SecretForm(request.POST)
    if not form.is_valid():
        return render_account(request, secret=form)
    existing = own_secrets(request).filter(name=form.cleaned_data["name"]).first()
    serializer = SecretSerializer(existing, data=form.as_body(), partial=True, context={"request": request})
    if not serializer.is_valid():
        return render_account(request, secret=with_problems(form, serializer.errors))
    action = "secret.changed" if existing else "secret.created"
    with refusals("secret", request.user):
        secret = serializer.save()
        AuditEvent.record(action, secret, actor=request.user)
    messages.success(request, _("The secret “%(secret)s” is saved.") % {"secret": secret})
    return redirect("page:account")


@require_POST
@require_login(writes="secrets:write")
def delete_secret(request: HttpRequest, pk: int) -> HttpResponse:
    secret = own_secrets(request).filter(pk=pk).first()
    if secret is None:
        raise Http404("There is no such secret of yours.")
    with refusals("secret", request.user):
        AuditEvent.record("secret.deleted", secret, actor=request.user)
        remove_unshared_uses(secret)
        secret.delete()
    messages.success(request, _("The secret “%(secret)s” is deleted.") % {"secret": secret})
    return redirect("page:account")


def own_secrets(request: HttpRequest) -> Any:
    return Secret.objects.filter(owner_id=request.user.pk)


def with_problems(form: Any, problems: dict[str, Any]) -> Any:
    """The form with the problems that a serializer found; those of no field stand above it."""
    for name, sentences in problems.items():
        field = name if name in form.fields else None
        form.add_error(field, [str(sentence) for sentence in sentences])
    return form


def render_account(request: HttpRequest, **forms: Any) -> HttpResponse:
    """The page, with a refused form in place of an empty one."""
    user: Any = request.user
    preference = Preference.of(user)
    own_keys = ApiKey.objects.visible_to(user).order_by("-created_at", "-pk")
    secrets = own_secrets(request).select_related("team").order_by("name")
    notices = model_to_dict(preference, fields=["email_notices", "push_notices"])
    context = {
        "settings": SettingsForm(initial={"language": preference.language, "zone": preference.zone}),
        "notices": NoticesForm(initial=notices),
        "has_teams": bool(preference.teams_url),
        "email_is_on": settings.EMAIL_IS_ON,
        "sessions": own_sessions(request),
        "keys": own_keys[:KEYS],
        "browsers": PushSubscription.objects.visible_to(user),
        "password": PasswordForm(request),
        "email": EmailForm(initial={"email": user.email}),
        "secret": SecretForm(),
        "secrets": secrets[:SECRETS],
        **forms,
    }
    return render_shell_page(request, "account.html", str(_("Account")), **context)
