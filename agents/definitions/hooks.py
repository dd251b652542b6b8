"""The hooks of an agent in its definition: a list of {"place", "function"} with the settings that are not the usual."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import prefetch_related_objects

from agents.exceptions import Invalid
from agents.models import Agent, Hook, Tool
from agents.models.options import option_defaults
from agents.unknown import extra, extra_in_each

from . import shapes

Definition = dict[str, Any]
USUAL: Definition = option_defaults(Hook)


def extra_in_hooks(hooks: Any, place: str = "") -> dict[str, str]:
    fields = {"place", "function", *USUAL}
    return extra_in_each(hooks, lambda hook, at: extra(hook, fields, at), f"{place}hooks")


def faults_in_hooks(hooks: Any, place: str = "") -> list[dict[str, str]]:
    if not isinstance(hooks, list):
        return []
    types = {"place": (str,), "function": (str,), **shapes.column_shapes(Hook, USUAL)}
    faults: list[dict[str, str]] = []
    for number, hook in enumerate(hooks):
        where = f"{place}hooks.{number}"
        if isinstance(hook, dict) and {"place", "function"} <= hook.keys():
            faults += shapes.faults(hook, types, f"{where}.")
        else:
            faults.append({"field": where, "code": "invalid", "message": "Write {place: …, function: …}."})
    return faults


def read_hooks(agent: Agent) -> list[Definition]:
    # Sorted here: an export has read them for all agents.
    rows = sorted(agent.hooks.all(), key=lambda hook: hook.pk)
    prefetch_related_objects(rows, "tool")
    entries = []
    for row in rows:
        settings = {name: getattr(row, name) for name in USUAL}
        entries.append(plain_hook({"place": row.place, "function": row.tool.name, **settings}))
    return entries


def plain_hook(entry: Definition) -> Definition:
    """A hook without what is usual, so that two files that mean the same are equal."""
    special = {name: entry[name] for name, value in USUAL.items() if entry.get(name, value) != value}
    return {"place": entry.get("place"), "function": entry.get("function"), **special}


def write_hooks(agent: Agent, definitions: list[Definition], *, owner: Any) -> None:
    """Replace the hooks of an agent. Raises Invalid."""
    agent.hooks.all().delete()
    for entry in definitions:
        settings = {name: entry.get(name, value) for name, value in USUAL.items()}
        function = function_named(entry.get("function"), owner)
        row = Hook(agent=agent, place=entry.get("place"), tool=function, **settings)
        try:
            row.full_clean(exclude=["created_by"])
        except ValidationError as error:
            raise Invalid.of(error)
        row.save()
    # What an export has read for all agents is no longer true.
    getattr(agent, "_prefetched_objects_cache", {}).pop("hooks", None)


def function_named(name: Any, owner: Any) -> Tool:
    """The tool of the owner's function with this name, else of the site's."""
    rows = Tool.objects.filter(kind=Tool.Kind.FUNCTION, name=str(name))
    tool = rows.filter(owner=owner).first() or rows.filter(owner=None).first()
    if tool is None:
        raise Invalid(f"There is no function “{name}” for a hook.")
    return tool
