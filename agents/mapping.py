"""JMESPath over what a run knows: conditions, input mappings, `for_each` lists. Plain, bounded, with clear errors.

The scope is {"input", "steps": {key: {"output", "error", "errors", "status"}}, "item", "index", "key", "previous",
"output", "variables"}; which of them are there depends on where the expression stands.
"""

import math
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, ClassVar

import jmespath.parser
from cachetools import LRUCache, cached
from jmespath.exceptions import JMESPathError
from jmespath.visitor import Options, TreeInterpreter

from plumbing.untrusted import parse_in_child
from plumbing.untrusted.parse_in_child import Refused

from .documents import check_document_value

# Characters of an expression.
MAX_EXPRESSION = 2000
# Visited nodes, copied elements and characters of an evaluation in a serving process.
SMALL_WORK = 20_000
# The same, in a process of its own.
MAX_WORK = 1_000_000
# Bits of a whole number: Python writes numbers of at most 4,300 digits.
MOST_BITS = 14_284
# Items of one for_each.
MAX_ITEMS = 10_000

JSON = Any


class MappingError(ValueError):
    """An expression is invalid, or its result is missing. `code` is invalid_expression,
    nothing_there, not_a_list …
    """

    def __init__(self, message: str, *, code: str = "mapping", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class Parser(jmespath.parser.Parser):  # type: ignore[misc]
    """Without the library's own cache, which counts trees without their size."""

    _CACHE: ClassVar[dict[str, Any]] = {}
    _MAX_SIZE = 2


def bytes_of_tree(result: jmespath.parser.ParsedResult) -> int:
    """At most 500 for each character of the expression."""
    return 1000 + 500 * len(result.expression)


@cached(LRUCache(8 << 20, bytes_of_tree), lock=Lock())
def parse_expression(expression: str) -> jmespath.parser.ParsedResult:
    """The syntax tree, as `.parsed`. Raises MappingError with the column of the error."""
    if len(expression) > MAX_EXPRESSION:
        raise MappingError(
            f"An expression can have {MAX_EXPRESSION} characters; this one has {len(expression)}.",
            code="invalid_expression",
        )
    try:
        result = Parser().parse(expression)
        check_constants(result.parsed)
        return result
    except (JMESPathError, RecursionError, Refused) as error:
        raise MappingError(
            f"`{expression}` is not valid JMESPath: {first_line(error)}",
            code="invalid_expression",
            hint="Names with a hyphen need quotes (steps.\"my-step\".output); text constants need 'single quotes'.",
        )


def check_constants(node: Any) -> None:
    """Raises Refused for a constant or a name that no database stores, such as `NaN`, which the library reads."""
    if isinstance(node, dict) and "type" in node:
        if "value" in node:
            check_document_value(node["value"])
        for child in node["children"]:
            check_constants(child)


def first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


SIGNS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">=", "eq": "==", "ne": "!="}


def not_comparable(sign: str, left: JSON, right: JSON) -> MappingError:
    """Python would compare some of these, and nobody could say how."""
    one = f"{describe_kind(left)} ({str(left)[:40]!r})"
    other = f"{describe_kind(right)} ({str(right)[:40]!r})"
    sides = f"{one} with {other}"
    return MappingError(
        f"`{sign}` compares {sides}.",
        code="not_comparable",
        hint="Compare two numbers, or two texts; to_number(…) makes a number of a text.",
    )


def too_much() -> MappingError:
    return MappingError("The expression needs too much work for its input.", code="too_much_work")


class Bounded(TreeInterpreter):
    """Stops an evaluation that visits or copies too much: `[@, @] | [@, @] | …` doubles with every
    pipe.
    """

    def __init__(self, most: int) -> None:
        super().__init__(Options())
        self.left = most

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise too_much()

    def visit(self, node: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        self.spend(1)
        return super().visit(node, *args, **kwargs)

    def visit_flatten(self, node: dict[str, Any], value: Any) -> Any:
        return self.measured(super().visit_flatten(node, value))

    def visit_multi_select_list(self, node: dict[str, Any], value: Any) -> Any:
        return self.measured(super().visit_multi_select_list(node, value))

    def visit_multi_select_dict(self, node: dict[str, Any], value: Any) -> Any:
        return self.measured(super().visit_multi_select_dict(node, value))

    def visit_function_expression(self, node: dict[str, Any], value: Any) -> Any:
        """A function reads its arguments completely, and `join` and `to_string` create text of the
        same length.
        """
        arguments = [self.visit(child, value) for child in node["children"]]
        self.measured(arguments)
        value = self._functions.call_function(node["value"], arguments)
        return self.measured(value if is_storable(value) else None)

    def visit_comparator(self, node: dict[str, Any], value: Any) -> Any:
        """A comparison reads both values as far as they are equal."""
        left, right = (self.visit(child, value) for child in node["children"])
        self.measured(left)
        # The library compares what its children give: they are constants now, so that nothing is computed twice.
        sides = [{"type": "literal", "children": [], "value": side} for side in (left, right)]
        try:
            return super().visit_comparator({**node, "children": sides}, value)
        except TypeError:
            raise not_comparable(SIGNS[node["value"]], left, right) from None

    def measured(self, result: Any) -> Any:
        """The size of a result counts every leaf, so that shared branches cannot multiply
        unnoticed.
        """
        waiting = [result]
        while waiting:
            value = waiting.pop()
            if isinstance(value, list):
                self.spend(len(value))
                waiting.extend(value)
            elif isinstance(value, dict):
                self.spend(len(value))
                waiting.extend(value.values())
            elif isinstance(value, str):
                self.spend(len(value) // 16)
        return result


def is_storable(value: JSON) -> bool:
    """Whether a number can be written as JSON: `to_number('nan')` and sums of huge numbers cannot."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or value.bit_length() <= MOST_BITS


def search_expression(expression: str, scope: dict[str, JSON]) -> JSON:
    """The expression's result in the scope, None if there is none. Raises MappingError."""
    return here_or_apart("search", search_here, expression, scope)


def here_or_apart(task: str, here: Callable[..., JSON], *parts: JSON) -> JSON:
    """A long evaluation is repeated in a separate process."""
    try:
        return here(*parts, SMALL_WORK)
    except MappingError as error:
        if error.code != "too_much_work":
            raise
    try:
        return parse_in_child.run_reader_task(task, *parts)
    except parse_in_child.TooMuch:
        raise too_much() from None
    except Refused as refused:
        raise MappingError(str(refused), code=refused.code, hint=refused.hint) from None


def search_here(expression: str, scope: dict[str, JSON], most: int = MAX_WORK) -> JSON:
    return evaluate_bounded(expression, scope, Bounded(most))


def evaluate_bounded(expression: str, scope: dict[str, JSON], tree: Bounded) -> JSON:
    try:
        return tree.visit(parse_expression(expression).parsed, scope)
    except MappingError:
        raise
    except (ValueError, RecursionError, TypeError, ArithmeticError) as error:  # the library's own are ValueErrors
        raise MappingError(f"`{expression}`: {first_line(error)}", code="invalid_expression")


def holds(expression: str, scope: dict[str, JSON]) -> bool:
    """Whether the condition is true. In JMESPath an empty list, object or text, false and null are
    not.
    """
    value = search_expression(expression, scope)
    if value is None or value is False:
        return False
    # 0 is true, and equals False in Python: so not `not value`.
    return not (value == "" or value == [] or value == {})


def map_input(mapping: dict[str, JSON], scope: dict[str, JSON]) -> dict[str, JSON]:
    """Each parameter's value. Raises MappingError, naming the parameter and the missing part of the
    path.
    """
    values: dict[str, JSON] = here_or_apart("map_input", map_here, mapping, scope)
    return values


def map_here(mapping: dict[str, JSON], scope: dict[str, JSON], most: int = MAX_WORK) -> dict[str, JSON]:
    """All expressions together may do so much."""
    tree = Bounded(most)
    return {name: map_value(name, source, scope, tree) for name, source in mapping.items()}


def map_value(name: str, source: JSON, scope: dict[str, JSON], tree: Bounded) -> JSON:
    """One value. `source` is a path, {"value": constant} or {"path": …, "default": …} for an
    optional value.
    """
    if isinstance(source, dict) and "value" in source:
        return source["value"]
    path, default, is_optional = read_source(source)
    value = evaluate_bounded(path, scope, tree)
    if value is not None:
        return value
    if is_optional:
        return default
    if is_null_item(plain_path(parse_expression(path).parsed), scope):
        return None
    missing = explain(path, scope)
    raise MappingError(
        f"“{name}” has no value: {missing}",
        code="nothing_there",
        hint=f'Write {{"path": "{path}", "default": null}} if it may be missing.',
    )


def is_null_item(names: list[str], scope: dict[str, JSON]) -> bool:
    """Whether the path leads to a null in the item of a for_each, which is a value like any other."""
    if names[:1] != ["item"] or "item" not in scope:
        return False
    here = scope["item"]
    for name in names[1:]:
        if not isinstance(here, dict) or name not in here:
            break
        here = here[name]
    return here is None


def read_source(source: JSON) -> tuple[str, JSON, bool]:
    """(path, default, whether it may be missing). Raises MappingError for any other form."""
    if isinstance(source, str) and source.strip():
        return source, None, False
    if isinstance(source, dict) and isinstance(source.get("path"), str):
        return source["path"], source.get("default"), "default" in source
    raise MappingError(
        f"{source!r} is not a mapping.",
        code="invalid_mapping",
        hint='Write a JMESPath text, {"value": constant} or {"path": …, "default": …}.',
    )


def explain(expression: str, scope: dict[str, JSON]) -> str:
    """The first part of a plain path that does not exist, and the value that it was looked up in."""
    names = plain_path(parse_expression(expression).parsed)
    here: Any = scope
    for depth, name in enumerate(names):
        where = ".".join(names[:depth]) or "the scope"
        if not isinstance(here, dict):
            return f"`{expression}`: {where} is {describe_kind(here)}, so it has no “{name}”."
        if here.get(name) is None:
            return f"`{expression}`: {where} has {join_names(here)}, and no “{name}”."
        here = here[name]
    return f"`{expression}` has no result."


def plain_path(node: dict[str, Any]) -> list[str]:
    """["steps", "a", "output"] for `steps.a.output`; anything but names ends the list."""
    if node["type"] == "field":
        return [node["value"]]
    if node["type"] == "subexpression":
        names: list[str] = []
        for child in node["children"]:
            part = plain_path(child)
            names += part
            if not part:
                break
        return names
    return []


def describe_kind(value: JSON) -> str:
    words = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return words.get(type(value), "a number")


def join_names(value: dict[str, JSON]) -> str:
    """The first names in an object, for a message."""
    names = [str(name) for name, content in value.items() if content is not None]
    if not names:
        return "nothing"
    text = ", ".join(names[:12])
    if len(names) > 12:
        text += " …"
    return text


def find_items(expression: str, scope: dict[str, JSON], *, limit: int = MAX_ITEMS) -> list[JSON]:
    """The list of a for_each; an object gives {key, value} items. Raises MappingError (not_a_list, too_many_items)."""
    items = search_expression(expression, scope)
    if isinstance(items, dict):
        items = [{"key": key, "value": value} for key, value in items.items()]
    if items is None:
        raise MappingError(f"for_each has no list: {explain(expression, scope)}", code="nothing_there")
    if not isinstance(items, list):
        raise MappingError(
            f"for_each needs a list or an object; `{expression}` is {describe_kind(items)}.",
            code="not_a_list",
            hint="Wrap one value as [value].",
        )
    if len(items) > limit:
        raise MappingError(
            f"for_each accepts at most {limit} items; `{expression}` has {len(items)}.",
            code="too_many_items",
            hint="Split the input over several runs.",
        )
    return items


def find_steps(expression: str) -> set[str]:
    """The keys x of every `steps.x` in the expression."""
    parsed = parse_expression(expression).parsed
    return {path[1] for path in find_paths(parsed) if len(path) > 1 and path[0] == "steps"}


def find_compared_texts(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(sign, text) of each constant text that an expression compares with."""
    sign = ""
    if node["type"] == "comparator":
        sign = SIGNS[node["value"]]
    elif node["type"] == "function_expression" and node["value"] == "contains":
        sign = "contains"
    children = [child for child in node.get("children", []) if isinstance(child, dict)]
    for child in children:
        if sign and child["type"] == "literal" and isinstance(child["value"], str):
            yield sign, child["value"]
    for child in children:
        yield from find_compared_texts(child)


SAME_SCOPE = frozenset(["comparator", "and_expression", "or_expression", "not_expression", "function_expression"])


def find_roots(node: dict[str, Any]) -> Iterator[str]:
    """The first name of each path that is looked up in the scope itself, not in a list or an object within it."""
    path = plain_path(node)
    if path:
        yield path[0]
    elif node["type"] in SAME_SCOPE:
        for child in node["children"]:
            yield from find_roots(child)


def find_paths(node: dict[str, Any]) -> Iterator[list[str]]:
    path = plain_path(node)
    if path:
        yield path
    for child in node.get("children", []):
        if isinstance(child, dict):
            yield from find_paths(child)
