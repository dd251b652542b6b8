"""`manage.py serve` from the outside: it starts, survives, refuses and stops."""

import re
import shutil
import signal
import socket
import sqlite3
import stat
from contextlib import closing

import httpx2
import psutil
import pytest

from supervisor.supervision import RESCUE
from tests.live import Live, is_gone, running, serve, wait_for

pytestmark = pytest.mark.live


PROGRAMS = {"web", "valkey"}


@pytest.fixture(scope="module")
def shared_live(prepared, request):
    yield from running(prepared, request.config)


@pytest.fixture
def served(shared_live):
    """A Muster for tests that break nothing, or only what the supervisor starts again."""
    wait_for(lambda: set(shared_live.programs()) >= PROGRAMS)
    return shared_live


def test_it_starts_everything_and_stops_it_in_order(own_live):
    programs = own_live.programs()
    below = own_live.everything()

    assert set(programs) >= PROGRAMS
    assert own_live.http.get("/login/").status_code == 200

    assert own_live.stop(signal.SIGINT) == 0
    assert all(is_gone(process) for process in below)


def test_the_first_start_processes_a_real_message(new_live):
    assert "reply     calculate returned 30" in new_live.said
    run = re.search(r"run       \S+/runs/(\S+)/", new_live.said).group(1)

    found = new_live.http.get(f"/api/v1/runs/{run}").json()
    calls = new_live.http.get(f"/api/v1/runs/{run}/tool-calls/").json()["results"]

    assert found["status"] == "succeeded"
    assert [call["name"] for call in calls] == ["calculate"]


def test_no_process_outlives_a_supervisor_that_was_killed(own_live):
    below = own_live.everything()

    own_live.stop(signal.SIGKILL)

    wait_for(lambda: all(is_gone(process) for process in below))


def test_it_starts_again_at_once_after_it_was_killed(own_live):
    own_live.stop(signal.SIGKILL)

    own_live.start()

    assert own_live.http.get("/login/").status_code == 200
    assert "preparing the database" not in own_live.said  # that was done, and nothing changed since


@pytest.mark.parametrize("name", ["web", "valkey"])
def test_a_fallen_program_is_started_again(served, name):
    before = served.programs()

    before[name].kill()

    wait_for(lambda: served.programs().get(name, before[name]) != before[name])
    others = [other for other in before if other != name]
    assert [served.programs()[other] for other in others] == [before[other] for other in others]


def test_the_supervisor_keeps_no_memory_of_the_start(served):
    """It has loaded Django and every model to fork the programs."""
    assert psutil.Process(served.process.pid).memory_full_info().uss < 20 << 20


def test_a_program_that_was_started_again_holds_nothing_of_the_supervisor(served):
    served.programs()["web"].kill()
    wait_for(lambda: served.programs().get("web") and served.http.get("/login/").status_code == 200)

    files = {one.path for one in served.programs()["web"].open_files()}
    lines = served.programs()["web"].net_connections()

    assert not [path for path in files if path.endswith(("serve.lock", ".log"))]
    assert [one for one in lines if one.status == "LISTEN"]


def call_rescue(served):
    """Until it comes, as a process with a port does: one that is just ending is still there."""

    def call():
        served.process.send_signal(RESCUE)
        return served.programs().get("rescue")

    return wait_for(call)


def test_a_rescue_comes_when_it_is_called_holds_no_port_and_ends_by_itself(served):
    for _ in range(2):
        rescue = call_rescue(served)
        assert not [one for one in rescue.net_connections() if one.status == "LISTEN"]
        wait_for(lambda rescue=rescue: is_gone(rescue))
    assert set(served.programs()) >= PROGRAMS


def test_a_rescue_that_is_killed_is_not_started_again(served):
    rescue = call_rescue(served)

    rescue.kill()

    wait_for(lambda: is_gone(rescue))
    assert "rescue" not in served.programs()


def test_a_broker_that_falls_while_it_is_written_to_takes_nobody_with_it(served):
    """Each fall finds requests and device sockets at work; the kernel tells a writer by SIGPIPE that nobody reads."""
    before = served.programs()
    for _ in range(3):
        fallen = served.programs()["valkey"]
        fallen.kill()
        for _ in range(20):
            served.http.get("/api/v1/me")  # counted in the broker
        wait_for(lambda fallen=fallen: served.programs().get("valkey", fallen) != fallen)
    after = served.programs()
    assert after["web"] == before["web"]


def test_callers_wait_while_the_web_server_is_started_again(served):
    served.programs()["web"].kill()

    assert httpx2.get(f"{served.url}/login/", timeout=120).status_code == 200


def test_keys_and_secrets_are_for_their_owner_alone(served):
    kept = list((served.data_dir / "secrets").iterdir())

    assert {path.name for path in kept} >= {"secret_key", "muster_field_keys", "development_key"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)


def test_the_password_and_the_key_are_printed_once(new_live):
    assert new_live.said.count("shown this once") == 2
    assert new_live.key in new_live.said

    new_live.stop()
    new_live.start()

    assert "shown this once" not in new_live.said
    assert new_live.key not in new_live.said


def test_a_second_serve_on_the_same_directory_is_refused(served):
    second = serve("--data-dir", str(served.data_dir), "--port", "0")
    said, _ = second.communicate(timeout=240)

    assert second.returncode == 1
    assert f"already in use by process {served.process.pid} at {served.url}" in said
    assert len(said.strip().splitlines()) == 1


def test_a_database_of_other_migrations_is_refused_and_left_as_it_is(tmp_path, prepared):
    shutil.copytree(prepared, tmp_path / "var", ignore=shutil.ignore_patterns("*.sock", "postgres"))
    file = tmp_path / "var" / "muster.sqlite3"
    with closing(sqlite3.connect(file)) as line:
        line.execute("ALTER TABLE agents_team RENAME COLUMN name TO label")
    (tmp_path / "var" / "prepared").write_text("of an older version")

    process = serve("--data-dir", str(tmp_path / "var"), "--port", "0")
    said, _ = process.communicate(timeout=240)

    assert process.returncode == 1
    assert f"The database in {tmp_path / 'var'} was made by another version" in said.splitlines()[-1]
    assert "ready" not in said


def refused(*arguments: str, **environment: str) -> str:
    """What it says, in one line, when it does not start."""
    process = serve(*arguments, **environment)
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 1
    assert len(said.strip().splitlines()) == 1, said
    return said


def test_a_port_in_use_gets_one_sentence(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        assert f"Port {port} of 127.0.0.1 cannot be used" in refused("--data-dir", str(tmp_path), "--port", port)


@pytest.mark.parametrize("url", ["nonsense", "mysql://a/b", "postgres://", "postgres://u:p@host:notaport/x"])
def test_a_database_url_that_cannot_be_read_gets_one_sentence(tmp_path, url):
    assert "DATABASE_URL" in refused("--data-dir", str(tmp_path), "--port", "0", DATABASE_URL=url)


def test_a_database_that_is_not_there_gets_one_sentence(tmp_path):
    said = refused("--data-dir", str(tmp_path), "--port", "0", DATABASE_URL="postgres://u:p@127.0.0.1:1/x")

    assert "the database cannot be reached" in said


def test_beyond_loopback_real_settings_are_demanded(tmp_path):
    said = refused("--data-dir", str(tmp_path), "--port", "0", "--host", "0.0.0.0")

    assert "SECRET_KEY, MUSTER_FIELD_KEYS, ALLOWED_HOSTS" in said


def test_a_data_directory_that_cannot_be_made_gets_one_sentence():
    assert "cannot be used" in refused("--data-dir", "/proc/muster", "--port", "0")


def test_a_data_directory_with_a_long_or_spaced_name_works(tmp_path):
    directory = tmp_path / ("a long name with spaces " * 5)
    directory.mkdir(parents=True)
    muster = Live(directory, "--no-greeting")
    try:
        assert "web" in muster.programs()
        assert muster.http.get("/login/").status_code == 200
    finally:
        muster.stop()
