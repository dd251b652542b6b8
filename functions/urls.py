from typing import Any

from django.urls import path

from functions.api import FunctionViewSet

LIST: dict[str, Any] = {"get": "list", "post": "create"}
ROW: dict[str, Any] = {"get": "retrieve", "put": "update", "patch": "partial_update", "delete": "destroy"}


def function(**verbs: Any) -> Any:
    return FunctionViewSet.as_view(verbs)


urlpatterns = [
    path("functions/", FunctionViewSet.as_view(LIST), name="functions"),
    path("functions/validate", function(post="validate"), name="function-validate"),
    path("functions/try", function(post="try_draft"), name="function-try"),
    path("functions/stubs", function(get="stubs"), name="function-stubs"),
    path("functions/<str:name>", FunctionViewSet.as_view(ROW), name="function"),
    path("functions/<str:name>/publish", function(post="publish"), name="function-publish"),
    path("functions/<str:name>/rollback", function(post="rollback"), name="function-rollback"),
    path("functions/<str:name>/versions/", function(get="versions"), name="function-versions"),
    path("functions/<str:name>/versions/<int:number>", function(get="version"), name="function-version"),
    path("functions/<str:name>/diff", function(get="diff"), name="function-diff"),
    path("functions/<str:name>/used-by", function(get="used_by"), name="function-used-by"),
    path("functions/<str:name>/execute", function(post="execute"), name="function-execute"),
    path(
        "functions/<str:name>/executions/",
        function(get="executions", delete="delete_executions"),
        name="function-executions",
    ),
    path("functions/<str:name>/executions/<uuid:pk>", function(get="execution"), name="function-execution"),
    path("functions/<str:name>/tests/", function(get="tests", post="tests"), name="function-tests"),
    path("functions/<str:name>/tests/run", function(post="run_tests"), name="function-tests-run"),
    path(
        "functions/<str:name>/tests/<int:pk>", function(get="test", patch="test", delete="test"), name="function-test"
    ),
    path("functions/<str:name>/replay", function(post="replay"), name="function-replay"),
]
