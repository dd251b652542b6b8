"""The appearance of the admin: Muster's name, logo and colours, and the menu."""

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse

# Each entry: label, Material symbol, model. Entries without permission are hidden.
MENU: list[tuple[str, list[tuple[str, str, str]]]] = [
    (
        "Write",
        [
            ("Agents", "smart_toy", "agents.agent"),
            ("Functions", "code", "functions.storedfunction"),
            ("Chains", "account_tree", "agents.chain"),
            ("Tools", "build", "agents.tool"),
            ("Providers", "neurology", "agents.provider"),
            ("Hooks", "rule", "agents.hook"),
        ],
    ),
    (
        "Automatic starts",
        [
            ("Schedules", "calendar_month", "runs.schedule"),
            ("Occurrences", "event_available", "runs.scheduleoccurrence"),
            ("Triggers", "bolt", "runs.trigger"),
            ("Firings", "electric_bolt", "runs.triggerfiring"),
        ],
    ),
    (
        "What happened",
        [
            ("Runs", "play_circle", "runs.run"),
            ("Sessions", "forum", "runs.session"),
            ("Approvals", "how_to_reg", "runs.approval"),
            ("Route decisions", "alt_route", "runs.routedecision"),
            ("Executions", "terminal", "functions.execution"),
            ("Device calls", "install_desktop", "devices.devicecall"),
            ("Workers", "engineering", "runs.worker"),
            ("Audit", "history", "agents.auditevent"),
        ],
    ),
    (
        "Reach",
        [
            ("Connections", "link", "connectors.connection"),
            ("Remote tools", "handyman", "connectors.remotetool"),
            ("Remote tasks", "assignment", "connectors.remotetask"),
            ("Delivered items", "inbox", "connectors.delivereditem"),
            ("Devices", "devices", "devices.device"),
            ("Offered tools", "add_home_work", "devices.offeredtool"),
            ("Records", "checklist", "devices.record"),
            ("Memories", "psychology", "knowledge.memory"),
        ],
    ),
    (
        "People and limits",
        [
            ("Users", "person", "auth.user"),
            ("Roles", "groups", "auth.group"),
            ("Teams", "diversity_3", "agents.team"),
            ("Keys", "key", "agents.apikey"),
            ("Secrets", "lock", "agents.secret"),
            ("Budgets", "savings", "runs.budget"),
            ("Chats for visitors", "chat", "runs.embed"),
        ],
    ),
    (
        "Times that schedules share",
        [
            ("Crontabs", "schedule", "django_celery_beat.crontabschedule"),
            ("Intervals", "timer", "django_celery_beat.intervalschedule"),
            ("Clocked", "alarm", "django_celery_beat.clockedschedule"),
        ],
    ),
]

TEAL = {
    "50": "oklch(98.4% .014 180.7)", "100": "oklch(95.3% .051 180.8)", "200": "oklch(91% .096 180.4)",
    "300": "oklch(85.5% .138 181.1)", "400": "oklch(77.7% .152 181.9)", "500": "oklch(60% .118 184.7)",
    "600": "oklch(51.1% .096 186.4)", "700": "oklch(43.7% .078 188.2)", "800": "oklch(38.6% .063 188.4)",
    "900": "oklch(32% .052 190)", "950": "oklch(27.7% .046 192.5)",
}  # fmt: skip


def menu(request: HttpRequest) -> list[dict[str, Any]]:
    """Unfold's side bar: the link back to the pages, then the groups."""
    groups = [{"title": title, "separator": True, "items": offered(request, entries)} for title, entries in MENU]
    back = {"title": "Dashboard and pages", "icon": "arrow_back", "link": reverse("page:dashboard"), "active": False}
    return [{"items": [back]}, *(group for group in groups if group["items"])]


def offered(request: HttpRequest, entries: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    rows = [(words, icon, *model.split(".")) for words, icon, model in entries]
    return [
        {"title": words, "icon": icon, "link": reverse(f"admin:{app}_{name}_changelist")}
        for words, icon, app, name in rows
        if request.user.has_perm(f"{app}.view_{name}") or request.user.has_perm(f"{app}.change_{name}")  # type: ignore[union-attr]
    ]


def mark(request: HttpRequest) -> str:
    return static("muster/icon.svg")


def names(request: HttpRequest) -> str:
    return static("admin/names.js")


LOOK = {
    "SITE_TITLE": "Muster",
    "SITE_HEADER": "Muster",
    "SITE_SUBHEADER": "Admin",
    "SITE_ICON": mark,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": mark}],
    "SHOW_BACK_BUTTON": True,
    "COLORS": {"primary": TEAL},
    "SCRIPTS": [names],
    "LOGIN": {"form": "agents.http.login.AdminLoginForm"},
    "SIDEBAR": {"show_search": True, "navigation": menu},
}
