"""The additional pages of a function: try it, run its tests, replay recorded inputs."""

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later

from agents.admin.base import row_action
from agents.admin.versioned import describe_error
from agents.exceptions import MusterError
from agents.models.version import find_earlier_version
from functions import callers, store, testing
from functions.execution import Ready, check_arguments, execute_function, ready, run_in_sandbox
from functions.models import Execution, FunctionTest, StoredFunction
from functions.reading import read_signature
from functions.signature import SourceProblem

from .fields import ArgumentsForm


class VersionForm(forms.Form):
    version = forms.ChoiceField(required=False)

    def __init__(self, function: StoredFunction, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices: list[tuple[Any, str]] = [("", _("The draft"))]
        words = _("Version %(number)s")
        for number in function.versions.values_list("number", flat=True)[:200]:
            choices.append((number, words % {"number": number}))
        field: Any = self.fields["version"]
        field.choices = choices


class ReplayForm(VersionForm):
    limit = forms.IntegerField(min_value=1, max_value=200, initial=20)


class TryPages:
    """Mixin for the admin of functions."""

    @row_action(description=later("Try"), url_path="try")
    def try_out(self, request: HttpRequest, function: StoredFunction) -> HttpResponse:
        require_use(function, request)
        sent = request.POST if request.method == "POST" else None
        chooser = VersionForm(function, sent or request.GET or None)
        version = choose_version(function, chooser)
        order = parameters(version)
        form = ArgumentsForm(version.spec.input_schema, sent, order=order)
        answer = None
        if sent is not None and form.is_valid():
            arguments = form.arguments()
            answer = self.tried(request, function, version, arguments)
        return self.page(request, function, "try", form=form, chooser=chooser, answer=answer)

    def tried(self, request: HttpRequest, function: StoredFunction, version: Ready, arguments: Any) -> Any:
        try:
            answer = answer_trial(request, version, arguments)
        except MusterError as error:
            return {"refused": describe_error(error), "details": error.details}
        if "keep" in request.POST and self.has_change_permission(request, function):  # type: ignore[attr-defined]
            test = testing.build_test(answer, "")
            test.function = function
            test.name = free_test_name(function, arguments)
            test.save()
            self.audit(request, "test_added", function, test=test.name)  # type: ignore[attr-defined]
            messages.success(request, now_a_test(test))
        return {"row": answer, "result": format_json(answer.result), "arguments": format_json(arguments)}

    @row_action(description=later("Run tests"), url_path="tests")
    def show_tests(self, request: HttpRequest, function: StoredFunction) -> HttpResponse:
        require_use(function, request)
        chooser = VersionForm(function, request.GET or None)
        version = choose_version(function, chooser)
        verdicts = testing.run_tests(version, function.tests.all(), request.user)
        passed = sum(verdict.ok for verdict in verdicts)
        return self.page(request, function, "tests", chooser=chooser, verdicts=verdicts, passed=passed)

    @row_action(description=later("Replay"), url_path="replay")
    def show_replay(self, request: HttpRequest, function: StoredFunction) -> HttpResponse:
        require_use(function, request)
        sent = request.GET if "limit" in request.GET else None
        chooser = ReplayForm(function, sent)
        answer = None
        if chooser.is_bound and chooser.is_valid():
            version = choose_version(function, chooser)
            answer = testing.replay(function, version, request.user, chooser.cleaned_data["limit"])
            for execution in answer["differing"]:
                for name in ("arguments", "before", "after"):
                    execution[name] = format_json(execution[name])
        return self.page(request, function, "replay", chooser=chooser, answer=answer)

    def page(self, request: HttpRequest, function: StoredFunction, name: str, **context: Any) -> HttpResponse:
        titles = {
            "try": _("Try “%(function)s”"),
            "tests": _("Tests of “%(function)s”"),
            "replay": _("Replay of “%(function)s”"),
        }
        context |= {
            **self.admin_site.each_context(request),  # type: ignore[attr-defined]
            "title": titles[name] % {"function": function},
            "opts": self.model._meta,  # type: ignore[attr-defined]
            "original": function,
            "may_change": self.has_change_permission(request, function),  # type: ignore[attr-defined]
        }
        return TemplateResponse(request, f"admin/functions/{name}.html", context)


def require_use(function: StoredFunction, request: HttpRequest) -> None:
    """A team's viewers look at a function without running it. A superuser runs any."""
    if not (request.user.is_superuser or function.may_use(request.user)):
        raise PermissionDenied


def choose_version(function: StoredFunction, chooser: forms.Form) -> Ready:
    """The draft, or the selected version."""
    number = ""
    if chooser.is_bound and chooser.is_valid():
        number = chooser.cleaned_data.get("version")
    if not number:
        return store.draft(function)
    version = find_earlier_version(function, int(number))
    return ready(version.pk, version.sha256)


def parameters(version: Ready) -> list[str]:
    """The arguments in the order of the signature."""
    try:
        return list(read_signature(version.source, version.spec.entry).input_schema["properties"])
    except SourceProblem:
        return []


def answer_trial(request: HttpRequest, version: Ready, arguments: Any) -> Execution:
    """A call of a version is stored as an execution; a call of a draft is only shown."""
    caller = callers.alone(request.user, version)
    if version.id is not None:
        row = execute_function(version, arguments, caller)
    else:
        values = check_arguments(version.spec, arguments)
        outcome = run_in_sandbox(version, values, caller)
        error = None
        if outcome.error:
            error = outcome.error.as_dict()
        row = Execution(
            arguments=values, status=outcome.status, result=outcome.result, printed=outcome.printed,
            error=error, wall_ms=outcome.wall_ms, cpu_ms=outcome.cpu_ms,
            peak_kb=outcome.peak_kb, isolation=outcome.isolation,
        )  # fmt: skip
    callers.refuse_callbacks(caller)
    return row


def now_a_test(test: FunctionTest) -> str:
    return _("“%(test)s” is now a test of “%(function)s”.") % {"test": test.name, "function": test.function}


def free_test_name(function: StoredFunction, arguments: Any) -> str:
    base = json.dumps(arguments, ensure_ascii=False)[:80]
    tests = FunctionTest.objects.filter(function=function)
    existing = set(tests.values_list("name", flat=True))
    name = base
    number = 1
    while name in existing:
        number += 1
        name = f"{base} ({number})"
    return name


def format_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
