"""Which media types a client accepts in the artifacts of its task (`acceptedOutputModes`).

A reply is text, and a value of an agent with an output schema is JSON. Each is written as the other
where only that is accepted, and a file of a type that is not accepted is named with its address.
"""

import re
from collections.abc import Iterable
from typing import Any

from agents.exceptions import Invalid
from gateway.reading import file_url, render_result_value
from runs.models import Run

from .errors import A2AError

JSON = Any
# Where a run's metadata keeps the modes.
MODES = "a2a_modes"
TEXT, DATA = "text/plain", "application/json"
# Early clients send kinds of parts instead of media types.
OLDER = {"text": TEXT, "data": DATA, "file": "*/*"}
MOST = 50
SHAPE = re.compile(r"(\*|[\w.+-]{1,100})/(\*|[\w.+-]{1,100})")


def read_modes(sent: Iterable[str]) -> list[str]:
    """Raises Invalid, and A2AError if the client takes neither text nor JSON."""
    sent = list(sent)
    if len(sent) > MOST:
        raise refuse_output_modes(f"at most {MOST} media types")
    modes = []
    for mode in sent:
        media_type = mode.partition(";")[0].strip().lower()
        modes.append(OLDER.get(mode, media_type))
    if not all(SHAPE.fullmatch(mode) for mode in modes):
        raise refuse_output_modes("media types, such as text/plain")
    if not accepts_type(modes, TEXT) and not accepts_type(modes, DATA):
        raise A2AError(
            f"This agent answers with {TEXT} or {DATA}, and you accept neither.",
            code="unsupported_content",
            hint="Add one of them to “acceptedOutputModes”, or leave it out.",
        )
    return modes


def refuse_output_modes(expected: str) -> Invalid:
    detail = {"field": "configuration.acceptedOutputModes", "code": "invalid", "message": expected}
    return Invalid("“acceptedOutputModes” is not valid.", code="invalid_params", details=[detail])


def get_output_modes(run: Run) -> list[str]:
    return run.metadata.get(MODES) or []


def accepts_type(modes: list[str], media_type: str) -> bool:
    """Without modes a client takes everything."""
    if not modes:
        return True
    kind, _, _ = media_type.partition("/")
    names = ("*/*", f"{kind}/*", media_type)
    return any(name in modes for name in names)


def convert_artifact(artifact: dict[str, JSON], modes: list[str]) -> dict[str, JSON]:
    """The artifact with parts that the client accepts."""
    parts = [convert_artifact_part(part, artifact, modes) for part in artifact["parts"]]
    return {**artifact, "parts": parts}


def convert_artifact_part(part: dict[str, JSON], artifact: dict[str, JSON], modes: list[str]) -> dict[str, JSON]:
    """The part as it is if the client accepts it; else the same as text, or as JSON."""
    if "data" in part:
        if accepts_type(modes, DATA):
            return part
        return {"text": render_result_value(part["data"])}
    if "text" in part:
        text = part["text"]
    elif accepts_type(modes, part["mediaType"]):
        return part
    else:
        text = f"{part['filename']} ({part['mediaType']}): {file_url(artifact['artifactId'])}"
        part = {"text": text}
    if accepts_type(modes, TEXT):
        return part
    return {"data": text, "mediaType": DATA}
