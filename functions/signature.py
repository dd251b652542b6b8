"""Derives entry, documentation and JSON Schema from a source by reading the syntax tree. Plain
Python; nothing is executed.

Types come from annotations, else from the docstring (Google, NumPy or reST style), else from the
default.
"""

import ast
import re
from dataclasses import dataclass, field
from typing import Any

import docstring_parser

from functions.annotations import Annotations, Function, Schema, find_defaults, find_last_name, read_json_value

CONTEXT = "ctx"
MAX_DOCUMENTATION = 4_000


@dataclass(frozen=True, slots=True)
class Signature:
    """The information that a source contains about its entry.

    `output_schema` is the schema of the return annotation (None if there is none); it is a
    suggestion and not enforced. `imports` are the imported modules as dotted names, `requires` the
    libraries named in the header.
    """

    entry: str
    line: int
    summary: str
    description: str
    is_async: bool
    requires_context: bool
    input_schema: Schema
    output_schema: Schema | None
    imports: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)


class SourceProblem(ValueError):
    """The source has no readable signature. `code`, `hint`, `line` and `column` give the reason and
    the place.
    """

    def __init__(self, code: str, message: str, hint: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.line = line
        self.column = column

    def as_refusal(self) -> dict[str, Any]:
        place = {"line": self.line, "column": self.column, "end_line": self.line, "end_column": self.column}
        return {"severity": "error", "code": self.code, "message": str(self), "hint": self.hint, **place}


def read_source_signature(source: str, entry: str = "") -> Signature:
    """The signature of `entry`, or of the last top-level def. Raises SourceProblem."""
    module = parse_source(source)
    functions = {node.name: node for node in module.body if isinstance(node, Function)}
    node = find_entry(functions, entry)
    doc = documentation(node)
    summary = ""
    if doc:
        summary = (doc.short_description or "").strip()
    parameters = Parameters(node, module, doc)
    output_schema: Schema | None = Annotations(module, of_results=True).schema(node.returns)
    # `-> None` says that there is no result, not that it is null.
    if not output_schema or output_schema == {"type": "null"}:
        output_schema = None
    return Signature(
        entry=node.name,
        line=node.lineno,
        summary=summary,
        description=describe_function(doc),
        is_async=isinstance(node, ast.AsyncFunctionDef),
        requires_context=parameters.takes_context,
        input_schema=parameters.schema(),
        output_schema=output_schema,
        imports=find_imports(module),
        requires=find_required_libraries(module),
        functions=tuple(functions),
        defaults=parameters.defaults(),
    )


def parse_source(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        hint = "Fix this line; the code after it was not parsed."
        raise SourceProblem("syntax", f"{error.msg}.", hint, error.lineno or 1, error.offset or 1)
    except (RecursionError, MemoryError):
        raise SourceProblem(
            "too_complex", "The source is nested too deeply.", "Split long expressions into several lines."
        )
    except ValueError as error:
        raise SourceProblem(
            "syntax", f"The source cannot be parsed: {error}.", "Remove NUL characters and invalid encodings."
        )


def find_entry(functions: dict[str, Function], entry: str) -> Function:
    if entry and entry not in functions:
        names = ", ".join(functions) or "none"
        raise SourceProblem(
            "no_entry", f"The source has no top-level function “{entry}”.", f"Use one of these as the entry: {names}."
        )
    if not functions:
        raise SourceProblem("no_entry", "The source has no top-level function.", "Add one: def main(text: str): …")
    if entry:
        return functions[entry]
    *_, last = functions.values()
    return last


def documentation(node: Function) -> docstring_parser.Docstring | None:
    text = ast.get_docstring(node)
    if not text:
        return None
    try:
        return docstring_parser.parse(text[:MAX_DOCUMENTATION])
    except (docstring_parser.ParseError, RecursionError, ValueError):
        # Its sections cannot be read; the first line still says what the function does.
        first_line, *_ = text.split("\n")
        return docstring_parser.parse(first_line)


def describe_function(doc: docstring_parser.Docstring | None) -> str:
    """The description for users and models: the docstring above its sections, and the return value."""
    if doc is None:
        return ""
    parts = [doc.short_description, doc.long_description]
    if doc.returns and doc.returns.description:
        returned = one_line(doc.returns.description)
        parts.append(f"Returns: {returned}")
    return "\n\n".join(part.strip() for part in parts if part)


def find_required_libraries(module: ast.Module) -> tuple[str, ...]:
    """The libraries of `requires = ["pandas"]` in the header, as normalised package names."""
    for node in module.body:
        if not isinstance(node, ast.Assign):
            continue
        targets = [find_last_name(target) for target in node.targets]
        if targets != ["requires"]:
            continue
        values = read_json_value(node.value)
        names = values[0] if values else []
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            normalised = {re.sub(r"[-_.]+", "-", name.strip()).lower() for name in names}
            return tuple(sorted(normalised))
    return ()


def find_imports(module: ast.Module) -> tuple[str, ...]:
    # The keys of a dictionary are each name once, in order.
    names: dict[str, None] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names[node.module] = None
    names.pop("__future__", None)
    return tuple(names)


class Parameters:
    """The entry's parameters, which are passed as keywords."""

    def __init__(self, node: Function, module: ast.Module, doc: docstring_parser.Docstring | None) -> None:
        self.annotations = Annotations(module)
        self.constants = self.annotations.aliases
        self.documented = {}
        if doc:
            self.documented = {param.arg_name.lstrip("*"): param for param in doc.params}
        self.refuse_nameless(node)
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.arguments = [arg for arg in parameters if arg.arg != CONTEXT]
        self.takes_context = len(self.arguments) < len(parameters)
        self.more = node.args.kwarg
        self.default_of = find_defaults(node)

    def refuse_nameless(self, node: Function) -> None:
        """Arguments are passed by name, and those of `*args` have none."""
        arg = node.args.vararg
        if arg is None:
            return
        hint = f"Write a list: {arg.arg}: list."
        message = f"“*{arg.arg}” takes arguments without a name, but arguments are passed by name."
        raise SourceProblem("nameless_arguments", message, hint, arg.lineno, arg.col_offset + 1)

    def schema(self) -> Schema:
        properties = {arg.arg: self.property_of(arg) for arg in self.arguments}
        # Without `**kwargs` no other argument is taken; without an annotation any is.
        others: Any = False
        if self.more:
            others = self.annotations.schema(self.more.annotation) or True
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": others}
        required = [name for name in properties if name not in self.default_of]
        if required:
            schema["required"] = required
        return schema

    def property_of(self, arg: ast.arg) -> Schema:
        schema = self.annotations.schema(arg.annotation)
        param = self.documented.get(arg.arg)
        if arg.annotation is None and param and param.type_name:
            schema = self.documented_type(param.type_name)
        defaults = self.defaults_with(arg.arg)
        if arg.annotation is None and not schema and defaults:
            schema = guess_type(defaults[0])
        if defaults and defaults[0] is None and schema:
            schema = allow_null(schema)
        if defaults:
            schema = {**schema, "default": defaults[0]}
        if param and param.description:
            schema = {**schema, "description": one_line(param.description)}
        return schema

    def documented_type(self, text: str) -> Schema:
        """`int`, `list of str`, `{'a', 'b'}`, `str or None`, `int, optional`."""
        text = text.removesuffix("optional").strip().rstrip(",").replace(" or ", " | ")
        if text.startswith("{") and text.endswith("}"):
            text = f"Literal[{text[1:-1]}]"
        if " of " in text:
            outer, _, inner = text.partition(" of ")
            # `list of strings`.
            if inner != "class":
                inner = inner.rstrip("s")
            text = f"{outer}[{inner}]"
        words = {
            "string": "str",
            "integer": "int",
            "boolean": "bool",
            "number": "float",
            "object": "dict",
            "array": "list",
        }
        try:
            tree = ast.parse(words.get(text, text), mode="eval")
            return self.annotations.schema(tree.body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}

    def defaults(self) -> dict[str, Any]:
        defaults = {}
        for arg in self.arguments:
            values = self.defaults_with(arg.arg)
            if values:
                defaults[arg.arg] = values[0]
        return defaults

    def defaults_with(self, name: str) -> list[Any]:
        """[value] if the default is plain JSON data, else []: the function itself applies other
        defaults.
        """
        node = self.default_of.get(name)
        if isinstance(node, ast.Name) and node.id in self.constants:
            node = self.constants[node.id]
        if node is None:
            return []
        return read_json_value(node)


def guess_type(default: Any) -> Schema:
    """The type of a parameter without annotation, from its default."""
    # True is an int in Python, so it comes first.
    kinds: list[tuple[Any, str]] = [
        (bool, "boolean"),
        ((int, float), "number"),
        (str, "string"),
        (list, "array"),
        (dict, "object"),
    ]
    for kind, name in kinds:
        if isinstance(default, kind):
            return {"type": name}
    return {}


def allow_null(schema: Schema) -> Schema:
    """`limit: int = None` means that None is allowed."""
    null = {"type": "null"}
    if "anyOf" in schema:
        options = schema["anyOf"]
        if null in options:
            return schema
        return {**schema, "anyOf": [*options, null]}
    kinds = schema.get("type")
    if kinds is None or "enum" in schema:
        return {"anyOf": [schema, null]}
    if not isinstance(kinds, list):
        kinds = [kinds]
    if "null" in kinds:
        return schema
    return {**schema, "type": [*kinds, "null"]}


def one_line(text: str) -> str:
    return " ".join(text.split())
