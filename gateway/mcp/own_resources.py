"""Functions as resources: one whose input schema has `"x-mcp-resource": "scheme://…/{argument}"` is read
at this address.

Only functions that read are offered, because a client may read what it likes.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from gateway.reading import as_text

from . import catalogue, content, functions, prompts
from .catalogue import FUNCTION, READS, Target
from .protocol import Asked

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


def listed(asked: Asked) -> list[Source]:
    """Those that this person may read, by name."""
    names = {name: key for name, key in catalogue.names(asked).items() if key[0] == FUNCTION}
    uris = catalogue.marked([pk for _, pk in names.values()], MARK) if names else {}
    good = {name: key for name, key in names.items() if is_address(uris.get(key[1]))}
    targets = catalogue.loaded(dict(list(good.items())[:MOST]))
    return [Source(one, uris[one.row.pk]) for one in targets if one.spec.real_effect in READS]


def is_address(value: JSON) -> bool:
    return isinstance(value, str) and bool(ADDRESS.fullmatch(value))


def versions(asked: Asked, uris: list[str]) -> dict[str, int]:
    """The ids of the published versions that are read at these addresses."""
    sources = listed(asked) if uris else []
    hits = {uri: matching(sources, uri) for uri in uris}
    return {uri: hit[0].target.row.published_id for uri, hit in hits.items() if hit}


def matching(sources: list[Source], uri: str) -> tuple[Source, dict[str, str]] | None:
    """The function that is read at an address, and its arguments."""
    for source in sources:
        if match := pattern_of(source.uri).fullmatch(uri):
            return source, {name: unquote(value) for name, value in match.groupdict().items()}
    return None


@lru_cache(maxsize=512)
def pattern_of(uri: str) -> re.Pattern[str]:
    """Each variable of a template is one part of the path. A second one of the same name must be equal."""
    parts, seen = VARIABLE.split(uri), set()
    for index in range(1, len(parts), 2):
        name = parts[index]
        parts[index] = f"(?P={name})" if name in seen else f"(?P<{name}>[^/]{{1,500}})"
        seen.add(name)
    parts[::2] = map(re.escape, parts[::2])
    return re.compile("".join(parts))


def read(asked: Asked, uri: str) -> list[dict[str, JSON]] | None:
    """The contents at an address; None where there is no function. Raises Fault, MusterError."""
    source = matching(listed(asked), uri)
    if source is None:
        return None
    target = source[0].target
    files: list[dict[str, JSON]] = []
    fields = prompts.fields_of(target)
    given = {name: prompts.typed(prompts.rule_of(fields.get(name)), text) for name, text in source[1].items()}
    return contents_of(uri, functions.value_of(asked.user, target, given, files=files), files)


def contents_of(uri: str, value: JSON, files: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """In MCP's own form as it is, else the file that the function saved, else its result as text."""
    if own := content.in_their_form(value, "contents"):
        return own
    if files:
        return [as_contents(uri, one) for one in files]
    kind = "text/plain" if isinstance(value, str) else "application/json"
    return [{"uri": uri, "mimeType": kind, "text": as_text(value)}]


def as_contents(uri: str, block: dict[str, JSON]) -> dict[str, JSON]:
    if block["type"] == "resource":
        return {**block["resource"], "uri": uri}
    return {"uri": uri, "mimeType": block["mimeType"], "blob": block["data"]}


def completed(asked: Asked, uri: str, argument: str, begun: str) -> list[str] | None:
    """The values that the schema of a template's variable names; None where there is no such template."""
    source = next((one for one in listed(asked) if one.uri == uri and one.is_template), None)
    return None if source is None else prompts.suggested(source.target, argument, begun)
