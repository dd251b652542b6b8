"""The list of runs: filters, filters that a person has saved, and rows that keep up to date."""

from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST
from django_filters import rest_framework as filters

from runs.api.filters import RunFilter
from runs.models import Message, Run, SavedFilter
from runs.models.figures import totals
from runs.models.figures.earlier import build_first_id

from ..base import PAGE, keyset, read_uuid, render_shell_page, require_login, seen_runs, sees_everyone

JOINS = ("agent", "chain_version__chain", "principal")
SHOWN = (
    "agent__name", "agent__display_name", "chain_version__chain__name", "chain_version__chain__display_name",
    "principal__username", "status", "waiting_for", "created_at",
    "finished_at", "trigger", "error", "input_tokens", "output_tokens", "cost", "root", "chain_version",
)  # fmt: skip
# Ids of several servers are not in the order of their commits.
OVERLAP = timedelta(seconds=30)
FIELDS = (
    "text", "status", "trigger", "agent", "chain", "person", "since", "until", "min_cost", "max_cost", "min_tokens",
    "max_tokens", "min_seconds", "max_seconds", "tool_failed",
)  # fmt: skip


class PageFilter(RunFilter):
    """The filters of the API, days in the viewer's zone, and for a superuser the person."""

    since = filters.DateFilter(method="from_day")
    until = filters.DateFilter(method="to_day")
    person = filters.CharFilter("principal__username", max_length=150)

    class Meta(RunFilter.Meta):
        fields = {"status": ["exact"], "trigger": ["exact"]}

    def from_day(self, runs: QuerySet[Run], name: str, day: date) -> QuerySet[Run]:
        return runs.filter(pk__gte=build_first_id(start_of_day(day)))

    def to_day(self, runs: QuerySet[Run], name: str, day: date) -> QuerySet[Run]:
        end = start_of_day(day) + timedelta(days=1)
        return runs.filter(pk__lt=build_first_id(end))


def start_of_day(day: date) -> datetime:
    """In the viewer's zone; days that no UUIDv7 can name are moved to one that it can."""
    near = min(max(day, date(1971, 1, 1)), date(2200, 1, 1))
    return datetime.combine(near, time.min, tzinfo=timezone.get_current_timezone())


@require_login
def run_list(request: HttpRequest) -> HttpResponse:
    """Newest first. `?part=rows` returns only rows: those named in `watch`, and new ones."""
    everyone = sees_everyone(request)
    filtered = PageFilter(filter_runs(request), queryset=select_row_columns(request))
    if request.GET.get("part") == "rows":
        rows = find_changed_runs(request, filtered.qs)
        return render_shell_page(request, "run_rows.html", _("Runs"), runs=with_details(rows), everyone=everyone)
    runs, older = keyset(request, filtered.qs)
    chosen = {name: request.GET.get(name, "")[:200] for name in FIELDS}
    # The first four fields are always visible, the others behind a button that counts them.
    more_chosen = sum(bool(chosen[name]) for name in FIELDS[4:])
    wrong = [f"{name}: {' '.join(errors)}" for name, errors in filtered.form.errors.items()]
    saved = SavedFilter.objects.visible_to(request.user)[: SavedFilter.MOST]
    return render_shell_page(
        request,
        "runs.html",
        _("Runs"),
        runs=with_details(runs),
        older=older,
        statuses=Run.Status.values,
        triggers=Run.Trigger.values,
        chosen=chosen,
        more_chosen=more_chosen,
        wrong=wrong,
        query=read_filters(request.GET),
        saved=saved,
        everyone=everyone,
        is_first_page="before" not in request.GET,
    )


def select_row_columns(request: HttpRequest) -> QuerySet[Run]:
    """With the columns that a row shows, and the beginning of a chain's input."""
    start = Left(Cast("input", TextField()), 300)
    return seen_runs(request).select_related(*JOINS).only(*SHOWN).annotate(input_start=start)


def filter_runs(request: HttpRequest) -> dict[str, str]:
    """An empty field of the form is no filter. Only a superuser looks for another person's runs."""
    values = {name: request.GET.get(name, "")[:200].strip() for name in FIELDS}
    if not sees_everyone(request):
        values.pop("person")
    return {name: value for name, value in values.items() if value}


def read_filters(query: QueryDict) -> str:
    """The filters of an address, without the page's other parameters."""
    kept = QueryDict(mutable=True)
    for name in FIELDS:
        if query.get(name):
            kept[name] = query[name][:200]
    return kept.urlencode()


def with_details(runs: Iterable[Run]) -> list[Run]:
    """Adds what a row shows beside the run itself: its first message and its whole cost. Two queries."""
    rows = list(runs)
    usages = totals.with_children(rows)
    texts = first_words(rows)
    for run in rows:
        run.usage = usages[run.pk]
        run.words = texts.get(run.pk) or describe_input(run.input_start)
    return rows


def describe_input(start: str | None) -> str:
    """What a chain got; "" for an empty input, so that the row shows the name of the chain."""
    return "" if start in (None, "{}", "null") else start


def first_words(runs: list[Run]) -> dict[UUID, str]:
    rows = Message.objects.filter(run__in=runs, role=Message.Role.USER).only("run_id", "content", "role")
    # The last one wins in a dictionary: that is the first message.
    return {row.run_id: row.words for row in rows.order_by("-seq")}


def find_changed_runs(request: HttpRequest, matching: QuerySet[Run]) -> list[Run]:
    """Runs that started since the newest one shown, and those that were not done when they were shown."""
    texts = request.GET.get("watch", "").split(",")[:PAGE]
    watched = {read_uuid(text) for text in texts} - {None}
    rows: list[Run] = []
    if watched:
        rows = list(select_row_columns(request).filter(pk__in=watched))
    newest = read_uuid(request.GET.get("newest", ""))
    newest_at = read_moment(newest) if newest else timezone.now()
    since = build_first_id(newest_at - OVERLAP)
    fresh = matching.filter(pk__gte=since).exclude(pk__in=watched).order_by("-pk")[:PAGE]
    return sorted([*rows, *fresh], key=lambda run: run.pk, reverse=True)


def read_moment(pk: UUID) -> datetime:
    """When a UUIDv7 was made; an id of another kind counts as now."""
    # Its first 48 bits are milliseconds since 1970.
    seconds = (pk.int >> 80) / 1000
    try:
        return datetime.fromtimestamp(seconds, tz=timezone.get_current_timezone())
    except (OverflowError, ValueError, OSError):
        return timezone.now()


@require_POST
@require_login(writes="")
def save_filter(request: HttpRequest) -> HttpResponse:
    """Keep the filters under a name; the same name replaces them."""
    name = request.POST.get("name", "").replace("\0", "").strip()[:64]
    query = read_filters(QueryDict(request.POST.get("query", "")[:2000]))
    mine = SavedFilter.objects.visible_to(request.user)
    if not name or not query:
        messages.error(request, _("Choose filters and give them a name first."))
    elif mine.exclude(name=name).count() >= SavedFilter.MOST:
        messages.error(request, _("You have saved 30 filters. Delete one first."))
    else:
        SavedFilter.objects.update_or_create(owner=request.user, name=name, defaults={"query": query[:1000]})
    return redirect(f"{reverse('page:runs')}?{query}")


@require_POST
@require_login(writes="")
def delete_filter(request: HttpRequest, pk: int) -> HttpResponse:
    SavedFilter.objects.visible_to(request.user).filter(pk=pk).delete()
    return redirect("page:runs")
