"""Reports whether functions can run on this machine, as a Django system check and for /readyz."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Warning

from functions.sandbox import selftest

ADVICE = "Run `manage.py doctor` to see each layer and how to fix it."


def check_sandbox(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Reads the self-test report of this boot; if there is none yet, the first worker or doctor
    creates it.

    The attacks take about a second, which is too long for `manage.py check`.
    """
    report = selftest.read_cached_report() or selftest.glance()
    problems = " ".join(report.problems)
    if not report.ok:
        return [Error(f"Functions cannot run here: {problems}", hint=ADVICE, id="functions.E001")]
    if report.isolation != "full":
        message = f"Functions run with reduced isolation: {problems}"
        return [Warning(message, hint=ADVICE, id="functions.W001")]
    return []
