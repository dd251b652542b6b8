"""What all pages share: navigation, the user's rows, readable JSON, and paging."""

import json
from datetime import UTC, tzinfo
from functools import partial, wraps
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.contrib.auth.views import redirect_to_login
from django.db import IntegrityError
from django.db.models import Exists, Func, IntegerField, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _

from agents import roles
from agents.exceptions import Conflict, Invalid, MusterError
from agents.http.filters import filter_by_words
from agents.http.pagination import read_page
from agents.models import Agent, Invitation
from devices.models import Record
from knowledge.models import Memory
from plumbing.texts import translate
from runs.models import Approval, InputRequest, Run
from runs.rules.timing import TimingError, zone_named

from . import menu
from .help_topics import TOPICS
from .owner_urls import mark_namesakes

# What authors write.
AUTHORED = ("/agents/", "/functions/", "/skills/", "/chains/", "/providers/")
PAGE = 50


def by_name(request: HttpRequest, rows: QuerySet) -> tuple[list[Any], dict[str, str]]:
    """One page of rows by name, marked by their `address`, and what the template needs to search and to go on:
    {more, search}.
    """
    search = request.GET.get("search", "")
    rows = filter_by_words(rows, search, "name", "description")
    after = request.GET.get("after", "")[:64].replace("\0", "")
    if after:
        rows = rows.filter(name__gt=after)
    rows = rows.order_by("name", "pk")
    page_rows = list(rows[: PAGE + 1])
    more = ""
    if len(page_rows) > PAGE:
        last = page_rows[PAGE - 1]
        # The next page begins after this name, so the rest of its rows belong to this page.
        page_rows[PAGE:] = rows.filter(name=last.name, pk__gt=last.pk)
        if rows.filter(name__gt=last.name).exists():
            more = last.name
    mark_namesakes(rows.model, page_rows, request.user)
    return page_rows, {"more": more, "search": " ".join(search.split())}


def render_shell_page(request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
    """A page inside the shell."""
    return render(request, f"muster/{template}", {**shell(request), "title": title, **context})


def shell(request: HttpRequest) -> dict[str, Any]:
    """What every page shows around its content; the admin too."""
    user = request.user
    approvals = open_count(user)
    waiting = count_what_waits(user)
    counts = {
        "approvals": approvals,
        "records": waiting["waiting_records"],
        "memory": waiting["waiting_memories"],
        "teams": waiting["waiting_invitations"],
    }
    is_author = may_author(user)
    route = request.resolver_match.url_name if request.resolver_match else ""
    groups = menu.choose_groups(user, is_new=not waiting["has_agent"])
    return {
        "navigation": menu.build_menu(request, groups, counts),
        "tabs": menu.find_tabs(request, groups, counts),
        "open_approvals": approvals,
        "only_reads": request.path_info.startswith(AUTHORED) and not is_author,
        "may_author": is_author,
        "invited_to": find_inviting_teams(user, route) if waiting["waiting_invitations"] else [],
        "may_send": roles.allows(user, "messages:write"),
        "help_topic": TOPICS.get(route, "index"),
    }


def count_what_waits(user: Any) -> dict[str, Any]:
    """In one statement {waiting_records, waiting_memories, waiting_invitations, has_agent}: how many wait for this
    user's decision, and whether an agent of their own is published.
    """
    records = Record.objects.visible_to(user).waiting()
    memories = Memory.objects.filter(owner_id=user.pk).suggested()
    invitations = Invitation.objects.visible_to(user).open()
    agents = Agent.objects.filter(owner_id=user.pk, published__isnull=False)
    rows = get_user_model().objects.filter(pk=user.pk).order_by()
    counted = rows.values(
        waiting_records=count_rows(records),
        waiting_memories=count_rows(memories),
        waiting_invitations=count_rows(invitations),
        has_agent=Exists(agents),
    )
    for row in counted:
        return dict(row)
    # Nobody is signed in.
    return {"waiting_records": 0, "waiting_memories": 0, "waiting_invitations": 0, "has_agent": False}


def find_inviting_teams(user: Any, route: str) -> list[str]:
    """Names of teams whose invitation is open, for a note on every page but the one that lists them."""
    if route == "teams":
        return []
    invitations = Invitation.objects.visible_to(user).open().order_by("-pk")
    return list(invitations.values_list("team__name", flat=True)[:3])


def count_rows(rows: QuerySet) -> Subquery:
    """Their number, as a part of another statement."""
    counted = rows.order_by().annotate(number=Func("pk", function="COUNT", output_field=IntegerField()))
    return Subquery(counted.values("number"))


def open_count(user: Any) -> int:
    """Approvals and questions that wait for this user, in one statement."""
    approvals = Approval.objects.visible_to(user).open()
    questions = InputRequest.objects.visible_to(user).open().filter(kind=InputRequest.Kind.FORM)
    # A part of a UNION has no order.
    approval_ids = approvals.order_by().values("pk")
    question_ids = questions.order_by().values("pk")
    return approval_ids.union(question_ids, all=True).count()


def may_author(user: Any) -> bool:
    return roles.allows(user, "agents:write")


def require_login(view: Any = None, *, writes: str = roles.ACT) -> Any:
    """Only for signed-in users; a refusal becomes a page that says why.

    A form needs a role on the site that allows `writes`; "" for what every person may do. Texts with a NUL character,
    which PostgreSQL cannot store, are refused.
    """
    if view is None:
        return partial(require_login, writes=writes)

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        is_form = request.method == "POST"
        if not request.user.is_authenticated:
            return redirect_to_login(form_page(request) if is_form else request.get_full_path())
        with timezone.override(find_zone(request)):
            try:
                if is_form:
                    check_form(request, writes)
                return view(request, *args, **kwargs)
            except MusterError as error:
                return refusal_page(request, error)
            # Two people may change one row at the same time; the database lets one of them win.
            except IntegrityError:
                changed = Conflict(_("It was changed or deleted meanwhile."), hint=_("Try again."))
                return refusal_page(request, changed)

    return guarded


def form_page(request: HttpRequest) -> str:
    """The page with the form that was sent, to go back to after signing in: most forms are sent to addresses that have
    no page of their own.
    """
    origin = urlsplit(request.META.get("HTTP_REFERER", ""))
    # Never to another site: the browser says where the form came from, and that may be anywhere.
    if origin.netloc != request.get_host():
        return request.path
    return origin._replace(scheme="", netloc="").geturl()


def redirect_unless_posted(back: str) -> Any:
    """For a form that is answered with a page: opening the address of that page again leads `back`."""

    def decorated(view: Any) -> Any:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if request.method != "POST":
                return redirect(back)
            return view(request, *args, **kwargs)

        return guarded

    return decorated


def check_form(request: HttpRequest, writes: str) -> None:
    """Raises Forbidden, Invalid."""
    if writes:
        roles.require(request.user, writes)
    for name, texts in request.POST.lists():
        if any("\0" in text for text in (name, *texts)):
            problem = _("A text of the form has a NUL character.")
            raise Invalid(problem, code="nul_character", hint=_("Enter the text again."))


def find_zone(request: HttpRequest) -> tzinfo:
    """The zone that the person chose, else the browser's, which page.js stores in a cookie; UTC if it is unknown."""
    preference = getattr(request, "preference", None)
    name = preference.zone if preference else ""
    if not name:
        name = request.COOKIES.get("zone", "UTC")[:64]
    try:
        return zone_named(name)
    except TimingError:
        return UTC


def refusal_page(request: HttpRequest, error: MusterError) -> HttpResponse:
    title = _("Not found") if error.status == 404 else _("The action failed")
    groups = menu.choose_groups(request.user, is_new=False)
    context = {"navigation": menu.build_menu(request, groups, {}), "title": title, "error": error}
    return render(request, "muster/refused.html", context, status=error.status)


def add_refusal_message(request: HttpRequest, error: MusterError) -> None:
    """Shows a refusal as a message on the page that is shown again."""
    messages.error(request, f"{translate_refusal(error)} {translate(error.hint)}".strip())


def translate_refusal(error: MusterError) -> str:
    """The refusal with its details, in the person's language."""
    sentences = [str(error)]
    for detail in error.details:
        if isinstance(detail, dict):
            sentences.append(str(detail.get("message", "")))
    return " ".join(translate(sentence) for sentence in sentences if sentence)


def seen_runs(request: HttpRequest) -> QuerySet[Run]:
    """The user's own runs; a superuser can see all (`?everyone=1`)."""
    if sees_everyone(request):
        return Run.objects.all()
    return Run.objects.visible_to(request.user)


def sees_everyone(request: HttpRequest) -> bool:
    return bool(request.user.is_superuser and request.GET.get("everyone"))


def pretty(value: Any) -> str:
    """JSON in readable form; a text as it is."""
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def keyset(request: HttpRequest, rows: QuerySet, size: int = PAGE) -> tuple[list[Any], str]:
    """One page of rows in descending order of a UUID, and the query of the next page ("" for none)."""
    before = read_uuid(request.GET.get("before", ""))
    if before:
        rows = rows.filter(pk__lt=before)
    page_rows, has_more = read_page(rows.order_by("-pk"), size)
    if not has_more:
        return page_rows, ""
    query = request.GET.copy()
    query["before"] = str(page_rows[-1].pk)
    return page_rows, query.urlencode()


def parse_small_number(text: str) -> int:
    """A small number that a page has sent; 0 if it is none."""
    # int() also reads digits of other scripts, which no page sends.
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    return int(text) if is_number else 0


def read_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
