"""What an A2A client sends, as Muster's messages and answers. Requests are read with the types of the
specification, which ignore fields that they do not know.
"""

import base64
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar
from uuid import UUID, uuid5

from a2a.types import Message, Part
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from agents import storage
from agents.exceptions import Invalid
from agents.http import parsers
from agents.models.file import IMAGES
from plumbing import json_values
from runs.intake.parts import MOST as MOST_PARTS
from runs.models import InputRequest, Session
from runs.models.session import A2A_CONTEXT

from .errors import A2AError

JSON = Any
T = TypeVar("T")
INPUT_MODES = ("text/plain", "application/json", *IMAGES, "application/pdf", "application/octet-stream", "*/*")
# The namespace of the sessions that clients name.
CONTEXTS = UUID("5d4ff1f6-5f4a-4f0a-9a3e-6d8f0b1f7a2c")
LONGEST_ID = 200
# Values in the parameters of a request.
MOST_VALUES = 10_000


def parse_a2a_params(kind: type[T], params: JSON, *, is_complete: bool = True) -> T:
    """The parameters of a request as this type of the specification. Raises Invalid."""
    if not isinstance(params, dict):
        raise Invalid("The parameters must be an object.", code="invalid_params")
    check_number(params)
    request: Any = kind()
    try:
        ParseDict(params, request, ignore_unknown_fields=True)
        if is_complete:
            validate_proto_required_fields(request)
    except ParseError as error:
        raise Invalid(f"The parameters do not match {kind.__name__}: {error}", code="invalid_params")
    except InvalidParamsError as error:
        problems = (error.data or {}).get("errors", ())
        details = [
            {"field": str(problem.get("field", "")), "code": "required", "message": str(problem.get("message", ""))}
            for problem in problems
        ]
        raise Invalid(f"A field of {kind.__name__} is missing.", code="invalid_params", details=details)
    refuse_tenant(request)
    return request


def refuse_tenant(request: Any) -> None:
    """Raises Invalid: an answer must not look as if it were a tenant's alone."""
    configuration = getattr(request, "configuration", None)
    push = getattr(configuration, "task_push_notification_config", None)
    if getattr(request, "tenant", "") or getattr(push, "tenant", ""):
        detail = {"field": "tenant", "code": "unsupported", "message": "this server has no tenants"}
        raise Invalid("This server has no tenants.", code="invalid_params", hint="Leave it out.", details=[detail])


def check_number(params: JSON) -> None:
    """Raises Invalid for more values than may be read: the library needs long for each."""
    number = 0
    waiting = [params]
    while waiting and number <= MOST_VALUES:
        value = waiting.pop()
        if isinstance(value, dict):
            inner: Collection[JSON] = value.values()
        elif isinstance(value, list):
            inner = value
        else:
            continue
        number += len(inner)
        waiting.extend(inner)
    if number > MOST_VALUES:
        message = f"A request can have at most {MOST_VALUES} values."
        raise Invalid(message, code="invalid_params", hint="Send large data as the bytes of a file, in “raw”.")


def identifier(text: str, field: str) -> str:
    """An id that a client chose. Raises Invalid."""
    if not text or len(text) > LONGEST_ID or "\0" in text:
        detail = {"field": field, "code": "invalid", "message": f"1 to {LONGEST_ID} characters"}
        raise Invalid(f"“{field}” is not an id.", code="invalid_params", details=[detail])
    return text


# -- the parts of a message ------------------------------------------------------------------------------------------


def check_types(message: Message) -> None:
    """Raises A2AError for a part that no agent can read, before anything is stored. Bytes of any type
    become a file, as over REST.
    """
    if len(message.parts) > MOST_PARTS:
        raise Invalid(f"A message can have at most {MOST_PARTS} parts.", code="too_many_parts")
    for part in message.parts:
        kind = part.WhichOneof("content")
        type = part.media_type.partition(";")[0].strip().lower()
        if kind is None:
            raise Invalid("A part has no content: text, raw, url or data.", code="invalid_params")
        if kind == "url" and type not in IMAGES:
            raise A2AError(
                "Files are not fetched from addresses, except pictures.",
                code="unsupported_content",
                hint="Send the bytes as “raw”.",
            )


def build_message_parts(user: Any, message: Message) -> list[dict[str, JSON]]:
    """The content parts; a file becomes a file of the person."""
    return [build_message_part(user, part) for part in message.parts]


def build_message_part(user: Any, part: Part) -> dict[str, JSON]:
    """A part of a message that the agent gets. Content that was sent along is stored as a file of this person."""
    kind = part.WhichOneof("content")
    if kind == "text":
        return {"type": "text", "text": part.text}
    if kind == "url":
        return {"type": "image", "url": part.url, "media_type": part.media_type.lower()}
    # Models read values as JSON.
    if kind == "data":
        return {"type": "text", "text": json_values.dump_json(parse_data_part(part)).decode()}
    file = storage.save_file(user.pk, part.filename or "file", part.raw, declared=part.media_type)
    return {"type": "file", "file": str(file.pk)}


def parse_data_part(part: Part) -> JSON:
    return convert_whole_floats(MessageToDict(part.data))


def find_data_part(message: Message) -> JSON:
    """The value of the first data part, or None."""
    for part in message.parts:
        if part.HasField("data"):
            return parse_data_part(part)
    return None


def convert_whole_floats(value: JSON) -> JSON:
    """Protobuf keeps every number as a float."""
    # Floats have exact whole numbers up to 2**53.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [convert_whole_floats(one) for one in value]
    if isinstance(value, dict):
        return {name: convert_whole_floats(one) for name, one in value.items()}
    return value


def find_schema_input(message: Message, schema: JSON) -> JSON:
    """The input of an agent that has a schema: the first data part."""
    if not schema:
        return None
    return find_data_part(message)


def get_message_text(message: Message) -> str:
    texts = [part.text for part in message.parts if part.HasField("text")]
    return "\n".join(texts)


# -- contexts --------------------------------------------------------------------------------------------------------


def find_context_session(user: Any, context: str) -> Session | None:
    """The user's session with this id, or the one that a client named so."""
    ids = list_context_ids(user, context)
    return Session.objects.visible_to(user).filter(pk__in=ids).first()


def build_context_id(user: Any, context: str) -> UUID:
    """The id of the session that a client of this user calls so."""
    return uuid5(CONTEXTS, f"{user.pk}:{context}")


def list_context_ids(user: Any, context: str) -> list[UUID]:
    named = build_context_id(user, context)
    try:
        return [UUID(context), named]
    except ValueError:
        return [named]


def open_context_session(user: Any, context: str) -> Session:
    """A session under the client's own name."""
    identifier(context, "message.contextId")
    fields = {"owner": user, "metadata": {A2A_CONTEXT: context}, "variables": {"agent_depth": 0}}
    session, _ = Session.objects.get_or_create(pk=build_context_id(user, context), defaults=fields)
    return session


# -- answers ---------------------------------------------------------------------------------------------------------


def parse_task_answers(message: Message, open: Iterable[InputRequest]) -> tuple[dict[UUID, JSON], list[UUID]]:
    """Results by the ids of calls, and calls that get no answer.

    A data part {"inputs": {id: {"result"}, {"answer"} or {"error"}}} names the inputs; any other
    message answers the only one that is open. Raises Invalid.
    """
    requests = {request.pk: request for request in open}
    data = find_data_part(message)
    if isinstance(data, dict) and isinstance(data.get("inputs"), Mapping):
        return parse_named_results(data["inputs"], requests)
    if len(requests) != 1:
        raise Invalid(
            f"The task waits for {len(requests)} answers.",
            code="several_inputs",
            hint='Name them in a data part: {"inputs": {"<id>": {"answer": …}}}.',
        )
    [request] = requests.values()
    return {request.call_id: plain_answer(message, data, request)}, []


def parse_named_results(
    answers: Mapping[str, JSON], requests: Mapping[UUID, InputRequest]
) -> tuple[dict[UUID, JSON], list[UUID]]:
    """As parse_task_answers, for answers by the ids of the requests. Raises Invalid."""
    by_name = {str(pk): request for pk, request in requests.items()}
    results = {}
    declined = []
    for id, answer in answers.items():
        request = by_name.get(id)
        is_answer = isinstance(answer, dict) and not answer.keys().isdisjoint({"result", "answer", "error"})
        if request is None or not is_answer:
            raise Invalid(
                f"Nothing with the id “{id[:80]}” waits for such an answer.",
                code="unknown_input",
                hint="status.message lists what the task waits for.",
            )
        if "error" in answer:
            declined.append(request.call_id)
        else:
            results[request.call_id] = answer.get("answer", answer.get("result"))
    return results, declined


def plain_answer(message: Message, data: JSON, request: InputRequest) -> JSON:
    """A data part as it is; a text, or the value that it writes down if only that fits the schema."""
    if data is not None:
        return data
    text = get_message_text(message)
    # A text that looks like JSON is a text all the same, where a text is asked for.
    if request.schema is None or request.schema.get("type") == "string":
        return text
    try:
        return parsers.parse_json_body(text.encode()) if text else text
    except ValueError:
        return text


def parse_a2a_decisions(message: Message) -> dict[UUID, dict[str, JSON]]:
    """Decisions on approvals by their ids: {"approvals": {id: {"decision", "note"?, "arguments"?}}}.

    Only a data part decides, never a text such as “yes”. Raises Invalid.
    """
    data = find_data_part(message)
    approvals = data.get("approvals") if isinstance(data, dict) else None
    if not isinstance(approvals, Mapping):
        return {}
    decisions = {}
    for id, decision in approvals.items():
        try:
            key = UUID(id)
        except ValueError:
            key = None
        if key is None or not isinstance(decision, dict) or not isinstance(decision.get("decision"), str):
            raise Invalid("A decision is {“decision”: “approve” or “deny”}, by the approval's id.", code="no_decision")
        arguments = decision.get("arguments")
        note = decision.get("note")
        decisions[key] = {
            "decision": decision["decision"],
            "arguments": arguments if isinstance(arguments, dict) else None,
            "note": note if isinstance(note, str) else "",
        }
    return decisions


def raw(content: bytes) -> str:
    return base64.b64encode(content).decode()


def serialize_protobuf(message: Message) -> JSON:
    return MessageToDict(message)
