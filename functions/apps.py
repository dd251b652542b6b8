from django.apps import AppConfig
from django.core.checks import register

from functions.readiness import check_sandbox


class FunctionsConfig(AppConfig):
    name = "functions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(check_sandbox)
