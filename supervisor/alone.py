"""One of our programs in an interpreter of its own: how a fallen one is started again."""

import os
import socket

import django

from . import processes
from .supervision import Notify


def main(role: str, line: str, telling: str) -> None:
    processes.name_process("muster web (daphne)" if role == "web" else f"muster {role}")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

    def begin() -> None:
        django.setup()
        from . import programs  # it reads the models, which are ready only now

        port = socket.socket(fileno=int(line)) if role == "web" else None
        programs.serve(role, port, Notify(int(telling)))

    processes.run_to_the_end(begin)
