"""Read-only links to conversations, over HTTP."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from agents.exceptions import Forbidden, NotFound
from agents.http.strict import Flag, StrictSerializer
from agents.http.throttles import client_address
from agents.http.viewsets import APIView, read_body
from agents.models import AuditEvent
from runs.models import Session, SharedLink


class SharedLinkSerializer(StrictSerializer):
    url = serializers.SerializerMethodField(help_text="Everybody with this address can read the conversation.")
    shows_tools = Flag(required=False, default=False, help_text="Also show names and arguments of tool calls.")
    last_seq = serializers.IntegerField(read_only=True, help_text="The last message that is shown.")
    created_at = serializers.DateTimeField(read_only=True)

    def get_url(self, link: SharedLink) -> str:
        return f"{settings.PUBLIC_URL}/shared/{link.token}/"


class SharedLinkView(APIView):
    """The read-only link of a conversation. There is none until its person asks for one."""

    scope = "sessions"

    @extend_schema(operation_id="sessions_share_retrieve", responses=SharedLinkSerializer)
    def get(self, request: Any, pk: Any) -> Response:
        """404 if the conversation is not shared."""
        session = self.own_session(pk)
        return Response(SharedLinkSerializer(self.found(session)).data)

    @extend_schema(
        operation_id="sessions_share_update", request=SharedLinkSerializer, responses={200: SharedLinkSerializer}
    )
    def put(self, request: Any, pk: Any) -> Response:
        """Share the messages up to now. Send it again to include later messages; the address stays the same."""
        session = self.own_session(pk)
        body = read_body(SharedLinkSerializer, request)
        # Links that exist are void while this is off, and can be removed.
        if not settings.SHARED_LINKS:
            raise Forbidden(
                "This site does not allow links to conversations.",
                code="sharing_off",
                hint="An administrator can set MUSTER_SHARED_LINKS.",
            )
        fields = {"last_seq": session.last_seq, "shows_tools": body["shows_tools"]}
        link, _ = SharedLink.objects.update_or_create(session=session, defaults=fields)
        self.audit("shared", session, shows_tools=link.shows_tools)
        return Response(SharedLinkSerializer(link).data)

    @extend_schema(operation_id="sessions_share_destroy", responses={204: None})
    def delete(self, request: Any, pk: Any) -> Response:
        """Void the link at once. Sharing again makes another one."""
        session = self.own_session(pk)
        self.found(session).delete()
        self.audit("unshared", session)
        return Response(status=204)

    def own_session(self, pk: Any) -> Session:
        session = Session.objects.visible_to(self.request.user).filter(pk=pk).first()
        if session is None:
            raise NotFound("You have no such session.")
        return session

    def found(self, session: Session) -> SharedLink:
        link = SharedLink.objects.filter(session=session).first()
        if link is None:
            raise NotFound("This conversation is not shared.", hint="PUT to share it.")
        return link

    def audit(self, verb: str, session: Session, **details: Any) -> None:
        source = client_address(self.request)
        AuditEvent.record(f"session.{verb}", session, actor=self.request.user, source=source, **details)
