"""The pages of people for administrators of the site: accounts, roles, invitations, and what hangs on a person."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.contrib.auth.views import PasswordResetConfirmView
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from agents import accounts, membership, roles
from agents.exceptions import MusterError
from agents.http.filters import filter_by_words
from agents.models import AuditEvent, Membership, Team
from plumbing.texts import translate_name

from ..base import add_refusal_message, render_shell_page, require_login

WRITES = "people:write"
# People, teams and rows that a page shows.
LISTED = 200
ROLES_OF_SITE = [
    ("viewer", later("Viewer"), later("Reads what is shared, and changes nothing.")),
    ("operator", later("Operator"), later("Talks to agents, decides approvals, and has schedules and devices.")),
    ("author", later("Author"), later("Also builds agents, functions and chains, and shares them with teams.")),
    ("administrator", later("Administrator"), later("Also makes accounts, and gives and takes roles.")),
]


class PersonForm(forms.Form):
    username = forms.CharField(
        max_length=150, label=later("User name"), widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=later("With which the person signs in. It cannot be changed later."),
    )  # fmt: skip
    email = forms.EmailField(
        required=False, max_length=254, label=later("E-mail address"), help_text=later("Notices go there.")
    )
    role = forms.ChoiceField(choices=[(role, role) for role in roles.ROLES], initial="operator")
    teams = forms.ModelMultipleChoiceField(Team.objects.none(), required=False, to_field_name="name")

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        teams: Any = self.fields["teams"]
        # One is invited to a team by those who administer it.
        teams.queryset = Team.objects.editable_by(user)


@require_login(writes=WRITES)
def person_list(request: HttpRequest) -> HttpResponse:
    """All accounts. POST makes one, and invites its person to the chosen teams."""
    roles.require(request.user, "people:read")
    form = None
    if request.method == "POST":
        form = PersonForm(request.POST, user=request.user)
        if form.is_valid():
            try:
                person = create_invited_person(request, form.cleaned_data)
            except MusterError as error:
                add_problem(form, error)
            else:
                text = _("“%(person)s” has an account. Make the link below, and send it to them.") % {"person": person}
                messages.success(request, text)
                return redirect("page:person", person.username)
    search = request.GET.get("search", "")[:150]
    people = get_user_model().objects.order_by("-is_active", "normal_name").prefetch_related("groups")
    people = filter_by_words(people, search, "username", "email")
    shown_people = list(people[: LISTED + 1])
    answer = render_shell_page(
        request,
        "people.html",
        _("People"),
        people=shown_people[:LISTED],
        is_cut=len(shown_people) > LISTED,
        search=search,
        form=form or PersonForm(user=request.user),
        roles=ROLES_OF_SITE,
        failed=form is not None,
    )
    answer.status_code = 200 if form is None else 422
    return answer


@transaction.atomic
def create_invited_person(request: HttpRequest, values: dict[str, Any]) -> Any:
    """All or nothing. In a team nobody begins as an administrator. Raises Invalid, Conflict."""
    role_in_teams = min(values["role"], Membership.Role.AUTHOR.value, key=roles.ROLES.index)
    person = accounts.create_person(values["username"], email=values["email"], role=values["role"])
    AuditEvent.record("user.created", person, actor=request.user, role=values["role"])
    for team in values["teams"]:
        membership.invite(team, person.username, role_in_teams, by=request.user)
        AuditEvent.record("team.invited", team, actor=request.user, user=person.username, role=role_in_teams)
    return person


def add_problem(form: PersonForm, error: MusterError) -> None:
    """At the field that a detail names, else at the name."""
    for detail in error.details or [{"field": "username", "message": f"{error} {error.hint}"}]:
        field = detail["field"] if detail["field"] in form.fields else "username"
        form.add_error(field, detail["message"])


@require_login(writes=WRITES)
def person_page(request: HttpRequest, name: str) -> HttpResponse:
    """One account, and what hangs on it. POST changes its e-mail address and its role."""
    roles.require(request.user, "people:read")
    person = find_person(name)
    if request.method == "POST":
        values = {"email": request.POST.get("email", "").strip()[:254], "site_role": request.POST.get("role", "")}
        form = PersonForm({**request.POST.dict(), "username": person.username}, user=request.user)
        if "email" in form.errors or "role" in form.errors:
            messages.error(request, _("Enter a valid e-mail address, and choose a role."))
        else:
            change_person(request, person, values)
        return redirect("page:person", person.username)
    is_own = person == request.user
    is_above = person.is_superuser and not request.user.is_superuser
    return render_shell_page(
        request,
        "person.html",
        person.username,
        person=person,
        may_change=not is_own and not is_above,
        is_own=is_own,
        role=person.site_role,
        roles=ROLES_OF_SITE,
        may_be_invited=accounts.may_be_invited(person),
        link=request.session.pop(f"invitation-{person.pk}", None),
        belongings=describe_belongings(person),
    )


def describe_belongings(person: Any) -> dict[str, Any]:
    """What hangs on the person, with the kinds in the reader's language."""
    belongings = accounts.list_belongings(person)
    for row in belongings["rows"]:
        row["kind"] = translate_name(row["kind"])
    belongings["counts"] = {translate_name(kind): number for kind, number in belongings["counts"].items()}
    return belongings


def change_person(request: HttpRequest, person: Any, values: dict[str, Any]) -> bool:
    """Whether it was changed; a refusal becomes a message."""
    try:
        events = accounts.change_person(person, values, by=request.user)
    except MusterError as error:
        add_refusal_message(request, error)
        return False
    for verb, details in events:
        AuditEvent.record(f"user.{verb}", person, actor=request.user, **details)
    messages.success(request, _("The account is saved."))
    return True


def find_person(name: str) -> Any:
    person = None if "\0" in name else get_user_model().objects.find(name[:150])
    if person is None:
        raise Http404("There is no user with that name.")
    return person


@require_POST
@require_login(writes=WRITES)
def set_active(request: HttpRequest, name: str, verb: str) -> HttpResponse:
    """Deactivate an account, or reactivate it."""
    person = find_person(name)
    change_person(request, person, {"is_active": verb == "reactivate"})
    return redirect("page:person", person.username)


@never_cache
@require_POST
@require_login(writes=WRITES)
def make_invitation(request: HttpRequest, name: str) -> HttpResponse:
    """A new link for the first password; the next page shows it, this once."""
    person = find_person(name)
    try:
        url, _expires_at = accounts.make_invitation(person, by=request.user)
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        AuditEvent.record("user.invited", person, actor=request.user)
        request.session[f"invitation-{person.pk}"] = url
    return redirect("page:person", person.username)


@require_POST
@require_login(writes=WRITES)
def hand_over(request: HttpRequest, name: str) -> HttpResponse:
    """Make another person the owner of what this one owns."""
    person = find_person(name)
    try:
        receiver = membership.person_named(request.POST.get("to", "").strip()[:150].replace("\0", ""))
        moved = accounts.hand_over(person, receiver, by=request.user)
    except MusterError as error:
        add_refusal_message(request, error)
    else:
        AuditEvent.record("user.handed_over", person, actor=request.user, to=receiver.username, rows=moved)
        number = sum(len(names) for names in moved.values())
        text = _("%(number)s rows belong to “%(receiver)s” now. Schedules and triggers are switched off.")
        messages.success(request, text % {"number": number, "receiver": receiver})
    return redirect("page:person", person.username)


class Join(PasswordResetConfirmView):
    """An invited person chooses the first password, and is signed in. The link never replaces a password."""

    template_name = "muster/join.html"
    post_reset_login = True

    def get_user(self, uidb64: str) -> Any:
        person = super().get_user(uidb64)
        is_invited = person is not None and accounts.may_be_invited(person)
        return person if is_invited else None

    def form_valid(self, form: Any) -> HttpResponse:
        answer = super().form_valid(form)
        AuditEvent.record("user.joined", form.user, actor=form.user)
        return answer

    def get_success_url(self) -> str:
        is_author = roles.allows(self.user, "agents:write")
        return reverse("page:start" if is_author else "page:playground")
