"""The endpoints of visitors, below /embed/v1/{key}. Each checks the origin; those of a conversation take its token as
`Authorization: Bearer`. No cookie is read or set, and no other endpoint takes the key or the token.
"""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.cache import patch_vary_headers
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from agents.exceptions import Invalid, MusterError
from agents.http.strict import StrictSerializer, Text
from agents.http.throttles import find_client
from agents.http.viewsets import APIView, read_body
from gateway import turns
from gateway.sse import build_sse_response
from gateway.turns import Turn
from runs.events import record as events
from runs.events.connection_limits import count_user_stream
from runs.exceptions import RunFinished
from runs.intake import retry
from runs.models import Embed, Run
from runs.models.embed import LONGEST
from runs.queue import endings

from . import replies, visitors

# Open replies of one address.
STREAMS = 20
ALLOWED = {
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "authorization, content-type",
    "Access-Control-Max-Age": "600",
}
REFUSALS = {
    "session_busy": "The previous message is still being answered.",
    "session_closed": "This conversation was closed. Please start a new one.",
    "invalid": "This message cannot be sent.",
    "idempotency_mismatch": "Another message was sent with this id.",
}


class MessageSerializer(StrictSerializer):
    """`id`: chosen by the caller; a message that is sent again with it is not answered twice."""

    message = Text(max_length=LONGEST)
    id = serializers.UUIDField(required=False)


@extend_schema(exclude=True)
class VisitorView(APIView):
    """Answers pages of the allowed origins, with the CORS headers they need."""

    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []
    throttle_classes: list[Any] = []
    embed: Embed | None = None
    only_shows = False

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        visitors.count_request(request)
        embed = visitors.load_open_embed(kwargs["key"], to_show=self.only_shows)
        visitors.check_origin(request, embed)
        # From here on the page may read the answer.
        self.embed = embed

    def get_authenticate_header(self, request: Any) -> str:
        return 'Bearer realm="visitor"'

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        return Response(status=204, headers=ALLOWED)

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        # A cache must not give the answer for one site to another.
        patch_vary_headers(response, ["Origin"])
        origin = request.headers.get("Origin")
        if self.embed is not None and origin:
            response["Access-Control-Allow-Origin"] = origin
            response["Access-Control-Expose-Headers"] = "Retry-After"
        return response


class AboutView(VisitorView):
    only_shows = True

    def get(self, request: Any, key: str) -> Response:
        """What a page shows before the first message."""
        embed: Any = self.embed
        return Response(
            {
                "title": str(embed),
                "greeting": embed.greeting,
                "suggestions": embed.suggestions,
                "colour": embed.colour,
                "max_characters": embed.max_characters,
            }
        )


class SessionsView(VisitorView):
    bodiless = ("post",)

    def post(self, request: Any, key: str) -> Response:
        """A token for a new conversation. Nothing is stored until its first message."""
        embed: Any = self.embed
        return Response({"token": visitors.new_token(embed), "expires_in": visitors.TOKEN_S}, status=201)


class MessagesView(VisitorView):
    def get(self, request: Any, key: str) -> Response:
        """The conversation so far, and the id of the run in progress."""
        embed: Any = self.embed
        session = visitors.session_id(request, embed)
        return Response(replies.build_visitor_conversation(embed, session))

    def post(self, request: Any, key: str) -> Any:
        """Send a message; the reply is a stream of server-sent events."""
        embed: Any = self.embed
        session = visitors.session_id(request, embed)
        body = read_body(MessageSerializer, request)
        if len(body["message"]) > embed.max_characters:
            raise Invalid(f"A message has at most {embed.max_characters} characters.", code="message_too_long")
        visitors.count_message(request, embed, session)
        return reply(request, embed, lambda: start_visitor_run(embed, session, body))


class ReplyView(VisitorView):
    def get(self, request: Any, key: str, run: UUID) -> Any:
        """The reply from its beginning, and as it goes on."""
        embed: Any = self.embed
        session = visitors.session_id(request, embed)
        row = visitors.load_visitor_run(embed, session, run)
        return reply(request, embed, lambda: Turn(row))


class StopView(VisitorView):
    bodiless = ("post",)

    def post(self, request: Any, key: str, run: UUID) -> Response:
        """Stop the run, if it has not ended."""
        embed: Any = self.embed
        session = visitors.session_id(request, embed)
        row = visitors.load_visitor_run(embed, session, run)
        try:
            endings.cancel_run(row, by=None, reason="the visitor stopped it")
        except RunFinished:
            pass  # it ended by itself
        return Response(status=204)


def start_visitor_run(embed: Embed, session: UUID, body: dict[str, Any]) -> Turn:
    """The run of a message, in the name of the owner and with the rights of a visitor."""
    text = body["message"]
    key = f"embed:{session}:{body['id']}" if "id" in body else None
    try:
        if key:
            failed = visitors.failed_run(embed, session, key, text)
            if failed:
                return retry_visitor_message(embed, failed, key)
        # A refused message leaves no session behind.
        with transaction.atomic():
            return turns.start_turn(
                user=embed.owner,
                key=None,
                agent=embed.agent,
                parts=[{"type": "text", "text": text}],
                session=visitors.open_visitor_session(embed, session),
                is_watched=True,
                embed=embed.pk,
                idempotency_key=key,
            )
    except MusterError as error:
        raise build_visitor_error(error)


def retry_visitor_message(embed: Embed, last: Run, key: str) -> Turn:
    """The message whose answer failed is answered again, by a run that takes the place of the failed one."""
    run = retry.retry_run(last, user=embed.owner, live=True, idempotency_key=f"{key}#{last.pk.hex}")
    events.expect_watcher(run.pk)
    return Turn(run)


def build_visitor_error(error: MusterError) -> MusterError:
    """The same refusal without what only the owner should read."""
    message = REFUSALS.get(error.code, "This chat cannot answer at the moment.")
    return type(error)(message, code=error.code)


def reply(request: Any, embed: Embed, turn: Any) -> Any:
    """A stream in a place that is taken before a run is started."""
    # Visitors have no account: places are counted for the embed, and for the visitor's address.
    of_embed = SimpleNamespace(pk=f"embed:{embed.pk}")
    of_address = SimpleNamespace(pk=f"visitor:{find_client(request)}")
    with count_user_stream(of_embed) as respond, count_user_stream(of_address, STREAMS) as respond_too:
        standing = visitors.VisitorStanding(embed_key=embed.key)
        source = replies.following(turn())
        return respond(respond_too(build_sse_response(request, source, standing)))
