"""Runs as tasks of A2A: what GetTask, ListTasks and the first event of a stream show."""

import base64
import binascii
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from a2a.types import TaskState
from django.db.models import OuterRef, Q, QuerySet, Subquery, UUIDField
from django.db.models.functions import Coalesce

from agents import storage
from agents.exceptions import Invalid
from agents.http.pagination import ROWS_AT_ONCE, read_page
from agents.http.sizes import within_bytes
from agents.models import Agent, StoredFile
from gateway.reading import file_url
from gateway.turns import ROUTER, RUN_JOINS
from plumbing import json_values
from plumbing.statements import Select
from runs.models import Approval, Artifact, InputRequest, Message, Run, RunEvent
from runs.models.session import FINISH
from runs.rules import task_states
from runs.rules.task_states import choose_task_state

from .errors import A2AError
from .modes import DATA, TEXT, accepts_type, convert_artifact, get_output_modes
from .requests import list_context_ids, raw

JSON = Any
# Where a run's metadata keeps the client's id of the message.
MESSAGE_ID = "a2a_message"
# The ids of artifacts. That of a file is its own id.
REPLY, OUTPUT = "reply", "output"
# Bytes of a file that is sent with the task; a larger one has an address.
INLINE = 256 * 1024
OPEN, ANSWERED = InputRequest.Status.OPEN, InputRequest.Status.ANSWERED
# Messages, unless the client asks for fewer.
HISTORY = 100
PAGE, LONGEST_PAGE = 50, 100


def build_tasks_query(user: Any, agent: str) -> QuerySet[Run]:
    """The user's own runs of this agent; under the router's name those of all agents."""
    rows = Run.objects.visible_to(user).filter(parent=None, session__isnull=False)
    rows = rows.select_related(*RUN_JOINS)
    if agent == ROUTER:
        return rows
    return rows.filter(agent__name=agent)


def task_named(user: Any, agent: str, id: str) -> Run:
    """Raises A2AError (task_not_found), also for a task of somebody else."""
    try:
        run = build_tasks_query(user, agent).filter(pk=UUID(id)).first()
    except ValueError:
        run = None
    if run is None:
        raise A2AError(f"There is no task “{id[:80]}” that you can see.", code="task_not_found")
    return run


# -- one task --------------------------------------------------------------------------------------------------------


def task_json(run: Run, *, history: int | None = None) -> dict[str, JSON]:
    shown = Shown([run], history=history, with_artifacts=True, is_inline=True)
    return shown.task(run)


class Shown:
    """Tasks, with the rows that they need read at once."""

    def __init__(
        self, runs: Sequence[Run], *, history: int | None, with_artifacts: bool, is_inline: bool = False
    ) -> None:
        """`history`: the number of messages, None for as many as are sent by default."""
        self.history = HISTORY if history is None else min(history, HISTORY)
        self.with_artifacts = with_artifacts
        self.is_inline = is_inline
        waiting = [run for run in runs if run.status == Run.Status.WAITING]
        # Open questions belong to the status of runs that wait, answered ones to the history of all.
        asked_runs = runs if self.history else waiting
        requests = list(load_run_rows(asked_runs, REQUESTS, build_requests_query))
        self.inputs = by_run(request for request in requests if request.status == OPEN)
        self.answers = by_run(request for request in requests if request.status == ANSWERED)
        self.approvals: dict[UUID, list[Approval]] = {}
        if waiting:
            self.approvals = by_run(Approval.objects.open().filter(run__in=waiting).order_by("id"))
        self.messages: dict[UUID, list[Message]] = {}
        self.files: dict[UUID, list[StoredFile]] = {}
        if self.history or with_artifacts:
            self.messages = by_run(load_run_rows(runs, MESSAGES, build_messages_query))
        if with_artifacts:
            self.files = load_made_files(runs)

    def task(self, run: Run) -> dict[str, JSON]:
        ids = build_task_ids(run)
        task: dict[str, JSON] = {"contextId": ids["contextId"], "status": self.status(run), "id": ids["taskId"]}
        if self.with_artifacts:
            task["artifacts"] = list(self.artifacts(run))
        if self.history:
            history = self.history_of(run)
            if history:
                task["history"] = history[-self.history :]
        return task

    def history_of(self, run: Run) -> list[dict[str, JSON]]:
        """The messages, the questions and the answers, in the order of time."""
        messages = [message for message in self.messages.get(run.pk, ()) if message.words.strip()]
        entries = [(message.created_at, message_json(run, message, messages[0])) for message in messages]
        for request in self.answers.get(run.pk, ()):
            answered_at = request.answered_at or request.created_at
            entries.append((request.created_at, asking(run, [asked_json(request)])))
            entries.append((answered_at, answer_json(run, request)))
        entries.sort(key=lambda entry: entry[0])
        return [message for _, message in entries]

    def status(self, run: Run) -> dict[str, JSON]:
        state = choose_task_state(run.status, run.waiting_for, run.error)
        changed_at = get_change_time(run)
        status: dict[str, JSON] = {"state": state, "timestamp": stamp(changed_at)}
        # Whoever reads the status must know what to answer.
        questions = [*self.inputs.get(run.pk, ()), *self.approvals.get(run.pk, ())]
        if questions and run.status == Run.Status.WAITING:
            status["message"] = asking(run, [asked_json(one) for one in questions])
        elif run.error:
            status["message"] = error_message(run, run.error)
        return status

    def artifacts(self, run: Run) -> Iterable[dict[str, JSON]]:
        """What the run made, in forms that the client accepts."""
        modes = get_output_modes(run)
        reply = self.find_reply(run)
        has_output = isinstance(run.output, dict | list)
        # The reply says the same as the output, as text: a client that accepts one of them alone gets no other.
        sends_output = has_output and (reply is None or accepts_type(modes, DATA))
        if sends_output:
            yield convert_artifact(output_artifact(run.output), modes)
        for file in self.files.get(run.pk, ()):
            yield convert_artifact(file_artifact(file, is_inline=self.is_inline), modes)
        if reply is None:
            return
        sends_reply = not has_output or accepts_type(modes, TEXT)
        if sends_reply:
            finish = reply.metadata.get(FINISH, "")
            yield convert_artifact(reply_artifact(reply.text, finish), modes)

    def find_reply(self, run: Run) -> Message | None:
        """The last message of the agent, if the run has ended and the message has a text."""
        if not run.is_done:
            return None
        for message in reversed(self.messages.get(run.pk, ())):
            if message.role == "assistant":
                return message if message.text else None
        return None


def load_run_rows(runs: Sequence[Run], of_one: Select, of_many: Callable[[Any], QuerySet[Any]]) -> Iterable[Any]:
    """Rows of these runs: of one, which every message asks for, by a compiled statement."""
    if len(runs) == 1:
        return of_one.all(run=runs[0].pk)
    return of_many(Q(run__in=runs)) if runs else ()


def build_requests_query(within: Q) -> QuerySet[InputRequest]:
    return InputRequest.objects.filter(within, status__in=(OPEN, ANSWERED)).order_by("id")


def build_messages_query(within: Q) -> QuerySet[Message]:
    return Message.objects.filter(within, role__in=["user", "assistant"]).order_by("seq")


def build_artifacts_query(within: Q) -> QuerySet[Artifact]:
    return Artifact.objects.filter(within).select_related("file", "run").order_by("id")


ID = UUIDField()
REQUESTS = Select(lambda at: build_requests_query(Q(run=at.run)), run=ID)
MESSAGES = Select(lambda at: build_messages_query(Q(run=at.run)), run=ID)
MADE = Select(lambda at: build_artifacts_query(Q(run=at.run) | Q(run__root=at.run)), run=ID)


def by_run(rows: Iterable[Any]) -> dict[Any, list[Any]]:
    groups = defaultdict(list)
    for row in rows:
        groups[row.run_id].append(row)
    return groups


def load_made_files(runs: Sequence[Run]) -> dict[UUID, list[StoredFile]]:
    """The files that these runs and the runs below them made."""
    files = defaultdict(list)
    for row in load_run_rows(runs, MADE, lambda within: build_artifacts_query(within | Q(run__root__in=runs))):
        files[row.run.root_pk].append(row.file)
    return files


def build_task_ids(run: Run) -> dict[str, str]:
    context_id = run.session.name_for_a2a if run.session else ""
    return {"taskId": str(run.pk), "contextId": context_id}


def stamp(at: datetime) -> str:
    """The time as A2A writes it."""
    text = at.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def get_change_time(run: Run) -> datetime:
    """When it ended, or when something last happened in it."""
    if run.finished_at:
        return run.finished_at
    # A list of tasks reads it with its rows.
    changed_at = getattr(run, "changed_at", None)
    if changed_at is None:
        events = RunEvent.objects.filter(run=run).order_by("-seq")
        changed_at = events.values_list("at", flat=True).first()
    return changed_at or run.created_at


# -- its parts -------------------------------------------------------------------------------------------------------


def message_json(run: Run, message: Message, first: Message) -> dict[str, JSON]:
    """A message of a run. The first one has the id that the client gave it."""
    id = run.metadata.get(MESSAGE_ID) if message is first else None
    parts = []
    for part in message.content:
        is_empty_text = part.get("type") == "text" and not part.get("text")
        if not is_empty_text:
            parts.append(serialize_a2a_part(part))
    return {
        "messageId": id or str(message.pk),
        **build_task_ids(run),
        "role": "ROLE_USER" if message.role == "user" else "ROLE_AGENT",
        "parts": parts,
    }


def answer_json(run: Run, request: InputRequest) -> dict[str, JSON]:
    """The answer to a question, as a message of the user."""
    kind = "text" if isinstance(request.value, str) else "data"
    message = message_by_agent(run, f"{request.pk}-answer", [{kind: request.value}])
    message["role"] = "ROLE_USER"
    return message


def serialize_a2a_part(part: dict[str, JSON]) -> dict[str, JSON]:
    """A part of one of our messages, as A2A has it."""
    if part["type"] == "text":
        return {"text": part["text"]}
    if part["type"] == "file":
        return {"url": file_url(part["file"])}
    if part.get("url"):
        picture = {"url": part["url"]}
    else:
        picture = {"raw": part["data"]}
    if part.get("media_type"):
        picture["mediaType"] = part["media_type"]
    return picture


def reply_artifact(text: str, finish: str = "") -> dict[str, JSON]:
    """`finish`: why the reply ended too early."""
    artifact: dict[str, JSON] = {"artifactId": REPLY, "name": REPLY, "parts": [{"text": text}]}
    if finish:
        artifact["metadata"] = {FINISH: finish}
    return artifact


def output_artifact(output: JSON) -> dict[str, JSON]:
    part = {"data": output, "mediaType": "application/json"}
    return {"artifactId": OUTPUT, "name": OUTPUT, "parts": [part]}


def file_artifact(file: StoredFile, *, is_inline: bool) -> dict[str, JSON]:
    """A file: its content if it is small and may be sent along, else its address."""
    content = None
    if is_inline and file.size <= INLINE:
        content = storage.read_stored_file(file)
    if content is None:
        part = {"url": file_url(file.pk)}
    else:
        part = {"raw": raw(content)}
    part["filename"] = file.name
    part["mediaType"] = file.media_type
    return {"artifactId": str(file.pk), "name": file.name, "parts": [part]}


def reply_message(run: Run, task: dict[str, JSON]) -> dict[str, JSON] | None:
    """The answer of an agent that replies with messages, if the task has ended with nothing but a text."""
    if run.agent is None or run.agent.a2a_reply != Agent.A2aReply.MESSAGE:
        return None
    artifact_ids = [artifact["artifactId"] for artifact in task["artifacts"]]
    if artifact_ids != [REPLY] or task["status"]["state"] != task_states.COMPLETED:
        return None
    [artifact] = task["artifacts"]
    message = message_by_agent(run, REPLY, artifact["parts"])
    del message["taskId"]
    if "metadata" in artifact:
        message["metadata"] = artifact["metadata"]
    return message


def message_by_agent(run: Run, id: str, parts: list[dict[str, JSON]]) -> dict[str, JSON]:
    message_id = f"{run.pk.hex}-{id}"
    return {"messageId": message_id, **build_task_ids(run), "role": "ROLE_AGENT", "parts": parts}


def error_message(run: Run, error: dict[str, JSON]) -> dict[str, JSON]:
    text = str(error.get("message", run.status))
    return message_by_agent(run, "error", [{"text": text}])


def asking(run: Run, questions: list[dict[str, JSON]]) -> dict[str, JSON]:
    """The message of a task that waits: words for a person, and data for a program."""
    words = []
    inputs = []
    approvals = []
    for question in questions:
        if question.get("prompt"):
            words.append({"text": question["prompt"]})
        if question["kind"] == "approval":
            approvals.append(question)
        else:
            inputs.append(question)
    data = {}
    if inputs:
        data["inputs"] = inputs
    if approvals:
        data["approvals"] = approvals
    data_part = {"data": data, "mediaType": "application/json"}
    return message_by_agent(run, questions[0]["id"], [*words, data_part])


def asked_json(row: InputRequest | Approval) -> dict[str, JSON]:
    """A question that waits, in the form in which the stream has told it."""
    data: dict[str, JSON] = {
        "id": str(row.pk),
        "expires_at": row.expires_at.isoformat(),
        "arguments": row.arguments,
    }
    if isinstance(row, Approval):
        data["tool"] = row.tool
        data["reason"] = row.reason
    else:
        data["kind"] = row.kind
        data["name"] = row.name
        data["prompt"] = row.prompt
        data["schema"] = row.schema
    return build_a2a_question(data)


def build_a2a_question(data: dict[str, JSON]) -> dict[str, JSON]:
    """From the data of the events input.requested and approval.requested."""
    question = {"id": data["id"], "expiresAt": data["expires_at"], "arguments": data["arguments"]}
    if "tool" in data:
        prompt = f"May the agent call {data['tool']}? {data.get('reason', '')}"
        question["kind"] = "approval"
        question["tool"] = data["tool"]
        question["prompt"] = prompt.strip()
    else:
        for name in ("kind", "name", "prompt", "schema"):
            question[name] = data[name]
    return question


# -- lists -----------------------------------------------------------------------------------------------------------

LAST_EVENT = RunEvent.objects.filter(run=OuterRef("pk")).order_by("-seq").values("at")[:1]
UPDATED = Coalesce("finished_at", Subquery(LAST_EVENT), "created_at")


def build_tasks_page(user: Any, agent: str, query: Any) -> dict[str, JSON]:
    """A page of the user's tasks, those that changed last first. `query`: a ListTasksRequest."""
    size = query.page_size if query.HasField("page_size") else PAGE
    history = query.history_length if query.HasField("history_length") else 0
    check_numbers(size, history)
    rows: Any = filter_tasks(build_tasks_query(user, agent), user, query)
    rows = rows.annotate(changed_at=UPDATED)
    if query.HasField("status_timestamp_after"):
        rows = rows.filter(changed_at__gte=query.status_timestamp_after.ToDatetime(UTC))
    total = rows.count()
    if query.page_token:
        at, pk = parse_task_cursor(query.page_token)
        rows = rows.filter(Q(changed_at__lt=at) | Q(changed_at=at, pk__lt=pk))
    runs, has_more = read_page(rows.order_by("-changed_at", "-pk"), size)
    tasks = list(within_bytes(tasks_json(runs, history=history, with_artifacts=query.include_artifacts)))
    next_token = ""
    if has_more or len(tasks) < len(runs):
        last = runs[len(tasks) - 1]
        next_token = build_task_cursor(last)
    return {"tasks": tasks, "nextPageToken": next_token, "pageSize": size, "totalSize": total}


def tasks_json(runs: list[Run], **more: Any) -> Iterator[dict[str, JSON]]:
    """A few at a time: messages and artifacts of those that an answer has no room for are not read."""
    for start in range(0, len(runs), ROWS_AT_ONCE):
        some = runs[start : start + ROWS_AT_ONCE]
        shown = Shown(some, **more)
        yield from map(shown.task, some)


def check_numbers(size: int, history: int) -> None:
    """Raises Invalid with one detail for each number that is out of range."""
    details = []
    if not 1 <= size <= LONGEST_PAGE:
        details.append({"field": "pageSize", "code": "invalid", "message": f"1 to {LONGEST_PAGE}, not {size}"})
    if history < 0:
        details.append({"field": "historyLength", "code": "invalid", "message": f"0 or more, not {history}"})
    if details:
        raise Invalid("The parameters are not valid.", code="invalid_params", details=details)


def filter_tasks(rows: QuerySet[Run], user: Any, query: Any) -> QuerySet[Run]:
    if query.context_id:
        rows = rows.filter(session_id__in=list_context_ids(user, query.context_id))
    if query.status:
        rows = rows.filter(with_state(TaskState.Name(query.status)))
    return rows


def with_state(state: str) -> Q:
    """The runs that `state_of` gives this state."""
    waits = task_states.BY_WAIT
    refused = Q(status="failed", error__code=task_states.REFUSED)
    if state == task_states.REJECTED:
        return refused
    statuses = [status for status, name in task_states.BY_STATUS.items() if name == state and status != "waiting"]
    condition = Q(status__in=statuses)
    if state == task_states.WORKING:
        condition |= Q(status="waiting") & ~Q(waiting_for__in=waits)
    for wait, name in waits.items():
        if name == state:
            condition |= Q(status="waiting", waiting_for=wait)
    if state == task_states.FAILED:
        condition &= ~refused
    return condition


def build_task_cursor(run: Any) -> str:
    place = json_values.dump_json([run.changed_at, run.pk])
    return base64.urlsafe_b64encode(place).decode()


def parse_task_cursor(token: str) -> tuple[datetime, UUID]:
    """Raises Invalid."""
    try:
        at, pk = json_values.load_json(base64.urlsafe_b64decode(token.encode()))
        return datetime.fromisoformat(at), UUID(pk)
    except (ValueError, TypeError, binascii.Error):
        detail = {"field": "pageToken", "code": "invalid", "message": "it is not a token of this list"}
        raise Invalid("“pageToken” is not valid.", code="invalid_params", details=[detail])
