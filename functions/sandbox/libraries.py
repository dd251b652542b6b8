"""Libraries that functions may require: what the operator allows and has installed beside the application.

They live in a directory of their own, which only the fork servers that need them can see, and never in the server's
environment. `manage.py install_libraries` fills it; see docs/howto/functions.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

MANIFEST = "libraries.json"
_SEPARATORS = re.compile(r"[-_.]+")
# One thread: a function has no others, and a fork server must not have any when it forks.
ENVIRONMENT = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Libraries:
    """By the name of a distribution, the modules that can be imported from it."""

    directory: str = ""
    offered: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def modules_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Raises KeyError for a library that is not offered."""
        return tuple(sorted({module for name in names for module in self.offered[name]}))


NONE = Libraries()


def offered_in(directory: Path, allowed: Iterable[str]) -> Libraries:
    """Those that are installed in the directory and on the operator's list."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        installed = {str(name): tuple(map(str, modules)) for name, modules in manifest.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return NONE
    chosen = {normalized(name) for name in allowed}
    return Libraries(str(directory.resolve()), {name: modules for name, modules in installed.items() if name in chosen})


def normalized(name: str) -> str:
    """As package indexes compare names: `Python_Dateutil` is `python-dateutil`."""
    return _SEPARATORS.sub("-", name.strip()).lower()


def profile_of(names: Iterable[str]) -> str:
    """The profile of a fork server that has loaded them."""
    chosen = sorted(names)
    return "+".join(("extended", *chosen))


def required_by(profile: str) -> list[str]:
    """The libraries in a profile's name."""
    return profile.split("+")[1:]
