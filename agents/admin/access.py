"""People, teams, keys, secrets and the audit log."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later

from agents import storage
from agents.exceptions import MusterError
from agents.membership import change_role, end_membership, invite, keep_administrator, person_named
from agents.models import ApiKey, AuditEvent, Invitation, Membership, Secret, Team
from agents.models.key import DECIDE, EVERYTHING, SCOPES
from plumbing.texts import translate

from .authored import OWNER_FILTERS, SHARING
from .base import ModelAdmin, pill
from .fields import LinesField, NamedForm
from .owned import OwnedAdmin, ReadOnlyAdmin, VisibleChoices, count_references

User = get_user_model()
admin.site.unregister(Group)


class SuperusersOnly:
    """No permission lets anyone else see people and their addresses, or give permissions."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active and request.user.is_superuser

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_module_permission(request)

    has_add_permission = has_change_permission = has_delete_permission = has_view_permission


@admin.register(User)
class UserAdmin(SuperusersOnly, DjangoUserAdmin, ModelAdmin):
    """People who may sign in."""

    def get_form(self, request: HttpRequest, obj: Any = None, **more: Any) -> Any:  # type: ignore[override]
        """Django has no German words for the two ways to sign in."""
        form: Any = super().get_form(request, obj, **more)
        if field := form.base_fields.get("usable_password"):
            field.choices = [("true", later("Enabled")), ("false", later("Disabled"))]
        return form

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Only superusers come here, and all that a person owns goes too, also what the admin only shows."""
        shown, counts, _, protected = super().get_deleted_objects(objs, request)
        return shown, counts, set(), protected

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        person = obj.pk
        super().delete_model(request, obj)
        transaction.on_commit(lambda: storage.erase_stored_files(person))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        people = list(queryset.values_list("pk", flat=True))
        super().delete_queryset(request, queryset)
        transaction.on_commit(lambda: storage.erase_stored_files(*people))


@admin.register(Group)
class GroupAdmin(SuperusersOnly, DjangoGroupAdmin, ModelAdmin):
    """Roles: groups of model permissions."""


class MembershipInline(VisibleChoices, admin.TabularInline):
    """Roles are changed and people removed here; they come in by accepting an invitation."""

    model = Membership
    extra = 0
    readonly_fields = ["user"]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class InvitationForm(NamedForm):
    """Asks a person by the exact user name; there is no list of people to choose from."""

    person = forms.CharField(max_length=150, label=later("User name"))

    class Meta:
        model = Invitation
        fields = ["role"]

    def clean_person(self) -> str:
        try:
            self.instance.user = person_named(self.cleaned_data["person"])
        except MusterError as error:
            raise forms.ValidationError(translate(str(error)))
        return self.cleaned_data["person"]


class InvitationInline(admin.TabularInline):
    model = Invitation
    form = InvitationForm
    fields = ["person", "role"]
    extra = 0
    verbose_name, verbose_name_plural = later("invitation"), later("invitations")

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        # The open ones are listed in the API and on the page Teams.
        return super().get_queryset(request).none()


@admin.register(Team)
class TeamAdmin(OwnedAdmin):
    owner_field = ""
    list_display = ["name", "member_count", "created_at"]
    search_fields = ["name"]
    inlines = [MembershipInline, InvitationInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(member_total=count_references(Membership, "team"))

    def save_model(self, request: HttpRequest, obj: Team, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            Membership.objects.create(team=obj, user=request.user, role=Membership.Role.ADMINISTRATOR)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Through the same doors as the API: who goes, or may no longer share, takes back what was shared."""
        rows = formset.save(commit=False)
        for row in rows:
            if isinstance(row, Invitation):
                self.invite(request, row)
        members = [row for row in rows if isinstance(row, Membership)]
        try:
            with keep_administrator(form.instance):
                for member in members:
                    change_role(member, member.role)
                for row in formset.deleted_objects:
                    end_membership(row)
        except MusterError as error:
            messages.error(request, translate(str(error)))
        formset.save_m2m()

    def invite(self, request: HttpRequest, row: Invitation) -> None:
        try:
            invite(row.team, row.user.get_username(), row.role, by=request.user)
        except MusterError as error:
            messages.error(request, translate(str(error)))
        else:
            self.audit(request, "invited", row.team, user=row.user.get_username(), role=row.role)

    @admin.display(description=later("Members"), ordering="member_total")
    def member_count(self, team: Any) -> int:
        return team.member_total


class KeyForm(NamedForm):
    scopes = forms.MultipleChoiceField(
        choices=[
            (EVERYTHING, later("everything except deciding approvals")),
            *((scope, scope) for scope in sorted(SCOPES)),
        ],
        initial=[EVERYTHING],
        widget=forms.CheckboxSelectMultiple,
        help_text=format_lazy(later("What it may do. {scope} must always be given explicitly."), scope=DECIDE),
    )

    class Meta:
        model = ApiKey
        fields = ["user", "name", "scopes", "expires_at"]


@admin.register(ApiKey)
class ApiKeyAdmin(OwnedAdmin):
    owner_field = "user"
    form = KeyForm
    list_display = ["name", "prefix", "user", "scope_words", "state", "last_used_at", "expires_at"]
    list_filter = [("user", admin.RelatedOnlyFieldListFilter)]
    search_fields = ["name", "prefix"]
    actions = ["revoke_selected"]
    fields = ["user", "name", "scopes", "expires_at"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A key is created and revoked, never edited: its scopes are part of what was issued."""
        return obj is None and super().has_change_permission(request)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        owner = obj.user if request.user.is_superuser else request.user
        key, secret = ApiKey.make(owner, form.cleaned_data["scopes"], name=obj.name, expires_at=obj.expires_at)
        # The admin goes on with its own row, which is this one now.
        obj.pk = key.pk
        obj._state.adding = False
        self.audit(request, "created", key, scopes=key.scopes)
        code = format_html("<code>{}</code>", secret)
        messages.warning(request, format_html(_("Copy the key now; it is shown only once: {}"), code))

    @admin.display(description=later("Scopes"))
    def scope_words(self, key: ApiKey) -> str:
        return ", ".join(key.scopes)[:60]

    @admin.display(description=later("State"))
    def state(self, key: ApiKey) -> str:
        if key.revoked_at:
            return pill("revoked", "rejected")
        if key.expires_at and key.expires_at <= timezone.now():
            return pill("expired")
        return pill("live")

    @admin.action(description=later("Revoke"), permissions=["delete"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet) -> None:
        for key in queryset:
            key.revoke()
            self.audit(request, "revoked", key)


class SecretForm(NamedForm):
    value = forms.CharField(
        required=False, widget=forms.PasswordInput(render_value=False),
        help_text=later("Write-only: leave empty to keep the stored value."),
    )  # fmt: skip
    hosts = LinesField(help_text=later("Hosts it may be sent to, one per line, such as api.example.com."))

    class Meta:
        model = Secret
        fields = ["name", "value", "hosts", "header", "template", "owner", "team"]

    def clean(self) -> dict[str, Any]:
        """The stored value stays where the field is left empty, but not with other hosts or another header."""
        cleaned = super().clean() or {}
        if cleaned.get("value"):
            return cleaned
        hosts = cleaned.get("hosts") or []
        sending = {name: cleaned.get(name) or getattr(self.instance, name) for name in ("header", "template")}
        if not self.instance.needs_value(hosts, **sending):
            cleaned["value"] = self.instance.value
        # A new secret has no stored value.
        if not cleaned.get("value"):
            self.add_error("value", _("Enter the secret. Other hosts, header or template need it anew."))
        return cleaned


@admin.register(Secret)
class SecretAdmin(OwnedAdmin):
    form = SecretForm
    list_display = ["name", "bound_hosts", "header", "owner", "updated_at"]
    list_filter = OWNER_FILTERS
    search_fields = ["name"]
    fieldsets = [
        (None, {"fields": ["name", "value", "hosts"]}),
        (later("Sending"), {"fields": ["header", "template"]}),
        SHARING,
    ]

    @admin.display(description=later("Hosts"))
    def bound_hosts(self, secret: Secret) -> str:
        return ", ".join(secret.hosts)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ["at", "actor_name", "action", "subject_kind", "subject_name", "source"]
    list_filter = ["at"]
    search_fields = ["actor_name", "subject_name", "subject_kind", "action"]
    ordering = ["-id"]
