"""Agent: the row that an author edits. AgentVersion: its content at one time, published or tried; immutable."""

from operator import attrgetter
from threading import Lock
from typing import Any

from cachetools import LRUCache, cached
from django.db import models, transaction
from django.db.models import F, Q
from django.utils.translation import gettext_noop as _
from pydantic import ValidationError

from agents import prompts
from agents.exceptions import Invalid
from agents.schema import hash_json
from agents.spec import GrantSpec

from .agent_options import AgentOptions, AgentSpec
from .options import versioned_values
from .provider import Provider
from .team import OwnedQuerySet, check_name, is_capped, one_name_per_owner
from .tool import Tool
from .version import TriedVersion, find_earlier_version, make_version


class AgentQuerySet(OwnedQuerySet):
    def published(self) -> "AgentQuerySet":
        return self.filter(published__isnull=False, enabled=True)

    def refresh_live_hashes(self) -> int:
        """Recompute `live_hash` of these agents; called by everything that changes a spec, a tool
        or a provider.
        """
        agents: list[Any] = list(self.select_related("published", "provider").prefetch_related("grants__tool"))
        changed = [agent for agent in agents if agent.set_live_hash()]
        Agent.objects.bulk_update(changed, ["live_hash"], batch_size=500)
        return len(changed)


class Agent(AgentOptions):
    name = models.CharField(max_length=64, validators=[check_name])
    published = models.ForeignKey(
        "AgentVersion", on_delete=models.PROTECT, null=True, blank=True, related_name="+", editable=False
    )
    live_hash = models.CharField(max_length=64, blank=True, db_index=True, editable=False)

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [
            *one_name_per_owner("agent"),
            models.UniqueConstraint(
                fields=["name"], condition=Q(public_card=True), name="agent_public_card_per_name",
                violation_error_message="Another agent with this name has a public card.",
            ),
        ]  # fmt: skip
        # a name is looked up over owner, team and site
        indexes = [models.Index(fields=["name"], name="agent_name"), is_capped("agent_capped")]

    def __str__(self) -> str:
        return self.name

    def listed_as(self) -> dict[str, Any]:
        return {"kind": Tool.Kind.AGENT, "source__agent": self.pk}

    def draft_spec(self) -> AgentSpec:
        """The working row as a spec. Raises pydantic.ValidationError for a value out of range."""
        named = {
            "name": self.name,
            "provider": self.provider.name,
            "provider_id": self.provider.pk,
            "model_name": self.model_name or self.provider.default_model,
            "grants": [grant_spec(grant) for grant in self.grants.select_related("tool")],
        }
        options = versioned_values(self, AgentSpec)
        return AgentSpec(**{**options, **named})

    def problems(self) -> list[dict[str, str]]:
        """All problems of the working row; empty if it can be published."""
        problems = prompts.check_variables(self.variables)
        # With wrong declarations it cannot be said which variables the template may use.
        if not problems:
            problems = prompts.check_template(self.system_prompt, self.variables)
        has_model = self.model_name or self.provider.default_model
        if self.provider.kind != Provider.Kind.OFFLINE and not has_model:
            message = f"The provider “{self.provider.name}” has no default model, so the agent must name one."
            problems.append(prompts.detail("model_name", "no_model", message))
        is_of_site = self.owner_id is None and self.team_id is None
        is_private = self.provider.owner_id is not None or self.provider.team_id is not None
        if is_of_site and is_private:
            message = (
                f"The provider “{self.provider.name}” is private, so nobody else could use this agent of the site. "
                "Give the provider to the site on its page, or choose one of the site."
            )
            problems.append(prompts.detail("provider", "private_provider", message))
        return problems

    def checked_spec(self) -> AgentSpec:
        """The working row as a spec that can run. Raises Invalid with one detail per problem, and
        pydantic.ValidationError.
        """
        problems = self.problems()
        if problems:
            raise self.incomplete(problems, code=problems[0]["code"])
        return self.draft_spec()

    def incomplete(self, problems: list[dict[str, str]], *, code: str = "") -> Invalid:
        message = _("Agent “%(name)s” is not complete: %(message)s")
        words = {"name": self.name, "message": problems[0]["message"]}
        return Invalid(message % words, code=code, details=problems)

    def frozen_draft(self, *, author: Any = None) -> "AgentVersion":
        """The working row as a version without a number, for runs that try it; equal content gives the
        same one again. Raises Invalid with one detail per problem.
        """
        try:
            spec = self.checked_spec()
        except ValidationError as error:
            details = []
            for problem in error.errors():
                path = ".".join(str(part) for part in problem["loc"])
                details.append(prompts.detail(path, problem["type"], problem["msg"]))
            raise self.incomplete(details)
        content = {"spec": spec.model_dump(mode="json"), "author": author}
        version, _is_new = AgentVersion.everything.get_or_create(
            agent=self, number=None, sha256=spec.sha256(), defaults=content
        )
        return version

    @transaction.atomic
    def publish(self, *, author: Any = None, note: str = "") -> "AgentVersion":
        """Store the working row as a version; equal content gives the same version again. Raises
        Invalid with one detail per problem.
        """
        locked = Agent.objects.select_for_update().get(pk=self.pk)
        spec = locked.checked_spec()
        version = make_version(locked, spec, author=author, note=note)
        locked.point_to(version)
        offer_as_tool(locked, spec)
        self.published, self.live_hash = version, locked.live_hash
        return version

    @transaction.atomic
    def rollback(self, number: int) -> "AgentVersion":
        """Make an earlier version live again. Raises Invalid."""
        locked = Agent.objects.select_for_update().get(pk=self.pk)
        version = find_earlier_version(locked, number)
        spec = version.read_spec()
        locked.point_to(version)
        offer_as_tool(locked, spec)
        self.published, self.live_hash = version, locked.live_hash
        return version

    @transaction.atomic
    def delete_unused(self) -> None:
        """Delete it with its versions. Raises ProtectedError if runs refer to them: history is
        kept.
        """
        Agent.objects.filter(pk=self.pk).update(published=None)
        AgentVersion.everything.filter(agent=self).delete()
        self.delete()

    def point_to(self, version: "AgentVersion") -> None:
        self.published = version
        self.set_live_hash()
        self.save(update_fields=["published", "live_hash", "updated_at"])

    def set_live_hash(self) -> bool:
        """Hash of everything that a live agent is built from; True if it changed."""
        before = self.live_hash
        if self.published is None:
            self.live_hash = ""
            return before != ""
        grants = AgentSpec.model_validate(self.published.spec).grants
        definitions = {grant.tool_id: live_definition(grant.tool) for grant in self.grants.all()}
        # A grant that the working row no longer has counts with the definition that was published.
        hashes = [[grant.tool_id, definitions.get(grant.tool_id, grant.definition_hash)] for grant in grants]
        self.live_hash = hash_json([self.published.sha256, hashes, self.provider_id, self.provider.revision])
        return self.live_hash != before


class AgentVersion(TriedVersion):
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="versions")

    parent = "agent"

    class Meta(TriedVersion.Meta):
        constraints = TriedVersion.unique("agent")

    def read_spec(self) -> AgentSpec:
        """The content, kept by its hash: the column may be deferred. Raises NewerFormat."""
        self.require_known_format()
        return parse_spec(self)


def bytes_of_spec(spec: AgentSpec) -> int:
    return 4_000 + 10 * len(spec.model_dump_json())


@cached(LRUCache(16 << 20, bytes_of_spec), key=attrgetter("sha256"), lock=Lock())
def parse_spec(version: AgentVersion) -> AgentSpec:
    return AgentSpec.model_validate(version.spec)


def offer_as_tool(agent: Agent, spec: AgentSpec) -> "Tool | None":
    """The catalogue row through which other agents call this one as a minion."""
    return save_callable_tool(agent, Tool.Kind.AGENT, spec.description, minion_schema(spec), agent.timeout)


def save_callable_tool(
    row: Any, kind: str, description: str, schema: dict[str, Any], deadline_s: float
) -> "Tool | None":
    """The catalogue row through which agents call this agent or chain; it has the same name.

    None if another tool has that name; a definition file can then offer the row under another name.
    """
    # Names are unique per owner.
    tool = Tool.objects.filter(owner=row.owner_id, name=row.name).first()
    if tool is not None:
        is_own = tool.kind == kind and tool.source.get(str(kind)) == row.pk
        if not is_own:
            return None
    elif row.team_id and Tool.objects.filter(team=row.team_id, name=row.name).exists():
        return None
    else:
        tool = Tool(owner_id=row.owner_id, team_id=row.team_id, name=row.name, deadline_s=deadline_s)
    before = tool.definition_hash
    tool.kind = kind
    tool.source = {str(kind): row.pk}
    tool.effect = Tool.Effect.IDEMPOTENT
    tool.description = description
    tool.input_schema = schema
    if tool.freeze_hash() != before:
        tool.save()
        # A new tool has not been granted to anybody yet.
        if before:
            tool_changed(tool)
    return tool


def minion_schema(spec: AgentSpec) -> dict[str, Any]:
    """Input for a minion: a task in words, the agent's own input if it has a schema, its variables."""
    task = {"type": "string", "minLength": 1, "description": "The task, with all necessary information."}
    properties: dict[str, Any] = {"task": task}
    required = ["task"]
    if spec.input_schema:
        properties["input"] = spec.input_schema
        required.append("input")
    if spec.variables:
        variables = prompts.make_schema(spec.variables)
        properties["variables"] = variables
        # All of them may have defaults.
        if variables["required"]:
            required.append("variables")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def live_definition(tool: Any) -> str:
    """The parts of a tool that a live agent depends on."""
    if not tool.enabled:
        return "disabled"
    return hash_json([tool.definition_hash, tool.deadline_s, tool.untrusted, *tool.record_fields])


def grant_spec(grant: Any) -> GrantSpec:
    return GrantSpec(
        tool=grant.tool.name,
        tool_id=grant.tool_id,
        mode=grant.mode,
        pinned_version=grant.pinned_version,
        deadline_s=grant.deadline_s,
        offline=grant.offline,
        definition_hash=grant.tool.definition_hash,
        context=grant.context,
    )


def provider_changed(provider: Provider) -> None:
    """Increase the revision and refresh the agents that use it."""
    Provider.objects.filter(pk=provider.pk).update(revision=F("revision") + 1, tested_at=None, test_code="")
    Agent.objects.filter(provider=provider).refresh_live_hashes()


def tool_changed(tool: Any) -> None:
    """Refresh the agents that are granted this tool."""
    Agent.objects.filter(grants__tool=tool).refresh_live_hashes()
