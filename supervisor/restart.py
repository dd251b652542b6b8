"""Web server or worker in an interpreter of its own: how a fallen one is started again."""

import os
import socket

import django

from . import processes
from .supervision import Notify


def main(name: str, line: str, telling: str) -> None:
    processes.name_process("muster web (daphne)" if name == "web" else f"muster {name}")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

    def begin() -> None:
        django.setup()
        from . import programs  # it reads the models, which are ready only now

        notify = Notify(int(telling))
        if name == "worker":
            programs.run_worker(notify)
        else:
            programs.serve_web(socket.socket(fileno=int(line)), notify)

    processes.run_to_the_end(begin)
