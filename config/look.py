"""The admin as a part of the pages: their navigation, login and account, and the groups of the admin's lists."""

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth.views import LogoutView, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from runs.pages.base import shell

# Each entry: label, model. Entries without permission are hidden.
MENU: list[tuple[str, list[tuple[str, str]]]] = [
    (
        "Write",
        [
            ("Agents", "agents.agent"),
            ("Functions", "functions.storedfunction"),
            ("Skills", "knowledge.skill"),
            ("Chains", "agents.chain"),
            ("Tools", "agents.tool"),
            ("Providers", "agents.provider"),
            ("Hooks", "agents.hook"),
        ],
    ),
    (
        "Automatic starts",
        [
            ("Schedules", "runs.schedule"),
            ("Occurrences", "runs.scheduleoccurrence"),
            ("Triggers", "runs.trigger"),
            ("Firings", "runs.triggerfiring"),
        ],
    ),
    (
        "What happened",
        [
            ("Runs", "runs.run"),
            ("Sessions", "runs.session"),
            ("Approvals", "runs.approval"),
            ("Route decisions", "runs.routedecision"),
            ("Executions", "functions.execution"),
            ("Device calls", "devices.devicecall"),
            ("Workers", "runs.worker"),
            ("Audit", "agents.auditevent"),
        ],
    ),
    (
        "Reach",
        [
            ("Connections", "connectors.connection"),
            ("Remote tools", "connectors.remotetool"),
            ("Remote tasks", "connectors.remotetask"),
            ("Delivered items", "connectors.delivereditem"),
            ("Devices", "devices.device"),
            ("Offered tools", "devices.offeredtool"),
            ("Records", "devices.record"),
            ("Memories", "knowledge.memory"),
            ("Collections", "knowledge.collection"),
            ("Documents", "knowledge.document"),
            ("Evaluation questions", "knowledge.evaluationquestion"),
            ("Evaluations", "knowledge.evaluation"),
        ],
    ),
    (
        "People and limits",
        [
            ("Users", "auth.user"),
            ("Roles", "auth.group"),
            ("Teams", "agents.team"),
            ("Keys", "agents.apikey"),
            ("Secrets", "agents.secret"),
            ("Budgets", "runs.budget"),
            ("Chats for visitors", "runs.embed"),
        ],
    ),
    (
        "Times that schedules share",
        [
            ("Crontabs", "django_celery_beat.crontabschedule"),
            ("Intervals", "django_celery_beat.intervalschedule"),
            ("Clocked", "django_celery_beat.clockedschedule"),
        ],
    ),
]


class Site(AdminSite):
    site_title = site_header = "Muster"
    enable_nav_sidebar = False

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        return context | shell(request) | {"admin_groups": groups(request)} if context["has_permission"] else context

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """There is one login form. Who is signed in without being on the staff is refused."""
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        return redirect_to_login(request.GET.get("next", reverse("admin:index")))

    def logout(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return LogoutView.as_view(next_page="page:login")(request)

    def password_change(self, request: HttpRequest, extra_context: Any = None) -> Any:
        return redirect("page:account")

    def app_index(self, request: HttpRequest, app_label: str, extra_context: Any = None) -> Any:
        return redirect("admin:index")


def groups(request: HttpRequest) -> list[dict[str, Any]]:
    """The lists that the person may see: [{title, is_here, items: [{name, url, is_here}]}]."""
    found: list[dict[str, Any]] = [{"title": title, "items": offered(request, entries)} for title, entries in MENU]
    return [{**group, "is_here": any(one["is_here"] for one in group["items"])} for group in found if group["items"]]


def offered(request: HttpRequest, entries: list[tuple[str, str]]) -> list[dict[str, Any]]:
    rows = [(words, *model.split(".")) for words, model in entries]
    return [
        link(request, words, reverse(f"admin:{app}_{name}_changelist"))
        for words, app, name in rows
        if request.user.has_perm(f"{app}.view_{name}") or request.user.has_perm(f"{app}.change_{name}")  # type: ignore[union-attr]
    ]


def link(request: HttpRequest, words: str, url: str) -> dict[str, Any]:
    return {"name": words, "url": url, "is_here": request.path.startswith(url)}
