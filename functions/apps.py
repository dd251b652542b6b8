from django.apps import AppConfig
from django.core.checks import register

from functions.readiness import check_sandbox
from functions.reading import read_apart
from plumbing import apart


class FunctionsConfig(AppConfig):
    name = "functions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(check_sandbox)
        apart.use(read_apart)
