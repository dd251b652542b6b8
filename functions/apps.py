from django.apps import AppConfig


class FunctionsConfig(AppConfig):
    name = "functions"
    default_auto_field = "django.db.models.BigAutoField"
