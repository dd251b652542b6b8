"""Version 0.3 of A2A over JSON-RPC: the same operations under their older names and forms.

The SDK's own conversions are used: “core” is its word for the newer form, “compat” for the older. They take 27 MB, so
they are imported with the first such request.
"""

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

from a2a.types import (
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from pydantic import ValidationError

from agents.exceptions import Invalid

from . import cards
from .requests import check_number

JSON = Any
VERSION = "0.3"
METHODS = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}


@cache
def converters() -> Any:
    """The SDK's modules for version 0.3: its conversions and types."""
    # Imported here for its size: most servers never get such a request.
    from a2a.compat.v0_3 import conversions, types

    return SimpleNamespace(conversions=conversions, types=types)


def convert_old_request(method: str, params: JSON) -> JSON:
    """The parameters of an older method as those of the newer one. Raises Invalid."""
    types = list_old_request_types().get(method)
    if types is None:
        return {}
    request_type, params_type, convert = types
    check_number(params)
    try:
        # The id does not matter: only the parameters are converted.
        request = request_type(id="1", params=params_type.model_validate(params))
        return MessageToDict(convert(request))
    except (ValidationError, TypeError, ValueError) as error:
        details = []
        if isinstance(error, ValidationError):
            for problem in error.errors()[:20]:
                field = ".".join(map(str, problem["loc"]))[:200]
                details.append({"field": field, "code": "invalid", "message": problem["msg"]})
        raise Invalid(f"The parameters do not match {method}.", code="invalid_params", details=details)


def list_old_request_types() -> dict[str, tuple[Any, Any, Any]]:
    """For each older method with parameters: the types of its request and its parameters, and what converts them."""
    old = converters().types
    conversions = converters().conversions
    return {
        "message/send": (old.SendMessageRequest, old.MessageSendParams, conversions.to_core_send_message_request),
        "message/stream": (old.SendMessageRequest, old.MessageSendParams, conversions.to_core_send_message_request),
        "tasks/get": (old.GetTaskRequest, old.TaskQueryParams, conversions.to_core_get_task_request),
        "tasks/cancel": (old.CancelTaskRequest, old.TaskIdParams, conversions.to_core_cancel_task_request),
        "tasks/resubscribe": (
            old.TaskResubscriptionRequest,
            old.TaskIdParams,
            conversions.to_core_subscribe_to_task_request,
        ),
        "tasks/pushNotificationConfig/set": (
            old.SetTaskPushNotificationConfigRequest,
            old.TaskPushNotificationConfig,
            conversions.to_core_create_task_push_notification_config_request,
        ),
        "tasks/pushNotificationConfig/get": (
            old.GetTaskPushNotificationConfigRequest,
            old.GetTaskPushNotificationConfigParams,
            conversions.to_core_get_task_push_notification_config_request,
        ),
        "tasks/pushNotificationConfig/list": (
            old.ListTaskPushNotificationConfigRequest,
            old.ListTaskPushNotificationConfigParams,
            conversions.to_core_list_task_push_notification_config_request,
        ),
        "tasks/pushNotificationConfig/delete": (
            old.DeleteTaskPushNotificationConfigRequest,
            old.DeleteTaskPushNotificationConfigParams,
            conversions.to_core_delete_task_push_notification_config_request,
        ),
    }


def choose_answer_converter(method: str) -> Callable[[JSON], JSON]:
    """What converts an answer of the newer method to the older form; `method` is the older name."""
    if method == "message/send":
        return convert_send_answer
    if method in ("message/stream", "tasks/resubscribe"):
        return convert_stream_event
    if method in ("tasks/get", "tasks/cancel"):
        return convert_task
    if method == "agent/getAuthenticatedExtendedCard":
        return cards.with_older_fields
    if method.endswith("/delete"):
        return lambda value: None
    if method.endswith("/list"):
        return lambda value: [convert_push_config(config) for config in value["configs"]]
    return convert_push_config


def convert_send_answer(value: JSON) -> JSON:
    answer = ParseDict(value, SendMessageResponse())
    return serialize_old_result(converters().conversions.to_compat_send_message_response(answer, "1"))


def convert_stream_event(value: JSON) -> JSON:
    event = ParseDict(value, StreamResponse())
    return serialize_old_result(converters().conversions.to_compat_stream_response(event, "1"))


def convert_task(value: JSON) -> JSON:
    task = ParseDict(value, Task())
    return serialize_old_model(converters().conversions.to_compat_task(task))


def serialize_old_model(model: Any) -> JSON:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def serialize_old_result(response: Any) -> JSON:
    """The result inside of an older JSON-RPC answer."""
    return serialize_old_model(response)["result"]


def convert_push_config(value: JSON) -> JSON:
    config = ParseDict(value, TaskPushNotificationConfig())
    return serialize_old_model(converters().conversions.to_compat_task_push_notification_config(config))
