"""The HTTP request of one call: parameters and bodies written as the OpenAPI document says.

The styles are those of OpenAPI 3 (“Style Values”), which follow RFC 6570. A null is left out: HTTP has
no way to send it in an address, a header or a form.
"""

import base64
import binascii
import json
from typing import Any
from urllib.parse import quote

from agents.tools import RetryTool

ACCEPT = "application/json, text/*;q=0.8, */*;q=0.1"
# Characters of an address, without what would end a value.
RESERVED = ":/?[]@!$'()*,;"
# Also without what would end a segment.
RESERVED_IN_SEGMENT = ":[]@!$'()*,;"
JSON = Any


def build_request(base_url: str, details: dict[str, JSON], arguments: dict[str, JSON]) -> dict[str, JSON]:
    """The request as httpx2 takes it. Each path parameter stays one segment. Raises RetryTool."""
    path = details["path"]
    queries: list[str] = []
    cookies: list[str] = []
    headers = {"Accept": ACCEPT}
    for parameter in details["parameters"]:
        name = parameter["name"]
        place = parameter["in"]
        value = arguments.get(parameter["argument"])
        if value is None and place != "path":
            continue
        if place == "path":
            path = path.replace("{" + name + "}", write_segment(parameter, value))
        elif place == "query":
            queries.append(write_query(name, parameter, value))
        elif place == "cookie":
            cookies.append(write_cookie(parameter, value))
        else:
            headers[name] = write_header(parameter, value)
    segments = path.partition("?")[0].split("/")
    if "." in segments or ".." in segments:
        raise RetryTool("The parameters of the path make a segment of dots, which would lead to another path.")
    cookie = "; ".join(filter(None, cookies))
    if cookie:
        headers["Cookie"] = cookie
    url = base_url + path
    query = "&".join(filter(None, queries))
    if query:
        url += ("&" if "?" in path else "?") + query
    request: dict[str, JSON] = {"url": url, "headers": headers}
    if details["body"] and "body" in arguments:
        request |= write_body(details["body"], arguments["body"], headers)
    return request


# -- values in an address, a header and a cookie ---------------------------------------------------------------------


def write_segment(parameter: dict[str, JSON], value: JSON) -> str:
    name = parameter["name"]
    style = parameter["style"]
    if value is None or value in ([], {}):
        raise RetryTool(f"“{name}” must not be empty.")
    if style == "json":
        return quote(json.dumps(value), safe="")
    safe = RESERVED_IN_SEGMENT if parameter.get("reserved") else ""
    is_exploded = parameter["explode"]
    if style == "matrix":
        text = write_matrix(name, value, is_exploded, safe)
    elif style == "label":
        delimiter = "." if is_exploded else ","
        text = "." + join_value(value, delimiter, is_exploded, safe)
    else:
        text = join_value(value, ",", is_exploded, safe)
    if text in ("", ".", ".."):
        raise RetryTool(f"“{name}” must not be empty or consist of dots.")
    return text


def write_matrix(name: str, value: JSON, is_exploded: bool, safe: str) -> str:
    key = quote(name, safe="")
    if isinstance(value, dict) and is_exploded:
        return ";" + join_value(value, ";", True, safe)
    if isinstance(value, list) and is_exploded:
        return "".join(f";{key}={escape(one, safe)}" for one in drop_nulls(value))
    text = join_value(value, ",", False, safe)
    # RFC 6570 writes no “=” before an empty value here.
    if not text:
        return f";{key}"
    return f";{key}={text}"


DELIMITERS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}


def write_query(name: str, how: dict[str, JSON], value: JSON) -> str:
    """One parameter of the query, of a cookie or of a form: `a=1`, `a=1&a=2`, `a[b]=1`; "" for nothing."""
    key = quote(name, safe="")
    style = how["style"]
    safe = RESERVED if how.get("reserved") else ""
    if style == "json":
        return f"{key}={quote(json.dumps(value), safe='')}"
    if style == "deepObject" and isinstance(value, dict | list):
        return "&".join(write_deep(key, value, safe))
    if not isinstance(value, dict | list):
        return f"{key}={escape(value, safe)}"
    delimiter = DELIMITERS.get(style, ",")
    if isinstance(value, dict):
        if how["explode"]:
            return join_value(value, "&", True, safe)
        text = join_value(value, delimiter, False, safe)
        return f"{key}={text}" if text else ""
    items = [escape(one, safe) for one in drop_nulls(value)]
    if not items:
        return ""
    if how["explode"]:
        return "&".join(f"{key}={item}" for item in items)
    return f"{key}={delimiter.join(items)}"


def write_cookie(parameter: dict[str, JSON], value: JSON) -> str:
    """The style `form` writes `&` between exploded values here too, `cookie` (OpenAPI 3.2) what cookies have there."""
    name = parameter["name"]
    if parameter["style"] != "cookie":
        return write_query(name, parameter, value)
    query = write_query(name, {**parameter, "style": "form"}, value)
    return query.replace("&", "; ")


def write_deep(key: str, value: JSON, safe: str) -> list[str]:
    """`a[b]=1`, for values inside values too. OpenAPI leaves those open: lists of plain values are written `a[]=1`,
    lists of objects with numbers, as PHP, Rails, Node's qs and Stripe read them.
    """
    written: list[str] = []
    if isinstance(value, dict):
        for name, one in list_fields(value):
            place = quote(name, safe="")
            written += write_deep(f"{key}%5B{place}%5D", one, safe)
        return written
    if isinstance(value, list):
        items = drop_nulls(value)
        is_plain = not any(isinstance(one, dict | list) for one in items)
        for number, one in enumerate(items):
            place = "" if is_plain else str(number)
            written += write_deep(f"{key}%5B{place}%5D", one, safe)
        return written
    return [f"{key}={escape(value, safe)}"]


def join_value(value: JSON, delimiter: str, is_exploded: bool, safe: str) -> str:
    """A list as `a,b`; an object as `k,v,k,v`, or exploded as `k=v,k=v`."""
    if isinstance(value, list):
        return delimiter.join(escape(one, safe) for one in drop_nulls(value))
    if not isinstance(value, dict):
        return escape(value, safe)
    between = "=" if is_exploded else delimiter
    texts = []
    for name, one in list_fields(value):
        key = quote(name, safe="")
        texts.append(f"{key}{between}{escape(one, safe)}")
    return delimiter.join(texts)


def write_header(parameter: dict[str, JSON], value: JSON) -> str:
    if parameter["style"] == "json":
        text = json.dumps(value)
    elif isinstance(value, list):
        text = ",".join(map(write_text, drop_nulls(value)))
    elif isinstance(value, dict):
        between = "=" if parameter["explode"] else ","
        text = ",".join(f"{word}{between}{write_text(one)}" for word, one in list_fields(value))
    else:
        text = write_text(value)
    if not text.isascii() or not text.isprintable():
        raise RetryTool(f"“{parameter['name']}” is sent in a header and must be one line of plain text.")
    return text


def escape(value: JSON, safe: str) -> str:
    return quote(write_text(value), safe=safe)


def write_text(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)


def drop_nulls(values: list[JSON]) -> list[JSON]:
    return [one for one in values if one is not None]


def list_fields(value: dict[str, JSON]) -> list[tuple[str, JSON]]:
    """Name and value of each field that is not null."""
    return [item for item in value.items() if item[1] is not None]


# -- bodies ----------------------------------------------------------------------------------------------------------


def write_body(body: dict[str, JSON], value: JSON, headers: dict[str, str]) -> dict[str, JSON]:
    """{"content"} or {"files"}; the content type is added to the headers. Raises RetryTool."""
    kind = body["kind"]
    if kind == "multipart":
        return {"files": build_multipart_fields(body["parts"], require_fields(value))}
    headers["Content-Type"] = body["media"]
    if kind == "form":
        return {"content": write_form(body["parts"], require_fields(value)).encode()}
    if kind == "json":
        return {"content": json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")}
    if kind == "bytes":
        return {"content": decode_file("body", value)}
    if body["media"].startswith("text/"):
        headers["Content-Type"] += "; charset=utf-8"
    return {"content": write_text(value).encode("utf-8", "replace")}


def require_fields(value: JSON) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise RetryTool("The body is a form: send an object.")
    return value


def write_form(parts: dict[str, JSON], fields: dict[str, JSON]) -> str:
    """Lists are repeated and objects sent as JSON, unless the document names a style."""
    written = []
    for name, value in list_fields(fields):
        how = parts.get(name, {})
        if "style" in how:
            written.append(write_query(name, how, value))
        elif how.get("kind") == "json" or isinstance(value, dict):
            written.append(write_query(name, {"style": "json"}, value))
        else:
            written.append(write_query(name, {"style": "form", "explode": True}, value))
    return "&".join(filter(None, written))


def build_multipart_fields(parts: dict[str, JSON], fields: dict[str, JSON]) -> list[tuple[str, JSON]]:
    """The parts of a multipart form: of a list one for each item, of an object its JSON; a file comes in base64."""
    written: list[tuple[str, JSON]] = []
    for name, value in list_fields(fields):
        how = parts.get(name, {})
        if how.get("kind") == "json":
            written.append((name, build_json_part(how, value)))
            continue
        items = value if isinstance(value, list) else [value]
        for one in drop_nulls(items):
            written.append((name, build_multipart_part(name, how, one)))
    return written


def build_multipart_part(name: str, how: dict[str, JSON], value: JSON) -> tuple[JSON, ...]:
    """File name, content and media type, as httpx2 takes them."""
    media = how.get("media", "")
    if how.get("kind") == "bytes":
        content = decode_file(name, value)
        # A pattern such as image/* is no type that a part can have.
        if not media or "*" in media:
            media = "application/octet-stream"
        return name, content, media
    if isinstance(value, dict | list):
        return build_json_part(how, value)
    if media:
        return None, write_text(value), media
    return None, write_text(value)


def build_json_part(how: dict[str, JSON], value: JSON) -> tuple[JSON, ...]:
    media = how.get("media") or "application/json"
    return None, json.dumps(value), media


def decode_file(name: str, value: JSON) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise RetryTool(f"“{name}” is a file: send its content in base64.")
