"""The API of sharing: what a team also needs to use a row, and sharing that with it."""

from typing import Any

from django.apps import apps
from django.utils.translation import gettext_noop as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from agents.exceptions import Invalid, NotFound
from agents.http.authentication import require_scope
from agents.http.strict import StrictSerializer, Text
from agents.http.viewsets import APIView, Audited, ByName, read_body
from agents.models import Team
from agents.needs import Need, list_needs, share_needs
from agents.serializers.owned import NeedSerializer
from plumbing.texts import translate

# Where rows of a kind are in the API → their model.
KINDS = {
    "agents": "agents.Agent",
    "chains": "agents.Chain",
    "collections": "knowledge.Collection",
    "connections": "connectors.Connection",
    "functions": "functions.StoredFunction",
    "providers": "agents.Provider",
    "skills": "knowledge.Skill",
}
# What a key must be allowed to write so that it shares a row.
SCOPES = {label: kind for kind, label in KINDS.items()} | {"agents.Secret": "secrets", "agents.Tool": "tools"}


class TeamToShareSerializer(StrictSerializer):
    team = Text(max_length=64, help_text="The team that shall use the row.")


class NeedsSerializer(serializers.Serializer):
    needs = NeedSerializer(many=True)


class SharedNeedsSerializer(serializers.Serializer):
    shared = NeedSerializer(many=True, help_text="What was shared now.")
    needs = NeedSerializer(many=True, help_text="What is left, with the reasons.")


class SharingView(Audited, ByName, APIView):
    """`kind` is a list of this API: agents, chains, collections, connections, functions, providers or skills."""

    parameters = {"get": ("team",)}

    @extend_schema(
        responses=NeedsSerializer,
        parameters=[OpenApiParameter("team", OpenApiTypes.STR, required=True, description="The team's name.")],
    )
    def get(self, request: Any, kind: str, name: str) -> Response:
        """What the row uses and the members of this team could not use yet."""
        row = self.find_row(kind, "read")
        team = find_team(request.user, request.query_params.get("team", ""))
        needs = list_needs(row, team, request.user)
        return Response({"needs": [describe_need(need) for need in needs]})

    @extend_schema(request=TeamToShareSerializer, responses=SharedNeedsSerializer)
    def post(self, request: Any, kind: str, name: str) -> Response:
        """Share with this team all that the row needs and is yours. The row itself is shared by its field `team`."""
        row = self.find_row(kind, "write")
        body = read_body(TeamToShareSerializer, request)
        team = find_team(request.user, body["team"])
        for need in list_needs(row, team, request.user):
            if not need.problem:
                require_scope(request, f"{SCOPES[need.row._meta.label]}:write")
        shared_rows, left_needs = share_needs(row, team, request.user)
        for shared_row in shared_rows:
            self.audit("shared", shared_row, team=team.name)
        return Response(
            {
                "shared": [describe_need(Need(shared_row, "")) for shared_row in shared_rows],
                "needs": [describe_need(need) for need in left_needs],
            }
        )

    def find_row(self, kind: str, verb: str) -> Any:
        """Only its owner sees what it needs, which may be private. Raises NotFound, Forbidden, Conflict."""
        if kind not in KINDS:
            raise NotFound(_("Rows of this kind are not shared: %(kind)s.") % {"kind": kind[:80]})
        require_scope(self.request, f"{kind}:{verb}")
        model: Any = apps.get_model(KINDS[kind])
        row = self.named(model.objects.select_related("owner", "team"))
        row.require_edit(self.request.user)
        return row


def find_team(user: Any, name: str) -> Team:
    """A team of this person. Raises Invalid."""
    team = None if "\0" in name else Team.objects.visible_to(user).filter(name=name).first()
    if team is None:
        raise Invalid(_("You are in no team “%(name)s”.") % {"name": name[:80]}, code="unknown_team")
    return team


def describe_need(need: Need) -> dict[str, Any]:
    """In the language of the request."""
    described = need.as_json()
    return {**described, "problem": translate(described["problem"])}
