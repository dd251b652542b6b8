"""Whether functions can run on this machine: the sandbox's own report as a Django system check and for /readyz."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Warning

from functions.sandbox import selftest

ADVICE = "Run `manage.py doctor` to see each layer and what to do about it."


def check_sandbox(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Reads the report of this boot; a machine that has none yet is asked when the first worker or doctor runs.

    The attacks take about a second, which `manage.py check` must not.
    """
    report = selftest.cached() or selftest.glance()
    if not report.ok:
        return [Error(f"Functions cannot run here: {' '.join(report.problems)}", hint=ADVICE, id="functions.E001")]
    if report.isolation != "full":
        return [Warning(f"Functions run with reduced isolation: {' '.join(report.problems)}", hint=ADVICE,
                        id="functions.W001")]  # fmt: skip
    return []
