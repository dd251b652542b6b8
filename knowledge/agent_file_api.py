"""Stored functions of the tools in Letta's agent files (`.af`): drafts that a person reviews and publishes."""

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.exceptions import Invalid, MusterError
from agents.http.strict import ObjectField, StrictSerializer
from agents.http.throttles import client_address
from agents.http.viewsets import APIView, read_body
from knowledge.memory import agent_file
from knowledge.memory.agent_file import AgentTool

from .skills.scripts import build_function_name, create_function_draft

JSON = Any


class AgentFileToolsSerializer(StrictSerializer):
    file = ObjectField(help_text="The JSON of Letta’s agent file; its tools are read.")


class RefusedToolSerializer(serializers.Serializer):
    name = serializers.CharField(help_text="Its name in the file.")
    code = serializers.CharField()
    message = serializers.CharField()
    details = serializers.ListField(child=serializers.DictField(), help_text="Each line that is refused.")


class DraftedToolsSerializer(serializers.Serializer):
    created = serializers.ListField(child=serializers.CharField(), help_text="Names of the functions, unpublished.")
    refused = RefusedToolSerializer(many=True)


class AgentFileToolsView(APIView):
    """Make drafts of stored functions of an agent file."""

    scope = "functions"

    @extend_schema(
        request=AgentFileToolsSerializer,
        responses={200: DraftedToolsSerializer},
        operation_id="memory_import_functions",
    )
    def post(self, request: Request) -> Response:
        """Make a draft of each Python tool. `refused` lists the other tools with the reason. No code runs."""
        body = read_body(AgentFileToolsSerializer, request)
        tools = agent_file.parse_agent_tools(body["file"])
        created: list[str] = []
        refused: list[dict[str, JSON]] = []
        for name, error in iterate_drafts(tools, request.user, client_address(request)):
            if error is None:
                created.append(name)
            else:
                refused.append(serialize_import_problem(name, error))
        answer = {"created": created, "refused": refused}
        return Response(DraftedToolsSerializer(answer).data)


def iterate_drafts(tools: list[AgentTool], user: Any, source: str) -> Iterator[tuple[str, MusterError | None]]:
    """The name of each function that was made, or of the tool with the error."""
    for tool in tools:
        try:
            name = build_function_name(tool.name)
            note = f"from an agent file, {tool.name}"
            function = create_function_draft(name, tool.code(), note, user=user, source=source)
            yield function.name, None
        except MusterError as error:
            yield tool.name, error
        except ValidationError as error:
            yield tool.name, Invalid.of(error)


def serialize_import_problem(name: str, error: MusterError) -> dict[str, JSON]:
    return {"name": name, "code": error.code, "message": str(error), "details": error.details}
