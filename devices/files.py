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

LIMIT = 20  # files of one result; a frame's size bounds their bytes


def with_files(call: ToolCall, context: ToolContext, result: ToolResult) -> ToolResult:
    """The result with its files stored. A file that cannot be stored is replaced by its error."""
    sent = result.value.get("files") if result.ok and isinstance(result.value, dict) else None
    if context.save_file is None or not isinstance(sent, list) or not any(map(is_file, sent)):
        return result
    files = [store_sent_file(context.save_file, one) if is_file(one) else one for one in sent[:LIMIT]]
    value = {**result.value, "files": files}
    return replace(result, value=value, keep=partial(forget_content, call, value))


def is_file(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("data"), str)


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
