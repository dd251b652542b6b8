"""Libraries that functions may require: allowed and installed by the operator, separately from the
application.

They are installed in a separate directory that is visible only to the fork servers that need them,
never in the server's environment. `manage.py install_libraries` fills it; see
docs/howto/functions.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

MANIFEST = "libraries.json"
_SEPARATORS = re.compile(r"[-_.]+")
# One thread: a function has no other threads, and a fork server must not have any when it forks.
ENVIRONMENT = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
ENVIRONMENT["MPLBACKEND"] = "Agg"


@dataclass(frozen=True, slots=True)
class Libraries:
    """The importable modules of each distribution, by its name."""

    directory: str = ""
    # Libraries that functions may require.
    offered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Libraries that each interpreter loads.
    interpreter: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def modules_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Raises KeyError if a library is neither offered nor the interpreter's."""
        modules_by_library = self.interpreter | self.offered
        modules: set[str] = set()
        for name in names:
            modules.update(modules_by_library[name])
        return tuple(sorted(modules))


NONE = Libraries()


def find_offered_libraries(directory: Path, allowed: Iterable[str], interpreter: Iterable[str] = ()) -> Libraries:
    """The libraries that are both installed in the directory and on the operator's lists."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        installed = {str(name): tuple(map(str, modules)) for name, modules in manifest.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return NONE
    return Libraries(str(directory.resolve()), _those(installed, allowed), _those(installed, interpreter))


def _those(installed: dict[str, tuple[str, ...]], allowed: Iterable[str]) -> dict[str, tuple[str, ...]]:
    chosen = {normalize_package_name(name) for name in allowed}
    return {name: modules for name, modules in installed.items() if name in chosen}


def normalize_package_name(name: str) -> str:
    """The normalised name, as package indexes compare it: `Python_Dateutil` is `python-dateutil`."""
    return _SEPARATORS.sub("-", name.strip()).lower()


# The profile of a fork server for functions that import little.
CORE = "core"
# The profile of the interpreter.
FILES = "files"


def build_profile_name(names: Iterable[str], kind: str = "extended") -> str:
    """The profile of a fork server that has loaded these libraries."""
    return "+".join((kind, *sorted(names)))


def list_profile_libraries(profile: str) -> list[str]:
    """The libraries in a profile's name."""
    return profile.split("+")[1:]
