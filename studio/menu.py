"""The menu of every page: twelve entries under headings, and the tabs of an entry that has several pages."""

from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy as later

from agents import roles


@dataclass(frozen=True)
class Page:
    """A page of the menu. `route` is its name in studio/urls.py, or with a namespace the name of another app's page."""

    name: Any
    route: str
    icon: str = ""

    @property
    def url(self) -> str | None:
        """None if the app that the page belongs to is not installed."""
        try:
            return reverse(self.route if ":" in self.route else f"page:{self.route}")
        except NoReverseMatch:
            return None


@dataclass(frozen=True)
class Entry:
    """One line of the menu. It leads to the first of its pages; the others are tabs there."""

    name: Any
    icon: str
    pages: list[Page]


@dataclass(frozen=True)
class Group:
    """Lines of the menu under one heading, which may be empty."""

    title: Any
    entries: list[Entry] = field(default_factory=list)


CHAT = Entry(later("Chat"), "talk", [
    Page(later("Chat"), "playground"), Page(later("All conversations"), "sessions"),
    Page(later("Prompts"), "prompts"), Page(later("Files"), "files"),
])  # fmt: skip
APPROVALS = Entry(later("Approvals"), "approvals", [Page(later("Approvals"), "approvals")])
MEMORY = Page(later("Memory"), "memories", "memory")
RECORDS = Page(later("Records"), "records", "records")
COLLECTIONS = Page(later("Collections"), "collections")
DEVICES = Page(later("Devices"), "devices")
SCHEDULES = Entry(later("Schedules"), "schedules", [Page(later("Schedules"), "schedules")])
ADMIN = Page(later("Admin"), "admin:index")

FOR_AUTHORS = [
    Group("", [CHAT, APPROVALS]),
    Group(later("Build"), [
        Entry(later("Agents"), "agents", [Page(later("Agents"), "agents")]),
        Entry(later("Functions"), "functions", [Page(later("Functions"), "functions")]),
        Entry(later("Chains"), "chains", [Page(later("Chains"), "chains")]),
        Entry(later("Skills"), "skills", [Page(later("Skills"), "skills")]),
    ]),
    Group(later("Connect"), [
        Entry(later("Knowledge"), "collections", [COLLECTIONS, MEMORY, RECORDS]),
        Entry(later("Connections"), "connections", [Page(later("Connections"), "connections"), DEVICES]),
    ]),
    Group(later("Follow"), [
        Entry(later("Runs"), "runs", [Page(later("Runs"), "runs")]),
        SCHEDULES,
        Entry(later("Dashboard"), "home", [Page(later("Dashboard"), "dashboard")]),
    ]),
]  # fmt: skip
SETTINGS = [
    Page(later("Providers"), "providers"), Page(later("Teams"), "teams", "teams"), Page(later("API keys"), "clients"),
    Page(later("Audit"), "audit"),
]  # fmt: skip
PEOPLE = Page(later("People"), "people")
# Of people who do not author: an invitation waits there.
TEAMS = Page(later("Teams"), "teams", "teams")
FIRST_STEPS = Entry(later("First steps"), "start", [Page(later("First steps"), "start")])


def build_menu(request: HttpRequest, groups: list[Group], counts: dict[str, int]) -> list[dict[str, Any]]:
    """[{title, items: [{name, url, icon, is_here, count}]}], without pages of apps that are not installed.

    `counts` says by the icon of a page or an entry how many rows wait there.
    """
    shown = []
    for group in groups:
        items = [describe_entry(request, entry, counts) for entry in group.entries]
        offered = [item for item in items if item is not None]
        if offered:
            shown.append({"title": group.title, "items": offered})
    return shown


def choose_groups(user: Any, *, is_new: bool) -> list[Group]:
    """Authors see everything, others what they need to talk, to approve and to see what is kept about them.

    `is_new`: no agent of this person is published, so the first steps may help.
    """
    admin = [ADMIN] if user.is_staff else []
    if roles.allows(user, "agents:write"):
        people = [PEOPLE] if roles.allows(user, "people:read") else []
        last = [Entry(later("Settings"), "admin", [*SETTINGS, *people, *admin])]
        if is_new:
            last.append(FIRST_STEPS)
        return [*FOR_AUTHORS, Group("", last)]
    groups = [Group("", [CHAT, APPROVALS, Entry(later("Knowledge"), "collections", [MEMORY, RECORDS])])]
    if roles.allows(user, roles.ACT):
        groups.append(Group("", [SCHEDULES, Entry(later("Devices"), "devices", [DEVICES])]))
    groups.append(Group("", [Entry(later("Settings"), "admin", [TEAMS, *admin])]))
    return groups


def describe_entry(request: HttpRequest, entry: Entry, counts: dict[str, int]) -> dict[str, Any] | None:
    """One line of the menu; None if none of its pages is installed."""
    urls = [url for _, url in list_installed(entry)]
    if not urls:
        return None
    counted = {entry.icon, *(page.icon for page in entry.pages)}
    return {
        "name": entry.name,
        "url": urls[0],
        "icon": entry.icon,
        "is_here": any(is_page_below(request.path, url) for url in urls),
        "count": sum(counts.get(icon, 0) for icon in counted),
    }


def list_installed(entry: Entry) -> list[tuple[Page, str]]:
    """(page, its address) of each page whose app is installed."""
    pairs = []
    for page in entry.pages:
        url = page.url
        if url is not None:
            pairs.append((page, url))
    return pairs


def find_tabs(request: HttpRequest, groups: list[Group], counts: dict[str, int]) -> dict[str, Any]:
    """{name, pages: [{name, url, is_here, count}]} of the entry that this page belongs to; empty if it has one page.

    Pages of single rows have no tabs: their first line leads back to the list.
    """
    for group in groups:
        for entry in group.entries:
            installed = list_installed(entry)
            urls = [url for _, url in installed]
            if len(installed) > 1 and request.path in urls:
                tabs = [describe_tab(request, page, url, counts) for page, url in installed]
                return {"name": entry.name, "pages": tabs}
    return {}


def describe_tab(request: HttpRequest, page: Page, url: str, counts: dict[str, int]) -> dict[str, Any]:
    return {
        "name": page.name,
        "url": url,
        "icon": page.icon,
        "is_here": request.path == url,
        "count": counts.get(page.icon, 0) if page.icon else 0,
    }


def is_page_below(path: str, url: str) -> bool:
    """Every address begins with that of the first page, so that one counts only itself."""
    if url == reverse("page:dashboard"):
        return path == url
    return path.startswith(url)
