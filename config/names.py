"""Names of apps, models, fields and choices in the reader's language, in the admin and in forms.

Models keep them in English, and so do rows, the API and migrations; `code.po` has the translations (ADR 102).
"""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db.models import Field, Model
from django.utils.functional import Promise, lazy

from plumbing.texts import translate_name

OURS = ("agents", "connectors", "devices", "functions", "gateway", "knowledge", "registry", "runs")
named = lazy(translate_name, str)


def models() -> Iterator[type[Model]]:
    return (model for model in apps.get_models() if model._meta.app_label in OURS)


def fields(model: type[Model]) -> list[Field]:
    return [*model._meta.local_fields, *model._meta.local_many_to_many]


def translate() -> None:
    """Once, when all models are there: each name is looked up again whenever it is shown."""
    for label in OURS:
        apps.get_app_config(label).verbose_name = in_words(apps.get_app_config(label).verbose_name)
    for model in models():
        meta: Any = model._meta
        meta.verbose_name, meta.verbose_name_plural = in_words(meta.verbose_name), named(str(meta.verbose_name_plural))
        for field in fields(model):
            field.verbose_name, field.help_text = in_words(field.verbose_name), in_words(field.help_text)
            if field.choices:
                field.choices = [(value, in_words(label)) for value, label in field.flatchoices]


def in_words(text: Any) -> Any:
    return named(text) if text and not isinstance(text, Promise) else text


def names() -> Iterator[str]:
    """The English names that a page of the admin may show, for `make messages`."""
    from django.contrib import admin

    yield from (apps.get_app_config(label).verbose_name for label in OURS)
    pages = admin.site._registry
    inner = {inline.model for page in pages.values() for inline in page.inlines}
    for model in (model for model in models() if model in pages or model in inner):
        yield from (model._meta.verbose_name, model._meta.verbose_name_plural)
        for field in fields(model):
            yield from (field.verbose_name, field.help_text, *(label for _, label in field.flatchoices))
