from pathlib import Path

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import register

from functions import sandbox
from functions.readiness import check_sandbox
from functions.reading import read_apart
from functions.sandbox.libraries import Libraries, find_offered_libraries
from plumbing.untrusted import parse_in_child


class FunctionsConfig(AppConfig):
    name = "functions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(check_sandbox)
        parse_in_child.use(read_apart)
        sandbox.offer(find_libraries())
        sandbox.offer_later(find_libraries)


def find_libraries() -> Libraries:
    return find_offered_libraries(Path(settings.LIBRARIES_DIR), settings.LIBRARIES, settings.INTERPRETER_LIBRARIES)
