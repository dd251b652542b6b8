"""What Celery calls: three lines each."""

from celery import shared_task

from .logins import checking


@shared_task(name="connectors.check_logins", ignore_result=True)
def check_logins() -> None:
    """Each hour: logins that end soon or were not used."""
    checking.check_logins()
