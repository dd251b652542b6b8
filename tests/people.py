"""Who appears in tests: Alice owns, Bob is in her team, Charlie is a stranger; each with an API client of their own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from whitenoise.middleware import WhiteNoiseMiddleware

from agents.http import throttles
from agents.models import Agent, ApiKey, Membership, Provider, Team
from plumbing import clock
from plumbing.broker.line import Line

EVERYTHING = ["*", "approvals:decide"]


class ApiClient(Client):
    """Django's test client speaking JSON with an API key: `api.post("/api/v1/agents/", {...}).json()`."""

    def __init__(self, user: Any, secret: str) -> None:
        super().__init__(headers={"Authorization": f"Bearer {secret}"}, raise_request_exception=False)
        self.user = user
        self.secret = secret

    def post(self, path: str, data: Any = None, content_type: str = "application/json", **more: Any) -> Any:
        return super().post(path, {} if data is None else data, content_type=content_type, **more)


@pytest.fixture(autouse=True, scope="session")
def cheap_passwords() -> None:
    """A slow hash protects people, not fixtures."""
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.MD5PasswordHasher", "agents.http.hashing.RandomSecretHasher",
    ]  # fmt: skip


@pytest.fixture(autouse=True, scope="session")
def static_files_are_listed_once() -> Iterator[None]:
    """Each test client loads the middleware, and WhiteNoise would list every static file anew."""
    list_files = WhiteNoiseMiddleware.add_files_from_finders
    listed: dict[Any, dict[str, Any]] = {}

    def add_listed_files(middleware: WhiteNoiseMiddleware) -> None:
        depends_on = (middleware.static_prefix, middleware.max_age, tuple(map(str, settings.STATICFILES_DIRS)))
        if depends_on not in listed:
            of_its_own, middleware.files = middleware.files, {}
            list_files(middleware)
            listed[depends_on], middleware.files = middleware.files, of_its_own
        middleware.files.update(listed[depends_on])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add_listed_files)
        yield


@pytest.fixture
def alice(db: None) -> Any:
    """Owns what a test makes; author in her team."""
    return make_person("alice")


@pytest.fixture
def team(alice: Any) -> Team:
    """Alice's team."""
    made = Team.objects.create(name="alice-and-bob")
    Membership.objects.create(team=made, user=alice, role=Membership.Role.ADMINISTRATOR)
    return made


@pytest.fixture
def bob(team: Team) -> Any:
    """In Alice's team, as an author."""
    person = make_person("bob")
    Membership.objects.create(team=team, user=person, role=Membership.Role.AUTHOR)
    return person


@pytest.fixture
def charlie(db: None) -> Any:
    """A stranger: what is Alice's or her team's does not exist for him."""
    return make_person("charlie")


@pytest.fixture
def site_admin(db: None) -> Any:
    """The superuser, who may change what belongs to the site."""
    return get_user_model().objects.create_superuser("site-admin", "admin@example.org", "correct horse battery")


@pytest.fixture
def api(db: None) -> Callable[..., ApiClient]:
    """`api(alice)` is a client with every scope, `api(alice, "runs:read")` one with that scope alone."""

    def client_for(user: Any, *scopes: str) -> ApiClient:
        _, secret = ApiKey.make(user, list(scopes) or EVERYTHING, name="test")
        return ApiClient(user, secret)

    return client_for


@pytest.fixture
def time_machine(time_machine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The plugin's. What is measured from the clock of PostgreSQL, which it does not move, follows this machine."""
    monkeypatch.setattr(clock.Reading, "last", None)
    monkeypatch.setattr(clock, "is_old", lambda: False)
    return time_machine


@pytest.fixture
def one_minute(time_machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are counted from none, all in one minute, however slowly the cache answers (or else they pass)."""
    patient = Line(settings.CACHE_URL, timeout_s=60)
    patient.ask(("FLUSHDB",))
    monkeypatch.setattr(throttles, "cache_connection", lambda: patient)
    time_machine.move_to("2026-01-01T12:00:30Z", tick=False)


@pytest.fixture
def alice_api(api: Callable[..., ApiClient], alice: Any) -> ApiClient:
    return api(alice)


@pytest.fixture
def bob_api(api: Callable[..., ApiClient], bob: Any) -> ApiClient:
    return api(bob)


@pytest.fixture
def charlie_api(api: Callable[..., ApiClient], charlie: Any) -> ApiClient:
    return api(charlie)


@pytest.fixture
def staff() -> Any:
    """Let somebody into the admin with every model permission, but not as a superuser."""

    def make(user: Any) -> Any:
        user.is_staff = True
        user.save()
        user.user_permissions.set(Permission.objects.all())
        return user

    return make


@pytest.fixture
def signed_in() -> Any:
    """A browser (Django's test client) that is signed in as somebody."""

    def make(user: Any) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return make


@pytest.fixture
def offline(db: None) -> Provider:
    """The site's offline provider."""
    return Provider.objects.get_or_create(name="offline", owner=None, defaults={"kind": Provider.Kind.OFFLINE})[0]


@pytest.fixture
def agent(alice: Any, offline: Provider) -> Agent:
    return Agent.objects.create(name="librarian", description="Finds books.", owner=alice, provider=offline)


def make_person(name: str) -> Any:
    return get_user_model().objects.create_user(name, f"{name}@example.org", "correct horse battery")
