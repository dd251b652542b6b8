"""Stored functions as definition files."""

from collections.abc import Iterable
from typing import Any

from agents.definitions import shapes
from agents.definitions.agents import share_definition, sharing
from agents.definitions.files import Definition, default_value, set_columns, without_defaults
from agents.models.options import find_options, find_options_of_kind
from agents.sharing import carry
from agents.unknown import extra
from functions import checks, store, testing
from functions.models import FunctionTest, StoredFunction
from functions.reading import read_signature
from functions.signature import SourceProblem

# The source is the longest, so it comes last in a file.
COLUMNS = (*(name for name in find_options(StoredFunction) if name != "source"), "source")
LISTS = find_options_of_kind(StoredFunction, "lines")


class FunctionKind:
    """The fields of a definition. `tests` are listed as {name, arguments, result | schema | error,
    tolerance}.
    """

    name = "function"

    def unknown(self, definition: Definition) -> dict[str, str]:
        extras = extra(definition, {"kind", "name", "team", "draft", "live", "tests", *COLUMNS})
        extras |= extra(definition.get("live"), COLUMNS, "live.")
        for number, test in enumerate(list_given_tests(definition)):
            extras |= extra(test, {"name", "arguments", "tolerance", *EXPECTS}, f"tests.{number}.")
        return extras

    def faults(self, definition: Definition) -> list[dict[str, str]]:
        columns = shapes.column_shapes(StoredFunction, COLUMNS)
        faults = shapes.faults(definition, {**columns, "tests": (list,), **shapes.SHARED})
        faults += shapes.not_texts(definition, LISTS)
        live = definition.get("live")
        if isinstance(live, dict):
            faults += shapes.faults(live, columns, "live.")
            faults += shapes.not_texts(live, LISTS, "live.")
        for number, test in enumerate(list_given_tests(definition)):
            faults += faults_in_test(test, f"tests.{number}")
        return faults

    def rows(self, owner: Any) -> Iterable[StoredFunction]:
        rows = StoredFunction.objects.filter(owner=owner)
        return rows.select_related("published", "team").prefetch_related("tests")

    def find(self, owner: Any, name: str) -> StoredFunction | None:
        return StoredFunction.objects.filter(owner=owner, name=name).first()

    def read(self, row: StoredFunction) -> Definition:
        columns = {name: getattr(row, name) for name in COLUMNS}
        draft = shorten_definition(columns)
        definition: Definition = {"kind": self.name, "name": row.name, **draft}
        tests = [read_test(test) for test in row.tests.all()]
        if tests:
            definition["tests"] = tests
        return {**definition, **live(row, draft), **sharing(row)}

    def normal(self, definition: Definition, owner: Any) -> Definition:
        normal = {name: definition[name] for name in ("kind", "name", "team", "draft", "live") if definition.get(name)}
        columns = {}
        for name in COLUMNS:
            columns[name] = definition.get(name, default_value(StoredFunction, name))
        normal |= shorten_definition(columns)
        tests = []
        for test in definition.get("tests", []):
            # Through an unsaved row, so that left out fields have their defaults.
            tests.append(read_test(FunctionTest(**written_test(test))))
        if tests:
            normal["tests"] = tests
        return normal

    def __init__(self) -> None:
        self.tested: set[str] = set()

    def prepare(self, definition: Definition, *, owner: Any, actor: Any) -> None:
        """Run the tests of what will be published, so that no transaction is open meanwhile. Raises
        Invalid.
        """
        if definition.get("draft") or definition.get("live"):
            return
        row = StoredFunction(owner=owner, name=definition["name"])
        set_columns(row, definition, COLUMNS)
        checks.require_permissions(row, None, actor)
        refusals = checks.check_function(row, user=actor)
        store.refuse_function(refusals, "was not stored")
        tests = [FunctionTest(**written_test(test)) for test in definition.get("tests", [])]
        verdicts = testing.run_tests(store.draft(row), tests, actor)
        store.refuse_red(row, verdicts)
        self.tested.add(definition["name"])

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: StoredFunction | None) -> StoredFunction:
        """Check, store, test and publish the function; a failed test refuses the file. If `live` is
        given, it is published first, and the draft is stored afterwards.
        """
        name = definition["name"]
        note = "from a definition file"
        live_definition = definition.get("live")
        row = row or StoredFunction(owner=owner, name=name)
        share_definition(row, definition.get("team"))
        if live_definition:
            self.keep(row, live_definition, actor)
            store.publish_function(row, user=actor, note=note, source="definitions")
        self.keep(row, definition, actor)
        row.tests.all().delete()
        tests = [FunctionTest(function=row, **written_test(test)) for test in definition.get("tests", [])]
        FunctionTest.objects.bulk_create(tests)
        if not definition.get("draft") and not live_definition:
            # `prepare` has run the tests already.
            is_tested = name in self.tested
            store.publish_function(row, user=actor, note=note, source="definitions", is_tested=is_tested)
        return row

    def keep(self, row: StoredFunction, definition: Definition, actor: Any) -> None:
        set_columns(row, definition, COLUMNS)
        store.save_function(row, user=actor, source="definitions")
        carry(row)


def live(row: StoredFunction, draft: Definition) -> Definition:
    """The published content, if the draft differs from it."""
    if row.published is None:
        return {}
    spec = row.published.spec
    # What is part of no version is as it is now.
    columns = {name: spec.get(name, getattr(row, name)) for name in COLUMNS}
    columns["source"] = row.published.source
    published = shorten_definition(columns)
    if published == draft:
        return {}
    return {"live": published}


def shorten_definition(values: Definition) -> Definition:
    """The fields without defaults and without values that can be derived from the source."""
    short = {name: value for name, value in values.items() if name not in ("is_async", "requires_context")}
    for name in LISTS:
        short[name] = sorted(set(short[name]))
    source = short["source"]
    try:
        signature = read_signature(source, short["entry"])
        # Without a name, the last function is the entry.
        last = read_signature(source).entry
    except SourceProblem:
        return without_defaults(short, StoredFunction)
    derived = {"entry": last, "description": signature.description, "input_schema": signature.input_schema}
    for name, value in derived.items():
        if short.get(name) == value:
            short.pop(name, None)
    return without_defaults(short, StoredFunction)


def list_given_tests(definition: Definition) -> list[Any]:
    """The tests of a file, as far as they are a list."""
    tests = definition.get("tests")
    if not isinstance(tests, list):
        return []
    return tests


TEST = {"name": (str,), "arguments": (dict,), "tolerance": (float,)}


def faults_in_test(test: Any, place: str) -> list[dict[str, str]]:
    if not isinstance(test, dict) or "name" not in test:
        return [{"field": place, "code": "invalid", "message": "A test is a mapping with a name."}]
    return shapes.faults(test, TEST, f"{place}.")


EXPECTS = {
    "result": FunctionTest.Expects.VALUE,
    "schema": FunctionTest.Expects.SCHEMA,
    "error": FunctionTest.Expects.ERROR,
}


def read_test(test: FunctionTest) -> Definition:
    key = next(key for key, value in EXPECTS.items() if value == test.expects)
    definition = {"name": test.name, "arguments": test.arguments, key: test.expected}
    if test.tolerance != default_value(FunctionTest, "tolerance"):
        definition["tolerance"] = test.tolerance
    return definition


def written_test(test: Definition) -> Definition:
    key = next((key for key in EXPECTS if key in test), "result")
    return {
        "name": test["name"],
        "arguments": test.get("arguments", {}),
        "expects": EXPECTS[key],
        "expected": test.get(key),
        "tolerance": test.get("tolerance", 0.0),
    }
