"""Files in the result of a device's tool: {"files": [{"name", "data": base64, "media_type"?}]} beside its other
fields. They become files of the run, and the result keeps a reference to each.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from agents.tools import ToolCall, ToolContext, ToolFailed, ToolResult
from devices.models import DeviceCall

# Files of one result; a frame's size bounds their bytes.
LIMIT = 20


def with_files(call: ToolCall, context: ToolContext, result: ToolResult) -> ToolResult:
    """The result with its files stored. A file that cannot be stored is replaced by its error."""
    save = context.save_file
    if save is None or not result.ok or not isinstance(result.value, dict):
        return result
    sent = result.value.get("files")
    if not isinstance(sent, list) or not any(map(is_file, sent)):
        return result
    files = []
    for one in sent[:LIMIT]:
        if is_file(one):
            one = store_sent_file(save, one)
        files.append(one)
    value = {**result.value, "files": files}
    return replace(result, value=value, keep=partial(forget_content, call, value))


def is_file(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("name"), str) and isinstance(value.get("data"), str)


def store_sent_file(save: Callable[..., dict[str, Any]], sent: dict[str, Any]) -> dict[str, Any]:
    try:
        content = base64.b64decode(sent["data"], validate=True)
        return save(sent["name"], content, str(sent.get("media_type") or ""))
    except (binascii.Error, ValueError):
        return {"name": sent["name"], "error": "its data is not valid base64"}
    except ToolFailed as error:
        return {"name": sent["name"], "error": str(error)}


def forget_content(call: ToolCall, value: dict[str, Any]) -> None:
    """The device's answer refers to the stored files too, so that deleting a file deletes its content."""
    DeviceCall.objects.filter(pk=call.id).update(result=value)
