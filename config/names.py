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
        app = apps.get_app_config(label)
        app.verbose_name = in_words(app.verbose_name)
    for model in models():
        meta: Any = model._meta
        meta.verbose_name = in_words(meta.verbose_name)
        meta.verbose_name_plural = named(str(meta.verbose_name_plural))
        for field in fields(model):
            field.verbose_name = in_words(field.verbose_name)
            field.help_text = in_words(field.help_text)
            if field.choices:
                field.choices = [(value, in_words(label)) for value, label in field.flatchoices]


def in_words(text: Any) -> Any:
    if not text or isinstance(text, Promise):
        return text
    return named(text)


def names() -> Iterator[str]:
    """The English names that a page of the admin may show, for `make messages`."""
    from django.contrib import admin

    for label in OURS:
        yield apps.get_app_config(label).verbose_name
    pages = admin.site._registry
    edited = set(pages)
    for page in pages.values():
        edited.update(inline.model for inline in page.inlines)
    for model in models():
        if model not in edited:
            continue
        yield model._meta.verbose_name
        yield model._meta.verbose_name_plural
        for field in fields(model):
            yield field.verbose_name
            yield field.help_text
            for _, label in field.flatchoices:
                yield label
