"""The roles of the site mean the same over REST, in sockets, on the pages and in the admin: the table of
docs/security.md, cell by cell.
"""

import runpy
from pathlib import Path
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from channels.testing import WebsocketCommunicator
from django.conf import settings as site
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from agents import roles
from agents.http.authentication import ApiKeyAuthentication, HasScope, find_scope
from agents.http.credential_checks import CredentialCheck
from agents.models import Agent, ApiKey, Chain
from agents.models.key import RESOURCES
from config.asgi import application
from runs.models import Run, ScheduleOccurrence, Session
from runs.schedules import occurrences
from studio import urls as pages
from tests.people import make_person

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
JSON = "application/json"
# What each role may do, as in docs/security.md
TABLE = {
    "viewer": {"see"},
    "operator": {"see", "use"},
    "author": {"see", "use", "create"},
    "administrator": {"see", "use", "create"},
}
CELLS = [(role, right) for role in TABLE for right in ("see", "use", "create")]
AUTHORED = {"agents", "functions", "tools", "chains", "providers", "secrets", "teams", "audit", "skills", "people"}


@pytest.fixture
def person(db):
    """`person("viewer")`: somebody with this role on the site."""
    roles.make_roles()

    def make(role):
        made = make_person(f"a-{role}")
        made.groups.set([Group.objects.get(name=role)])
        return made

    return make


@pytest.fixture
def site_rows(offline, make_agent, make_chain, functions):
    """An agent and a chain of the site, which everybody may use."""
    make_agent("guide")
    make_chain({"key": "one", "tool": "one"})
    for model in (Agent, Chain):
        model.objects.update(owner=None)


def allowed(role, right):
    return right in TABLE[role]


# -- REST


@pytest.mark.parametrize(("role", "right"), CELLS)
def test_over_rest(person, api, site_rows, role, right):
    client = api(person(role))
    answers = {
        "see": lambda: [client.get(f"{V1}/{what}/") for what in ("agents", "chains", "runs", "functions", "schedules")],
        "use": lambda: [
            client.post(f"{V1}/agents/guide/messages", {"message": "hi"}, headers={"Prefer": "respond-async"}),
            client.post(f"{V1}/chains/digest/runs", {}),
            client.post(f"{V1}/triggers/", {"name": "t", "kind": "webhook", "agent": "guide"}),
            client.post(f"{V1}/keys/", {"scopes": ["runs:read"]}),
        ],
        "create": lambda: [
            client.post(f"{V1}/agents/", {"name": "mine", "provider": "offline"}),
            client.post(f"{V1}/functions/", {"name": "f", "source": "def f() -> int:\n    return 1\n"}),
            client.post(f"{V1}/chains/", {"name": "c", "steps": []}),
            client.post(f"{V1}/providers/", {"name": "p", "kind": "offline"}),
            client.post(f"{V1}/secrets/", {"name": "s", "value": "x", "hosts": ["example.com"]}),
            client.post(f"{V1}/teams/", {"name": "t-team"}),
        ],
    }[right]()
    codes = {answer.status_code for answer in answers}
    if allowed(role, right):
        assert codes <= {200, 201, 202}, [answer.content[:300] for answer in answers]
    else:
        assert codes == {403} and {answer.json()["error"]["code"] for answer in answers} == {"role_forbids"}
        assert not Run.objects.exists() and not Agent.objects.filter(name="mine").exists()


def test_other_protocols_are_limited_too(person, api, site_rows):
    body = {"model": "guide", "messages": [{"role": "user", "content": "hi"}]}
    answer = api(person("viewer")).post("/v1/chat/completions", body)
    assert answer.status_code == 403 and "viewer" in answer.content.decode() and not Run.objects.exists()


def views(patterns=None, prefix=""):
    """Every view of the API with its path."""
    for one in patterns or get_resolver().url_patterns:
        path = prefix + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from views(one.url_patterns, path)
        elif isinstance(one, URLPattern) and path.startswith("api/v1/") and hasattr(one.callback, "cls"):
            yield path, one.callback


def test_no_unsafe_request_of_the_api_is_a_viewer_s(person, api):
    """Whatever is added: a path whose view asks for a scope refuses a viewer who changes something."""
    client, seen = api(person("viewer")), 0
    for path, callback in views():
        if HasScope not in getattr(callback.cls, "permission_classes", []):
            continue
        if ApiKeyAuthentication not in callback.cls.authentication_classes:
            continue  # an executor's claim is a credential of its own
        actions = getattr(callback, "actions", None) or dict.fromkeys(("post", "put", "patch", "delete"), "")
        for verb, action in list(actions.items()):
            if verb in ("get", "head", "options") or not hasattr(callback.cls, action or verb):
                continue
            if action in getattr(callback.cls, "personal", ()):
                continue
            view = callback.cls()
            view.action = action
            request = type("Request", (), {"method": verb.upper()})()
            scope = str(find_scope(request, view))
            if scope.endswith(":read") or scope.partition(":")[0] in roles.WRITTEN_BY_ALL:
                continue
            url = "/" + filled(path)
            answer = client.generic(verb.upper(), url, "{}", content_type=JSON)
            assert answer.status_code == 403, (verb, url, answer.status_code, answer.content[:200])
            assert answer.json()["error"]["code"] == "role_forbids", (verb, url)
            seen += 1
    assert seen > 60


def filled(path):
    """A path with something in the place of each parameter."""
    for kind, value in (("<uuid:", str(uuid4())), ("<int:", "1"), ("<str:", "x"), ("<slug:", "x"), ("<", "x")):
        while kind in path:
            start = path.index(kind)
            path = path[:start] + value + path[path.index(">", start) + 1 :]
    return path.replace("^", "").replace("$", "")


def test_every_resource_is_in_the_table():
    """A new resource is written by authors until somebody decides otherwise."""
    written = roles.WRITTEN_BY_OPERATORS | roles.WRITTEN_BY_ALL
    assert set(RESOURCES) - AUTHORED == written & set(RESOURCES)


def test_a_viewer_reads_and_leaves_teams_and_answers_invitations(person, api, team, alice_api):
    viewer = person("viewer")
    alice_api.post(f"{V1}/teams/{team.name}/invitations/", {"user": viewer.username, "role": "viewer"})
    client = api(viewer)
    [invitation] = client.get(f"{V1}/invitations/").json()["results"]
    assert client.post(f"{V1}/invitations/{invitation['id']}/accept").status_code == 200
    assert client.post(f"{V1}/teams/{team.name}/leave").status_code == 204


def test_the_role_is_shown_and_the_highest_counts(person, api, alice, site_admin):
    viewer = person("viewer")
    assert api(viewer).get(f"{V1}/me").json()["role"] == "viewer"
    viewer.groups.add(Group.objects.get(name="operator"))
    assert api(viewer).get(f"{V1}/me").json()["role"] == "operator"
    assert api(alice).get(f"{V1}/me").json()["role"] == "author"
    assert api(site_admin).get(f"{V1}/me").json()["role"] == "administrator"


def test_people_without_a_role_get_that_of_the_setting(settings, api, alice):
    settings.DEFAULT_ROLE = "viewer"
    answer = api(alice).post(f"{V1}/keys/", {"scopes": ["runs:read"]})
    assert answer.status_code == 403 and "viewer" in answer.json()["error"]["message"]
    assert "operator" in answer.json()["error"]["hint"]


def test_a_login_session_is_limited_like_a_key(person, signed_in):
    for role, status in (("viewer", 403), ("author", 201)):
        browser = signed_in(person(role))
        answer = browser.post(f"{V1}/teams/", {"name": f"t-{role}"}, content_type=JSON)
        assert answer.status_code == status


def test_a_key_s_scopes_still_count_within_the_role(person, api):
    answer = api(person("author"), "runs:read").post(f"{V1}/teams/", {"name": "t-team"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_the_role_costs_a_request_with_a_key_no_query(person, django_assert_num_queries):
    _, secret = ApiKey.make(person("operator"), ["*"])
    ApiKey.objects.get().mark_used()
    with django_assert_num_queries(1):
        key = ApiKey.find(secret)
        assert key is not None and roles.find_role(key.user) == "operator"


# -- sockets


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("role", list(TABLE))
def test_in_a_socket(person, site_rows, role):
    user = person(role)
    session = Session.objects.create(owner=user, agent=Agent.objects.get(name="guide"))
    _, secret = ApiKey.make(user, ["*", "approvals:decide"])
    frames = [
        {"type": "message", "text": "hi"},
        {"type": "cancel", "run": str(uuid4())},
        {"type": "approve", "approval": str(uuid4())},
    ]

    async def talk():
        socket = WebsocketCommunicator(
            application, f"/ws/sessions/{session.pk}/", headers=[(b"authorization", f"Bearer {secret}".encode())]
        )
        assert (await socket.connect(timeout=60))[0]
        answers = []
        for frame in frames:
            await socket.send_json_to(frame)
            while (answer := await socket.receive_json_from(timeout=60)).get("type") not in ("accepted", "error"):
                pass
            answers.append(answer)
        await socket.disconnect(timeout=60)
        return answers

    answers = async_to_sync(talk)()
    codes = [answer.get("error", {}).get("code", "") for answer in answers]
    if allowed(role, "use"):
        assert codes[0] == "" and "forbidden" not in codes
    else:
        assert codes == ["forbidden"] * 3 and "viewer" in answers[0]["error"]["message"]
        assert not Run.objects.exists()


def test_a_socket_ends_when_the_role_changes(person):
    user = person("operator")
    key, _ = ApiKey.make(user, ["*"])
    standing = CredentialCheck.of(key, None, roles.find_rank(user))
    assert standing.is_good()
    user.groups.set([Group.objects.get(name="viewer")])
    assert not standing.is_good() and CredentialCheck.of(key, None).is_good()  # a stream that only reads goes on


# -- pages


@pytest.mark.parametrize(("role", "right"), CELLS)
def test_on_the_pages(person, signed_in, site_rows, role, right):
    browser = signed_in(person(role))
    if right == "see":
        answers = [browser.get(path) for path in ("/", "/runs/", "/chains/", "/functions/", "/playground/")]
        assert {answer.status_code for answer in answers} == {200}
        assert browser.get("/start/").status_code == (200 if allowed(role, "create") else 403)
        return
    forms = {
        "use": ("/chains/digest/", {"input": "{}"}),
        "create": ("/start/", {"step": "provider", "provider-name": "openai", "provider-kind": "offline"}),
    }
    path, form = forms[right]
    answer = browser.post(path, form)
    assert (answer.status_code == 403) is not allowed(role, right), answer.content[:300]
    if answer.status_code == 403:
        assert role in answer.content.decode() and not Run.objects.exists()


def test_every_form_of_a_page_asks_for_the_role(person, signed_in):
    """Whatever is added: a viewer's POST to a page is refused, but for what is everybody's."""
    browser, seen = signed_in(person("viewer")), 0
    personal = ("/teams/", "/invitations/", "/login/", "/logout/", "/account/", "/runs/filters", "/join/")
    for path in page_paths():
        url = "/" + filled(path)
        if url.startswith(personal):
            continue
        answer = browser.post(url, {})
        assert answer.status_code in (403, 405), (url, answer.status_code)
        seen += answer.status_code == 403
    assert seen > 10


def page_paths():
    return [str(one.pattern) for one in pages.urlpatterns if isinstance(one, URLPattern)]


# -- the admin


@pytest.mark.parametrize(("role", "right"), CELLS)
def test_in_the_admin(person, signed_in, site_rows, role, right):
    user = person(role)
    user.is_staff = True
    user.save()
    browser = signed_in(user)
    paths = {
        "see": ["/admin/agents/agent/", "/admin/runs/run/", "/admin/runs/schedule/"],
        "use": [f"/admin/{what}/add/" for what in ("runs/schedule", "runs/trigger", "runs/budget", "agents/apikey")],
        "create": [
            f"/admin/{what}/add/"
            for what in ("agents/agent", "agents/chain", "agents/provider", "agents/secret", "agents/team")
        ],
    }[right]
    codes = {path: browser.get(path).status_code for path in paths}
    assert set(codes.values()) == {200 if allowed(role, right) else 403}, codes


# -- runs that nobody starts by hand


def test_a_schedule_of_somebody_who_became_a_viewer_starts_nothing(person, site_rows, make_schedule):
    owner = person("operator")
    schedule = make_schedule(owner=owner, agent=Agent.objects.get(name="guide"))
    owner.groups.set([Group.objects.get(name="viewer")])
    now = timezone.now()
    occurrence = ScheduleOccurrence.objects.create(schedule=schedule, due_at=now, start_at=now)
    occurrences.start_open(timezone.now())
    occurrence.refresh_from_db()
    assert (occurrence.outcome, Run.objects.count()) == ("refused", 0)
    assert "role" in occurrence.reason


def test_the_site_refuses_an_unknown_default_role(monkeypatch):
    monkeypatch.setenv("MUSTER_DEFAULT_ROLE", "king")
    with pytest.raises(ImproperlyConfigured, match="MUSTER_DEFAULT_ROLE"):
        runpy.run_path(str(site.BASE_DIR / "config" / "settings" / "login.py"))


def test_names_in_the_documentation(person):
    page = Path("docs/security.md").read_text()
    for role in TABLE:
        row = next(line for line in page.splitlines() if line.startswith(f"| **{role}**"))
        cells = [cell.strip() == "yes" for cell in row.split("|")[2:5]]
        assert cells == [allowed(role, right) for right in ("see", "use", "create")]
