"""Django's admin with our site."""

from django.contrib.admin.apps import AdminConfig


class Admin(AdminConfig):
    default_site = "config.look.Site"
