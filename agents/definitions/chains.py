"""Chains as definition files: steps in a readable form, with targets and tools by name."""

from collections.abc import Iterable
from typing import Any

from agents.exceptions import Invalid
from agents.models import AuditEvent, Chain
from agents.models.chain import extra_in_step
from agents.models.options import plain_options
from agents.unknown import extra, extra_in_each

from . import shapes
from .agents import extra_in_grants, faults_in_grants, read_grants, write_grants
from .files import Definition, check_schemas, set_columns, without_defaults

COLUMNS = tuple(plain_options(Chain))


class ChainKind:
    name = "chain"

    def unknown(self, definition: Definition) -> dict[str, str]:
        extras = extra(definition, {"kind", "name", "steps", "grants", *COLUMNS})
        extras |= extra_in_each(definition.get("steps"), extra_in_step, "steps")
        extras |= extra_in_grants(definition.get("grants"))
        return extras

    def faults(self, definition: Definition) -> list[dict[str, str]]:
        types = {**shapes.column_shapes(Chain, COLUMNS), "steps": (list,), "grants": (list,)}
        return shapes.faults(definition, types) + faults_in_grants(definition.get("grants"))

    def rows(self, owner: Any) -> Iterable[Chain]:
        rows = Chain.objects.filter(owner=owner).select_related("published").order_by("name")
        return rows.prefetch_related("grants__tool", "steps")

    def find(self, owner: Any, name: str) -> Chain | None:
        return Chain.objects.filter(owner=owner, name=name).first()

    def read(self, row: Chain) -> Definition:
        values = {name: getattr(row, name) for name in COLUMNS}
        definition = {"kind": self.name, "name": row.name, **without_defaults(values, Chain)}
        definition["steps"] = [step.as_written() for step in row.steps.all()]
        grants = read_grants(row.grants)
        if grants:
            definition["grants"] = grants
        return definition

    def write(self, definition: Definition, *, owner: Any, actor: Any, row: Chain | None) -> Chain:
        """The working rows and their published version together. Raises Invalid, naming the step."""
        check_schemas(definition, "input_schema", "output_schema")
        steps = definition.get("steps", [])
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise Invalid("steps must be a list of mappings, each with a key.")
        row = row or Chain(owner=owner, name=definition["name"])
        set_columns(row, definition, COLUMNS)
        row.full_clean(exclude=["owner", "team", "published"])
        row.save()
        row.replace_steps(steps)
        write_grants({"chain": row}, definition.get("grants", []), owner=owner)
        row.publish(author=actor if actor.pk else None, note="from a definition file")
        AuditEvent.record("chain.applied", row, actor=actor, source="definitions")
        return row
