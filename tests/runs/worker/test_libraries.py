"""Libraries of published functions are loaded when a worker starts, not at the first call."""

import json
import threading

import pytest

from functions import sandbox
from functions.sandbox.libraries import build_profile_name, find_offered_libraries
from runs.worker import libraries
from tests.functions.library import make, publish
from tests.live import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
GREETING = 'requires = ["greeter"]\nimport greeter\ndef main() -> str:\n    return greeter.WORD\n'
DRAFT = 'requires = ["other"]\nimport other\ndef main() -> str:\n    return other.WORD\n'


@pytest.fixture
def installed(tmp_path, settings):
    """Two libraries as `manage.py install_libraries` leaves them, in a process that has not used them yet."""
    settings.LIBRARIES = ["greeter", "other"]
    tmp_path.chmod(0o755)
    for name in settings.LIBRARIES:
        (tmp_path / f"{name}.py").write_text("WORD = 'hello'\n")
    (tmp_path / "libraries.json").write_text(json.dumps({name: [name] for name in settings.LIBRARIES}))
    earlier = sandbox._libraries
    sandbox.close()
    sandbox.offer(find_offered_libraries(tmp_path, settings.LIBRARIES))
    yield
    sandbox.close()
    sandbox.offer(earlier)


def test_a_worker_that_starts_loads_the_libraries_of_published_functions(alice, installed):
    publish(alice, GREETING, "first")
    publish(alice, GREETING, "second")
    publish(alice, name="plain")
    make(alice, DRAFT, "draft")
    assert libraries.published_sets() == [("greeter",)]
    sandbox.close()
    libraries.warm_in_background()
    wait_for(lambda: sandbox._pool and build_profile_name(["greeter"]) in sandbox._pool._servers.by_profile)
    assert build_profile_name(["other"]) not in sandbox._pool._servers.by_profile


def test_a_worker_is_ready_before_its_libraries_are(settings, monkeypatch):
    settings.LIBRARIES = ["greeter"]
    go_on, done = threading.Event(), threading.Event()
    monkeypatch.setattr(libraries, "warm_libraries", lambda: go_on.wait(60) and done.set())
    libraries.warm_in_background()
    assert not done.is_set()
    go_on.set()
    assert done.wait(60)


def test_nothing_is_asked_where_no_library_can_be_used(settings, monkeypatch):
    settings.LIBRARIES = []
    monkeypatch.setattr(libraries, "warm_libraries", None)
    before = set(threading.enumerate())
    libraries.warm_in_background()
    assert set(threading.enumerate()) <= before
