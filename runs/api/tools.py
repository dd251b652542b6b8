"""Which tools fit a text: for searching the catalogue, and for writing an agent."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from agents.http.strict import Choice, Many, StrictSerializer, Text, Whole
from agents.http.viewsets import APIView, read_body
from agents.models import Tool
from agents.serializers.agents import ToolSerializer
from registry import tool_search
from registry.tool_search import Entry, Key

# Tools that are read at once, so that their definitions are not all in memory.
BATCH = 500


class ToolSearchSerializer(StrictSerializer):
    text = Text(max_length=20_000, help_text="Words to search for, or the instructions of an agent.")
    limit = Whole(min_value=1, max_value=50, default=10)
    kinds = Many(
        child=Choice(choices=Tool.Kind.choices),
        max_length=len(Tool.Kind),
        required=False,
        help_text="Only tools of these kinds.",
    )


class ToolMatchSerializer(serializers.Serializer):
    tool = ToolSerializer()
    score = serializers.FloatField(help_text="Compares the results of one search only.")
    words = serializers.ListField(child=serializers.CharField(), help_text="Stems of the words that matched.")


class ToolMatchesSerializer(serializers.Serializer):
    method = serializers.ChoiceField(choices=["words", "words and meaning"])
    results = ToolMatchSerializer(many=True)


class ToolSearchView(APIView):
    """The tools that fit a text, best first, among those that this user can use."""

    scope = "tools"
    scopes = {"post": "tools:read"}

    @extend_schema(operation_id="tools_search", request=ToolSearchSerializer, responses={200: ToolMatchesSerializer})
    def post(self, request: Any) -> Response:
        """Search the catalogue, or find tools for an agent's instructions. Nothing is changed."""
        body = read_body(ToolSearchSerializer, request)
        rows = Tool.objects.usable_by(request.user).filter(enabled=True)
        kinds = body.get("kinds")
        if kinds:
            rows = rows.filter(kind__in=kinds)
        entries = load_tool_entries(rows)
        ranking = tool_search.search_tools(request.user, entries, body["text"], body["limit"])
        # A key is the id of a tool and the hash of its definition.
        found_ids = [match.key[0] for match in ranking.matches]
        tools = rows.select_related("owner", "team").in_bulk(found_ids)
        results: list[dict[str, Any]] = []
        for match in ranking.matches:
            tool = tools.get(match.key[0])
            # It may have been deleted in the meantime.
            if tool is not None:
                results.append({"tool": tool, "score": match.score, "words": match.words})
        return Response(ToolMatchesSerializer({"method": ranking.method, "results": results}).data)


def load_tool_entries(rows: QuerySet[Tool]) -> list[Entry]:
    """What is known of each tool. One query if all of them have been read before."""
    keys: list[Key] = list(rows.order_by("pk").values_list("pk", "definition_hash"))
    entries = tool_search.find_known_entries(keys)
    missing = [key[0] for key in keys if key not in entries]
    for start in range(0, len(missing), BATCH):
        batch = missing[start : start + BATCH]
        for tool in Tool.objects.filter(pk__in=batch).defer("output_schema", "source"):
            entry = tool_search.build_entry(tool)
            entries[entry.key] = entry
    return [entries[key] for key in keys if key in entries]
