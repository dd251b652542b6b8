"""Functions as resources: one whose input schema has `"x-mcp-resource": "scheme://…/{argument}"` is read
at this address.

Only functions that read are offered, because a client may read what it likes.
"""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from gateway.reading import render_result_value

from . import catalogue, content, functions, prompts
from .catalogue import FUNCTION, READS, Target
from .protocol import RpcRequest

JSON = Any
MARK = "x-mcp-resource"
# Functions of one person that are resources.
MOST = 200
VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
ADDRESS = re.compile(r"(?!muster:|ui:)[a-z][a-z0-9+.-]*:\S{1,500}")


@dataclass(frozen=True, slots=True)
class Source:
    """A function and the address, or the template of addresses, where it is read."""

    target: Target
    uri: str

    @property
    def is_template(self) -> bool:
        return bool(VARIABLE.search(self.uri))

    def described(self) -> dict[str, JSON]:
        field = "uriTemplate" if self.is_template else "uri"
        resource = {field: self.uri, "name": self.target.name}
        if self.target.spec.description:
            resource["description"] = self.target.spec.description
        return resource


def list_readable_sources(rpc: RpcRequest) -> list[Source]:
    """Those that this person may read, by name."""
    functions_by_name = {}
    for name, (kind, pk) in catalogue.find_tool_entries(rpc).items():
        if kind == FUNCTION:
            functions_by_name[name] = (kind, pk)
    if not functions_by_name:
        return []
    function_ids = [pk for _, pk in functions_by_name.values()]
    uris = catalogue.load_schema_marks(function_ids, MARK)
    chosen: dict[str, tuple[str, int]] = {}
    for name, (kind, pk) in functions_by_name.items():
        if len(chosen) < MOST and is_address(uris.get(pk)):
            chosen[name] = (kind, pk)
    targets = catalogue.load_targets(chosen)
    return [Source(one, uris[one.row.pk]) for one in targets if one.spec.real_effect in READS]


def is_address(value: JSON) -> bool:
    if not isinstance(value, str):
        return False
    return ADDRESS.fullmatch(value) is not None


def find_source_versions(rpc: RpcRequest, uris: list[str]) -> dict[str, int]:
    """The ids of the published versions that are read at these addresses."""
    if not uris:
        return {}
    sources = list_readable_sources(rpc)
    versions = {}
    for uri in uris:
        match = matching(sources, uri)
        if match:
            source, _ = match
            versions[uri] = source.target.row.published_id
    return versions


def matching(sources: list[Source], uri: str) -> tuple[Source, dict[str, str]] | None:
    """The function that is read at an address, and its arguments."""
    for source in sources:
        values = parse_template_values(source.uri, uri)
        if values is not None:
            return source, {name: unquote(value) for name, value in values.items()}
    return None


def parse_template_values(template: str, uri: str) -> dict[str, str] | None:
    """The values of a template's variables in an address; None if it has another form.

    Each is one part of the path; a second variable of the same name must be equal. The address is read once, from its
    end: a regular expression would try all ways to divide one that somebody made for it.
    """
    # The pieces between the variables, and the variables: there is one piece more.
    parts = VARIABLE.split(template)
    literals = parts[::2]
    names = parts[1::2]
    if not names:
        return {} if uri == template else None
    if not (uri.startswith(literals[0]) and uri.endswith(literals[-1])):
        return None
    start = len(literals[0])
    end = len(uri) - len(literals[-1])
    values: dict[str, str] = {}
    for place in range(len(names) - 1, -1, -1):
        name = names[place]
        before = 0
        if place:
            before = uri.rfind(literals[place], start + 1, end - 1)
        value = uri[before + len(literals[place]) : end]
        if before < 0 or not value or "/" in value:
            return None
        if values.setdefault(name, value) != value:
            return None
        end = before
    return values


def read_function_resource(rpc: RpcRequest, uri: str) -> list[dict[str, JSON]] | None:
    """The contents at an address; None where there is no function. Raises Fault, MusterError."""
    match = matching(list_readable_sources(rpc), uri)
    if match is None:
        return None
    source, texts = match
    target = source.target
    schemas = prompts.get_argument_schemas(target)
    arguments = {}
    for name, text in texts.items():
        schema = prompts.normalize_argument_schema(schemas.get(name))
        arguments[name] = prompts.convert_argument_text(schema, text)
    files: list[dict[str, JSON]] = []
    value = functions.run_marked_function(rpc.user, target, arguments, files=files)
    return build_resource_contents(uri, value, files)


def build_resource_contents(uri: str, value: JSON, files: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """In MCP's own form as it is, else the file that the function saved, else its result as text."""
    own = content.in_their_form(value, "contents")
    if own:
        return own
    if files:
        return [as_contents(uri, one) for one in files]
    media_type = "text/plain" if isinstance(value, str) else "application/json"
    return [{"uri": uri, "mimeType": media_type, "text": render_result_value(value)}]


def as_contents(uri: str, block: dict[str, JSON]) -> dict[str, JSON]:
    if block["type"] == "resource":
        return {**block["resource"], "uri": uri}
    return {"uri": uri, "mimeType": block["mimeType"], "blob": block["data"]}


def find_variable_values(rpc: RpcRequest, uri: str, argument: str, begun: str) -> list[str] | None:
    """The values that the schema of a template's variable names; None where there is no such template."""
    for source in list_readable_sources(rpc):
        if source.uri == uri and source.is_template:
            return prompts.list_suggested_values(source.target, argument, begun)
    return None
