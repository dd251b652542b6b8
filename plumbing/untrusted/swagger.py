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
    base, host = str(value.get("basePath") or "/"), value.get("host")
    if not host:
        return [{"url": base}]
    schemes = value.get("schemes")
    schemes = schemes if isinstance(schemes, list) else []
    scheme = "https" if "https" in schemes or not schemes else str(schemes[0])
    return [{"url": f"{scheme}://{host}{base if base.startswith('/') else '/' + base}"}]


def upgrade_item(document: Document, item: JSON) -> JSON:
    try:
        facts = document.resolve(item)
    except Unusable:
        return item
    shared = facts.get("parameters") or []
    upgraded = {key: one for key, one in facts.items() if key != "parameters"}
    for method in METHODS:
        if isinstance(operation := facts.get(method), dict):
            upgraded[method] = upgrade_operation(document, operation, shared)
    return upgraded


def upgrade_operation(document: Document, operation: dict[str, JSON], shared: list[JSON]) -> dict[str, JSON]:
    """An operation that cannot be read stays as it is, for the reader of operations to say why."""
    parameters: dict[tuple[JSON, JSON], dict[str, JSON]] = {}
    try:
        for entry in [*shared, *(operation.get("parameters") or [])]:
            parameter = document.resolve(entry)
            parameters[parameter.get("name"), parameter.get("in")] = parameter
    except (Unusable, TypeError):
        return {**operation, "parameters": [*shared, *(operation.get("parameters") or [])]}
    bodies = [one for one in parameters.values() if one.get("in") == "body"]
    fields = [one for one in parameters.values() if one.get("in") == "formData"]
    others = [one for one in parameters.values() if one.get("in") not in ("body", "formData")]
    upgraded = {**operation, "parameters": [upgrade_parameter(one) for one in others]}
    consumes = operation.get("consumes") or document.value.get("consumes") or []
    if bodies:
        upgraded["requestBody"] = write_body(bodies[0], consumes)
    elif fields:
        upgraded["requestBody"] = write_form(fields, consumes)
    return upgraded


def upgrade_parameter(parameter: dict[str, JSON]) -> dict[str, JSON]:
    words = ("name", "in", "required", "description")
    kept: dict[str, JSON] = {key: parameter[key] for key in words if key in parameter}
    schema = read_schema(parameter)
    if schema.get("type") == "array":
        kept |= {"explode": parameter.get("collectionFormat") == "multi"}
        if parameter.get("in") == "query":
            kept["style"] = STYLES.get(str(parameter.get("collectionFormat") or "csv"), "form")
    return {**kept, "schema": schema}


def read_schema(parameter: dict[str, JSON]) -> dict[str, JSON]:
    """The schema that stands in the parameter itself."""
    return {key: one for key, one in parameter.items() if key not in BESIDE_SCHEMA}


def write_body(parameter: dict[str, JSON], consumes: list[JSON]) -> dict[str, JSON]:
    schema = parameter.get("schema") or {}
    return {
        "required": parameter.get("required") is True,
        "content": {str(media): {"schema": schema} for media in consumes or ["application/json"]},
    }


def write_form(fields: list[dict[str, JSON]], consumes: list[JSON]) -> dict[str, JSON]:
    has_file = any(field.get("type") == "file" for field in fields)
    is_multipart = has_file or (
        "multipart/form-data" in consumes and "application/x-www-form-urlencoded" not in consumes
    )
    properties, encoding = {}, {}
    for field in fields:
        properties[str(field.get("name"))] = describe_field(field)
        if field.get("type") == "array" and not is_multipart:
            form = str(field.get("collectionFormat") or "csv")
            encoding[str(field.get("name"))] = {"style": STYLES.get(form, "form"), "explode": form == "multi"}
    required = [str(field.get("name")) for field in fields if field.get("required") is True]
    schema = {"type": "object", "properties": properties, "required": required}
    media = "multipart/form-data" if is_multipart else "application/x-www-form-urlencoded"
    return {"required": bool(required), "content": {media: {"schema": schema, "encoding": encoding}}}


def describe_field(field: dict[str, JSON]) -> dict[str, JSON]:
    words = {"description": field["description"]} if field.get("description") else {}
    return {**read_schema(field), **words}
