"""The admin of executions; they are read-only."""

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as later
from django.utils.translation import gettext_noop as known

from agents.admin import ReadOnlyAdmin
from agents.admin.base import pill, row_action
from functions import testing
from functions.admin.pages import free_test_name, now_a_test
from functions.models import Execution

BAD = ("error", "timeout", "memory", "cpu", "violation", "crash", "refused")
WORDS = {
    "memory": known("out of memory"), "cpu": known("out of CPU time"), "violation": known("violation"),
    "crash": known("crash"), "busy": known("busy"),
}  # fmt: skip


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin):
    owner_field = "principal"
    list_display = ["started_at", "function_name", "version_number", "state", "wall_ms", "isolation", "principal"]
    list_filter = ["status", "isolation"]
    search_fields = ["function_name"]
    date_hierarchy = "started_at"
    row_actions = ["make_test"]

    @admin.display(description=later("Status"))
    def state(self, execution: Execution) -> str:
        status = execution.status
        colour = status
        if status in BAD:
            colour = "failed"
        return pill(WORDS.get(status, status), colour)

    @row_action(
        description=later("Create a test from this"),
        url_path="make-test",
        changes=True,
        question=later("The function must then return the same result, otherwise it cannot be published."),
    )
    def make_test(self, request: HttpRequest, execution: Execution) -> HttpResponse:
        function = execution.function
        if function is None or not (request.user.is_superuser or function.may_edit(request.user)):
            messages.error(request, _("This function was deleted, or you may not change it."))
            return redirect(reverse("admin:functions_execution_changelist"))
        name = free_test_name(function, execution.arguments)
        test = testing.build_test(execution, name)
        test.save()
        self.audit(request, "test_added", function, test=test.name)
        messages.success(request, now_a_test(test))
        return redirect(reverse("admin:functions_storedfunction_change", args=[function.pk]))
