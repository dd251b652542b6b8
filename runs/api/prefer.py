"""`Prefer` (RFC 7240): how long an answer may take."""

import re
from typing import Any

from drf_spectacular.utils import OpenApiParameter

LONGEST_WAIT_S = 600
PREFER = OpenApiParameter(
    "Prefer",
    str,
    OpenApiParameter.HEADER,
    description="`respond-async`: answer 202 at once. `wait=10`: after at most 10 seconds, like `wait` in the body. "
    "`Preference-Applied` in the answer says which of them was followed.",
)


def choose_wait(request: Any, in_body: float | None, usual: float) -> tuple[float | None, dict[str, str]]:
    """Seconds to wait, None for an answer at once; and the header that says which preference was followed.

    `in_body` is the body's `wait`, which counts before the header's. Preferences that cannot be read are
    ignored, as the RFC demands.
    """
    wishes = parse_prefer_header(request.headers.get("Prefer", ""))
    wait = wishes.get("wait", "")
    # Of both preferences, the one that waits counts.
    if in_body is None and re.fullmatch(r"[0-9]{1,9}", wait):
        seconds = min(int(wait), LONGEST_WAIT_S)
        return seconds, {"Preference-Applied": f"wait={seconds}"}
    if "respond-async" in wishes:
        return None, {"Preference-Applied": "respond-async"}
    seconds_to_wait = usual if in_body is None else in_body
    return seconds_to_wait, {}


def parse_prefer_header(header: str) -> dict[str, str]:
    """{"respond-async": "", "wait": "10"}; of a preference that is there twice, the first counts."""
    wishes: dict[str, str] = {}
    for part in header.split(","):
        # Parameters of a preference, which stand after a semicolon, mean nothing here.
        preference = part.partition(";")[0]
        name, _, value = preference.partition("=")
        wishes.setdefault(name.strip().lower(), value.strip().strip('"'))
    return wishes
