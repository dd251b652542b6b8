"""Parts of messages that several protocols send in the same form."""

from typing import Any

from agents.exceptions import Invalid

JSON = Any


def refuse_content_part(param: str, message: str, code: str = "invalid_value") -> Invalid:
    """The refusal of a request whose parameter is wrong."""
    detail = {"field": param, "code": code, "message": message}
    return Invalid(message, code=code, details=[detail])


def parse_image_url(url: JSON, param: str) -> dict[str, JSON]:
    """A picture at an address, or one that stands in a data URL. Raises Invalid."""
    if not isinstance(url, str):
        raise refuse_content_part(param, "An image needs its URL, or a data URL.")
    if not url.startswith("data:"):
        return {"type": "image", "url": url}
    head, _, data = url.partition(",")
    media_type, _, encoding = head.removeprefix("data:").partition(";")
    if encoding != "base64":
        raise refuse_content_part(param, "A data URL must be base64.")
    return {"type": "image", "data": data, "media_type": media_type or "image/png"}
