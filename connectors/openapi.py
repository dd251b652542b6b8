"""An OpenAPI 3 document → operations as tools. Nothing outside the document is ever fetched."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import urljoin, urlsplit

from agents.exceptions import Invalid
from agents.schema import MAX_SCHEMA_BYTES
from connectors.content import clean
from plumbing import apart
from plumbing.formats import yaml_value

from .remote import Offered

METHODS = ("get", "put", "post", "delete", "patch", "head")
EFFECTS = {
    "get": "read_out", "head": "read_out", "put": "idempotent", "post": "write", "patch": "write",
    "delete": "destructive",
}  # fmt: skip
MAX_TEXT = 2 * 1024 * 1024  # characters
MAX_OPERATIONS = 200
MAX_SCHEMAS = 2 * MAX_TEXT  # characters of all schemas; each operation has its own copy of what it refers to
# Headers that identify the caller or frame the message: set by us, never by a model.
OWN_HEADERS = frozenset(
    ["authorization", "cookie", "host", "content-type", "content-length", "transfer-encoding", "connection", "accept",
     "proxy-authorization", "x-forwarded-for", "forwarded", "upgrade", "te"]
)  # fmt: skip
JSON = Any


def read_document(text: str) -> dict[str, JSON]:
    """The document from JSON or YAML text. Raises Invalid."""
    if len(text) > MAX_TEXT:
        raise Invalid(f"The document is longer than {MAX_TEXT} characters.", code="too_large")
    try:
        value = json.loads(text) if text.lstrip().startswith("{") else yaml_value(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"The document cannot be read: {str(error)[:200]}", code="malformed_document")
    except apart.TooMuch:
        hint = "Send it as JSON, or leave out what is not needed."
        raise Invalid("The document takes too long to read.", code="too_large", hint=hint)
    return checked(value)


def checked(value: JSON) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise Invalid("The document is not an object.", code="malformed_document")
    if not str(value.get("openapi", "")).startswith("3."):
        raise Invalid(
            "Only OpenAPI 3 documents are supported.", code="unknown_format", hint="Convert a Swagger 2 document first."
        )
    if not isinstance(value.get("paths"), dict):
        raise Invalid("The document has no paths.", code="malformed_document")
    return value


def base_url_of(document: dict[str, JSON], given: str = "", found_at: str = "") -> str:
    """The base address: the given one, else the first server. Raises Invalid."""
    servers = document.get("servers") or [{}]
    server = servers[0] if isinstance(servers, list) and isinstance(servers[0], dict) else {}
    url = str(server.get("url") or "/")
    for name, variable in (server.get("variables") or {}).items():
        url = url.replace("{" + str(name) + "}", str((variable or {}).get("default", "")))
    url = given or urljoin(found_at, url)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise Invalid(f"“{url[:200]}” is not a base address.", code="no_server", hint="Send base_url.")
    return url.rstrip("/")


def operations(document: dict[str, JSON], only: list[str] | None = None) -> Iterator[Offered]:
    """Every operation (or the named ones) as a tool. Raises Invalid for a missing name or too many
    operations.
    """
    found = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if isinstance(item, dict) and isinstance(item.get(method), dict):
                found[name_of(str(path), method, item[method])] = (str(path), method, item)
    if only is not None and (missing := [name for name in only if name not in found]):
        raise Invalid(f"The document has no operation “{missing[0][:100]}”.", code="unknown_operation")
    chosen = [found[name] for name in only] if only is not None else list(found.values())
    if len(chosen) > MAX_OPERATIONS:
        raise Invalid(
            f"The document has {len(chosen)} operations.",
            code="too_many",
            hint=f"Select at most {MAX_OPERATIONS} by name.",
        )
    left, definitions = MAX_SCHEMAS, Definitions(document)
    for path, method, item in chosen:
        one = offered(document, definitions, path, method, item)
        left -= len(json.dumps(one.input_schema, default=str))
        if left < 0:
            message = f"The schemas of its operations have more than {MAX_SCHEMAS} characters in all."
            raise Invalid(message, code="too_large", hint="Name fewer operations.")
        yield one


def name_of(path: str, method: str, operation: dict[str, JSON]) -> str:
    return str(operation.get("operationId") or re.sub(r"[^A-Za-z0-9]+", "_", f"{method}{path}").strip("_"))


def offered(
    document: dict[str, JSON], definitions: "Definitions", path: str, method: str, item: dict[str, JSON]
) -> Offered:
    operation = item[method]
    parameters = parameters_of(document, item, operation)
    body = body_of(document, operation)
    words = [operation.get("summary"), operation.get("description")]
    return Offered(
        name=name_of(path, method, operation),
        description=clean("\n".join(str(word) for word in words if word)) or f"{method.upper()} {path}",
        input_schema=input_schema(definitions, parameters, body),
        output_schema=None,
        effect=EFFECTS[method],
        details={
            "method": method.upper(),
            "path": path,
            "in": {parameter["name"]: parameter["in"] for parameter in parameters},
            "body": body["media"] if body else "",
        },
    )


def parameters_of(
    document: dict[str, JSON], item: dict[str, JSON], operation: dict[str, JSON]
) -> list[dict[str, JSON]]:
    """The parameters of the path and the operation; the operation's take precedence. Cookies and
    reserved headers are left out.
    """
    found: dict[tuple[str, str], dict[str, JSON]] = {}
    for entry in [*(item.get("parameters") or []), *(operation.get("parameters") or [])]:
        parameter = resolved(document, entry)
        name, place = parameter.get("name"), parameter.get("in")
        if not isinstance(name, str) or place not in ("path", "query", "header"):
            continue
        if place == "header" and name.lower() in OWN_HEADERS:
            continue
        found[name, place] = parameter
    return list({parameter["name"]: parameter for parameter in found.values()}.values())


def body_of(document: dict[str, JSON], operation: dict[str, JSON]) -> dict[str, JSON] | None:
    request = resolved(document, operation.get("requestBody") or {})
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
        schema = deepcopy(parameter.get("schema") or {"type": "string"})
        if parameter.get("description") and "description" not in schema:
            schema["description"] = clean(str(parameter["description"]))[:1000]
        properties[parameter["name"]] = schema
    required = [one["name"] for one in parameters if one.get("required") or one["in"] == "path"]
    if body is not None:
        properties["body"] = deepcopy(body["schema"])
        required += ["body"] if body["required"] else []
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return definitions.added_to(schema)


class Definitions:
    """The schemas among a document's components, each translated once."""

    def __init__(self, document: dict[str, JSON]) -> None:
        self.defined = (document.get("components") or {}).get("schemas") or {}
        self.known: dict[str, tuple[JSON, list[str], int]] = {}

    def added_to(self, schema: dict[str, JSON]) -> dict[str, JSON]:
        """References into components become $defs of the schema itself, as far as they are used."""
        wanted: list[str] = []
        plain = translated(schema, wanted)
        found: dict[str, JSON] = {}
        left = 2 * MAX_SCHEMA_BYTES  # a schema that is larger is refused whatever else belongs to it
        while wanted and left > 0:
            name = wanted.pop()
            if name not in found and name in self.defined:
                found[name], more, size = self.translated(name)
                wanted += more
                left -= size
        return {**plain, "$defs": found} if found else plain

    def translated(self, name: str) -> tuple[JSON, list[str], int]:
        """The schema, the names that it refers to, and its size as JSON."""
        if name not in self.known:
            more: list[str] = []
            schema = translated(self.defined[name], more)
            self.known[name] = schema, more, len(json.dumps(schema, default=str))
        return self.known[name]


REFERENCE = "#/components/schemas/"


def translated(value: JSON, wanted: list[str], depth: int = 0) -> JSON:
    """OpenAPI's schema as JSON Schema 2020-12: local references, without `nullable` and 3.0 boolean
    bounds.
    """
    if depth > 60:
        raise Invalid("The document is nested too deeply.", code="malformed_document")
    if isinstance(value, list):
        return [translated(one, wanted, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: translated(one, wanted, depth + 1) for key, one in value.items() if key not in DROPPED}
    if isinstance(reference := found.get("$ref"), str) and reference.startswith(REFERENCE):
        name = reference.removeprefix(REFERENCE)
        wanted.append(name.replace("~1", "/").replace("~0", "~"))
        found["$ref"] = f"#/$defs/{name}"
    if value.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(found.get(bound), bool):
            is_exclusive = found.pop(bound)
            if is_exclusive and limit in found:
                found[bound] = found.pop(limit)
    return found


DROPPED = frozenset(["nullable", "discriminator", "xml", "externalDocs", "example"])


def resolved(document: dict[str, JSON], entry: JSON) -> dict[str, JSON]:
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
    found: JSON = document
    for step in reference.removeprefix("#/").split("/") if reference.startswith("#/") else [""]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
