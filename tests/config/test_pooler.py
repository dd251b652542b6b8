"""PostgreSQL through PgBouncer in transaction mode: `DATABASE_PREPARE=0`, as docs/howto/production.md says."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from agents.models import Agent
from tests.live import ROOT, plain_environment, wait_for
from tests.servers import free_port

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no pooler"),
    pytest.mark.skipif(not shutil.which("pgbouncer"), reason="PgBouncer is not installed: apt-get install pgbouncer"),
]
# Threads that share fewer connections of the server: statements prepared in one are not known in another.
WORK = """
import threading
import django
django.setup()
from django.db import connections
from plumbing import clock
from runs.queue import claims, job_leases
from runs.models import Run

def work(number):
    for turn in range(20):
        name = f"{number}-{turn % 3}"
        job_leases.ensure_duty(name)
        assert job_leases.take_duty(name, "me", 10)
        assert clock.now()
        assert claims.claim_run("01975f3e-0000-7000-8000-000000000000") is None
        assert not list(Run.objects.filter(after=None)[:1])
    done.append(number)
    connections.close_all()

done = []
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done", len(done))
"""


@pytest.fixture
def pooler():
    """Its URL; two connections of the server serve all clients."""
    folder = Path(tempfile.mkdtemp(prefix="muster-pooler-"))
    folder.chmod(0o777)
    connection.ensure_connection()
    port, at = free_port(), connection.connection.info
    (folder / "users.txt").write_text(f'"{at.user}" ""\n')
    (folder / "pooler.ini").write_text(
        f"[databases]\n{at.dbname} = host={at.host} port={at.port} user={at.user}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
        f"auth_file = {folder}/users.txt\npool_mode = transaction\ndefault_pool_size = 2\n"
        + ("user = nobody\n" if os.geteuid() == 0 else "")
    )
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(["pgbouncer", str(folder / "pooler.ini")], stdout=output, stderr=output)
    url = f"postgres://{at.user}@127.0.0.1:{port}/{at.dbname}"
    try:
        wait_for(lambda: answers(url), 30, log.read_text)
        yield url
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def answers(url):
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def through(url, prepare, tmp_path):
    environment = plain_environment() | {
        "DJANGO_SETTINGS_MODULE": "config.settings", "MUSTER_DATA_DIR": str(tmp_path), "DATABASE_URL": url,
        "DATABASE_PREPARE": str(prepare),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", WORK], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip(), done.stderr


def test_threads_share_connections_of_a_pooler_in_transaction_mode(pooler, tmp_path):
    assert not Agent.objects.exists()  # the tables are there
    assert through(pooler, 0, tmp_path) == ("done 4", "")


def test_prepared_statements_need_connections_that_stay(pooler, tmp_path):
    """What the setting is for: a pooler of this version does not carry them over."""
    if pooler_version() >= (1, 21):
        pytest.skip("PgBouncer carries prepared statements over since 1.21")
    said, errors = through(pooler, 2, tmp_path)
    assert said != "done 4" and "prepared statement" in errors


def pooler_version():
    said = subprocess.run(["pgbouncer", "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.split()[1].split(".")[:2])
