"""`manage.py doctor`: what this machine supports, what is missing, and what to do about it."""

import json
import platform
import sys
import time
from typing import Any

import django
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, connection

from agents import available_models, tables
from agents.missing_settings import list_missing_settings
from agents.models import Provider
from functions.sandbox import selftest
from plumbing.release import VERSION, release
from runs.models.figures import site
from runs.queue import carriers, job_leases
from runs.worker.ticker import TICKS

# What to do about a carrier whose broker does not answer.
HINTS = {
    "list": "`manage.py serve` starts an embedded Valkey; otherwise correct QUEUE_URL or BROKER_URL.",
    "postgres": "Start PostgreSQL, or correct DATABASE_URL.",
    "celery": "Start the broker, or correct BROKER_URL.",
    "temporal": "Start Temporal, or correct TEMPORAL_URL.",
}


class Command(BaseCommand):
    help = "Test the sandbox with real attacks; check the servers, this machine, the workers and the backups."
    # It reports what a check would stop at.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
        parser.add_argument("--models", action="store_true", help="try the site's providers, which costs a few tokens")

    def handle(self, *args: Any, **options: Any) -> None:
        report = {
            "sandbox": selftest.run_selftest(fresh=True).as_dict(),
            "database": check_database(),
            **check_tables(),
            "carrier": check_carrier(),
            **servers(),
            **check_settings(),
            "ticker": ticker(),
            "versions": list_versions(),
        }
        if options["models"]:
            report |= providers()
        if options["json"]:
            self.stdout.write(json.dumps(report, indent=2))
        else:
            self.stdout.write("\n".join(render_report(report)))
        # For scripts and containers.
        if not is_well(report):
            sys.exit(1)


def check_database() -> dict[str, Any]:
    """Which database, its version, how long a trivial query takes."""
    began = time.perf_counter()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        version = ".".join(str(part) for part in connection.get_database_version())
    except DatabaseError as error:
        hint = "Start it, or correct DATABASE_URL. `manage.py serve` prepares the default one."
        return {"ok": False, "vendor": connection.vendor, "problem": str(error).strip(), "hint": hint}
    return {"ok": True, "vendor": connection.vendor, "version": version, "ms": milliseconds_since(began)}


def check_tables() -> dict[str, Any]:
    """Whether the tables are those of this code; nothing of a database that does not answer."""
    try:
        differences = tables.differences()
        waiting = tables.list_waiting_migrations()
    except DatabaseError:
        return {}
    if differences:
        return {"tables": {"ok": False, "problem": tables.problem(differences), "hint": tables.way_out()}}
    if waiting:
        others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        problem = f"migrations are not applied: {waiting[0]}{others}"
        hint = "Run manage.py init_db, or start everything with `make run`."
        return {"tables": {"ok": False, "problem": problem, "hint": hint}}
    return {"tables": {"ok": True}}


def check_carrier() -> dict[str, Any]:
    """What wakes workers, and whether its broker answers within two seconds."""
    began = time.perf_counter()
    problem = carriers.current().problem()
    if problem:
        hint = f"Workers look by themselves meanwhile. {HINTS[settings.CARRIER]}"
        return {"ok": False, "kind": settings.CARRIER, "problem": problem, "hint": hint}
    return {"ok": True, "kind": settings.CARRIER, "ms": milliseconds_since(began)}


def ticker() -> dict[str, Any]:
    """Which worker does the recurring work now."""
    try:
        owner = job_leases.holder(TICKS)
    except DatabaseError:
        return {"worker": None, "hint": "The database does not answer."}
    if not owner:
        return {"worker": None, "hint": "No worker ticks: start one."}
    return {"worker": owner}


def servers() -> dict[str, Any]:
    """The parts that need a prepared database."""
    try:
        return site.report_site()
    except DatabaseError:
        return {}


def check_settings() -> dict[str, Any]:
    """Settings of an earlier start that are not there now."""
    try:
        missing = list_missing_settings()
    except DatabaseError:
        return {}
    if missing:
        return {"settings": {"ok": False, "problem": " ".join(missing)}}
    return {"settings": {"ok": True}}


def providers() -> dict[str, Any]:
    """What the default models of the site's own providers can do: four short requests each."""
    rows = Provider.objects.filter(owner=None, enabled=True).exclude(kind=Provider.Kind.OFFLINE).order_by("name")
    parts: dict[str, Any] = {}
    for row in rows:
        trial = available_models.try_provider(row)
        parts[f"provider {row.name}"] = describe_trial(trial)
    return parts


def describe_trial(trial: dict[str, Any]) -> dict[str, Any]:
    sentences = [trial["message"], trial["hint"]]
    sentences += [ability["message"] for ability in trial["abilities"]]
    return {"ok": trial["ok"], "says": " ".join(filter(None, sentences))}


def list_versions() -> dict[str, str]:
    return {
        "muster": VERSION,
        "release": release(),
        "python": platform.python_version(),
        "django": django.get_version(),
        "kernel": platform.release(),
    }


def milliseconds_since(began: float) -> float:
    milliseconds = (time.perf_counter() - began) * 1000
    return round(milliseconds, 2)


def is_well(report: dict[str, Any]) -> bool:
    if report["sandbox"]["isolation"] == "none":
        return False
    return all(part.get("ok", True) for part in report.values())


def render_report(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    lines = render_sandbox(report["sandbox"])
    for name, part in report.items():
        # The sandbox, the ticker and the versions have lines of their own.
        if "ok" not in part:
            continue
        mark = "ok  " if part["ok"] else "FAIL"
        lines.append(f"{name.capitalize():11} {mark} {render_facts(part)}")
    ticker_name = report["ticker"]["worker"] or report["ticker"]["hint"]
    lines.append(f"Ticker    {ticker_name}")
    lines.append(f"Versions  {render_facts(report['versions'])}")
    return lines


def render_facts(part: dict[str, Any]) -> str:
    facts = [f"{key} {value}" for key, value in part.items() if key != "ok"]
    return "  ".join(facts)


def render_sandbox(sandbox: dict[str, Any]) -> list[str]:
    """Each layer and each attack, with the reason and a hint where one does not hold."""
    lines = [f"Sandbox   isolation {sandbox['isolation']}   {sandbox['machine']}"]
    for kind, title in (("layer", "layers"), ("attack", "attacks, language layer off")):
        findings = [finding for finding in sandbox["findings"] if finding["kind"] == kind]
        held = sum(finding["ok"] for finding in findings)
        lines.append(f"  {title}: {held} of {len(findings)} hold")
        for finding in findings:
            reason = f"  ({finding['reason']})" if finding["reason"] else ""
            lines.append(f"    {choose_mark(finding)} {finding['name']}{reason}")
            if finding["hint"]:
                lines.append(f"         {finding['hint']}")
    lines += [f"  problem: {problem}" for problem in sandbox["problems"]]
    return lines


def choose_mark(finding: dict[str, Any]) -> str:
    """The sandbox works without what is only missing; a core that fails leaves it open."""
    if finding["ok"]:
        return "ok  "
    return "FAIL" if finding["is_core"] else "miss"
