"""docs/howto/production.md on a machine of our own: its commands run as they stand there, with other paths and ports."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import redis

from supervisor import postgres, processes, valkey
from tests.live import OURS, ROOT
from tests.servers import free_port

PAGE = ROOT / "docs" / "howto" / "production.md"
NAME = "muster.example.org"
CURLRC = 'cacert = "{tls}/fullchain.pem"\nresolve = "{name}:{port}:127.0.0.1"\nsilent\nshow-error\n'
PROGRAMS = {
    # What is typed, and what it does on this machine, which has no users and no init.
    "sudo": 'while [ "${1#-}" != "$1" ]; do [ "$1" = -u ] && shift; shift; done; exec "$@"',
    "systemctl": 'echo "$@" >> "$SCRATCH/systemctl.log"',
    "redis-cli": f'exec {sys.executable} -c "import redis,sys; '
    'print(redis.Redis(port=int(sys.argv[1])).execute_command(*sys.argv[2:]))" "$REDIS_PORT" "$@"',
    "install": f'exec {sys.executable} "$SCRATCH/install.py" "$@"',
}
INSTALL = """import json, pathlib, re, shutil, sys
words, skip = [], False
for word in sys.argv[1:]:
    if skip:
        skip = False
    elif word in ("--owner", "--group", "--mode"):
        skip = True
    else:
        words.append(word)
if words[0] == "--directory":
    pathlib.Path(words[1]).mkdir(parents=True, exist_ok=True)
else:
    for source in words[:-1]:
        copy = pathlib.Path(shutil.copy(source, words[-1]))
        text = copy.read_text()
        for usual, ours in json.loads((pathlib.Path(__file__).parent / "here.json").read_text()):
            text = re.sub(usual, ours, text)
        copy.write_text(text)
"""


def blocks(heading: str) -> list[str]:
    """The commands below a heading of the page."""
    (section,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    return re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)


class Machine:
    """Directories, servers on loopback, and stand-ins for the programs that need root."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.ports = {name: free_port() for name in ("5432", "6379", "8001", "8002", "443")}
        self.children: list[int] = []
        self.running: dict[str, subprocess.Popen] = {}
        for part in ("bin", "etc", "units", "proxy", "tls", "data"):
            (scratch / part).mkdir()
        (scratch / "install.py").write_text(INSTALL)
        (scratch / "here.json").write_text(json.dumps(self.substitutes()))
        for name, text in PROGRAMS.items():
            (scratch / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (scratch / "bin" / name).chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        clean = {key: value for key, value in os.environ.items() if key not in OURS and not key.startswith("MUSTER_")}
        return clean | {
            "PATH": f"{self.scratch}/bin:{clean['PATH']}",
            "SCRATCH": str(self.scratch),
            "MUSTER_ENV": str(self.scratch / "etc" / "muster.env"),
            "REDIS_PORT": str(self.ports["6379"]),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.ports["5432"]),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
            "CURL_HOME": str(self.scratch),
            "DJANGO_SUPERUSER_PASSWORD": "a-long-password",
        }

    def substitutes(self) -> list[tuple[str, str]]:
        """(pattern, what stands there on this machine): paths first, then ports."""
        paths = {
            "/opt/muster": str(ROOT),
            "/etc/muster": f"{self.scratch}/etc",
            "/etc/ssl/muster": f"{self.scratch}/tls",
            "/etc/systemd/system/": f"{self.scratch}/units/",
            "/etc/nginx/conf.d": f"{self.scratch}/proxy",
            "/var/lib/muster": f"{self.scratch}/data",
            rf"https://{NAME}/": f"https://{NAME}:{self.ports['443']}/",
        }
        ports = [(rf"(?<![\w.-]){usual}(?![\w.-])", str(ours)) for usual, ours in self.ports.items()]
        return [*paths.items(), *ports]

    def here(self, text: str) -> str:
        """The same text for this machine."""
        for usual, ours in self.substitutes():
            text = re.sub(usual, ours, text)
        return text.replace("createsuperuser", "createsuperuser --noinput")

    def type(self, heading: str, *, only: int | None = None) -> str:
        """Run the commands below a heading; returns what they print."""
        found = blocks(heading)
        text = "\n".join(found if only is None else [found[only]])
        return self.run(self.here(text))

    def run(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    # servers

    def start_postgres(self) -> None:
        """Like Debian's: the role postgres may do everything, others come with a password."""
        options = {"listen_addresses": "127.0.0.1", "port": str(self.ports["5432"]), "fsync": "off"}
        cluster = postgres.prepare_cluster(self.scratch / "postgresql", **options)
        rules = cluster.data / "pg_hba.conf"
        rules.write_text(
            "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )
        self.launch("postgres", postgres.command(cluster))
        socket = cluster.sockets / f".s.PGSQL.{self.ports['5432']}"
        assert valkey.wait_until(lambda: socket.exists() and self.can_connect(cluster), 60)
        with psycopg.connect(host=str(cluster.sockets), port=self.ports["5432"], user="muster", dbname="postgres",
                             autocommit=True) as line:  # fmt: skip
            line.execute("CREATE ROLE postgres SUPERUSER LOGIN")
        with psycopg.connect(host=str(cluster.sockets), port=self.ports["5432"], user="postgres", dbname="postgres",
                             autocommit=True) as line:  # fmt: skip
            line.execute("ALTER ROLE muster RENAME TO made_by_initdb")

    def can_connect(self, cluster: postgres.Cluster) -> bool:
        try:
            psycopg.connect(
                host=str(cluster.sockets), port=self.ports["5432"], user="muster", dbname="postgres"
            ).close()
        except psycopg.OperationalError:
            return False
        return True

    def start_redis(self) -> None:
        settings = self.scratch / "redis.conf"
        settings.write_text(f"port {self.ports['6379']}\nbind 127.0.0.1\ndir {self.scratch}\nsave ''\n")
        binary = str(valkey.find_binary())
        self.launch("redis", lambda: os.execv(binary, [binary, str(settings)]))
        assert valkey.wait_until(self.redis_answers, 30)

    def redis_answers(self) -> bool:
        try:
            return bool(redis.Redis(port=self.ports["6379"]).ping())
        except redis.RedisError:
            return False

    def launch(self, name: str, work) -> None:
        with (self.scratch / f"{name}.log").open("wb") as output:
            self.children.append(processes.fork(work, output=output.fileno(), death_signal=signal.SIGINT))

    # what systemd does

    def start_unit(self, name: str) -> None:
        """muster-web@8001: the program of its unit file, with its settings."""
        kind, _, instance = name.partition("@")
        unit = (self.scratch / "units" / f"{kind}@.service").read_text()
        (command,) = re.findall(r"^ExecStart=(.*)$", unit.replace("%i", instance), re.M)
        settings = dict(
            line.split("=", 1) for line in (self.scratch / "etc" / "muster.env").read_text().splitlines()
            if line and not line.startswith("#")
        )  # fmt: skip
        with (self.scratch / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command.split(), cwd=ROOT, env=self.environment | settings, stdout=log, stderr=log
            )

    def log_of(self, name: str) -> str:
        return (self.scratch / f"{name}.log").read_text()

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()
        for child in reversed(self.children):
            os.kill(child, signal.SIGINT)
        for child in self.children:
            os.waitpid(child, 0)
