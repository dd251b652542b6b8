"""An OpenAPI or Swagger document → operations as tools. Nothing outside the document is ever fetched.

Each operation becomes a tool that sends what the document says, or is named with the reason why not.
A short document can take seconds, since many operations may refer to one large schema. So all of
this runs in the reader's process: see plumbing/untrusted/parse_in_child.py.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

from plumbing.untrusted.formats import clean_untrusted_text, yaml_value_here
from plumbing.untrusted.openapi_bodies import QUERY_STYLES, find_body
from plumbing.untrusted.openapi_schemas import Document, Schemas, Unusable
from plumbing.untrusted.parse_in_child import Refused
from plumbing.untrusted.swagger import upgrade_document

EFFECTS = {
    "get": "read_out", "put": "idempotent", "post": "write", "delete": "destructive", "options": "read_out",
    "head": "read_out", "patch": "write",
}  # fmt: skip
OTHER_METHODS = ("trace", "query")
# Characters of a document.
MAX_TEXT = 16 * 1024 * 1024
MAX_OPERATIONS = 200
# Characters of all operations; each has its own copy of the schemas it refers to.
MAX_ANSWER = 4_000_000
MAX_DESCRIPTION = 4000
MALFORMED = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
# Headers that OpenAPI says are described elsewhere, and others that frame the message: set by us, never by a model.
DESCRIBED_ELSEWHERE = frozenset(["accept", "authorization", "content-type"])
OWN_HEADERS = DESCRIBED_ELSEWHERE | frozenset(
    ["cookie", "host", "content-length", "transfer-encoding", "connection", "proxy-authorization", "x-forwarded-for",
     "forwarded", "upgrade", "te", "expect"]
)  # fmt: skip
STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": QUERY_STYLES,
    "header": ("simple",),
    "cookie": ("form", "cookie"),
}
# Styles that are exploded unless the document says otherwise.
EXPLODED = ("form", "cookie")
PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
JSON = Any


def read_here(text: str, only: list[str] | None, base_url: str, found_at: str) -> dict[str, JSON]:
    """{"base_url": …, "operations": [JSON text of one operation, …]}. Raises Refused.

    An operation is {name, description, input_schema, effect, details, problem}; `problem` says why it cannot
    become a tool. Each is a text of its own so that the serving process decodes one at a time.
    """
    try:
        if text.lstrip().startswith("{"):
            value = json.loads(text)
        else:
            value = yaml_value_here(text)
        document = check_document(value)
        servers = document.get("servers") or [{}]
        where = find_address(servers, base_url, found_at)
        own = find_address(servers, "", found_at or where)
        operations = list(Reading(document, where, own).read_operations(only))
    except Refused:
        raise
    except Unusable as error:
        raise Refused(str(error), code="no_server", hint="Send base_url.") from None
    except MALFORMED as error:
        raise Refused(f"The document cannot be read: {explain_malformed(error)}", code="malformed_document") from None
    return {"base_url": where, "operations": operations}


def explain_malformed(error: Exception) -> str:
    """What a parser says of the text; what Python says of a value of the wrong type helps nobody."""
    if isinstance(error, RecursionError):
        return "It is nested too deeply."
    if isinstance(error, ValueError):
        return str(error)[:200]
    return "A part of it has another form than OpenAPI describes."


def check_document(value: JSON) -> dict[str, JSON]:
    """The document, one of Swagger 2.0 in the form of OpenAPI 3.0. Raises Refused."""
    if not isinstance(value, dict):
        raise Refused("The document is not an object.", code="malformed_document")
    is_swagger = str(value.get("swagger", "")).startswith("2")
    if not is_swagger and not str(value.get("openapi", "")).startswith("3."):
        hint = "Its first line says “openapi: 3…” or “swagger: 2.0”."
        raise Refused("Only OpenAPI 3 and Swagger 2.0 documents are supported.", code="unknown_format", hint=hint)
    if not isinstance(value.get("paths"), dict):
        raise Refused("The document has no paths.", code="malformed_document")
    if is_swagger:
        return upgrade_document(value)
    return value


def find_address(servers: JSON, address: str, found_at: str) -> str:
    """The given address, else that of the first server. Raises Unusable."""
    server: dict[str, JSON] = {}
    if isinstance(servers, list) and isinstance(servers[0], dict):
        server = servers[0]
    url = str(server.get("url") or "/")
    variables = server.get("variables") or {}
    for name, variable in variables.items():
        default = str((variable or {}).get("default", ""))
        url = url.replace("{" + str(name) + "}", default)
    # It may be relative to the place of the document.
    url = address or urljoin(found_at, url)
    parts = urlsplit(url)
    is_web_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    if not is_web_address or parts.query or parts.username or "{" in url:
        raise Unusable(f"“{url[:200]}” is not a base address.")
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class Located:
    """One operation of the document, and where it stands."""

    name: str
    path: str
    method: str
    item: dict[str, JSON]
    operation: dict[str, JSON]
    problem: str = ""


class Reading:
    """One reading of a document. `where` is the base address of calls, `own` the document's own."""

    def __init__(self, value: dict[str, JSON], where: str, own: str) -> None:
        self.document = Document(value)
        self.schemas = Schemas(self.document)
        self.where = where
        self.own = own

    def read_operations(self, only: list[str] | None) -> Iterator[str]:
        """Every operation (or the named ones) as JSON text. Raises Refused for a missing name and for too much text."""
        room = MAX_ANSWER
        for place, located in enumerate(self.choose_operations(only)):
            if place >= MAX_OPERATIONS:
                located = refuse_operation(
                    located, f"Only {MAX_OPERATIONS} operations are imported at a time: name those that you need."
                )
            described = self.describe_operation(located)
            text = json.dumps(described, allow_nan=False)
            room -= len(json.dumps(text))
            if room < 0:
                message = f"Its operations and their schemas have more than {MAX_ANSWER} characters in all."
                raise Refused(message, code="too_large", hint="Name fewer operations.")
            yield text

    def choose_operations(self, only: list[str] | None) -> list[Located]:
        operations = {located.name: located for located in self.find_operations()}
        if not operations:
            raise Refused(
                "The document has no operations.",
                code="no_operations",
                hint="Check that it is the whole document: its paths must have operations such as get or post.",
            )
        if only is None:
            return list(operations.values())
        missing = [name for name in only if name not in operations]
        if missing:
            raise Refused(f"The document has no operation “{missing[0][:100]}”.", code="unknown_operation")
        return [operations[name] for name in only]

    def find_operations(self) -> Iterator[Located]:
        """All operations in the document's order, each with a name of its own."""
        names: set[str] = set()
        for path, item in self.document.value["paths"].items():
            if str(path).startswith("x-"):
                continue
            for located in self.find_path_operations(str(path), item):
                name = choose_name(located, names)
                names.add(name)
                yield replace(located, name=name)

    def find_path_operations(self, path: str, item: JSON) -> Iterator[Located]:
        try:
            item = self.document.resolve(item)
        except Unusable as error:
            yield Located("", path, "path", {}, {}, str(error))
            return
        for method in (*EFFECTS, *OTHER_METHODS):
            if method not in item:
                continue
            operation = item[method]
            if not isinstance(operation, dict):
                yield refuse_operation(Located("", path, method, item, {}), "The operation is not an object.")
            elif method in OTHER_METHODS:
                located = Located("", path, method, item, operation)
                yield refuse_operation(located, f"The method {method.upper()} is not supported.")
            else:
                yield Located("", path, method, item, operation)
        more = item.get("additionalOperations")
        if not isinstance(more, dict):
            return
        for method, operation in more.items():
            if not isinstance(operation, dict):
                operation = {}
            located = Located("", path, str(method), item, operation)
            yield refuse_operation(located, f"The method {str(method)[:50]} is not supported.")

    def describe_operation(self, located: Located) -> dict[str, JSON]:
        if located.problem:
            return describe_refusal(located)
        try:
            return self.describe_tool(located)
        except Unusable as error:
            return describe_refusal(refuse_operation(located, str(error)))
        except MALFORMED as error:
            return describe_refusal(
                refuse_operation(located, f"The operation cannot be read: {explain_malformed(error)}")
            )

    def describe_tool(self, located: Located) -> dict[str, JSON]:
        """Raises Unusable."""
        parameters = self.find_parameters(located)
        body = find_body(self.document, located.operation)
        details = {
            "method": located.method.upper(),
            "path": located.path.partition("#")[0],
            "parameters": [one["sent"] for one in parameters],
            "body": body["sent"] if body else None,
        }
        if server := self.find_server(located):
            details["server"] = server
        return {
            "name": located.name,
            "description": write_description(located),
            "input_schema": self.make_input_schema(parameters, body),
            "effect": EFFECTS[located.method],
            "details": details,
            "problem": "",
        }

    def find_server(self, located: Located) -> str:
        """The operation's or path's own server; "" if it has none. On the document's host it moves with the base
        address. Raises Unusable.
        """
        servers = located.operation.get("servers") or located.item.get("servers")
        if not servers:
            return ""
        address = find_address(servers, "", self.own + "/")
        if read_origin(address) == read_origin(self.own):
            path = urlsplit(address).path
            address = read_origin(self.where) + path
        if address == self.where:
            return ""
        return address

    # -- parameters ----------------------------------------------------------------------------------------------

    def find_parameters(self, located: Located) -> list[dict[str, JSON]]:
        """Those of the path and the operation; the operation's take precedence. A placeholder of the path that is not
        described takes text. Raises Unusable.

        Each is {"schema", "required", "sent": {name, argument, in, style, explode, …}}.
        """
        described: dict[tuple[str, str], dict[str, JSON]] = {}
        of_path = located.item.get("parameters") or []
        of_operation = located.operation.get("parameters") or []
        for entry in [*of_path, *of_operation]:
            parameter = self.document.resolve(entry)
            name = parameter.get("name")
            place = parameter.get("in")
            if not isinstance(name, str) or not name or place not in STYLES:
                raise Unusable(f"Its parameter “{str(name)[:100]}” is in “{str(place)[:100]}”, which is not supported.")
            if place == "header" and name.lower() in OWN_HEADERS:
                if parameter.get("required") and name.lower() not in DESCRIBED_ELSEWHERE:
                    raise Unusable(f"It needs the header {name[:100]}, which a tool cannot set.")
                continue
            described[name, place] = parameter
        placeholders = PLACEHOLDER.findall(located.path)
        for name, place in described:
            if place == "path" and name not in placeholders:
                raise Unusable(f"The path has no place for its parameter “{name[:100]}”.")
        for name in placeholders:
            described.setdefault((name, "path"), {"schema": {"type": "string"}})
        # The first of a name keeps it: those of the path first, then in the document's order.
        order = sorted(described, key=lambda key: key[1] != "path")
        arguments: set[str] = set()
        if located.operation.get("requestBody"):
            arguments.add("body")
        return [self.read_parameter(name, place, described[name, place], arguments) for name, place in order]

    def read_parameter(self, name: str, place: str, parameter: dict[str, JSON], arguments: set[str]) -> dict[str, JSON]:
        argument = name
        if argument in arguments:
            argument = f"{name}_{place}"
        while argument in arguments:
            argument += "_"
        arguments.add(argument)
        sent: dict[str, JSON] = {"name": name, "argument": argument, "in": place}
        content = parameter.get("content")
        if isinstance(content, dict) and content:
            # A parameter with content has one media type.
            media, value = next(iter(content.items()))
            if "json" not in str(media).lower():
                raise Unusable(f"Its parameter “{name[:100]}” is sent as {str(media)[:100]}, which is not supported.")
            schema = (value or {}).get("schema")
            sent["style"] = "json"
        else:
            schema = parameter.get("schema")
            sent |= read_style(name, place, parameter)
        if schema is None:
            schema = {"type": "string"}
        if parameter.get("description") and isinstance(schema, dict) and "description" not in schema:
            description = clean_untrusted_text(str(parameter["description"]))
            schema = {**schema, "description": description[:1000]}
        is_required = place == "path" or parameter.get("required") is True
        return {"schema": schema, "required": is_required, "sent": sent}

    def make_input_schema(self, parameters: list[dict[str, JSON]], body: dict[str, JSON] | None) -> dict[str, JSON]:
        """One object: each parameter by its argument, the body under `body`."""
        properties: dict[str, JSON] = {}
        required: list[str] = []
        for one in parameters:
            argument = one["sent"]["argument"]
            properties[argument] = one["schema"]
            if one["required"]:
                required.append(argument)
        if body is not None:
            properties["body"] = body["schema"]
            if body["required"]:
                required.append("body")
        return self.schemas.make_object_schema(properties, required)


def read_style(name: str, place: str, parameter: dict[str, JSON]) -> dict[str, JSON]:
    """How the value is written. Raises Unusable."""
    style = parameter.get("style") or STYLES[place][0]
    if style not in STYLES[place]:
        raise Unusable(f"Its parameter “{name[:100]}” has the style “{str(style)[:100]}”, which {place} has not.")
    explode = parameter.get("explode")
    if explode is None:
        explode = style in EXPLODED
    how: dict[str, JSON] = {"style": style, "explode": explode is True}
    if parameter.get("allowReserved") is True:
        how["reserved"] = True
    return how


def refuse_operation(located: Located, problem: str) -> Located:
    return replace(located, problem=problem)


def describe_refusal(located: Located) -> dict[str, JSON]:
    """An operation that cannot become a tool, in the form of those that can."""
    return {
        "name": located.name,
        "description": write_description(located),
        "input_schema": {"type": "object"},
        "effect": EFFECTS.get(located.method, "write"),
        "details": {},
        "problem": located.problem,
    }


def choose_name(located: Located, names: set[str]) -> str:
    """The operation's id; of a second one with this id, and of one without, method and path."""
    by_path = re.sub(r"[^A-Za-z0-9]+", "_", f"{located.method}{located.path}").strip("_")
    by_id = str(located.operation.get("operationId") or "")
    for name in (by_id, by_path):
        if name and name not in names:
            return name
    number = 2
    while f"{by_path}_{number}" in names:
        number += 1
    return f"{by_path}_{number}"


def write_description(located: Located) -> str:
    operation = located.operation
    sentences = [str(operation[name]) for name in ("summary", "description") if operation.get(name)]
    text = clean_untrusted_text("\n".join(sentences))
    if not text:
        text = f"{located.method.upper()} {located.path}"
    return text[:MAX_DESCRIPTION]


def read_origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
