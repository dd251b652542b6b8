"""An OpenAPI 3 document → operations as tools. Nothing outside the document is ever fetched.

A short document can take seconds, since many operations may refer to one large schema. So all of
this runs in the reader's process: see plumbing/untrusted/apart.py.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

from plumbing.untrusted.apart import Refused
from plumbing.untrusted.formats import clean, yaml_value_here

METHODS = ("get", "put", "post", "delete", "patch", "head")
EFFECTS = {
    "get": "read_out", "head": "read_out", "put": "idempotent", "post": "write", "patch": "write",
    "delete": "destructive",
}  # fmt: skip
MAX_TEXT = 2 * 1024 * 1024  # characters
MAX_OPERATIONS = 200
MAX_ANSWER = 4_000_000  # characters of all operations; each has its own copy of the schemas it refers to
MAX_COPIED = 128 * 1024  # characters of the schemas copied into one operation; with more than 64 kB it is refused
MAX_DESCRIPTION = 4000
MALFORMED = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
# Headers that identify the caller or frame the message: set by us, never by a model.
OWN_HEADERS = frozenset(
    ["authorization", "cookie", "host", "content-type", "content-length", "transfer-encoding", "connection", "accept",
     "proxy-authorization", "x-forwarded-for", "forwarded", "upgrade", "te"]
)  # fmt: skip
JSON = Any


def read_here(text: str, only: list[str] | None, base_url: str, found_at: str) -> dict[str, JSON]:
    """{"base_url": …, "operations": [JSON text of one operation, …]}. Raises Refused.

    An operation is {name, description, input_schema, effect, details}. Each is a text of its own so
    that the serving process decodes one at a time.
    """
    try:
        document = check_document(json.loads(text) if text.lstrip().startswith("{") else yaml_value_here(text))
        where = find_base_url(document, base_url, found_at)
        return {"base_url": where, "operations": list(operations(document, only))}
    except Refused:
        raise
    except MALFORMED as error:
        raise Refused(f"The document cannot be read: {str(error)[:200]}", code="malformed_document") from None


def check_document(value: JSON) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise Refused("The document is not an object.", code="malformed_document")
    if not str(value.get("openapi", "")).startswith("3."):
        raise Refused(
            "Only OpenAPI 3 documents are supported.", code="unknown_format", hint="Convert a Swagger 2 document first."
        )
    if not isinstance(value.get("paths"), dict):
        raise Refused("The document has no paths.", code="malformed_document")
    return value


def find_base_url(document: dict[str, JSON], address: str = "", found_at: str = "") -> str:
    """The base address: the given one, else the first server. Raises Refused."""
    servers = document.get("servers") or [{}]
    server = servers[0] if isinstance(servers, list) and isinstance(servers[0], dict) else {}
    url = str(server.get("url") or "/")
    for name, variable in (server.get("variables") or {}).items():
        url = url.replace("{" + str(name) + "}", str((variable or {}).get("default", "")))
    url = address or urljoin(found_at, url)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise Refused(f"“{url[:200]}” is not a base address.", code="no_server", hint="Send base_url.")
    return url.rstrip("/")


def operations(document: dict[str, JSON], only: list[str] | None) -> Iterator[str]:
    """Every operation (or the named ones) as JSON text. Raises Refused for a missing name, for too
    many operations, and for too much text.
    """
    room, definitions = MAX_ANSWER, Definitions(document)
    for path, method, item in choose_operations(document, only):
        text = json.dumps(describe_operation(document, definitions, path, method, item), allow_nan=False)
        room -= len(json.dumps(text))
        if room < 0:
            message = f"Its operations and their schemas have more than {MAX_ANSWER} characters in all."
            raise Refused(message, code="too_large", hint="Name fewer operations.")
        yield text


def choose_operations(document: dict[str, JSON], only: list[str] | None) -> list[tuple[str, str, dict[str, JSON]]]:
    """Path, method and path item of each operation that is wanted."""
    operations = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if isinstance(item, dict) and isinstance(item.get(method), dict):
                operations[name_operation(str(path), method, item[method])] = (str(path), method, item)
    if only is not None and (missing := [name for name in only if name not in operations]):
        raise Refused(f"The document has no operation “{missing[0][:100]}”.", code="unknown_operation")
    selection = [operations[name] for name in only] if only is not None else list(operations.values())
    if len(selection) > MAX_OPERATIONS:
        raise Refused(
            f"The document has {len(selection)} operations.",
            code="too_many",
            hint=f"Select at most {MAX_OPERATIONS} by name.",
        )
    return selection


def name_operation(path: str, method: str, operation: dict[str, JSON]) -> str:
    return str(operation.get("operationId") or re.sub(r"[^A-Za-z0-9]+", "_", f"{method}{path}").strip("_"))


def describe_operation(
    document: dict[str, JSON], definitions: "Definitions", path: str, method: str, item: dict[str, JSON]
) -> dict[str, JSON]:
    operation = item[method]
    parameters = merge_parameters(document, item, operation)
    body = find_body(document, operation)
    words = clean("\n".join(str(word) for word in (operation.get("summary"), operation.get("description")) if word))
    return {
        "name": name_operation(path, method, operation),
        "description": words[:MAX_DESCRIPTION] or f"{method.upper()} {path}"[:MAX_DESCRIPTION],
        "input_schema": input_schema(definitions, parameters, body),
        "effect": EFFECTS[method],
        "details": {
            "method": method.upper(),
            "path": path,
            "in": {parameter["name"]: parameter["in"] for parameter in parameters},
            "body": body["media"] if body else "",
        },
    }


def merge_parameters(
    document: dict[str, JSON], item: dict[str, JSON], operation: dict[str, JSON]
) -> list[dict[str, JSON]]:
    """The parameters of the path and the operation; the operation's take precedence. Cookies and
    reserved headers are left out.
    """
    parameters: dict[tuple[str, str], dict[str, JSON]] = {}
    for entry in [*(item.get("parameters") or []), *(operation.get("parameters") or [])]:
        parameter = resolve_reference(document, entry)
        name, place = parameter.get("name"), parameter.get("in")
        if not isinstance(name, str) or place not in ("path", "query", "header"):
            continue
        if place == "header" and name.lower() in OWN_HEADERS:
            continue
        parameters[name, place] = parameter
    return list({parameter["name"]: parameter for parameter in parameters.values()}.values())


def find_body(document: dict[str, JSON], operation: dict[str, JSON]) -> dict[str, JSON] | None:
    request = resolve_reference(document, operation.get("requestBody") or {})
    content = request.get("content") or {}
    for media in ("application/json", "application/x-www-form-urlencoded"):
        for key, value in content.items():
            if str(key).partition(";")[0].strip() == media:
                return {
                    "media": media,
                    "schema": (value or {}).get("schema") or {},
                    "required": request.get("required"),
                }
    return None


def input_schema(
    definitions: "Definitions", parameters: list[dict[str, JSON]], body: dict[str, JSON] | None
) -> dict[str, JSON]:
    """One object: each parameter by name, the body under `body`; referenced schemas are copied into
    $defs.
    """
    properties: dict[str, JSON] = {}
    for parameter in parameters:
        schema = parameter.get("schema") or {"type": "string"}
        if parameter.get("description") and isinstance(schema, dict) and "description" not in schema:
            schema = {**schema, "description": clean(str(parameter["description"]))[:1000]}
        properties[parameter["name"]] = schema
    required = [one["name"] for one in parameters if one.get("required") or one["in"] == "path"]
    if body is not None:
        properties["body"] = body["schema"]
        required += ["body"] if body["required"] else []
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return definitions.added_to(schema)


class Definitions:
    """The schemas among a document's components, each translated once."""

    def __init__(self, document: dict[str, JSON]) -> None:
        self.defined = (document.get("components") or {}).get("schemas") or {}
        self.translations: dict[str, tuple[JSON, list[str], int]] = {}

    def added_to(self, schema: dict[str, JSON]) -> dict[str, JSON]:
        """References into components become $defs of the schema itself, as far as they are used."""
        references: list[str] = []
        plain = convert_schema(schema, references)
        definitions: dict[str, JSON] = {}
        room = MAX_COPIED
        while references and room > 0:
            name = references.pop()
            if name not in definitions and name in self.defined:
                definitions[name], more, size = self.translated(name)
                references += more
                room -= size
        return {**plain, "$defs": definitions} if definitions else plain

    def translated(self, name: str) -> tuple[JSON, list[str], int]:
        """The schema, the names that it refers to, and its size as JSON."""
        if name not in self.translations:
            more: list[str] = []
            schema = convert_schema(self.defined[name], more)
            self.translations[name] = schema, more, len(json.dumps(schema, default=str))
        return self.translations[name]


REFERENCE = "#/components/schemas/"


def convert_schema(value: JSON, references: list[str], depth: int = 0) -> JSON:
    """OpenAPI's schema as JSON Schema 2020-12: local references, without `nullable` and 3.0 boolean
    bounds.
    """
    if depth > 60:
        raise Refused("The document is nested too deeply.", code="malformed_document")
    if isinstance(value, list):
        return [convert_schema(one, references, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    schema = {key: convert_schema(one, references, depth + 1) for key, one in value.items() if key not in DROPPED}
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith(REFERENCE):
        name = reference.removeprefix(REFERENCE)
        references.append(name.replace("~1", "/").replace("~0", "~"))
        schema["$ref"] = f"#/$defs/{name}"
    if value.get("nullable") is True and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(bound), bool):
            is_exclusive = schema.pop(bound)
            if is_exclusive and limit in schema:
                schema[bound] = schema.pop(limit)
    return schema


DROPPED = frozenset(["nullable", "discriminator", "xml", "externalDocs", "example"])


def resolve_reference(document: dict[str, JSON], entry: JSON) -> dict[str, JSON]:
    """The target of a local reference; {} for any other."""
    for _ in range(8):
        if not isinstance(entry, dict):
            return {}
        reference = entry.get("$ref")
        if not isinstance(reference, str):
            return entry
        entry = follow(document, reference)
    return {}


def follow(document: dict[str, JSON], reference: str) -> JSON:
    value: JSON = document
    for step in reference.removeprefix("#/").split("/") if reference.startswith("#/") else [""]:
        value = value.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(value, dict) else None
    return value
