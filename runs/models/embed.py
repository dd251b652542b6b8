"""Embed: offers one agent to visitors, as a widget on other sites and as a public page."""

import re
import secrets
from typing import Any, Self

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from agents.models import Agent, Tool
from agents.models.team import Editable
from plumbing.stored_rows import StoredRow
from runs.rules.visitors import may_open

ORIGIN = re.compile(r"(https?)://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:\d{1,5})?")
# Browsers leave these out.
USUAL_PORTS = {"http": ":80", "https": ":443"}
COLOUR = RegexValidator(r"^#[0-9a-f]{6}\Z", "Write the colour as # and six hexadecimal digits, such as #0f766e.")
# How many there can be, and characters of one suggestion.
ORIGINS, SUGGESTIONS, SUGGESTION = 50, 6, 200
# Characters of a message.
LONGEST = 20_000


def new_key() -> str:
    return f"pub_{secrets.token_urlsafe(18)}"


def is_origin(value: Any) -> bool:
    """Whether a browser may send exactly this as `Origin`."""
    if not isinstance(value, str) or len(value) > 200:
        return False
    match = ORIGIN.fullmatch(value)
    if match is None:
        return False
    scheme = match[1]
    port = match[4]
    return port != USUAL_PORTS[scheme]


def check_origins(value: Any) -> None:
    if not isinstance(value, list) or len(value) > ORIGINS:
        raise ValidationError(f"Give a list of at most {ORIGINS} origins.")
    for origin in value:
        if not is_origin(origin):
            raise ValidationError(
                f"“{str(origin)[:80]}” is not an origin: write scheme and host in lower case, and a port if it is not "
                "the usual one, such as https://shop.example.org."
            )


def check_suggestions(value: Any) -> None:
    is_list = isinstance(value, list) and len(value) <= SUGGESTIONS
    if not is_list or not all(map(is_suggestion, value)):
        raise ValidationError(f"Give at most {SUGGESTIONS} questions of at most {SUGGESTION} characters.")


def is_suggestion(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    length = len(value.strip())
    return 0 < length <= SUGGESTION


class EmbedQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> Self:
        return self.filter(owner_id=user.pk)

    # What visitors spend is its owner's: nobody else sees or changes it.
    editable_by = visible_to

    def open(self) -> Self:
        """Switched on, by an active person who may still change the agent, which is published."""
        is_own_agent = Q(agent__owner=F("owner"))
        is_site_agent = Q(agent__owner=None, owner__is_superuser=True)
        is_ready = Q(enabled=True, owner__is_active=True, agent__enabled=True, agent__published__isnull=False)
        rows = self.filter(is_own_agent | is_site_agent, is_ready)

        return rows.select_related("owner", "agent__published", "agent__provider").defer("agent__provider__api_key")


def small(default: int, least: int, most: int, help_text: str) -> models.PositiveIntegerField:
    limits = [MinValueValidator(least), MaxValueValidator(most)]
    return models.PositiveIntegerField(default=default, validators=limits, help_text=help_text)


class Embed(Editable, StoredRow):
    """Its runs work for the owner, with no tool but those in `tools`. `key` is public: it only opens this agent."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, db_index=False, on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="embeds")
    key = models.CharField(max_length=40, unique=True, default=new_key, editable=False)
    enabled = models.BooleanField(default=False)
    origins = models.JSONField(
        default=list, blank=True, validators=[check_origins],
        help_text="Origins such as https://shop.example.org whose pages may show the agent; empty: only its own page.",
    )  # fmt: skip
    title = models.CharField(max_length=80, blank=True, help_text="Empty: the name of the agent.")
    greeting = models.CharField(max_length=500, blank=True)
    suggestions = models.JSONField(default=list, blank=True, validators=[check_suggestions])
    colour = models.CharField(max_length=7, default="#0f766e", validators=[COLOUR])
    tools = models.JSONField(
        default=list, blank=True, help_text="Tools of the agent that runs of visitors may use; empty: none."
    )
    per_visitor = small(6, 1, 600, "Messages a minute of one visitor.")
    per_minute = small(60, 1, 6000, "Messages a minute of all visitors.")
    max_characters = small(2000, 1, LONGEST, "Characters of one message.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = EmbedQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["owner", "-id"])]

    def __str__(self) -> str:
        return self.title or self.agent.name

    def clean(self) -> None:
        if not isinstance(self.tools, list) or not all(isinstance(name, str) for name in self.tools):
            raise ValidationError({"tools": "Give a list of names."})
        tools = Tool.objects.usable_by(self.owner).filter(name__in=self.tools)
        fit = {tool.name for tool in tools if may_open(tool.kind, tool.source)}
        unfit = sorted(set(self.tools) - fit)
        if unfit:
            hint = "Devices, accounts, questions to you, and delegation stay closed."
            raise ValidationError({"tools": f"“{unfit[0][:64]}” cannot be opened to visitors. {hint}"})

    def tools_to_open(self) -> list[str]:
        """The agent's own tools that visitors may be allowed. A tool of an agent that it calls may be named too."""
        tools = Tool.objects.filter(grants__agent=self.agent_id).order_by("name")
        return [tool.name for tool in tools if may_open(tool.kind, tool.source)]

    def rotate(self) -> None:
        """Another key: the old one and every conversation that was opened with it end."""
        self.key = new_key()
        self.save(update_fields=["key", "updated_at"])
