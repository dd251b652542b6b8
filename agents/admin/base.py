"""What our admins add to Django's: actions of one row as buttons, words as coloured pills, few scripts."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from plumbing.texts import translate_name

# Django's list without what only prepopulated fields need (180 kB), which no form of ours has.
SCRIPTS = ["vendor/jquery/jquery.min.js", "jquery.init.js", "core.js", "admin/RelatedObjectLookups.js", "actions.js"]


def row_action(
    *, description: Any, url_path: str, permission: str = "view", changes: bool = False, question: Any = ""
) -> Callable[[Callable], Callable]:
    """Marks a method `(self, request, row)` as an action of one row, to be listed in `row_actions`.

    It gets a button on the row's page and the address `…/{pk}/{url_path}/`. With `changes` only
    POST reaches it. `question` is asked before. `permission` is checked for the row.
    """

    def mark(function: Any) -> Any:
        function.short_description = description
        function.url_path = url_path
        function.permission = permission
        function.changes = changes
        function.question = question
        return function

    return mark


def pill(word: str, tone: str = "") -> SafeString:
    """A status in the colours of the pages, and in the reader's language: `tone` is a class of `.pill` in app.css, by
    default the word.
    """
    text = translate_name(word.replace("_", " "))
    return format_html('<span class="pill {}">{}</span>', tone or word, text)


KEPT = re.compile(rb"(<(textarea|pre)\b.*?</\2>)", re.DOTALL)
INDENT = re.compile(rb"\n\s+")


def without_indents(response: TemplateResponse) -> None:
    """A third of a form of Django's admin is indentation, in each of its many fields."""
    # text, what is kept, the name of its tag, text, …
    parts = KEPT.split(response.content)
    for number in range(0, len(parts), 3):
        parts[number] = INDENT.sub(b"\n", parts[number])
    del parts[2::3]
    response.content = b"".join(parts)


class ModelAdmin(admin.ModelAdmin):
    row_actions: list[str] = []

    @property
    def media(self) -> forms.Media:
        return forms.Media(js=[f"admin/js/{name}" for name in SCRIPTS])

    def get_urls(self) -> list[URLPattern]:
        # Before Django's own, whose last pattern takes any address.
        action_urls = [self.action_url(name) for name in self.row_actions]
        return [*action_urls, *super().get_urls()]

    def action_url(self, name: str) -> URLPattern:
        view = self.admin_site.admin_view(partial(self.act_on_row, name=name))
        action = getattr(self, name)
        return path(f"<path:object_id>/{action.url_path}/", view, name=self.url_name(name))

    def act_on_row(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        method = getattr(self, name)
        row = self.row_or_404(request, object_id)
        if not self.is_allowed(method, request, row):
            raise PermissionDenied
        if method.changes and request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        return method(request, row)

    def is_allowed(self, method: Any, request: HttpRequest, row: Model) -> bool:
        return getattr(self, f"has_{method.permission}_permission")(request, row)

    def row_or_404(self, request: HttpRequest, object_id: str) -> Any:
        row = self.get_object(request, object_id)
        if row is None or not self.has_view_permission(request, row):
            raise Http404
        return row

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        row = kwargs.get("obj")
        context["row_actions"] = [] if row is None else self.offered_actions(request, row)
        response = super().render_change_form(request, context, *args, **kwargs)
        if isinstance(response, TemplateResponse):
            response.add_post_render_callback(without_indents)
        return response

    def offered_actions(self, request: HttpRequest, row: Model) -> list[dict[str, Any]]:
        actions = []
        for name in self.row_actions:
            method = getattr(self, name)
            if not self.is_allowed(method, request, row):
                continue
            url = reverse(f"admin:{self.url_name(name)}", args=[row.pk])
            actions.append(
                {"words": method.short_description, "url": url, "changes": method.changes, "question": method.question}
            )
        return actions

    def url_name(self, verb: str) -> str:
        meta = self.model._meta
        return f"{meta.app_label}_{meta.model_name}_{verb}"
