"""Remote A2A agents as tools: a message starts a task at the other agent, and the call waits for it.

The tool is pinned by the agent's card. A task is written down before its message is sent, so a call
that is made again finds its task. While the remote agent works, the run waits by a timer, without a
worker.
"""

import base64
import binascii
import json
import logging
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings

from agents.exceptions import Invalid
from agents.models import Tool
from agents.tools import CallPending, OutcomeUnknown, ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec
from connectors.content import clean_untrusted_text, cut_marked_text
from connectors.exceptions import build_tool_failure
from connectors.models import Connection, RemoteTask, RemoteTool
from connectors.remote import Listing, Offered, secret_header, take_offers
from connectors.timing import seconds_left
from plumbing import clock, waits
from plumbing.http import outbound
from plumbing.http.failures import describe_failure

from .mcp import load_tool_source

log = logging.getLogger(__name__)
CARD = "/.well-known/agent-card.json"
VERSION = "1.0"
# Bytes of one answer.
ANSWER_LIMIT = 2 * 1024 * 1024
TEXT_LIMIT = 200_000
FETCH_S = 20.0
# Pauses between looks at the task while the call holds its thread; a quick task ends in this time.
LOOKS_S = (0.2, 0.5, 1.0)
# Then the run waits by a timer, so long before each further look; the last one repeats.
WAITS_S = (5, 15, 30, 60)
# How long a question to the person stays open.
ANSWER_S = 24 * 3600.0
MAX_QUESTIONS = 10
# A2A: TaskNotFoundError.
NO_TASK = -32001
# Of an agent, or the proxy before it, that is starting.
BUSY = (429, 502, 503, 504)
COMPLETED = "TASK_STATE_COMPLETED"
ENDED = (COMPLETED, "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED")
INPUT = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "description": "What the agent is to do."},
        "context": {"type": "string", "description": "The context of an earlier answer, to go on with it."},
    },
    "required": ["message"],
    "additionalProperties": False,
}
FORM = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
JSON = Any


# -- the catalogue ---------------------------------------------------------------------------------------------------


def read_agent(connection: Connection, user_id: int | None) -> Listing:
    """Read the agent's card and update the catalogue. Raises ToolFailed."""
    card = fetch_agent_card(connection, user_id)
    connection.mark_ok()
    offer = build_card_offer(card, connection)
    return take_offers(connection, [offer], kind=Tool.Kind.A2A)


def fetch_agent_card(connection: Connection, user_id: int | None) -> dict[str, JSON]:
    url = connection.base_url.rstrip("/") + CARD
    answer = exchange(connection, user_id, "GET", url)
    if answer.status != 200 or not isinstance(answer.body, dict):
        connection.mark_broken("Its card cannot be read.")
        raise build_tool_failure(
            "card_missing", f"The agent's card cannot be read: its address answered {answer.status}."
        )
    return answer.body


def build_card_offer(card: dict[str, JSON], connection: Connection) -> Offered:
    """The whole card is part of the definition, so that any change of it asks for approval again."""
    # A new signature alone changes nothing that the card says.
    content = {name: value for name, value in card.items() if name != "signatures"}
    lines = [str(card.get("description", ""))]
    for skill in card.get("skills") or ():
        if isinstance(skill, dict):
            lines.append(f"- {skill.get('name')}: {skill.get('description')}")
    address = find_card_address(card)
    return Offered(
        name=str(card.get("name", "")),
        description=clean_untrusted_text("\n".join(lines)),
        input_schema=INPUT,
        output_schema=None,
        effect=Tool.Effect.DESTRUCTIVE,  # what another agent does is not known
        details={"url": address, "card": content},
        problem=find_address_problem(address, connection),
    )


def find_card_address(card: dict[str, JSON]) -> str:
    """The address for A2A 1 over JSON-RPC; empty if the card names none."""
    for interface in card.get("supportedInterfaces") or ():
        if not isinstance(interface, dict) or interface.get("protocolBinding") != "JSONRPC":
            continue
        major, _, _ = str(interface.get("protocolVersion", "")).partition(".")
        if major == "1":
            return str(interface.get("url", ""))
    return ""


def find_address_problem(address: str, connection: Connection) -> str:
    if not address:
        return "The agent does not speak A2A 1.0 over JSON-RPC."
    # Another host would get the secret.
    if split_url_origin(address) != split_url_origin(connection.base_url):
        return "The card names an address at another host than its own."
    return ""


def split_url_origin(url: str) -> tuple[JSON, ...]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return ()


# -- a call ----------------------------------------------------------------------------------------------------------


class A2aToolset:
    """Executes tools of kind a2a."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        connection, remote = load_tool_source(tool, context.user_id)
        # The row is there if the call is made again.
        row = RemoteTask.objects.filter(pk=call.id).first()
        if row is None:
            self.check_pin(tool, connection, remote, context)
        elif not row.task:
            raise OutcomeUnknown("The message was sent, and it is unknown whether the agent got it.")
        started = monotonic()
        error_text = ""
        try:
            with outbound.until(seconds_left(tool, context)):
                talk = Talk(tool, connection, remote.offered["details"]["url"], context)
                return talk.go_on(call, row)
        except ToolFailed as error:
            error_text = str(error)
            raise
        finally:
            remote.count((monotonic() - started) * 1000, error_text)

    def check_pin(self, tool: ToolSpec, connection: Connection, remote: RemoteTool, context: ToolContext) -> None:
        """Read the card, which is done before each new task. Raises ToolFailed if it has changed."""
        read_agent(connection, context.user_id)
        remote.refresh_from_db()
        if remote.is_changed or remote.pinned_hash != tool.source.get("pin") or not remote.is_offered:
            raise build_tool_failure(
                "definition_changed", f"The card of “{tool.name}” has changed; a user must approve it again."
            )


@dataclass(frozen=True, slots=True)
class Talk:
    """What is said and done with the remote agent during one call of the tool."""

    tool: ToolSpec
    connection: Connection
    url: str
    context: ToolContext

    def go_on(self, call: ToolCall, row: RemoteTask | None) -> ToolResult:
        """Follow the task of the row; without a row, start a task. Raises CallPending, ToolFailed, OutcomeUnknown."""
        if row is not None:
            task = self.fetch_task(row)
            return self.follow(call, row, task)
        # Stored before the message is sent, so that a call that is made again finds its task.
        row = RemoteTask.objects.create(pk=call.id, connection=self.connection)
        parts = [{"text": call.arguments["message"]}]
        if call.arguments.get("context"):
            task = self.send(row, call.id, parts, contextId=call.arguments["context"])
        else:
            task = self.send(row, call.id, parts)
        return self.follow(call, row, task)

    def fetch_task(self, row: RemoteTask) -> dict[str, JSON]:
        """The task. While the agent is away, the run waits for it. Raises CallPending, ToolFailed, OutcomeUnknown."""
        try:
            return self.ask("GetTask", {"id": row.task})
        except Away as error:
            if self.context.run_id is None:
                raise OutcomeUnknown(f"{error} It is unknown how the task ended.")
            raise self.postpone(row)
        except OutcomeUnknown:
            row.close()
            raise

    def follow(self, call: ToolCall, row: RemoteTask, task: dict[str, JSON]) -> ToolResult:
        """The result of a quick task. Raises CallPending for one that takes longer, ToolFailed, OutcomeUnknown."""
        # After the last pause the task is looked at once more, then the run waits by a timer.
        for pause in (*LOOKS_S, None):
            state = get_remote_state(task)
            if state in ENDED:
                row.close()
                return build_remote_result(task, self.context)
            if state == "TASK_STATE_INPUT_REQUIRED":
                task = self.answer_question(call, row, task)
                continue
            if pause is None:
                break
            waits.sleep_until(pause)
            if self.context.is_cancelled():
                self.cancel(row)
                raise build_tool_failure("cancelled", "The run was cancelled, and the agent was informed.")
            task = self.fetch_task(row)
        raise self.postpone(row)

    def postpone(self, row: RemoteTask) -> ToolFailed | CallPending:
        """Returns what to raise: the run waits by a timer; outside of a run the task is cancelled."""
        if self.context.run_id is None:
            self.cancel(row)
            return build_tool_failure("timeout", "The agent needs longer than a call outside of a run can wait.")
        wait_number = min(row.waits, len(WAITS_S) - 1)
        until = clock.near() + timedelta(seconds=WAITS_S[wait_number])
        row.waits += 1
        row.save(update_fields=["waits"])
        return CallPending("timer", until=until, reference=f"task {row.task}")

    def answer_question(self, call: ToolCall, row: RemoteTask, task: dict[str, JSON]) -> dict[str, JSON]:
        """The task after the person has answered what the agent asks. Raises CallPending, ToolFailed."""
        if self.context.ask is None or row.answers >= MAX_QUESTIONS:
            self.cancel(row)
            raise build_tool_failure("input_refused", "The agent asks a question that cannot be answered here.")
        try:
            answer = self.context.ask(
                key=str(row.answers), kind="form", prompt=self.render_question(task), schema=FORM, timeout_s=ANSWER_S
            )
        except ToolFailed:
            # Declined, or not answered in time.
            self.cancel(row)
            raise
        answer_number = row.answers
        # Counted before it is sent: an answer is never given twice.
        row.answers = answer_number + 1
        row.save(update_fields=["answers"])
        text = read_form_answer(answer.value)
        try:
            return self.send(row, f"{call.id}-{answer_number}", [{"text": text}], taskId=row.task)
        except Unreached:
            # Nothing was sent: the same answer is sent when the agent is back.
            row.answers = answer_number
            row.save(update_fields=["answers"])
            raise self.postpone(row)

    def render_question(self, task: dict[str, JSON]) -> str:
        """Who asks, then the agent's own words, so that they cannot pass for ours."""
        host = urlsplit(self.url).hostname
        status = task.get("status") or {}
        question = clean_untrusted_text(get_remote_text(status.get("message")))
        message = question[:4000]
        return f"The agent “{self.connection.name}” ({host}) asks, and gets your answer:\n\n{message}"

    def send(self, row: RemoteTask, id: str, parts: list[JSON], **more: JSON) -> dict[str, JSON]:
        """Send a message; returns its task. One that may have arrived is not sent again. Raises ToolFailed,
        OutcomeUnknown.
        """
        message = {"messageId": id, "role": "ROLE_USER", "parts": parts, **more}
        try:
            result = self.ask("SendMessage", {"message": message, "configuration": {"returnImmediately": True}})
        except Unreached:
            # Nothing was sent.
            if not row.task:
                row.delete()
            raise
        task = result.get("task")
        # An agent may answer at once with a message, without a task.
        if isinstance(result.get("message"), dict):
            task = {"id": "-", "status": {"state": COMPLETED, "message": result["message"]}}
        if not isinstance(task, dict) or not isinstance(task.get("id"), str):
            raise build_tool_failure("bad_answer", "The agent's answer is neither a task nor a message.")
        row.task = task["id"][:200]
        row.save(update_fields=["task"])
        return task

    def cancel(self, row: RemoteTask) -> None:
        cancel_remote_task(row, self.connection, self.url, self.context.user_id)

    def ask(self, method: str, params: dict[str, JSON]) -> dict[str, JSON]:
        return call_remote_agent(self.connection, self.url, self.context.user_id, method, params)


def read_form_answer(value: JSON) -> str:
    """The text of a filled FORM."""
    if isinstance(value, dict):
        value = value.get("answer", "")
    return str(value)


def cancel_left(row: RemoteTask, user_id: int | None) -> None:
    """Cancel the task of a call whose run has ended."""
    remote = row.connection.remote_tools.first()
    if remote is None or not row.connection.enabled or not row.task:
        return row.close()
    cancel_remote_task(row, row.connection, remote.offered["details"]["url"], user_id)


def cancel_remote_task(row: RemoteTask, connection: Connection, url: str, user_id: int | None) -> None:
    """Ask the agent to cancel the task. If it does not answer, the row stays open and the next look tries again."""
    try:
        call_remote_agent(connection, url, user_id, "CancelTask", {"id": row.task})
    except (ToolFailed, OutcomeUnknown) as error:
        log.info("The task %s of %s was not cancelled: %s", row.task, connection.pk, error)
        if error.code == Away.code:
            return
    row.close()


def call_remote_agent(
    connection: Connection, url: str, user_id: int | None, method: str, params: dict[str, JSON]
) -> dict[str, JSON]:
    """The result of one request. Raises ToolFailed, OutcomeUnknown."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = exchange(connection, user_id, "POST", url, body)
    reply = answer.body if isinstance(answer.body, dict) else {}
    if isinstance(reply.get("result"), dict):
        connection.mark_ok()
        return reply["result"]
    if method == "GetTask" and answer.status in BUSY:
        raise Away(f"{connection.name} answered {answer.status}.")
    error = reply.get("error")
    if not isinstance(error, dict):
        error = {}
    words = str(error.get("message", f"it answered {answer.status}"))
    message = clean_untrusted_text(words)[:1000]
    if method == "GetTask" and error.get("code") == NO_TASK:
        raise OutcomeUnknown(f"The agent does not know the task any more: {message}")
    raise build_tool_failure("remote_error", f"The agent refused the request: {message}")


# -- HTTP ------------------------------------------------------------------------------------------------------------


class Away(ToolFailed):
    """The agent does not answer at the moment."""

    code = "service_unavailable"


class Unreached(Away):
    """The agent could not be reached, so nothing was sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: JSON


def exchange(connection: Connection, user_id: int | None, method: str, url: str, body: JSON = None) -> Answer:
    """Send one request with the connection's secret; returns the answer. Raises ToolFailed, OutcomeUnknown."""
    headers = {"A2A-Version": VERSION, "Accept": "application/json"}
    headers |= build_agent_secret_header(connection, user_id, url)
    try:
        with (
            outbound.until(FETCH_S),
            outbound.client(settings.PRIVATE_HOSTS_ALLOWED) as client,
            client.stream(method, url, headers=headers, json=body) as response,
        ):
            content = outbound.read_body(response, ANSWER_LIMIT)
    except outbound.AddressRefused as error:
        raise build_tool_failure("private_address", str(error))
    except outbound.TooMuch as error:
        raise build_tool_failure("too_large", f"{connection.name}: {error}")
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as error:
        connection.mark_broken("The agent cannot be reached.")
        raise Unreached(f"{connection.name} cannot be reached: {describe_failure(error)}.")
    except httpx2.HTTPError as error:
        connection.mark_broken("The agent cannot be reached.")
        # Only a message changes something at the agent that must not happen twice.
        if body is None or body["method"] != "SendMessage":
            raise Away(f"{connection.name} does not answer: {describe_failure(error)}.")
        raise OutcomeUnknown(f"{connection.name} closed the connection; it is unknown whether it got the message.")
    try:
        return Answer(response.status_code, json.loads(content))
    except (ValueError, RecursionError):
        return Answer(response.status_code, None)


def build_agent_secret_header(connection: Connection, user_id: int | None, url: str) -> dict[str, str]:
    host = urlsplit(url).hostname or ""
    try:
        return secret_header(connection, user_id, host)
    except Invalid as error:
        raise build_tool_failure(error.code, f"{error} {error.hint}".strip())


# -- what the agent said ---------------------------------------------------------------------------------------------


def get_remote_state(task: dict[str, JSON]) -> str:
    status = task.get("status")
    if not isinstance(status, dict):
        return ""
    return str(status.get("state", ""))


def build_remote_result(task: dict[str, JSON], context: ToolContext) -> ToolResult:
    """The artifacts and the last message; everything in it is untrusted."""
    status = task.get("status") or {}
    words = get_remote_text(status.get("message"))
    state = get_remote_state(task)
    if state != COMPLETED:
        message = f"the agent's task ended as {state.removeprefix('TASK_STATE_').lower()}: {words[:1000]}"
        return ToolResult(ok=False, error={"code": "remote_failed", "message": message}, untrusted=True)
    texts: list[str] = []
    data: list[JSON] = []
    files: list[JSON] = []
    for artifact in task.get("artifacts") or ():
        for part in list_remote_parts(artifact):
            if isinstance(part.get("text"), str):
                texts.append(part["text"])
            if "data" in part:
                data.append(part["data"])
            if "raw" in part or "url" in part:
                files.append(store_remote_file(part, context))
    text = "\n".join(filter(None, [*texts, words]))
    cut_text, _, _ = cut_marked_text(text, TEXT_LIMIT)
    value: dict[str, JSON] = {"text": cut_text}
    if isinstance(task.get("contextId"), str):
        value["context"] = task["contextId"][:200]
    if data:
        value["data"] = data
    if files:
        value["files"] = files
    return ToolResult(ok=True, value=value, untrusted=True)


def list_remote_parts(container: JSON) -> list[dict[str, JSON]]:
    """The parts of a message or an artifact."""
    parts = container.get("parts") if isinstance(container, dict) else None
    if not isinstance(parts, list):
        return []
    return [part for part in parts if isinstance(part, dict)]


def get_remote_text(message: JSON) -> str:
    texts = []
    for part in list_remote_parts(message):
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "\n".join(texts)


def store_remote_file(part: dict[str, JSON], context: ToolContext) -> dict[str, JSON]:
    """Describe a file of the answer: its bytes become a file of the run, an address is only named."""
    name = str(part.get("filename") or "file")
    kind = str(part.get("mediaType") or "")
    if "raw" not in part:
        return {"url": str(part["url"])[:2000], "name": name}
    try:
        content = base64.b64decode(part["raw"], validate=True)
    except (binascii.Error, ValueError, TypeError):
        return {"name": name, "error": "it is not base64"}
    if context.save_file is None:
        return {"name": name, "size": len(content)}
    return context.save_file(name, content, kind)
