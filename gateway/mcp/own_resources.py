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
MOST = 200  # of one person
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
        where = "uriTemplate" if self.is_template else "uri"
        about = {"description": self.target.spec.description} if self.target.spec.description else {}
        return {where: self.uri, "name": self.target.name, **about}


def list_readable_sources(rpc: RpcRequest) -> list[Source]:
    """Those that this person may read, by name."""
    names = {name: key for name, key in catalogue.find_tool_entries(rpc).items() if key[0] == FUNCTION}
    uris = catalogue.load_schema_marks([pk for _, pk in names.values()], MARK) if names else {}
    good = {name: key for name, key in names.items() if is_address(uris.get(key[1]))}
    targets = catalogue.load_targets(dict(list(good.items())[:MOST]))
    return [Source(one, uris[one.row.pk]) for one in targets if one.spec.real_effect in READS]


def is_address(value: JSON) -> bool:
    return isinstance(value, str) and bool(ADDRESS.fullmatch(value))


def find_source_versions(rpc: RpcRequest, uris: list[str]) -> dict[str, int]:
    """The ids of the published versions that are read at these addresses."""
    sources = list_readable_sources(rpc) if uris else []
    hits = {uri: matching(sources, uri) for uri in uris}
    return {uri: hit[0].target.row.published_id for uri, hit in hits.items() if hit}


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
    parts = VARIABLE.split(template)
    literals, names = parts[::2], parts[1::2]
    start, end = len(literals[0]), len(uri) - len(literals[-1])
    if not names:
        return {} if uri == template else None
    if not (uri.startswith(literals[0]) and uri.endswith(literals[-1])):
        return None
    values: dict[str, str] = {}
    for place in range(len(names) - 1, -1, -1):
        before = uri.rfind(literals[place], start + 1, end - 1) if place else 0
        value = uri[before + len(literals[place]) : end]
        if before < 0 or not value or "/" in value or values.setdefault(names[place], value) != value:
            return None
        end = before
    return values


def read_function_resource(rpc: RpcRequest, uri: str) -> list[dict[str, JSON]] | None:
    """The contents at an address; None where there is no function. Raises Fault, MusterError."""
    source = matching(list_readable_sources(rpc), uri)
    if source is None:
        return None
    target = source[0].target
    files: list[dict[str, JSON]] = []
    fields = prompts.get_argument_schemas(target)
    values = {
        name: prompts.convert_argument_text(prompts.normalize_argument_schema(fields.get(name)), text)
        for name, text in source[1].items()
    }
    return build_resource_contents(uri, functions.run_marked_function(rpc.user, target, values, files=files), files)


def build_resource_contents(uri: str, value: JSON, files: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """In MCP's own form as it is, else the file that the function saved, else its result as text."""
    if own := content.in_their_form(value, "contents"):
        return own
    if files:
        return [as_contents(uri, one) for one in files]
    kind = "text/plain" if isinstance(value, str) else "application/json"
    return [{"uri": uri, "mimeType": kind, "text": render_result_value(value)}]


def as_contents(uri: str, block: dict[str, JSON]) -> dict[str, JSON]:
    if block["type"] == "resource":
        return {**block["resource"], "uri": uri}
    return {"uri": uri, "mimeType": block["mimeType"], "blob": block["data"]}


def find_variable_values(rpc: RpcRequest, uri: str, argument: str, begun: str) -> list[str] | None:
    """The values that the schema of a template's variable names; None where there is no such template."""
    source = next((one for one in list_readable_sources(rpc) if one.uri == uri and one.is_template), None)
    return None if source is None else prompts.list_suggested_values(source.target, argument, begun)
