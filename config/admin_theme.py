"""The admin as a part of the pages: their navigation, login and account, and the groups of the admin's lists."""

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth.views import LogoutView, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as later

from studio.base import shell

# Each entry: label, model. Entries without permission are hidden.
MENU: list[tuple[Any, list[tuple[Any, str]]]] = [
    (
        later("Write"),
        [
            (later("Agents"), "agents.agent"),
            (later("Functions"), "functions.storedfunction"),
            (later("Skills"), "knowledge.skill"),
            (later("Chains"), "agents.chain"),
            (later("Tools"), "agents.tool"),
            (later("Providers"), "agents.provider"),
            (later("Hooks"), "agents.hook"),
        ],
    ),
    (
        later("Automatic starts"),
        [
            (later("Schedules"), "runs.schedule"),
            (later("Occurrences"), "runs.scheduleoccurrence"),
            (later("Triggers"), "runs.trigger"),
            (later("Firings"), "runs.triggerfiring"),
        ],
    ),
    (
        later("What happened"),
        [
            (later("Runs"), "runs.run"),
            (later("Sessions"), "runs.session"),
            (later("Approvals"), "runs.approval"),
            (later("Route decisions"), "runs.routedecision"),
            (later("Executions"), "functions.execution"),
            (later("Device calls"), "devices.devicecall"),
            (later("Workers"), "runs.worker"),
            (later("Audit"), "agents.auditevent"),
        ],
    ),
    (
        later("Reach"),
        [
            (later("Connections"), "connectors.connection"),
            (later("Remote tools"), "connectors.remotetool"),
            (later("Remote tasks"), "connectors.remotetask"),
            (later("Delivered items"), "connectors.delivereditem"),
            (later("Devices"), "devices.device"),
            (later("Offered tools"), "devices.offeredtool"),
            (later("Records"), "devices.record"),
            (later("Memories"), "knowledge.memory"),
            (later("Collections"), "knowledge.collection"),
            (later("Documents"), "knowledge.document"),
            (later("Evaluation questions"), "knowledge.evaluationquestion"),
            (later("Evaluations"), "knowledge.evaluation"),
        ],
    ),
    (
        later("People and limits"),
        [
            (later("Users"), "agents.user"),
            (later("Roles"), "auth.group"),
            (later("Teams"), "agents.team"),
            (later("API keys"), "agents.apikey"),
            (later("Secrets"), "agents.secret"),
            (later("Budgets"), "runs.budget"),
            (later("Chats for visitors"), "runs.embed"),
        ],
    ),
    (
        later("Times that schedules share"),
        [
            (later("Crontabs"), "django_celery_beat.crontabschedule"),
            (later("Intervals"), "django_celery_beat.intervalschedule"),
            (later("Clocked"), "django_celery_beat.clockedschedule"),
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
    menu: list[dict[str, Any]] = [{"title": title, "items": find_offered(request, entries)} for title, entries in MENU]
    return [{**group, "is_here": any(one["is_here"] for one in group["items"])} for group in menu if group["items"]]


def find_offered(request: HttpRequest, entries: list[tuple[Any, str]]) -> list[dict[str, Any]]:
    rows = [(words, *model.split(".")) for words, model in entries]
    return [
        build_menu_link(request, words, reverse(f"admin:{app}_{name}_changelist"))
        for words, app, name in rows
        if request.user.has_perm(f"{app}.view_{name}") or request.user.has_perm(f"{app}.change_{name}")  # type: ignore[union-attr]
    ]


def build_menu_link(request: HttpRequest, words: Any, url: str) -> dict[str, Any]:
    return {"name": words, "url": url, "is_here": request.path.startswith(url)}
