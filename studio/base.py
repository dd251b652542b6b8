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
from .owner_urls import mark_namesakes

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
# What authors write.
AUTHORED = ("/agents/", "/functions/", "/skills/", "/chains/", "/providers/")
STAFF = [(later("Admin"), "admin:index", "admin")]
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
    counts = {
        "approvals": approvals,
        "records": Record.objects.visible_to(user).waiting().count(),
        "memory": Memory.objects.filter(owner_id=user.pk).suggested().count(),
    }
    is_author = may_author(user)
    route = request.resolver_match.url_name if request.resolver_match else ""
    return {
        "navigation": navigation(request, counts),
        "open_approvals": approvals,
        "only_reads": request.path_info.startswith(AUTHORED) and not is_author,
        "may_author": is_author,
        "may_send": roles.allows(user, "messages:write"),
        "help_topic": TOPICS.get(route, "index"),
    }


def open_count(user: Any) -> int:
    """Approvals and questions that wait for this user, in one statement."""
    approvals = Approval.objects.visible_to(user).open()
    questions = InputRequest.objects.visible_to(user).open().filter(kind=InputRequest.Kind.FORM)
    # A part of a UNION has no order.
    approval_ids = approvals.order_by().values("pk")
    question_ids = questions.order_by().values("pk")
    return approval_ids.union(question_ids, all=True).count()


def navigation(request: HttpRequest, counts: dict[str, int]) -> list[list[dict[str, Any]]]:
    """By role: people who may write agents see everything, others what they need to talk and approve."""
    staff = STAFF if request.user.is_staff else []
    if may_author(request.user):
        *first_groups, last_group = NAVIGATION
        groups = [*first_groups, [*last_group, *staff, ("API", "docs", "docs")]]
    else:
        operated = OPERATED if roles.allows(request.user, roles.ACT) else []
        groups = [*CHATTER, operated, staff]
    item_groups: list[list[dict[str, Any]]] = []
    for group in groups:
        items = [item(request, entry, counts) for entry in group]
        # An app that is not installed has no page.
        installed_items = [entry_item for entry_item in items if entry_item is not None]
        if installed_items:
            item_groups.append(installed_items)
    return item_groups


def may_author(user: Any) -> bool:
    return roles.allows(user, "agents:write")


def item(request: HttpRequest, entry: tuple[str, str, str], counts: dict[str, int]) -> dict[str, Any] | None:
    """One entry of the menu; None if its page is not installed."""
    name, route, icon = entry
    # Pages of the studio stand without their namespace.
    is_full_name = ":" in route or route == "docs"
    url = url_or_none(route if is_full_name else f"page:{route}")
    if url is None:
        return None
    is_here = request.path == url
    # Every address begins with that of the first page, so that one counts only itself.
    if route != "dashboard" and request.path.startswith(url):
        is_here = True
    return {"name": name, "url": url, "icon": icon, "is_here": is_here, "count": counts.get(icon, 0)}


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
    context = {"navigation": navigation(request, {}), "title": title, "error": error}
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


def url_or_none(name: str, *args: Any) -> str | None:
    """The address of a page of another app, if that app is installed."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return None
