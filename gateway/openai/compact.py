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
from agents.http.deferred_response import answer_later
from gateway import histories, turns
from gateway.parts import refuse_content_part
from gateway.turns import LONGEST_WAIT_S, Turn
from runs.events.connection_limits import WAITS
from runs.events.waiting import ENDS
from runs.models import Message, Session

from . import summaries
from .chat import Completion
from .files import store_sent_files
from .items import usage_json
from .requests import Prompt, check_fields, parse_text_field, split_last_message
from .responses import (
    ECHO,
    PREFIX,
    find_previous_turn,
    item_json,
    iterate_output_results,
    iterate_response_messages,
    parse_input_items,
    refresh,
)
from .views import OpenAIView, error_json, get_body_fields, of_started_run, status_of_failure

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
        body = get_body_fields(request)
        prompt = parse_compact_request(body, request.user)
        store_sent_files(request.user, prompt)
        with WAITS.take(request.user.pk) as place:
            # Listens before the run starts: it could end before somebody listened otherwise.
            ENDS.listen()
            turn = start_compact_turn(request, body, prompt)
            end = turns.build_turn_end(turn, LONGEST_WAIT_S, place)
            return answer_later(self, end, lambda ended: answer_compact_request(turn))


def parse_compact_request(body: dict[str, JSON], user: Any = None) -> Prompt:
    """The conversation, with the request for a summary as its last message. Raises Invalid."""
    check_fields(body, FIELDS)
    prompt = Prompt(parse_text_field(body, "model"), instructions=[ASK])
    instructions = body.get("instructions")
    if isinstance(instructions, str):
        prompt.instructions.append(instructions)
    items = parse_input_items(body, user) if body.get("input") is not None else []
    if not items and body.get("previous_response_id") is None:
        raise refuse_content_part("input", "Send “input”, “previous_response_id” or both.")
    results = iterate_output_results(items)
    asked_items = [*items, {"role": "user", "content": ASK}]
    messages = list(iterate_response_messages(asked_items, results, prompt))
    split_last_message(prompt, messages)
    return prompt


@transaction.atomic
def start_compact_turn(request: Any, body: dict[str, JSON], prompt: Prompt) -> Turn:
    """In a session of its own: the conversation itself stays as it is."""
    previous = find_previous_turn(request.user, body)
    more = prompt.more(request.user)
    # The agent writes a summary: its tools are of no use for that.
    more["asked"] = {**more["asked"], "tool_policy": {"allowed": []}}
    session = None
    earlier = prompt.earlier
    if previous:
        conversation = previous.run.session
        # It is checked by find_previous_turn.
        assert conversation is not None
        session = conversation.fork(before=conversation.last_seq + 1)
        histories.add_sent(session, earlier)
        earlier = []
    return turns.start_turn(
        user=request.user,
        key=find_key(request),
        agent=prompt.model,
        parts=prompt.parts,
        earlier=earlier,
        session=session,
        metadata={ECHO: {"store": False}},
        **more,
    )


def answer_compact_request(turn: Turn) -> Response:
    """The user's messages and the summary, once the run that wrote it is over."""
    completion = Completion()
    for frame in turns.iterate_replayed_frames(turn, completion.reading.pause):
        completion.take(frame)
    failure = completion.failure()
    if failure:
        return of_started_run(failure, status_of_failure(failure["code"]))
    if completion.end is None:
        waits = f"The run {turn.run.pk} goes on: it waits, for example for a budget."
        return of_started_run(error_json(waits, "run_waits", 504), 504)
    # The run's mark of untrusted text goes into the summary.
    refresh(turn.run)
    session = turn.run.session
    assert session is not None
    item = {
        "id": f"cmp_{turn.id}",
        "type": "compaction",
        "encrypted_content": summaries.seal_summary(turn.run, completion.text),
    }
    return Response(
        {
            "id": PREFIX + turn.id,
            "object": "response.compaction",
            "created_at": int(time()),
            "output": [*list_user_items(session, turn), item],
            "usage": usage_json(completion.end["usage"]),
        }
    )


def list_user_items(session: Session, turn: Turn) -> list[dict[str, JSON]]:
    """The person's messages, without the request for a summary."""
    rows = session.messages.filter(role=Message.Role.USER).exclude(run=turn.run).order_by("seq")
    return [item_json(row) for row in rows]
