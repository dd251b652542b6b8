"""The operations of A2A, for both of its bindings. Each takes a call and its parameters; those that
stream give a task's first event and its turn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from django.db import transaction

from agents import schema
from agents.exceptions import Forbidden, Invalid
from agents.models import Agent, ApiKey
from agents.models.key import DECIDE
from gateway import turns
from gateway.turns import Pause, Turn
from runs.events import waiting
from runs.events.connection_limits import Place
from runs.events.waiting import apply_end
from runs.intake import messages as intake
from runs.models import Approval, InputRequest, Run, Session
from runs.queue import endings
from runs.rules.task_states import WORKING

from . import cards, modes, pushes, requests
from .errors import A2AError
from .tasks import MESSAGE_ID, build_tasks_page, reply_message, task_json, task_named

JSON = Any
# What is waited for, and the answer, made of the data of run.finished if it has come.
Awaited = tuple[waiting.End, Callable[[JSON], Any]]
LONGEST_WAIT_S = 600.0
CANCEL_WAIT_S = 5.0
MOST_REFERENCES = 20


@dataclass(frozen=True, slots=True)
class Call:
    """One request at an agent's address."""

    user: Any
    auth: Any
    agent: str
    extensions: frozenset[str] = frozenset()

    @property
    def key(self) -> ApiKey | None:
        return self.auth if isinstance(self.auth, ApiKey) else None


# -- messages --------------------------------------------------------------------------------------------------------


def answer_send_message(call: Call, params: JSON, place: Place) -> Awaited:
    """SendMessage: the task once it has ended or asks for something."""
    body = parse_send_request(params)
    turn = start_or_resume_task(call, body)
    end = turns.build_turn_end(turn, LONGEST_WAIT_S, place, build_approval_pause)
    return end, lambda ended: build_send_answer(body, turn, ended)


def send_now(call: Call, params: JSON) -> JSON:
    """The same for a client that does not wait."""
    body = parse_send_request(params)
    turn = start_or_resume_task(call, body)
    run = load_task_run(turn.run)
    history = parse_history_length(body.configuration)
    return {"task": task_json(run, history=history)}


def is_immediate(params: JSON) -> bool:
    if not isinstance(params, dict):
        return False
    configuration = params.get("configuration")
    return isinstance(configuration, dict) and configuration.get("returnImmediately") is True


def send_streaming(call: Call, params: JSON) -> tuple[JSON, Turn]:
    """The task as it begins; of one that exists, as it is, and what happens after that."""
    body = parse_send_request(params)
    turn = start_or_resume_task(call, body, is_watched=True)
    history = parse_history_length(body.configuration)
    if turn.after == 0 and turn.run.status == Run.Status.QUEUED:
        return task_json(turn.run, history=history), turn
    run = load_task_run(turn.run)
    task = task_json(run, history=history)
    if turn.after == 0:
        return task, Turn(run, run.last_event)
    # The agent has gone on since it was answered: the stream shows how.
    if run.last_event > turn.after:
        timestamp = task["status"]["timestamp"]
        task["status"] = {"state": WORKING, "timestamp": timestamp}
        task["artifacts"] = []
    return task, Turn(run, turn.after)


def build_approval_pause() -> Pause:
    return Pause(for_approvals=True)


def parse_send_request(params: JSON) -> SendMessageRequest:
    """Raises Invalid, A2AError."""
    body = requests.parse_a2a_params(SendMessageRequest, params)
    requests.identifier(body.message.message_id, "message.messageId")
    if body.message.role != Role.ROLE_USER:
        raise Invalid("The role of a message that is sent is ROLE_USER.", code="invalid_params")
    requests.check_types(body.message)
    parse_history_length(body.configuration)
    modes.read_modes(body.configuration.accepted_output_modes)
    return body


def parse_history_length(body: Any) -> int | None:
    if not body.HasField("history_length"):
        return None
    number = body.history_length
    if number < 0:
        raise Invalid("“historyLength” must be 0 or more.", code="invalid_params")
    return number


def build_send_answer(body: SendMessageRequest, turn: Turn, ended: JSON) -> JSON:
    """A task, or a message of an agent that replies with messages."""
    run = apply_end(turn.run, ended) if ended else load_task_run(turn.run)
    task = task_json(run, history=parse_history_length(body.configuration))
    # A client that has a task already is answered with the task.
    message = reply_message(run, task) if turn.after == 0 else None
    if message:
        return {"message": message}
    return {"task": task}


def load_task_run(run: Run) -> Run:
    """The run as it is now, with all rows that a task is made of."""
    return Run.objects.select_related(*turns.RUN_JOINS).get(pk=run.pk)


def start_or_resume_task(call: Call, body: SendMessageRequest, *, is_watched: bool = False) -> Turn:
    """A message that names a task answers what the task waits for; any other one starts a task, once."""
    if body.message.task_id:
        turn = resume_waiting_task(call, body.message)
        pushes.keep_asked(turn.run, body)
        keep_modes(turn.run, body)
        return turn
    digest = schema.hash_json([call.agent, requests.serialize_protobuf(body.message)])
    # Made of the id and the content: an id that is used for something else is another message.
    key = f"a2a:{digest}"
    earlier = intake.earlier_run(call.user, key, digest)
    # The client did not get the answer and sends the message again.
    if earlier and not earlier.is_done:
        pushes.keep_asked(earlier, body)
        return Turn(earlier)
    if earlier:
        # The same words once more: another message, for which the key must be free.
        Run.objects.filter(pk=earlier.pk).update(idempotency_key=None)
    return start_new_task(call, body, idempotency_key=key, request_hash=digest, is_watched=is_watched)


def start_new_task(call: Call, body: SendMessageRequest, **more: Any) -> Turn:
    message = body.message
    agent = find_addressed_agent(call)
    pushes.check_asked(body)
    # Before the transaction, since files are scanned and names are resolved.
    parts = requests.build_message_parts(call.user, message)
    with transaction.atomic():
        session = None
        if message.context_id:
            session = find_or_open_session(call, message.context_id)
        session = find_referenced_session(call, message, session)
        turn = turns.start_turn(
            user=call.user,
            key=call.key,
            agent=agent,
            parts=parts,
            session=session,
            input=requests.find_schema_input(message, find_input_schema(agent)),
            metadata={MESSAGE_ID: message.message_id, **build_modes_metadata(body)},
            **more,
        )
        pushes.keep_asked(turn.run, body, is_checked=True)
    return turn


def find_or_open_session(call: Call, context: str) -> Session:
    session = requests.find_context_session(call.user, context)
    return session or requests.open_context_session(call.user, context)


def find_referenced_session(call: Call, message: Message, session: Session | None) -> Session | None:
    """The context of the tasks that the message refers to: the agent sees what was said in it, and in no other.

    Raises A2AError.
    """
    ids = list(dict.fromkeys(message.reference_task_ids))
    if len(ids) > MOST_REFERENCES:
        refusal = f"A message can refer to at most {MOST_REFERENCES} tasks."
        detail = {"field": "message.referenceTaskIds", "code": "too_many", "message": refusal}
        raise Invalid(refusal, code="invalid_params", details=[detail])
    for id in ids:
        run = task_named(call.user, turns.ROUTER, id)
        if session is not None and run.session_id != session.pk:
            raise A2AError(
                f"The task “{id[:80]}” belongs to another context than the message.",
                code="unsupported_operation",
                hint="Refer to tasks of one context, or send what is needed of the other as text.",
            )
        session = run.session
    return session


def build_modes_metadata(body: SendMessageRequest) -> dict[str, JSON]:
    """The types that the client accepts, as they are kept with the run."""
    accepted = modes.read_modes(body.configuration.accepted_output_modes)
    if not accepted:
        return {}
    return {modes.MODES: accepted}


def keep_modes(run: Run, body: SendMessageRequest) -> None:
    """A later message may accept other types than the first."""
    metadata = build_modes_metadata(body)
    if metadata:
        run.metadata = {**run.metadata, **metadata}
        run.save(update_fields=["metadata"])


def find_addressed_agent(call: Call) -> Agent | None:
    """None, so that the router chooses, at the router's address."""
    agent = turns.agent_named(call.user, call.agent)
    if isinstance(agent, str):
        return intake.NAMED.for_use(call.user, agent)
    return agent


def find_input_schema(agent: Agent | None) -> JSON:
    """The input schema of the agent, if it has one."""
    if agent is None or agent.published is None:
        return None
    return agent.published.read_spec().input_schema


def resume_waiting_task(call: Call, message: Message) -> Turn:
    """Answer what a task waits for. Raises A2AError, Invalid, Forbidden, AlreadyAnswered."""
    run = task_named(call.user, call.agent, message.task_id)
    # A context has two names: the client's, if it chose one, and the session's id.
    if message.context_id and message.context_id not in (run.session.name_for_a2a, str(run.session_id)):
        raise Invalid("The task belongs to another context.", code="invalid_params", hint="Leave out contextId.")
    find_referenced_session(call, message, run.session)
    if run.is_done:
        raise A2AError("The task has ended.", code="unsupported_operation", hint="Send a message without taskId.")
    inputs = list(InputRequest.objects.open().filter(run=run))
    decisions = list_decided_approvals(call, run, message)
    if decisions:
        return turns.answer_waiting_run(call.user, {}, declined=[], decisions=decisions, source="a2a")
    if not inputs:
        raise build_not_waiting_error(run)
    results, declined = requests.parse_task_answers(message, inputs)
    return turns.answer_waiting_run(call.user, results, declined=declined, decisions=[], source="a2a")


def build_not_waiting_error(run: Run) -> A2AError:
    """Why a task takes no message, and what the client can do about it."""
    if Approval.objects.open().filter(run=run).exists():
        return A2AError(
            "The task waits for a decision.",
            code="unsupported_operation",
            hint='Send a data part {"approvals": {"<id>": {"decision": "approve"}}}, or decide it in Muster.',
        )
    return A2AError("The task is working and takes no message now.", code="unsupported_operation", hint="Wait for it.")


def list_decided_approvals(call: Call, run: Run, message: Message) -> list[tuple[Approval, dict[str, JSON]]]:
    """The approvals that this message decides. Raises Forbidden for a key that may not."""
    decisions = requests.parse_a2a_decisions(message)
    if decisions and call.key is not None and not call.key.allows(DECIDE):
        raise Forbidden(f"This key lacks the scope {DECIDE}.", hint="Decide it in Muster.")
    open_ones = Approval.objects.visible_to(call.user).select_related("run").open().filter(run=run)
    by_id = open_ones.in_bulk(decisions)
    if len(by_id) != len(decisions):
        raise Invalid("The task waits for no such approval.", code="unknown_approval")
    return [(by_id[pk], decision) for pk, decision in decisions.items()]


# -- tasks -----------------------------------------------------------------------------------------------------------


def get_task(call: Call, params: JSON) -> JSON:
    body = requests.parse_a2a_params(GetTaskRequest, params)
    history = parse_history_length(body)
    run = task_named(call.user, call.agent, body.id)
    return task_json(run, history=history)


def list_tasks(call: Call, params: JSON) -> JSON:
    body = requests.parse_a2a_params(ListTasksRequest, params)
    # A word that is not a state would list everything.
    if params.get("status") and not body.status:
        detail = {"field": "status", "code": "invalid", "message": f"one of {', '.join(TaskState.keys()[1:])}"}
        raise Invalid("“status” is not a state of a task.", code="invalid_params", details=[detail])
    return build_tasks_page(call.user, call.agent, body)


def cancel_task(call: Call, params: JSON, place: Place) -> Awaited:
    """A run that is being executed ends a moment later, so this waits a little. Raises RunFinished."""
    body = requests.parse_a2a_params(CancelTaskRequest, params)
    run = task_named(call.user, call.agent, body.id)
    # A run that has ended raises RunFinished, which is an error of its own in A2A.
    endings.cancel_run(run, by=call.user, reason="cancelled by its A2A client")
    end = waiting.End(run.pk, CANCEL_WAIT_S, place)
    return end, lambda ended: task_json(load_task_run(run))


def subscribe(call: Call, params: JSON) -> tuple[JSON, Turn]:
    """The task as it is, then what happens in it."""
    body = requests.parse_a2a_params(SubscribeToTaskRequest, params)
    run = task_named(call.user, call.agent, body.id)
    if run.is_done:
        raise A2AError("The task has ended.", code="unsupported_operation", hint="Get it.")
    return task_json(run), Turn(run, run.last_event)


def get_extended_card(call: Call, params: JSON) -> JSON:
    card, _ = cards.build_user_card(call.user, call.agent)
    return cards.sign_agent_card(card)


# -- push notifications ----------------------------------------------------------------------------------------------


def create_push(call: Call, params: JSON) -> JSON:
    body = requests.parse_a2a_params(TaskPushNotificationConfig, params)
    run = task_named(call.user, call.agent, body.task_id)
    return pushes.save_push_config(run, body)


def get_push(call: Call, params: JSON) -> JSON:
    body = requests.parse_a2a_params(GetTaskPushNotificationConfigRequest, params)
    run = task_named(call.user, call.agent, body.task_id)
    return pushes.config_named(run, body.id)


def list_pushes(call: Call, params: JSON) -> JSON:
    body = requests.parse_a2a_params(ListTaskPushNotificationConfigsRequest, params)
    run = task_named(call.user, call.agent, body.task_id)
    return {"configs": pushes.list_push_configs(run), "nextPageToken": ""}


def delete_push(call: Call, params: JSON) -> JSON:
    body = requests.parse_a2a_params(DeleteTaskPushNotificationConfigRequest, params)
    run = task_named(call.user, call.agent, body.task_id)
    pushes.delete_push_config(run, body.id)
    return {}


OPERATIONS: dict[str, Callable[[Call, JSON], JSON]] = {
    "SendMessage": send_now,
    "GetTask": get_task,
    "ListTasks": list_tasks,
    "GetExtendedAgentCard": get_extended_card,
    "CreateTaskPushNotificationConfig": create_push,
    "GetTaskPushNotificationConfig": get_push,
    "ListTaskPushNotificationConfigs": list_pushes,
    "DeleteTaskPushNotificationConfig": delete_push,
}
WAITING: dict[str, Callable[[Call, JSON, Place], Awaited]] = {
    "SendMessage": answer_send_message,
    "CancelTask": cancel_task,
}
STREAMS: dict[str, Callable[[Call, JSON], tuple[JSON, Turn]]] = {
    "SendStreamingMessage": send_streaming,
    "SubscribeToTask": subscribe,
}
