"""The body of an operation: which of its content types is sent, how, and what the caller must give."""

from typing import Any

from plumbing.untrusted.openapi_schemas import Document, Unusable

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
ANY = ("*/*", "application/*")
# application types whose content is text, as a person would write it
TEXT_SUBTYPES = (
    "graphql",
    "javascript",
    "sql",
    "yaml",
    "x-yaml",
    "ndjson",
    "x-ndjson",
    "jsonl",
    "x-sh",
    "toml",
    "jose",
    "jwt",
)
# Styles of a query, and of forms too.
QUERY_STYLES = ("form", "spaceDelimited", "pipeDelimited", "deepObject", "tabDelimited")
BYTES = {"type": "string", "contentEncoding": "base64", "description": "The content in base64."}
JSON = Any


def find_body(document: Document, operation: dict[str, JSON]) -> dict[str, JSON] | None:
    """{"schema", "required", "sent"} of the content type that is sent; None without a body. Raises Unusable.

    `sent` is {"media", "kind"}; kind is json, text, bytes, form or multipart. Forms also have "parts": how each
    property is sent, as far as it is not sent as its value suggests.
    """
    if not operation.get("requestBody"):
        return None
    request = document.resolve(operation["requestBody"])
    content = request.get("content")
    if not isinstance(content, dict) or not content:
        raise Unusable("Its body has no content type.")
    choices = [read_body_content(document, str(media), value or {}) for media, value in content.items()]
    usable = [choice for choice in choices if choice is not None]
    if not usable:
        raise Unusable(f"A body of {', '.join(map(str, content))[:200]} is not supported.")
    best = min(usable, key=lambda choice: KINDS.index(choice["sent"]["kind"]))
    return {**best, "required": request.get("required") is True}


# Kinds in the order of preference.
KINDS = ("json", "form", "multipart", "text", "bytes")


def read_body_content(document: Document, media: str, value: dict[str, JSON]) -> dict[str, JSON] | None:
    """{"schema", "sent"} of one content type, as `find_body` explains them; None if it cannot be sent."""
    media = media.partition(";")[0].strip().lower()
    schema = value.get("schema")
    if schema is None:
        schema = {}
    facts: dict[str, JSON] = {}
    if isinstance(schema, dict):
        facts = document.resolve(schema)
    is_text = facts.get("type") == "string" and not is_binary(facts)
    main, _, kind = media.partition("/")
    if media in ANY:
        if is_text:
            return make_content(schema, "text/plain", True)
        if is_binary(facts):
            return make_content(schema, "application/octet-stream", False)
        return {"schema": schema, "sent": {"media": "application/json", "kind": "json"}}
    if kind == "json" or kind.endswith("+json"):
        return {"schema": schema, "sent": {"media": media, "kind": "json"}}
    if media in (FORM, MULTIPART):
        return read_form(document, media, schema, value.get("encoding") or {})
    if main == "text" or kind in TEXT_SUBTYPES or kind == "xml" or kind.endswith(("+xml", "+yaml")):
        if is_text or (not facts and kind != "xml"):
            return make_content(schema, media, True)
        return None
    if is_binary(facts) or not facts:
        return make_content(schema, media, False)
    if is_text:
        return make_content(schema, media, True)
    return None


def make_content(schema: JSON, media: str, is_text: bool) -> dict[str, JSON]:
    """A body that is one text, or one file in base64."""
    if is_text:
        return {"schema": schema or {"type": "string"}, "sent": {"media": media, "kind": "text"}}
    # A pattern such as image/* is no type that a body can have.
    if "*" in media:
        media = "application/octet-stream"
    return {"schema": BYTES, "sent": {"media": media, "kind": "bytes"}}


def is_binary(schema: dict[str, JSON]) -> bool:
    """Bytes: OpenAPI 3.0 writes a format, 3.1 a media type without a text encoding, Swagger 2.0 a type."""
    if schema.get("format") == "binary" or schema.get("type") == "file":
        return True
    if schema.get("type") not in (None, "string"):
        return False
    return "contentMediaType" in schema and "contentEncoding" not in schema


def read_form(document: Document, media: str, schema: JSON, encoding: dict[str, JSON]) -> dict[str, JSON]:
    """A form, whose properties may each be encoded in a way of their own. Files are given in base64."""
    parts: dict[str, JSON] = {}
    for name, described in document.find_properties(schema).items():
        has_bytes = holds_bytes(document, described)
        if media == MULTIPART and has_bytes:
            parts[name] = {"kind": "bytes"}
    for name, how in encoding.items():
        parts[name] = {**parts.get(name, {}), **read_encoding(how or {})}
    binary = {name for name, part in parts.items() if part.get("kind") == "bytes"}
    if binary:
        schema = replace_files(document, schema, binary)
    kind = "multipart" if media == MULTIPART else "form"
    return {"schema": schema, "sent": {"media": media, "kind": kind, "parts": parts}}


def holds_bytes(document: Document, described: JSON) -> bool:
    """Whether a property is a file, or a list of files. Raises Unusable."""
    if not isinstance(described, dict):
        return False
    facts = document.resolve(described)
    items = facts.get("items")
    is_list_of_files = False
    if facts.get("type") == "array" and isinstance(items, dict):
        is_list_of_files = is_binary(document.resolve(items))
    return is_binary(facts) or is_list_of_files


def read_encoding(how: dict[str, JSON]) -> dict[str, JSON]:
    """How one property is sent: as JSON, or in a style."""
    media = str(how.get("contentType") or "").partition(",")[0].strip()
    if "json" in media:
        return {"media": media, "kind": "json"}
    if media:
        return {"media": media}
    if not {"style", "explode", "allowReserved"} & how.keys():
        return {}
    style = how.get("style") or "form"
    if style not in QUERY_STYLES:
        raise Unusable(f"A field of its form has the style “{str(style)[:100]}”, which forms have not.")
    explode = how.get("explode")
    if explode is None:
        explode = style == "form"
    return {"style": style, "explode": explode is True, "reserved": how.get("allowReserved") is True}


def replace_files(document: Document, schema: JSON, binary: set[str]) -> dict[str, JSON]:
    """The schema of a form whose files are given as base64 text."""
    facts = document.resolve(schema)
    properties = document.find_properties(schema)
    for name in binary:
        described = document.resolve(properties[name])
        replaced: dict[str, JSON] = dict(BYTES)
        if described.get("type") == "array":
            replaced = {"type": "array", "items": BYTES}
        if described.get("description"):
            replaced["description"] = f"{described['description']} (in base64)"
        properties[name] = replaced
    required = document.find_required(schema)
    more: dict[str, JSON] = {key: facts[key] for key in ("description", "additionalProperties") if key in facts}
    return {"type": "object", "properties": properties, "required": required, **more}
