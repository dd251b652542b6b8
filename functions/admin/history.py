"""The admin of executions; they are read-only."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from unfold.decorators import action, display

from agents.admin import ReadOnlyAdmin
from functions import testing
from functions.admin.pages import free_test_name
from functions.models import Execution

STATES = {"ok": "success", "busy": "info", "cancelled": "info"}
BAD = ("error", "timeout", "memory", "cpu", "violation", "crash", "refused")


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin):
    owner_field = "principal"
    list_display = ["started_at", "function_name", "version_number", "state", "wall_ms", "isolation", "principal"]
    list_filter = ["status", "isolation"]
    search_fields = ["function_name"]
    date_hierarchy = "started_at"
    actions_detail = ["make_test"]

    @display(description="Status", label={**STATES, **dict.fromkeys(BAD, "danger")})
    def state(self, execution: Execution) -> str:
        return execution.status

    @action(
        description="Create a test from this",
        url_path="make-test",
        permissions=["view"],
        icon="add_task",
        dialog={
            "title": "Create a test from this execution?",
            "description": "The function must then return the same result, otherwise it cannot be published.",
            "form_submit_text": "Create the test",
        },
    )
    def make_test(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        execution = self.get_object(request, object_id)
        function = execution.function if execution else None
        if function is None or not (request.user.is_superuser or function.may_edit(request.user)):
            messages.error(request, "This function was deleted, or you may not change it.")
            return redirect(reverse("admin:functions_execution_changelist"))
        test = testing.test_from(execution, free_test_name(function, execution.arguments))
        test.save()
        self.audit(request, "test_added", function, test=test.name)
        messages.success(request, f"“{test.name}” is now a test of “{function}”.")
        return redirect(reverse("admin:functions_storedfunction_change", args=[function.pk]))
