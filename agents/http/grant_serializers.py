"""The tools granted to an agent or a chain, as JSON."""

from typing import Any

import pydantic
from rest_framework import serializers

from agents.models import Agent, Chain, Tool, ToolGrant
from agents.spec import CallerContext

from .strict import Many, Number, StrictModelSerializer, Text, Whole


class GrantSerializer(StrictModelSerializer):
    tool = Text(max_length=64, source="tool.name", help_text="Name of a tool that you can use.")
    kind = serializers.CharField(source="tool.kind", read_only=True)
    version = Whole(
        source="pinned_version",
        min_value=1,
        max_value=2**31 - 1,
        allow_null=True,
        required=False,
        help_text="Null: follow the published version.",
    )
    deadline_s = Number(min_value=0.1, max_value=86400, allow_null=True, required=False)

    context = Many(  # type: ignore[assignment]
        child=serializers.DictField(), required=False, max_length=5,
        help_text='Of an agent: what it reads of its caller\'s session: {"source": summary, compact or '
        'transcript, "last"?}.',
    )  # fmt: skip

    class Meta:
        model = ToolGrant
        fields = [
            "tool", "kind", "mode", "version", "deadline_s", "offline", "context", "allow_after_untrusted", "decides",
            "decider_role", "not_starter",
        ]  # fmt: skip

    def validate_context(self, context: list[dict[str, Any]]) -> list[dict[str, Any]]:
        try:
            return [CallerContext.model_validate(source).model_dump() for source in context]
        except pydantic.ValidationError as error:
            raise serializers.ValidationError([str(one["msg"]) for one in error.errors()])

    def validate(self, grant: dict[str, Any]) -> dict[str, Any]:
        """Each grant must be complete, even in a PATCH that leaves out other fields of its agent."""
        if "tool" not in grant:
            raise serializers.ValidationError({"tool": [self.fields["tool"].error_messages["required"]]})
        return grant


def read_grants(user: Any, grants: list[dict[str, Any]], row: Agent | Chain | None = None) -> list[ToolGrant]:
    """Unsaved grants of `row`. A name means the tool that the row has under it, else the nearest;
    unknown and duplicate names are all reported.
    """
    names = [grant["tool"]["name"] for grant in grants]
    usable = Tool.objects.usable_by(user)
    # What is granted already stays the same tool, so that a list can be sent back as it was read.
    tools = find_granted_tools(usable, row) if row is not None else {}
    new_names = [name for name in names if name not in tools]
    tools.update(usable.meant(user, new_names))
    problems: dict[int, dict[str, list[str]]] = {}
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name not in tools:
            problems[index] = {"tool": [f"There is no tool “{name}” that you can use."]}
        elif name in seen:
            problems[index] = {"tool": [f"“{name}” is granted twice."]}
        elif grants[index].get("context") and not takes_context(tools[name]):
            problems[index] = {"context": [f"“{name}” is not an agent and has no session to read a context."]}
        seen.add(name)
    if problems:
        raise serializers.ValidationError(problems)  # type: ignore[arg-type]
    granted: list[ToolGrant] = []
    for grant, name in zip(grants, names, strict=True):
        tool = tools[name]
        fields = {"mode": tool.mode_when_granted, **grant, "tool": tool}
        granted.append(ToolGrant(**fields))
    return granted


def find_granted_tools(usable: Any, row: Agent | Chain) -> dict[str, Tool]:
    return {tool.name: tool for tool in usable.filter(pk__in=row.grants.values("tool"))}


def takes_context(tool: Tool) -> bool:
    return tool.kind == Tool.Kind.AGENT or tool.source.get("builtin") == "delegate"


def replace_grants(row: Agent | Chain, grants: list[ToolGrant]) -> None:
    """The grants of an agent or a chain."""
    row.grants.all().delete()
    for grant in grants:
        setattr(grant, row._meta.model_name, row)
    ToolGrant.objects.bulk_create(grants)
