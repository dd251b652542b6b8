"""Compaction, by the Open Responses specification: a conversation becomes the user's messages and one
item with a summary, which the next request sends in place of the rest.

The summary is written by the agent, without its tools, in a run of its own. The item is encrypted
and belongs to the person whose run it was.
"""

from time import time
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from agents.http.authentication import find_key
from agents.http.later import later
from gateway import histories, turns
from gateway.parts import refused
from gateway.turns import LONGEST_WAIT_S, Turn
from runs.events.places import WAITS
from runs.events.waiting import ENDS
from runs.models import Message, Session

from . import summaries
from .chat import Completion
from .items import usage_json
from .requests import Prompt, check_fields, split, text_in
from .responses import ECHO, PREFIX, conversation, items_in, previous_of, refresh, results_in
from .views import OpenAIView, body_of, error_json, of_started_run, status_of_failure

JSON = Any
FIELDS = ("model", "input", "instructions", "previous_response_id")
ASK = (
    "Summarise this conversation, so that it can go on from your summary alone: facts, decisions, names, numbers, "
    "results of tools, open questions. Answer with the summary and nothing else."
)


@extend_schema(exclude=True)
class CompactView(OpenAIView):
    """POST /v1/responses/compact"""

    def post(self, request: Any) -> Any:
        body = body_of(request)
        prompt = read(body, request.user)
        with WAITS.take(request.user.pk) as place:
            ENDS.listen()
            turn = started(request, body, prompt)
            end = turns.end_of(turn, LONGEST_WAIT_S, place)
            return later(self, end, lambda ended: compacted(turn))


def read(body: dict[str, JSON], user: Any = None) -> Prompt:
    """The conversation, with the request for a summary as its last message. Raises Invalid."""
    check_fields(body, FIELDS)
    prompt = Prompt(text_in(body, "model"), instructions=[ASK])
    if isinstance(body.get("instructions"), str):
        prompt.instructions.append(body["instructions"])
    items = items_in(body, user) if body.get("input") is not None else []
    if not items and body.get("previous_response_id") is None:
        raise refused("input", "Send “input”, “previous_response_id” or both.")
    split(prompt, list(conversation([*items, {"role": "user", "content": ASK}], results_in(items), prompt)))
    return prompt


@transaction.atomic
def started(request: Any, body: dict[str, JSON], prompt: Prompt) -> Turn:
    """In a session of its own: the conversation itself stays as it is."""
    previous = previous_of(request.user, body)
    more = prompt.more(request.user)
    session = None
    if previous:
        assert previous.run.session is not None  # previous_of checks it
        session = previous.run.session.fork(before=previous.run.session.last_seq + 1)
        histories.add_sent(session, prompt.earlier)
    more["asked"] = {**more["asked"], "tool_policy": {"allowed": []}}
    return turns.begin(
        user=request.user, key=find_key(request), agent=prompt.model,
        parts=prompt.parts, earlier=() if session else prompt.earlier, session=session,
        metadata={ECHO: {"store": False}}, **more,
    )  # fmt: skip


def compacted(turn: Turn) -> Response:
    completion = Completion()
    for frame in turns.replayed(turn, completion.reading.pause):
        completion.take(frame)
    if failure := completion.failure():
        return of_started_run(failure, status_of_failure(failure["code"]))
    if completion.end is None:
        waits = f"The run {turn.run.pk} goes on: it waits, for example for a budget."
        return of_started_run(error_json(waits, "run_waits", 504), 504)
    refresh(turn.run)
    item = {
        "id": f"cmp_{turn.id}", "type": "compaction",
        "encrypted_content": summaries.sealed(turn.run, completion.text),
    }  # fmt: skip
    assert turn.run.session is not None
    return Response({
        "id": PREFIX + turn.id, "object": "response.compaction", "created_at": int(time()),
        "output": [*users_of(turn.run.session, turn), item], "usage": usage_json(completion.end["usage"]),
    })  # fmt: skip


def users_of(session: Session, turn: Turn) -> list[dict[str, JSON]]:
    rows = session.messages.filter(role=Message.Role.USER).exclude(run=turn.run).order_by("seq")
    return [
        {"id": f"msg_{row.pk.hex}", "type": "message", "role": "user", "status": "completed",
         "content": [{"type": "input_text", "text": row.words}]}
        for row in rows
    ]  # fmt: skip
