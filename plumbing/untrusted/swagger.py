"""A Swagger 2.0 document in the form of OpenAPI 3.0, as far as requests need it."""

from typing import Any

from plumbing.untrusted.openapi_schemas import Document, Unusable

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
STYLES = {"csv": "form", "ssv": "spaceDelimited", "tsv": "tabDelimited", "pipes": "pipeDelimited", "multi": "form"}
BESIDE_SCHEMA = frozenset(
    ["name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "schema", "x-example"]
)
JSON = Any


def upgrade_document(value: dict[str, JSON]) -> dict[str, JSON]:
    """References keep their places: definitions and parameters stay where they are."""
    document = Document(value)
    paths = {path: upgrade_item(document, item) for path, item in value["paths"].items()}
    return {**value, "openapi": "3.0.3", "servers": write_servers(value), "paths": paths}


def write_servers(value: dict[str, JSON]) -> list[dict[str, JSON]]:
    base = str(value.get("basePath") or "/")
    host = value.get("host")
    if not host:
        return [{"url": base}]
    scheme = "https"
    schemes = value.get("schemes")
    if isinstance(schemes, list) and schemes and "https" not in schemes:
        scheme = str(schemes[0])
    if not base.startswith("/"):
        base = f"/{base}"
    return [{"url": f"{scheme}://{host}{base}"}]


def upgrade_item(document: Document, item: JSON) -> JSON:
    try:
        facts = document.resolve(item)
    except Unusable:
        return item
    shared = facts.get("parameters") or []
    upgraded = {key: one for key, one in facts.items() if key != "parameters"}
    for method in METHODS:
        operation = facts.get(method)
        if isinstance(operation, dict):
            upgraded[method] = upgrade_operation(document, operation, shared)
    return upgraded


def upgrade_operation(document: Document, operation: dict[str, JSON], shared: list[JSON]) -> dict[str, JSON]:
    """An operation that cannot be read stays as it is, for the reader of operations to say why."""
    entries = [*shared, *(operation.get("parameters") or [])]
    # Those of the operation replace those of its path.
    parameters: dict[tuple[JSON, JSON], dict[str, JSON]] = {}
    try:
        for entry in entries:
            parameter = document.resolve(entry)
            parameters[parameter.get("name"), parameter.get("in")] = parameter
    except (Unusable, TypeError):
        return {**operation, "parameters": entries}
    bodies = []
    fields = []
    others = []
    for (_name, place), parameter in parameters.items():
        if place == "body":
            bodies.append(parameter)
        elif place == "formData":
            fields.append(parameter)
        else:
            others.append(upgrade_parameter(parameter))
    upgraded = {**operation, "parameters": others}
    consumes = operation.get("consumes") or document.value.get("consumes") or []
    if bodies:
        upgraded["requestBody"] = write_body(bodies[0], consumes)
    elif fields:
        upgraded["requestBody"] = write_form(fields, consumes)
    return upgraded


def upgrade_parameter(parameter: dict[str, JSON]) -> dict[str, JSON]:
    words = ("name", "in", "required", "description")
    upgraded: dict[str, JSON] = {key: parameter[key] for key in words if key in parameter}
    schema = read_schema(parameter)
    if schema.get("type") == "array":
        form = parameter.get("collectionFormat")
        upgraded["explode"] = form == "multi"
        if parameter.get("in") == "query":
            upgraded["style"] = STYLES.get(str(form or "csv"), "form")
    upgraded["schema"] = schema
    return upgraded


def read_schema(parameter: dict[str, JSON]) -> dict[str, JSON]:
    """The schema that stands in the parameter itself."""
    return {key: one for key, one in parameter.items() if key not in BESIDE_SCHEMA}


def write_body(parameter: dict[str, JSON], consumes: list[JSON]) -> dict[str, JSON]:
    schema = parameter.get("schema") or {}
    medias = consumes or ["application/json"]
    content = {str(media): {"schema": schema} for media in medias}
    return {"required": parameter.get("required") is True, "content": content}


def write_form(fields: list[dict[str, JSON]], consumes: list[JSON]) -> dict[str, JSON]:
    media = "application/x-www-form-urlencoded"
    has_file = any(field.get("type") == "file" for field in fields)
    # Of a form without files both are possible.
    is_only_multipart = "multipart/form-data" in consumes and media not in consumes
    is_multipart = has_file or is_only_multipart
    if is_multipart:
        media = "multipart/form-data"
    properties: dict[str, JSON] = {}
    encoding: dict[str, JSON] = {}
    required: list[str] = []
    for field in fields:
        name = str(field.get("name"))
        properties[name] = describe_field(field)
        if field.get("type") == "array" and not is_multipart:
            form = str(field.get("collectionFormat") or "csv")
            encoding[name] = {"style": STYLES.get(form, "form"), "explode": form == "multi"}
        if field.get("required") is True:
            required.append(name)
    schema = {"type": "object", "properties": properties, "required": required}
    return {"required": bool(required), "content": {media: {"schema": schema, "encoding": encoding}}}


def describe_field(field: dict[str, JSON]) -> dict[str, JSON]:
    schema = read_schema(field)
    if field.get("description"):
        schema["description"] = field["description"]
    return schema
