"""Django's admin with our site."""

from django.contrib.admin.apps import AdminConfig

from config import names


class Admin(AdminConfig):
    default_site = "config.admin_theme.Site"

    def ready(self) -> None:
        names.translate()  # before the forms of the admin are made
        super().ready()
