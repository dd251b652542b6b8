"""`manage.py resume`: ends the hold of a restored site."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents.models import SiteHold
from runs.worker import resuming

# What becomes of runs of which nobody knows what they did after the backup.
DOUBT = "end as failed (code restored): they may do something a second time"


class Command(BaseCommand):
    help = "End the hold of a restored site; list the runs that end because they could repeat something."
    # A restored site may be incomplete; this must work all the same.
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--plan", action="store_true", help="Only show what would be done.")
        parser.add_argument(
            "--run-all", action="store_true", help="Continue every run, even if it may do something a second time."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        hold = SiteHold.current()
        if hold is None:
            self.stdout.write("The site is not on hold.")
            return
        plan = resuming.plan_resumption(hold, run_all=options["run_all"])
        self.stdout.write(f"On hold: {hold}.")
        self.show(f"runs {DOUBT}", plan.ending)
        self.show("runs continue", plan.continuing)
        self.stdout.write(f"{plan.schedules} schedules continue with their next due time; earlier ones are skipped")
        self.stdout.write(f"{plan.firings} events of triggers are refused")
        self.stdout.write(f"{plan.deliveries} webhook deliveries continue; receivers know repeated ones by their id")
        if not options["plan"]:
            resuming.resume_site(plan)
            self.stdout.write("The site is no longer on hold.")

    def show(self, title: str, runs: list[Any]) -> None:
        self.stdout.write(f"{len(runs)} {title}")
        for line in resuming.describe_runs(runs):
            self.stdout.write(f"  {line}")
