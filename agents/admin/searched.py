"""A choice among many rows: Django's search on the server, drawn by `static/muster/searched.js`."""

from django import forms
from django.contrib.admin.widgets import AutocompleteSelect


class SearchedSelect(AutocompleteSelect):
    """As Django's, without Select2, which weighs 103 kB; our script is part of every page of the admin."""

    @property
    def media(self) -> forms.Media:
        return forms.Media()

    def build_attrs(self, base_attrs: dict, extra_attrs: dict | None = None) -> dict:
        attrs = super().build_attrs(base_attrs, extra_attrs)
        return {name: value for name, value in attrs.items() if name not in ONLY_SELECT2}


ONLY_SELECT2 = {"data-ajax--cache", "data-ajax--delay", "data-ajax--type", "data-theme", "data-placeholder", "lang"}
