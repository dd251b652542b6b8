"""After the start the supervisor replaces itself, by exec, with one that has not loaded Django
(docs/adr/0103). Its pid, its children and their pipes stay; the memory goes.

It starts a fallen program as a new interpreter (`restart.py`), so what fails there is only that
program's fall.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import postgres, processes, valkey
from .logs import Log, print_if_open
from .supervision import Child, Notify, Supervision

ROOT = Path(__file__).resolve().parent.parent
# The path is that of `manage.py`, without the directory where it was started.
CODE = (
    "import sys; sys.path[:] = [sys.argv[1], *filter(None, sys.path)]; "
    "from supervisor.{module} import main; main(*sys.argv[2:])"
)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
SERVERS = ("valkey", "postgres")
# Seconds until a server that was asked to end is killed. PostgreSQL writes a checkpoint first, which takes long on a
# busy disk; killed meanwhile, it has to recover at its next start. Valkey keeps nothing that is not in the database.
SERVER_PATIENCE_S = {"valkey": 5.0, "postgres": 30.0}
# How a server starts, whether it answers, and the signal that stops it.
Server = tuple[Callable[[], None], Callable[[], bool], int]
MOST = 4096  # bytes of a line that a child has half written: arguments of a program are limited
# Attributes of a child that outlast the exec.
KEPT = ("name", "pid", "ready", "started", "falls", "starts", "code", "output")


@dataclass(slots=True)
class Place:
    """What the children need to be started again: descriptors, and values of settings."""

    line: int  # the listening socket; -1 without a web server
    lock: int
    logs: str  # the directory of the log files; empty where another program collects the output
    data_dir: str
    valkey: str  # the socket of the embedded one
    drain_s: float


# Before the exec


def become_small(supervision: Supervision, place: Place) -> None:
    """Comes back only when the supervisor has to stop, or when the exec failed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # those that come meanwhile wait for the new supervisor
    try:
        supervision.turn(0)  # those that came before
        if not supervision.stopping and supervision.is_settled():
            state = json.dumps(describe_supervision(supervision, place))
            for descriptor in list_descriptors(supervision, place):
                os.set_inheritable(descriptor, True)
            sys.stdout.flush()
            sys.stderr.flush()
            os.execv(sys.executable, [*build_interpreter_command("handover"), state, *sys.argv])  # noqa: S606  (no shell)
    except OSError as error:
        for descriptor in list_descriptors(supervision, place):
            os.set_inheritable(descriptor, False)
        print_if_open(f"muster: the supervisor keeps its memory, since it cannot be started anew: {error.strerror}")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def build_interpreter_command(module: str) -> list[str]:
    """The command line that runs a module's main, wherever this process was started."""
    return [sys.executable, "-c", CODE.format(module=module), str(ROOT)]


def describe_supervision(supervision: Supervision, place: Place) -> dict[str, Any]:
    """What `main` needs to go on, as JSON: the place, and each child with the line that it has half written."""
    children = []
    for child in supervision.children:
        kept = {name: getattr(child, name) for name in KEPT}
        half_line = child.log.rest[-MOST:] if child.log else b""
        kept["rest"] = half_line.decode("latin-1")
        children.append(kept)
    return {"place": asdict(place), "children": children}


def list_descriptors(supervision: Supervision, place: Place) -> list[int]:
    """What must stay open over the exec. Standard input and outputs stay open anyway, and -1 is none."""
    ours = [place.line, place.lock, *(child.output for child in supervision.children)]
    return [descriptor for descriptor in ours if descriptor > 2]


# After it


def main(text: str, *argv: str) -> None:
    """The new supervisor: takes the children over, then watches them until it has to stop."""
    processes.name_process(" ".join(["python", *argv]))
    sys.argv = list(argv)
    state = json.loads(text)
    place = Place(**state["place"])
    supervision = Supervision(Path(place.logs) if place.logs else None)
    for kept in state["children"]:
        supervision.children.append(adopt_child(supervision, place, kept))
    for descriptor in list_descriptors(supervision, place):
        os.set_inheritable(descriptor, False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    supervision.reap()
    try:
        supervision.watch()
        print_if_open("muster: stopping")
    finally:
        if place.line > 2:
            os.close(place.line)  # a proxy then sends new requests to another web server
        supervision.stop()


def adopt_child(supervision: Supervision, place: Place, kept: dict[str, Any]) -> Child:
    """A child that runs, with what is known of it."""
    half_line = kept.pop("rest")
    output = kept.pop("output")
    name = kept["name"]
    if name in SERVERS:
        child = server(name, place)
    else:
        child = program(name, partial(start_alone, place, name), place.drain_s)
    for field, value in kept.items():
        setattr(child, field, value)
    child.log = Log(name, supervision.logs, shown=not child.answers)
    child.log.rest = half_line.encode("latin-1")
    supervision.carry_from(child, output)
    return child


def start_alone(place: Place, name: str, notify: Notify) -> None:
    """Runs in the forked child: becomes a new interpreter with this program."""
    line = place.line if name == "web" else -1
    for descriptor in (line, notify.descriptor):
        if descriptor > 2:
            os.set_inheritable(descriptor, True)
    argv = [*build_interpreter_command("restart"), name, str(line), str(notify.descriptor)]
    os.execv(sys.executable, argv)  # noqa: S606  (no shell)


# The children


def program(name: str, work: Callable[[Notify], None], drain_s: float) -> Child:
    """One of ours. A stopping worker finishes what it has begun, and a web server its requests, for `drain_s`."""
    if name == "worker":
        return Child(name, work, patience=1.2 + drain_s)
    return Child(name, work, patience=0.6 + drain_s, title="muster web (daphne)")


def server(name: str, place: Place) -> Child:
    """An embedded server. It holds the lock: no other `serve` may start while it still writes."""
    build = build_valkey_server if name == "valkey" else build_postgres_server
    become, answers, stop_signal = build(place)

    def become_with_lock(_notify: Notify) -> None:
        os.set_inheritable(place.lock, True)
        become()

    return Child(
        name,
        become_with_lock,
        stop_signal=stop_signal,
        death_signal=stop_signal,
        patience=SERVER_PATIENCE_S[name],
        answers=answers,
    )


def build_valkey_server(place: Place) -> Server:
    socket_path = Path(place.valkey)
    start = valkey.command(Path(place.data_dir) / "valkey", socket_path)
    return start, partial(valkey.is_ready, socket_path), signal.SIGTERM


def build_postgres_server(place: Place) -> Server:
    cluster = postgres.get_cluster(Path(place.data_dir))
    return postgres.command(cluster), partial(postgres.is_ready, cluster), signal.SIGINT
