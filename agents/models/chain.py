"""Chain: a graph of steps that an author edits. ChainVersion: an immutable published version."""

from typing import Any

from django.db import models, transaction
from django.utils.translation import gettext_noop as _
from pydantic import ValidationError

from agents.exceptions import Invalid
from agents.graph import MAX_STEPS, Problem, cut_after, problems
from agents.spec import ChainSpec, StepSpec
from agents.unknown import extra, find_unknown_fields, refuse_unknown_fields
from plumbing.stored_rows import StoredRow

from .agent import grant_spec, save_callable_tool
from .chain_options import ChainOptions
from .chain_targets import Targets
from .options import versioned_values
from .team import OwnedQuerySet, check_name, one_name_per_owner
from .tool import Tool
from .version import TriedVersion, find_earlier_version, make_version

TARGETS = ("agent", "tool", "chain")
STEP_FIELDS = frozenset(StepSpec.model_fields) - {"target_id"} | {*TARGETS}
STEP_OPTIONS = frozenset(StepSpec.model_fields) - {
    "key", "target_kind", "target", "target_id", "target_version", "needs", "input", "when", "for_each"
}  # fmt: skip


class Chain(ChainOptions):
    name = models.CharField(max_length=64, validators=[check_name])
    published = models.ForeignKey(
        "ChainVersion", on_delete=models.PROTECT, null=True, blank=True, related_name="+", editable=False
    )

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("chain")

    def __str__(self) -> str:
        return self.name

    def listed_as(self) -> dict[str, Any]:
        return {"kind": Tool.Kind.CHAIN, "source__chain": self.pk}

    def draft_spec(self) -> ChainSpec:
        """The working rows as a spec, with targets found by name for the chain's owner. Raises
        Invalid, naming the step.
        """
        rows = list(self.steps.all())
        targets = Targets(self, rows)
        try:
            steps = [row.spec(targets.find(row)) for row in rows]
            grants = [grant_spec(grant) for grant in self.grants.select_related("tool")]
            return ChainSpec(name=self.name, steps=steps, grants=grants, **versioned_values(self, ChainSpec))
        except ValidationError as error:
            details = [as_detail(problem) for problem in error.errors()]
            raise Invalid(_("Chain “%(name)s” is not valid.") % {"name": self.name}, details=details)

    def problems(self) -> list[Problem]:
        """All problems of the working rows; empty if they can be published."""
        return self.problems_in(self.draft_spec())

    def problems_in(self, spec: ChainSpec) -> list[Problem]:
        keys = {step.key for step in spec.steps}
        rows = [row for row in self.steps.all() if row.key in keys]
        return problems(spec) + Targets(self, rows).problems(spec)

    def frozen_draft(self, *, author: Any = None, until: str = "") -> "ChainVersion":
        """The working rows as a version without a number, for runs that try them; `until`: only this
        step and those that it needs. Equal content gives the same one again. Raises Invalid with one
        detail per problem.
        """
        spec = self.draft_spec()
        if until:
            if until not in {step.key for step in spec.steps}:
                raise Invalid(_("This chain has no step “%(until)s”.") % {"until": until}, code="unknown_step")
            spec = cut_after(spec, until)
        problems = self.problems_in(spec)
        if problems:
            message = _("Chain “%(name)s” cannot be tried: %(message)s")
            raise self.refusal(message, problems)
        content = {"spec": spec.model_dump(mode="json"), "author": author}
        version, _is_new = ChainVersion.everything.get_or_create(
            chain=self, number=None, sha256=spec.sha256(), defaults=content
        )
        return version

    def refusal(self, message: str, problems: list[Problem]) -> Invalid:
        """The message with the first of the problems, and all of them as details."""
        first = problems[0]
        words = {"name": self.name, "message": first.message}
        details = [problem.as_detail() for problem in problems]
        return Invalid(message % words, hint=first.hint, details=details)

    @transaction.atomic
    def publish(self, *, author: Any = None, note: str = "") -> "ChainVersion":
        """Store the working rows as a version; equal content gives the same version again. Raises
        Invalid with one detail per problem.
        """
        locked = Chain.objects.select_for_update().get(pk=self.pk)
        problems = locked.problems()
        if problems:
            message = _("Chain “%(name)s” cannot be published: %(message)s")
            raise self.refusal(message, problems)
        spec = locked.draft_spec()
        version = make_version(locked, spec, author=author, note=note)
        locked.point_to(version)
        offer_as_tool(locked, spec)
        self.published = version
        return version

    @transaction.atomic
    def rollback(self, number: int) -> "ChainVersion":
        """Make an earlier version live again. Raises Invalid."""
        locked = Chain.objects.select_for_update().get(pk=self.pk)
        version = find_earlier_version(locked, number)
        spec = version.read_spec()
        locked.point_to(version)
        offer_as_tool(locked, spec)
        self.published = version
        return version

    def point_to(self, version: "ChainVersion") -> None:
        self.published = version
        self.save(update_fields=["published", "updated_at"])

    @transaction.atomic
    def replace_steps(self, steps: list[dict[str, Any]]) -> None:
        """Replace the steps from dicts shaped like StepSpec, in their order. Raises Invalid."""
        if len(steps) > MAX_STEPS:
            message = f"A chain can have {MAX_STEPS} steps; this one has {len(steps)}."
            raise Invalid(message, code="too_many_steps")
        refuse_doubles([step.get("key") for step in steps])
        self.steps.all().delete()
        rows = []
        for position, step in enumerate(steps):
            rows.append(ChainStep(chain=self, position=position, **read_step(step)))
        ChainStep.objects.bulk_create(rows)


class ChainStep(StoredRow):
    """One step; `spec` holds the fields of agents.spec.StepSpec that are not columns."""

    class Target(models.TextChoices):
        AGENT = "agent"
        TOOL = "tool"
        CHAIN = "chain"
        ROUTER = "router", "chosen by the router"

    chain = models.ForeignKey(Chain, on_delete=models.CASCADE, related_name="steps")
    key = models.SlugField(max_length=64, help_text="Its name inside the chain.")
    position = models.PositiveSmallIntegerField(default=0)
    target_kind = models.CharField(max_length=8, choices=Target.choices, default=Target.TOOL)
    target = models.CharField(max_length=64, blank=True, help_text="Name of the agent, tool or chain.")
    target_version = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: the published version.")
    needs = models.JSONField(default=list, blank=True, help_text="Keys of the steps that must end first.")
    input = models.JSONField(default=dict, blank=True, help_text='Parameter → JMESPath, or a constant as {"value": …}.')
    when = models.CharField(max_length=2000, blank=True, help_text="JMESPath; the step is skipped if it is false.")
    for_each = models.CharField(
        max_length=2000, blank=True, help_text="JMESPath to a list or an object; the step runs once per item."
    )
    options = models.JSONField(
        default=dict, blank=True, help_text="retry, on_error, fallback, timeout_s, approval, policy, repeat_until, …"
    )

    class Meta:
        ordering = ["position", "id"]
        constraints = [models.UniqueConstraint(fields=["chain", "key"], name="step_key_once")]

    def __str__(self) -> str:
        return self.key

    def spec(self, target_id: int | None) -> StepSpec:
        """This row as a spec. Raises Invalid, naming the step, for an option out of range."""
        options = {name: value for name, value in self.options.items() if name in STEP_OPTIONS}
        try:
            return StepSpec(
                key=self.key,
                target_kind=str(self.target_kind),  # type: ignore[arg-type]
                target=self.target,
                target_id=target_id,
                target_version=self.target_version,
                needs=self.needs,
                input=self.input,
                when=self.when,
                for_each=self.for_each,
                **options,
            )
        except ValidationError as error:
            details = [{**as_detail(problem), "step": self.key} for problem in error.errors()]
            # The message names one problem; the details have all of them.
            first = details[0]
            message = f"Step “{self.key}”: {first['field']}: {first['message']}."
            raise Invalid(message, code="invalid_step", details=details)

    def as_written(self) -> dict[str, Any]:
        """The columns in readable form, without empty values; `read_step` reads it back."""
        written: dict[str, Any] = {"key": self.key}
        if self.target_kind == ChainStep.Target.ROUTER:
            written["target_kind"] = "router"
        else:
            written[self.target_kind] = self.target
        for name in ("target_version", "needs", "input", "when", "for_each"):
            written[name] = getattr(self, name)
        written |= self.options
        return {name: value for name, value in written.items() if value not in (None, "", [], {})}


class ChainVersion(TriedVersion):
    chain = models.ForeignKey(Chain, on_delete=models.PROTECT, related_name="versions")

    parent = "chain"

    class Meta(TriedVersion.Meta):
        constraints = TriedVersion.unique("chain")

    def read_spec(self) -> ChainSpec:
        self.require_known_format()
        return ChainSpec.model_validate(self.spec)


def offer_as_tool(chain: Chain, spec: ChainSpec) -> Tool | None:
    """The catalogue row through which agents call this chain."""
    schema = tool_schema(spec)
    return save_callable_tool(chain, Tool.Kind.CHAIN, spec.description, schema, chain.timeout)


def tool_schema(spec: ChainSpec) -> dict[str, Any]:
    """A model's arguments are an object: that of the chain's input, or one with it as `input`."""
    if spec.takes_arguments:
        return spec.input_schema or {"type": "object"}
    return {
        "type": "object",
        "properties": {"input": spec.input_schema},
        "required": ["input"],
        "additionalProperties": False,
    }


def refuse_doubles(keys: list[Any]) -> None:
    """Raises Invalid if two steps have the same key."""
    for key in keys:
        if keys.count(key) > 1:
            detail = {"step": key, "code": "duplicate_step", "message": f"Two steps have the key “{key}”."}
            raise Invalid(
                _("Two steps have the key “%(key)s”.") % {"key": key},
                code="duplicate_step",
                hint=_("Keys must be unique."),
                details=[detail],
            )


def extra_in_step(step: dict[str, Any], place: str = "") -> dict[str, str]:
    """The fields that no step has, at every depth: where each is, and a message."""
    return {**extra(step, STEP_FIELDS, place), **find_unknown_fields(StepSpec, step, place)}


def read_step(step: dict[str, Any]) -> dict[str, Any]:
    """A step in readable form → the columns of ChainStep. `agent: x`, `tool: x`, `chain: x` set the
    target too.
    """
    refuse_unknown_fields(extra_in_step(step), f"Step “{step.get('key', '?')}” has a field that does not exist.")
    columns = dict(step)
    for kind in TARGETS:
        if kind in columns:
            columns["target"] = columns.pop(kind)
            columns["target_kind"] = kind
    # What is no column stands among the options.
    options = {name: columns.pop(name) for name in STEP_OPTIONS if name in columns}
    columns = {name: value for name, value in columns.items() if value is not None}
    columns["options"] = options
    return columns


def as_detail(error: Any) -> dict[str, str]:
    """One pydantic error as an entry of details; `loc` names the step's field."""
    return {
        "step": "",
        "field": ".".join(map(str, error["loc"])),
        "code": error["type"],
        "message": error["msg"],
    }
