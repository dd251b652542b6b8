"""Stored functions as definition files."""

from collections.abc import Iterable
from typing import Any

from agents.definitions import Definition, default, set_columns, without_defaults
from functions import store
from functions.models import FunctionTest, StoredFunction

COLUMNS = (
    "description", "entry", "is_async", "requires_context", "safe_mode", "is_pure", "cache_ttl", "effect", "timeout",
    "memory_limit", "max_concurrency", "allowed_imports", "allowed_hosts", "secrets", "reuse", "min_isolation",
    "input_schema", "output_schema", "is_deprecated", "source",
)  # fmt: skip


class FunctionKind:
    """`tests` are listed as {name, arguments, result | schema | error, tolerance}."""

    name = "function"

    def rows(self, owner: Any) -> Iterable[StoredFunction]:
        return StoredFunction.objects.filter(owner=owner).prefetch_related("tests").order_by("name")

    def find(self, owner: Any, name: str) -> StoredFunction | None:
        return StoredFunction.objects.filter(owner=owner, name=name).first()

    def read(self, row: StoredFunction) -> Definition:
        values = without_defaults({name: getattr(row, name) for name in COLUMNS}, StoredFunction)
        tests = [read_test(test) for test in row.tests.all()]
        return {"kind": self.name, "name": row.name, **values, **({"tests": tests} if tests else {})}

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: StoredFunction | None) -> StoredFunction:
        """Check, keep, test, publish; a red test refuses the file."""
        row = row or StoredFunction(owner=owner, name=definition["name"])
        set_columns(row, definition, COLUMNS)
        store.save(row, user=actor, source="definitions")
        row.tests.all().delete()
        tests = [FunctionTest(function=row, **written_test(test)) for test in definition.get("tests", [])]
        FunctionTest.objects.bulk_create(tests)
        store.publish(row, user=actor, note="from a definition file", source="definitions")
        return row


EXPECTS = {
    "result": FunctionTest.Expects.VALUE,
    "schema": FunctionTest.Expects.SCHEMA,
    "error": FunctionTest.Expects.ERROR,
}


def read_test(test: FunctionTest) -> Definition:
    key = next(key for key, value in EXPECTS.items() if value == test.expects)
    more = {"tolerance": test.tolerance} if test.tolerance != default(FunctionTest, "tolerance") else {}
    return {"name": test.name, "arguments": test.arguments, key: test.expected, **more}


def written_test(test: Definition) -> Definition:
    key = next((key for key in EXPECTS if key in test), "result")
    return {
        "name": test["name"],
        "arguments": test.get("arguments", {}),
        "expects": EXPECTS[key],
        "expected": test.get(key),
        "tolerance": test.get("tolerance", 0.0),
    }
