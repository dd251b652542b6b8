"""What all pages share: navigation, the user's rows, readable JSON, and paging."""

import json
from datetime import UTC, tzinfo
from functools import partial, wraps
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db import IntegrityError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later

from agents import roles
from agents.exceptions import Conflict, Invalid, MusterError
from agents.http.filters import filter_by_words
from agents.http.pagination import read_page
from devices.models import Record
from knowledge.models import Memory
from plumbing.texts import translate
from runs.models import Approval, InputRequest, Run
from runs.rules.timing import TimingError, zone_named

from .help_topics import TOPICS
from .namesakes import mark_namesakes

NAVIGATION = [
    [
        (later("Dashboard"), "dashboard", "home"),
        (later("Playground"), "playground", "talk"),
        (later("Approvals"), "approvals", "approvals"),
    ],
    [
        (later("Runs"), "runs", "runs"),
        (later("Sessions"), "sessions", "sessions"),
        (later("Schedules"), "schedules", "schedules"),
        (later("Records"), "records", "records"),
        (later("Memory"), "memories", "memory"),
        (later("Collections"), "collections", "collections"),
        (later("Files"), "files", "files"),
    ],
    [
        (later("Agents"), "agents", "agents"),
        (later("Functions"), "functions", "functions"),
        (later("Skills"), "skills", "skills"),
        (later("Chains"), "chains", "chains"),
        (later("Devices"), "devices", "devices"),
        (later("Providers"), "providers", "providers"),
        (later("Connections"), "connections", "connections"),
    ],
    [
        (later("Clients"), "clients", "clients"),
        (later("Teams"), "teams", "teams"),
        (later("Audit"), "audit", "audit"),
        (later("First steps"), "start", "start"),
    ],
]
CHATTER = [
    [
        (later("Chat"), "playground", "talk"),
        (later("Approvals"), "approvals", "approvals"),
        (later("History"), "sessions", "sessions"),
        (later("Files"), "files", "files"),
    ]
]
OPERATED = [(later("Schedules"), "schedules", "schedules"), (later("Devices"), "devices", "devices")]
AUTHORED = ("/agents/", "/functions/", "/skills/", "/chains/", "/providers/")  # what authors write
STAFF = [(later("Admin"), "admin:index", "admin")]
PAGE = 50


def by_name(request: HttpRequest, rows: QuerySet) -> tuple[list[Any], dict[str, str]]:
    """One page of rows by name, marked by their `address`, and what the template needs to search and to go on:
    {more, search}.
    """
    search = request.GET.get("search", "")
    rows = filter_by_words(rows, search, "name", "description")
    if after := request.GET.get("after", "")[:64].replace("\0", ""):
        rows = rows.filter(name__gt=after)
    rows = rows.order_by("name", "pk")
    page_rows, more = list(rows[: PAGE + 1]), ""
    if len(page_rows) > PAGE:
        last = page_rows[PAGE - 1]
        page_rows[PAGE:] = rows.filter(name=last.name, pk__gt=last.pk)  # the next page begins after the name
        more = last.name if rows.filter(name__gt=last.name).exists() else ""
    mark_namesakes(rows.model, page_rows, request.user)
    return page_rows, {"more": more, "search": " ".join(search.split())}


def page(request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
    """A page inside the shell."""
    return render(request, f"muster/{template}", {**shell(request), "title": title, **context})


def shell(request: HttpRequest) -> dict[str, Any]:
    """What every page shows around its content; the admin too."""
    approvals = open_count(request.user)
    counts = {
        "approvals": approvals,
        "records": Record.objects.visible_to(request.user).waiting().count(),
        "memory": Memory.objects.filter(owner_id=request.user.pk).suggested().count(),
    }
    return {
        "navigation": navigation(request, counts), "open_approvals": approvals,
        "only_reads": request.path.startswith(AUTHORED) and not may_author(request.user),
        "may_author": may_author(request.user), "may_send": roles.allows(request.user, "messages:write"),
        "help_topic": TOPICS.get(request.resolver_match.url_name if request.resolver_match else "", "index"),
    }  # fmt: skip


def open_count(user: Any) -> int:
    """Approvals and questions that wait for this user, in one statement."""
    approvals = Approval.objects.visible_to(user).open().order_by().values("pk")
    questions = InputRequest.objects.visible_to(user).open().filter(kind=InputRequest.Kind.FORM).order_by().values("pk")
    return approvals.union(questions, all=True).count()


def navigation(request: HttpRequest, counts: dict[str, int]) -> list[list[dict[str, Any]]]:
    """By role: people who may write agents see everything, others what they need to talk and approve."""
    staff = [*STAFF] if request.user.is_staff else []
    groups = [*NAVIGATION[:-1], [*NAVIGATION[-1], *staff, ("API", "docs", "docs")]]
    if not may_author(request.user):
        groups = [*CHATTER, OPERATED if roles.allows(request.user, roles.ACT) else [], staff]
    shown = [[one for entry in group if (one := item(request, entry, counts))] for group in groups]
    return [group for group in shown if group]


def may_author(user: Any) -> bool:
    return roles.allows(user, "agents:write")


def item(request: HttpRequest, entry: tuple[str, str, str], counts: dict[str, int]) -> dict[str, Any] | None:
    name, route, icon = entry
    url = url_or_none(route if ":" in route or route == "docs" else f"page:{route}")
    if url is None:
        return None
    here = request.path == url or (url != "/" and request.path.startswith(url))
    return {"name": name, "url": url, "icon": icon, "is_here": here, "count": counts.get(icon, 0)}


def signed_in(view: Any = None, *, writes: str = roles.ACT) -> Any:
    """Only for signed-in users; a refusal becomes a page that says why.

    A form needs a role on the site that allows `writes`; "" for what every person may do. Texts with a NUL character,
    which PostgreSQL cannot store, are refused.
    """
    if view is None:
        return partial(signed_in, writes=writes)

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect_to_login(form_page(request) if request.method == "POST" else request.get_full_path())
        with timezone.override(find_zone(request)):
            try:
                if request.method == "POST":
                    check_form(request, writes)
                return view(request, *args, **kwargs)
            except MusterError as error:
                return refusal_page(request, error)
            except IntegrityError:
                return refusal_page(request, Conflict(_("It was changed or deleted meanwhile."), hint=_("Try again.")))

    return guarded


def form_page(request: HttpRequest) -> str:
    """The page with the form that was sent, to go back to after signing in: most forms are sent to addresses that have
    no page of their own.
    """
    origin = urlsplit(request.META.get("HTTP_REFERER", ""))
    return origin._replace(scheme="", netloc="").geturl() if origin.netloc == request.get_host() else request.path


def posted(back: str) -> Any:
    """For a form that is answered with a page: opening the address of that page again leads `back`."""

    def decorated(view: Any) -> Any:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            return view(request, *args, **kwargs) if request.method == "POST" else redirect(back)

        return guarded

    return decorated


def check_form(request: HttpRequest, writes: str) -> None:
    """Raises Forbidden, Invalid."""
    if writes:
        roles.require(request.user, writes)
    if any("\0" in text for name, texts in request.POST.lists() for text in [name, *texts]):
        raise Invalid(
            _("A text of the form has a NUL character."), code="nul_character", hint=_("Enter the text again.")
        )


def find_zone(request: HttpRequest) -> tzinfo:
    """The zone that the person chose, else the browser's, which page.js stores in a cookie; UTC if it is unknown."""
    chosen = getattr(request, "preference", None)
    try:
        return zone_named((chosen and chosen.zone) or request.COOKIES.get("zone", "UTC")[:64])
    except TimingError:
        return UTC


def refusal_page(request: HttpRequest, error: MusterError) -> HttpResponse:
    context = {"title": _("The action failed") if error.status != 404 else _("Not found"), "error": error}
    return render(
        request, "muster/refused.html", {"navigation": navigation(request, {}), **context}, status=error.status
    )


def tell(request: HttpRequest, error: MusterError) -> None:
    """The refusal as a message on the page that is shown again."""
    words = [str(error), *(str(one.get("message", "")) for one in error.details if isinstance(one, dict)), error.hint]
    messages.error(request, " ".join(translate(word) for word in words if word))


def seen_runs(request: HttpRequest) -> QuerySet[Run]:
    """The user's own runs; a superuser can see all (`?everyone=1`)."""
    if sees_everyone(request):
        return Run.objects.all()
    return Run.objects.visible_to(request.user)


def sees_everyone(request: HttpRequest) -> bool:
    return bool(request.user.is_superuser and request.GET.get("everyone"))


def pretty(value: Any) -> str:
    """JSON in readable form."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


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


def read_number(text: str) -> int:
    """A small number that a page has sent; 0 if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def read_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def url_or_none(name: str, *args: Any) -> str | None:
    """The address of a page of another app, if that app is installed."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return None
