"""Push notifications: an A2A client's address that receives the states of one task. The rows are
webhooks, and are delivered like those.
"""

import json
from typing import Any

from django.conf import settings
from django.db import transaction

from agents.exceptions import Conflict, Invalid
from agents.models import AuditEvent
from agents.schema import hash_json
from plumbing.http.addresses import url_refusal
from runs.models import Run, Webhook

from .errors import A2AError
from .requests import identifier

JSON = Any
# Configurations of one task.
MOST = 10
# Characters of a token or of credentials.
LONGEST = 4000


def check_asked(body: Any) -> None:
    """Resolves the name of the address, which takes time, so not in a transaction. Raises Invalid."""
    if body.configuration.HasField("task_push_notification_config"):
        check_push_address(body.configuration.task_push_notification_config)


def keep_asked(run: Run, body: Any, *, is_checked: bool = False) -> None:
    """The configuration in a SendMessageRequest, if there is one."""
    if body.configuration.HasField("task_push_notification_config"):
        config = body.configuration.task_push_notification_config
        if not is_checked:
            check_push_address(config)
        store_push_row(run, config)


def check_push_address(config: Any) -> None:
    refusal = url_refusal(config.url, settings.PRIVATE_HOSTS_ALLOWED, must_resolve=False)
    if refusal:
        raise refuse_push_config("url", refusal)


def save_push_config(run: Run, config: Any) -> JSON:
    """Create a configuration, or replace the one with its id. Without an id, the same configuration
    is the same row. Raises Invalid, Conflict.
    """
    check_push_address(config)
    return store_push_row(run, config)


@transaction.atomic
def store_push_row(run: Run, config: Any) -> JSON:
    """Store a config. Without an id it gets one that is made of its content, so sending it twice makes one. Raises
    Conflict, Invalid.
    """
    credentials = parse_push_credentials(config)
    if config.id:
        label = identifier(config.id, "id")
    else:
        label = hash_json([config.url, credentials])[:32]
    others = of_task(run).exclude(label=label)
    if others.count() >= MOST:
        raise Conflict(
            f"A task has at most {MOST} push notification configs.", code="too_many_webhooks", hint="Delete one first."
        )
    fields = {"url": config.url, "credentials": json.dumps(credentials), "enabled": not run.is_done}
    row, _ = Webhook.objects.update_or_create(run=run, label=label, owner_id=run.principal_id, defaults=fields)
    AuditEvent.record("webhook.created", row, actor=run.principal, source="a2a", run=str(run.pk))
    return serialize_push_config(row)


def parse_push_credentials(config: Any) -> dict[str, str]:
    """What the client wants to be sent in headers. Raises Invalid."""
    sent = {
        "token": config.token,
        "scheme": config.authentication.scheme,
        "credentials": config.authentication.credentials,
    }
    credentials = {}
    for field, text in sent.items():
        if not text:
            continue
        if len(text) > LONGEST or not text.isascii() or not text.isprintable():
            raise refuse_push_config(field, f"it is sent in a header: at most {LONGEST} printable ASCII characters")
        credentials[field] = text
    return credentials


def refuse_push_config(field: str, why: str) -> Invalid:
    details = [{"field": field, "code": "invalid", "message": why}]
    return Invalid(f"The push notification config cannot be used: {why}", code="invalid_params", details=details)


def of_task(run: Run) -> Any:
    return Webhook.objects.filter(run=run).order_by("id")


def list_push_configs(run: Run) -> list[JSON]:
    return [serialize_push_config(row) for row in of_task(run)]


def config_named(run: Run, label: str) -> JSON:
    """Raises A2AError (task_not_found)."""
    row = of_task(run).filter(label=label).first()
    if row is None:
        raise A2AError("The task has no such push notification config.", code="task_not_found")
    return serialize_push_config(row)


def delete_push_config(run: Run, label: str) -> None:
    """Deleting it twice has the same effect."""
    for row in of_task(run).filter(label=label):
        AuditEvent.record("webhook.deleted", row, actor=run.principal, source="a2a", run=str(run.pk))
        row.delete()


def serialize_push_config(row: Webhook) -> JSON:
    """Without the credentials, which are never shown again."""
    credentials = json.loads(row.credentials) if row.credentials else {}
    config: dict[str, JSON] = {"id": row.label, "taskId": str(row.run_id), "url": row.url}
    if credentials.get("token"):
        config["token"] = credentials["token"]
    if credentials.get("scheme"):
        config["authentication"] = {"scheme": credentials["scheme"]}
    return config
