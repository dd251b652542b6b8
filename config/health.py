"""Health endpoints: /healthz (the process runs), /readyz (it can do its work), /metrics (figures)."""

import time
from collections.abc import Callable

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse

from agents.models import ApiKey
from functions import sandbox
from plumbing.release import VERSION
from runs.models.figures import metrics
from runs.queue import carriers

SELF_TEST = "def main(a, b):\n    return a + b\n"
SELF_TEST_HOLDS_S = 10.0
LOOPBACK = {"127.0.0.1", "::1"}
FORWARDED = {"x-forwarded-for", "x-real-ip", "forwarded", "via"}  # what proxies add
last_self_test: tuple[float, str] = (0.0, "never run")


def healthz(request: HttpRequest) -> JsonResponse:
    """200 while this process runs; checks nothing else."""
    return JsonResponse({"status": "ok", "version": VERSION})


def readyz(request: HttpRequest) -> JsonResponse:
    """200 when database, broker and sandbox work, else 503; each check is "ok" or names the
    problem.
    """
    checks: dict[str, Callable[[], str]] = {
        "database": check_database_health,
        "broker": broker,
        "sandbox": tested_sandbox,
    }
    answers = {name: check() for name, check in checks.items()}
    is_ready = set(answers.values()) == {"ok"}
    if not is_ready:
        return JsonResponse({"status": "unavailable", "checks": answers}, status=503)
    return JsonResponse({"status": "ok", "checks": answers})


def metrics_page(request: HttpRequest) -> HttpResponse:
    """Prometheus text, for requests from this machine or a key with the scope `metrics` (or all
    scopes).
    """
    if not may_read_metrics(request):
        return HttpResponse(
            "Send an API key with the scope `metrics` or all scopes, or request it from the machine itself.\n",
            status=403,
        )
    return HttpResponse(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


def check_database_health() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Error as error:
        return f"not reachable: {first_line(error)}"
    return "ok"


def broker() -> str:
    """Whether the carrier's broker answers."""
    problem = carriers.current().problem()
    if problem:
        return f"not reachable: {first_line(problem)}"
    return "ok"


def tested_sandbox() -> str:
    """The outcome of running a small function in the sandbox, cached for ten seconds."""
    global last_self_test
    at, answer = last_self_test
    if time.monotonic() - at > SELF_TEST_HOLDS_S or answer != "ok":
        answer = test_sandbox()
        last_self_test = (time.monotonic(), answer)
    return answer


def test_sandbox() -> str:
    outcome = sandbox.execute(SELF_TEST, {"a": 2, "b": 3})
    if outcome.result == 5:
        return "ok"
    reason = outcome.error.message if outcome.error else "wrong result"
    return f"a test function ended with {outcome.status}: {reason}"


def may_read_metrics(request: HttpRequest) -> bool:
    """Behind a proxy every request comes from loopback, so a forwarded request needs a key."""
    names = {name.lower() for name in request.headers}
    is_direct = not FORWARDED & names
    if is_direct and request.META.get("REMOTE_ADDR") in LOOPBACK and settings.METRICS_ON_LOOPBACK:
        return True
    scheme, _, presented = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return False
    key = ApiKey.find(presented.strip())
    return key is not None and key.allows("runs:read") and key.user.is_superuser


def first_line(error: object) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
