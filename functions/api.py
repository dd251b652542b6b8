"""The API of stored functions: write, check, try, test, publish, run."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from django.db.models import CharField, IntegerField
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_view,
)
from rest_framework.decorators import action
from rest_framework.permissions import SAFE_METHODS
from rest_framework.response import Response

from agents.exceptions import Conflict, NotFound
from agents.http.authentication import require_scope
from agents.http.resources import location_header
from agents.http.throttles import client_address
from agents.http.versioned import WITHOUT_LISTS, VersionedViewSet, serve_versions
from agents.http.viewsets import read_body, read_owner, readable_name, refusals
from functions import callers, catalogue, checks, store, testing
from functions.execution import Ready, check_arguments, execute_function, ready, run_in_sandbox
from functions.models import Execution, FunctionTest, FunctionVersion, StoredFunction
from functions.serializers import (
    DraftSerializer,
    ExecutedSerializer,
    ExecuteSerializer,
    ExecutionSerializer,
    FunctionSerializer,
    FunctionSummarySerializer,
    FunctionTestSerializer,
    FunctionVersionSerializer,
    PublishFunctionSerializer,
    ReplayedSerializer,
    ReplaySerializer,
    RunTestsSerializer,
    TestFromSerializer,
    TrySerializer,
    UsedBySerializer,
    ValidatedSerializer,
    VerdictsSerializer,
    WholeFunctionVersionSerializer,
    serialize_execution,
    serialize_trial,
)
from functions.spec import FunctionSpec
from plumbing.statements import Select

NEW = OpenApiExample(
    "Add two numbers",
    request_only=True,
    value={
        "name": "add",
        "source": 'def add(a: int, b: int = 2) -> int:\n    """Add two numbers."""\n    return a + b\n',
    },
)


# Executions that one statement deletes.
DELETED_AT_ONCE = 500


@extend_schema(examples=[NEW])
@serve_versions("functions", FunctionVersionSerializer, WholeFunctionVersionSerializer)
@extend_schema_view(
    publish=extend_schema(
        request=PublishFunctionSerializer,
        description="Run the tests, create an immutable version from the working row and make it live. If "
        "the content equals an existing version, that version is used.",
    )
)
class FunctionViewSet(VersionedViewSet):
    """The working rows of functions, their versions, tests and executions."""

    model = StoredFunction
    heavy = ("source", "spec")
    publishing = PublishFunctionSerializer
    scope = "functions"
    scopes = {"execute": "functions:execute", "try_draft": "functions:write"}
    queryset = StoredFunction.objects.none()
    serializer_class = FunctionSerializer
    filterset_fields = ["name", "is_deprecated", "effect", "is_pure"]
    search_fields = ("name", "description")
    parameters = {**VersionedViewSet.parameters, "executions": ("status",)}

    def get_queryset(self) -> Any:
        rows = super().get_queryset().select_related("published")
        if self.action == "list":
            rows = rows.defer("source", "input_schema", "output_schema", "published__source", "published__spec")
        return rows

    def get_serializer_context(self) -> dict[str, Any]:
        context = super().get_serializer_context()
        return {**context, "address": client_address(self.request)}

    @extend_schema(responses=FunctionSummarySerializer(many=True))
    def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        rows = self.filter_queryset(self.get_queryset())
        page = self.paginate_queryset(rows)
        serializer = FunctionSummarySerializer(page, many=True)
        return self.get_paginated_response(serializer.data)

    def perform_create(self, serializer: Any) -> None:
        serializer.save()

    def perform_update(self, serializer: Any) -> None:
        # functions.store refuses what another person changed meanwhile.
        serializer.save()

    def perform_destroy(self, function: StoredFunction) -> None:
        """Refused (409) while agents, chains or steps use the function. Its executions are kept."""
        address = client_address(self.request)
        store.delete_function(function, user=self.request.user, source=address)

    def visible(self) -> StoredFunction:
        """The function with this name, for reading or running rather than changing it."""
        function: StoredFunction = self.named(self.get_queryset())
        return function

    def usable(self) -> StoredFunction:
        """The function with this name, for running it. Raises NotFound, Forbidden."""
        function: StoredFunction = self.named_for_use(StoredFunction.objects.select_related("published"))
        return function

    # Checking and trying

    @extend_schema(request=DraftSerializer, responses={200: ValidatedSerializer})
    @action(detail=False, methods=["post"], **WITHOUT_LISTS)
    def validate(self, request: Any) -> Response:
        """Check a source and list every problem with its line, the reason and a suggested fix.
        Nothing is stored.
        """
        function, expected = self.read_draft(DraftSerializer)
        refusals = checks.check_function(function, user=request.user, **expected)
        described = describe_source(function, refusals)
        return Response(ValidatedSerializer(described).data)

    @extend_schema(responses={(200, "text/x-python"): OpenApiTypes.STR})
    @action(detail=False, **WITHOUT_LISTS)
    def stubs(self, request: Any) -> HttpResponse:
        """A stub file for your editor: the types of `ctx` and of the other names available to
        functions.
        """
        name = 'attachment; filename="__builtins__.pyi"'
        return HttpResponse(STUBS.read_bytes(), content_type="text/x-python", headers={"Content-Disposition": name})

    @extend_schema(request=TrySerializer, responses={200: ExecutedSerializer})
    @action(detail=False, methods=["post"], **WITHOUT_LISTS)
    def try_draft(self, request: Any) -> Response:
        """Run a draft once. Nothing is stored; callbacks require a run (422)."""
        # Beside functions:write: it is code of the caller's own.
        require_scope(request, "functions:execute")
        function, expected = self.read_draft(TrySerializer)
        checks.require_permissions(function, None, request.user)
        refusals = checks.check_function(function, user=request.user, **expected)
        store.refuse_function(refusals, "was not run")
        draft = store.draft(function)
        caller = callers.alone(request.user, draft)
        arguments = check_arguments(draft.spec, request.data.get("arguments", {}))
        outcome = run_in_sandbox(draft, arguments, caller)
        callers.refuse_callbacks(caller)
        return Response(serialize_trial(outcome))

    def read_draft(self, serializer_class: Any) -> tuple[StoredFunction, dict[str, Any]]:
        serializer = serializer_class(data=self.request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        return serializer.draft()

    # Versions

    def freeze(self, function: StoredFunction, body: dict[str, Any]) -> FunctionVersion:
        """Publish the draft, after running its tests."""
        address = client_address(self.request)
        return store.publish_function(function, user=self.request.user, source=address, **body)

    def go_back(self, function: StoredFunction, number: int) -> FunctionVersion:
        address = client_address(self.request)
        return store.rollback_function(function, number, user=self.request.user, source=address)

    def contents(self, version: FunctionVersion) -> dict[str, Any]:
        return version.whole()

    def draft_contents(self, function: StoredFunction) -> dict[str, Any]:
        contents = FunctionSpec.of(function).model_dump(mode="json")
        return {**contents, "source": function.source}

    @extend_schema(responses=UsedBySerializer)
    @action(detail=True, **WITHOUT_LISTS)
    def used_by(self, request: Any, name: str) -> Response:
        """Agents and chains with a grant for the function, and steps that name it."""
        function = self.visible()
        function.require_edit(request.user)
        uses = catalogue.find_function_uses(function, request.user)
        serializer = UsedBySerializer({"results": uses, "next": None})
        return Response(serializer.data)

    # Running

    @extend_schema(request=ExecuteSerializer, responses={200: ExecutedSerializer})
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def execute(self, request: Any, name: str) -> Response:
        """Run the published version, or the given one. If the function fails, the answer is 200
        with its error.
        """
        body = read_body(ExecuteSerializer, request)
        version = self.runnable(body.get("version"))
        caller = callers.alone(request.user, version)
        execution = execute_function(version, body["arguments"], caller)
        callers.refuse_callbacks(caller)
        return Response(serialize_execution(execution))

    def runnable(self, number: int | None) -> Ready:
        """Look up the version in one query without its source; this process caches the version
        itself.
        """
        user = self.request.user
        name = readable_name(self.kwargs["name"])
        if number:
            version = self.find_version(self.usable(), number)
            return ready(version.pk, version.sha256)
        versions = []
        if read_owner(self.request) is None:
            versions = PUBLISHED.all(user=user.pk, name=name)
        is_clear = len(versions) == 1 or (versions and versions[0][2] == user.pk)
        if is_clear:
            version_id, sha256, _ = versions[0]
        else:
            # Refuses with the reason.
            function = self.usable()
            version_id = function.published_id
            sha256 = function.published and function.published.sha256
        if version_id is None:
            hint = "Publish it, or name a version."
            raise Conflict(f"“{name}” is not published.", code="not_published", hint=hint)
        return ready(version_id, sha256)

    @extend_schema(
        responses=ExecutionSerializer(many=True),
        operation_id="functions_executions_list",
        parameters=[OpenApiParameter("status", str, description="How the executions ended: ok, error, timeout, …")],
    )
    @action(detail=True, filterset_fields=None)
    def executions(self, request: Any, name: str) -> Response:
        """Your own calls of the function, newest first."""
        function = self.visible()
        rows = Execution.objects.visible_to(request.user).filter(function=function)
        status = request.query_params.get("status")
        if status:
            # PostgreSQL refuses NUL in a text.
            rows = rows.filter(status=status.replace("\0", "")[:10])
        self.page_ordering = ("-id",)
        page = self.paginate_queryset(rows)
        serializer = ExecutionSerializer(page, many=True)
        return self.get_paginated_response(serializer.data)

    @extend_schema(responses={204: None}, operation_id="functions_executions_destroy")
    def delete_executions(self, request: Any, name: str) -> Response:
        """Delete your own direct calls of the function, so that they no longer count in your quota. Those that runs
        made stay with their runs.
        """
        function = self.visible()
        rows = Execution.objects.visible_to(request.user).filter(function=function, run=None)
        while keys := list(rows.order_by().values_list("pk", flat=True)[:DELETED_AT_ONCE]):
            Execution.objects.filter(pk__in=keys).delete()
        self.audit("executions_deleted", function)
        return Response(status=204)

    @extend_schema(responses=ExecutionSerializer, operation_id="functions_executions_retrieve")
    @action(detail=True, **WITHOUT_LISTS)
    def execution(self, request: Any, name: str, pk: Any) -> Response:
        """One execution."""
        execution = self.own_execution(self.visible(), pk)
        serializer = ExecutionSerializer(execution)
        return Response(serializer.data)

    def own_execution(self, function: StoredFunction, pk: Any) -> Execution:
        row = Execution.objects.visible_to(self.request.user).filter(function=function, pk=pk).first()
        if row is None:
            raise NotFound("You have no such execution.")
        return row

    # Tests

    @extend_schema(methods=["GET"], responses=FunctionTestSerializer(many=True), operation_id="functions_tests_list")
    @extend_schema(
        methods=["POST"],
        request=PolymorphicProxySerializer("NewTest", [FunctionTestSerializer, TestFromSerializer], None),
        responses={201: FunctionTestSerializer},
    )
    @action(detail=True, methods=["get", "post"], filterset_fields=None)
    def tests(self, request: Any, name: str) -> Response:
        """List the stored tests. POST adds a test, or creates one from `{"execution": id}`."""
        function = self.get_object()
        if request.method in SAFE_METHODS:
            self.page_ordering = ("id",)
            page = self.paginate_queryset(function.tests.all())
            return self.get_paginated_response(FunctionTestSerializer(page, many=True).data)
        with refusals("test"):
            test = self.new_test(function)
            self.audit("test_added", function, test=test.name)
        return Response(FunctionTestSerializer(test).data, status=201, headers=location_header(request, test.pk))

    def new_test(self, function: StoredFunction) -> FunctionTest:
        data = self.request.data
        if isinstance(data, dict) and "execution" in data:
            body = read_body(TestFromSerializer, self.request)
            execution = self.own_execution(function, body["execution"])
            test = testing.build_test(execution, body["name"] or f"like {execution.pk}")
            test.function = function
            test.save()
            return test
        serializer = FunctionTestSerializer(data=data)
        serializer.is_valid(raise_exception=True)
        return serializer.save(function=function)

    @extend_schema(methods=["GET"], responses=FunctionTestSerializer, operation_id="functions_tests_retrieve")
    @extend_schema(methods=["PATCH"], request=FunctionTestSerializer, responses=FunctionTestSerializer)
    @extend_schema(methods=["DELETE"], responses={204: None})
    @action(detail=True, methods=["get", "patch", "delete"], **WITHOUT_LISTS)
    def test(self, request: Any, name: str, pk: int) -> Response:
        """One stored test."""
        function = self.get_object()
        test = function.tests.filter(pk=pk).first()
        if test is None:
            raise NotFound(f"“{function}” has no such test.")
        if request.method in SAFE_METHODS:
            return Response(FunctionTestSerializer(test).data)
        if request.method == "DELETE":
            with refusals("test"):
                self.audit("test_removed", function, test=test.name)
                test.delete()
            return Response(status=204)
        serializer = FunctionTestSerializer(test, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        with refusals("test"):
            serializer.save()
            self.audit("test_changed", function, test=test.name)
        return Response(serializer.data)

    @extend_schema(request=RunTestsSerializer, responses={200: VerdictsSerializer})
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def run_tests(self, request: Any, name: str) -> Response:
        """Run the stored tests against the draft or a version."""
        function = self.get_object()
        body = read_body(RunTestsSerializer, request)
        version = self.chosen(function, body["version"])
        verdicts = testing.run_tests(version, function.tests.all(), request.user)
        passed = sum(verdict.ok for verdict in verdicts)
        failed = len(verdicts) - passed
        results = [verdict.as_dict() for verdict in verdicts]
        answer = {"passed": passed, "failed": failed, "results": results}
        return Response(VerdictsSerializer(answer).data)

    @extend_schema(request=ReplaySerializer, responses={200: ReplayedSerializer})
    @action(detail=True, methods=["post"], **WITHOUT_LISTS)
    def replay(self, request: Any, name: str) -> Response:
        """Run your own recent inputs against the draft or a version, and list the results that
        would differ.
        """
        function = self.usable()
        body = read_body(ReplaySerializer, request)
        version = self.chosen(function, body["version"])
        answer = testing.replay(function, version, request.user, body["limit"])
        return Response(ReplayedSerializer(answer).data)

    def chosen(self, function: StoredFunction, number: int | None) -> Ready:
        if number is None:
            return store.draft(function)
        version = self.find_version(function, number)
        return ready(version.pk, version.sha256)


def published_by_name(at: Any) -> Any:
    person = SimpleNamespace(pk=at.user, is_authenticated=True)
    rows = StoredFunction.objects.usable_by(person).filter(name=at.name).nearest_first(person)
    return rows.values_list("published", "published__sha256", "owner")[:2]


STUBS = Path(__file__).with_name("stubs.pyi")
PUBLISHED = Select(published_by_name, user=IntegerField(), name=CharField())


def describe_source(function: StoredFunction, refusals: list[checks.Refusal]) -> dict[str, Any]:
    """The information derived from the source, as far as it can be parsed."""
    output_schema = None
    imports: list[str] = []
    requires: list[str] = []
    try:
        signature = checks.read_signature(function.source, function.entry)
    except checks.SourceProblem:
        # It is among the refusals.
        pass
    else:
        output_schema = signature.output_schema
        imports = list(signature.imports)
        requires = list(signature.requires)
    return {
        "valid": not refusals,
        "refusals": refusals,
        "entry": function.entry,
        "description": function.description,
        "is_async": function.is_async,
        "requires_context": function.requires_context,
        "input_schema": function.input_schema,
        "output_schema": output_schema,
        "imports": imports,
        "requires": requires,
    }
