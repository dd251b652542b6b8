"""Stored functions: the working row, its immutable versions, its tests, and every execution."""

from typing import Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as later
from uuid_utils.compat import uuid7

from agents.http.room import SizeField
from agents.models import Tool
from agents.models.display import Displayed, display_name_option, icon_option
from agents.models.options import between, option
from agents.models.team import Owned, OwnedQuerySet, check_name, one_name_per_owner
from agents.models.version import Version
from plumbing.stored_rows import StoredRow

# The largest whole number of a database column.
LARGEST = 2**31 - 1


class StoredFunction(Displayed, Owned):
    class Reuse(models.TextChoices):
        NEVER = "never", "A new process for every call"
        RUN = "run", "One process for all calls of a run"

    class Isolation(models.TextChoices):
        REDUCED = "reduced", "The isolation this machine offers, with at least the core layers"
        FULL = "full", "Full isolation; otherwise the call is refused"

    name = models.CharField(max_length=64, validators=[check_name])
    # fmt: off
    display_name = display_name_option()
    icon = icon_option()
    source = option(
        models.TextField(help_text="Python. The last top-level def is the entry unless you name one."), "",
        rest={
            "max_length": 200_000, "trim_whitespace": False,
            "help_text": "Python; the last top-level def is the entry.",
        },
    )
    description = option(
        models.TextField(blank=True, help_text="If empty, the first paragraph of the docstring is used."), "",
        rest={"max_length": 10_000, "help_text": "Default: from the docstring."},
    )
    entry = option(
        models.CharField(max_length=100, blank=True), "Input and output",
        rest={"help_text": "Default: the last top-level def."},
    )
    is_async = option(
        models.BooleanField(default=False), None, rest={"help_text": "If given, compared with the source."},
    )
    requires_context = option(
        models.BooleanField(default=False, help_text="The entry has a `ctx` parameter."), None,
        rest={"help_text": "If given, compared with the source: whether the entry has a `ctx` parameter."},
    )
    safe_mode = option(models.BooleanField(
        default=True, help_text="If off, the source runs without the language layer (requires a permission)."
    ), "Limits")
    is_pure = option(models.BooleanField(
        default=False,
        help_text="The same input always gives the same result, without side effects: results can be cached.",
    ), "Behaviour")
    cache_ttl = option(models.PositiveIntegerField(
        default=0, help_text="How long the result of a pure function is cached (s); 0: never."
    ), "Behaviour",
        rest={
            "min_value": 0, "max_value": LARGEST, "help_text": "How long the result of a pure function is cached (s).",
        },
    )
    effect = option(models.CharField(
        max_length=12, default="read", help_text="read, read_out, idempotent, write, sends_out or destructive."
    ), "Behaviour")
    timeout = option(
        models.FloatField(default=30.0, validators=between(0.05), help_text="Seconds."), "Limits",
        rest={"max_value": 86_400},
    )
    memory_limit = option(
        models.PositiveIntegerField(default=512, validators=between(16), help_text="MB."), "Limits",
        rest={"max_value": LARGEST},
    )
    max_concurrency = option(models.PositiveIntegerField(
        default=0, validators=between(high=1000), help_text="Maximum number of concurrent calls; 0: no limit."
    ), "Limits", rest={"min_value": 0})
    allowed_imports = option(
        models.JSONField(default=list, blank=True), "Imports, hosts and secrets", kind="lines", rest={"each": 64},
        admin_help=later("Modules the function may import, one per line, such as math or re."),
    )
    requires = models.JSONField(
        default=list, blank=True, editable=False, help_text="Libraries named in the source's header."
    )
    allowed_hosts = option(
        models.JSONField(default=list, blank=True, help_text="Hosts that ctx.http may reach."),
        "Imports, hosts and secrets", kind="lines", rest={"each": 253},
        admin_help=later("Hosts that ctx.http may reach, one per line."),
    )
    secrets = option(
        models.JSONField(default=list, blank=True, help_text="Names of secrets that ctx.http may send."),
        "Imports, hosts and secrets", kind="lines",
        rest={"each": 64, "help_text": "Names of secrets that ctx.http may send."},
        admin_help=later("Names of secrets that ctx.http may send, one per line."),
    )
    reuse = option(models.CharField(max_length=5, choices=Reuse, default=Reuse.NEVER), "Limits")
    min_isolation = option(models.CharField(max_length=7, choices=Isolation, default=Isolation.REDUCED), "Limits")
    input_schema = option(
        models.JSONField(default=dict, blank=True, help_text="If empty, it is derived from the signature."),
        "Input and output", kind="schema", rest={"help_text": "If omitted or null, it is derived from the signature."},
    )
    output_schema = option(
        models.JSONField(null=True, blank=True), "Input and output", kind="schema",
        rest={"help_text": "Results are validated against it; null: any result."},
    )
    is_deprecated = option(models.BooleanField(default=False), "Behaviour")
    # fmt: on
    published = models.ForeignKey(
        "FunctionVersion", on_delete=models.PROTECT, null=True, blank=True, related_name="+", editable=False
    )

    objects = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = one_name_per_owner("function")
        permissions = [
            ("run_unsafe", "Can switch the language layer off (safe_mode)"),
            ("raise_limits", "Can raise a function's limits"),
            ("publish_red", "Can publish even if a test fails"),
        ]

    def __str__(self) -> str:
        return self.name

    def listed_as(self) -> dict[str, Any]:
        return {"kind": Tool.Kind.FUNCTION, "source__function": self.pk}


class FunctionVersion(Version):
    function = models.ForeignKey(StoredFunction, on_delete=models.PROTECT, related_name="versions")
    source = models.TextField()
    spec = models.JSONField(help_text="Entry, flags, limits, imports, hosts and schemas: everything except the source.")

    class Meta(Version.Meta):
        constraints = [
            models.UniqueConstraint(fields=["function", "number"], name="function_version_number"),
            models.UniqueConstraint(fields=["function", "sha256"], name="function_version_content"),
        ]

    def __str__(self) -> str:
        return f"{self.function.name} v{self.number}"

    def whole(self) -> dict[str, Any]:
        """Spec and source together, for comparing versions."""
        return {**self.spec, "source": self.source}


class FunctionTest(StoredRow):
    class Expects(models.TextChoices):
        VALUE = "value"
        SCHEMA = "schema"
        ERROR = "error"

    function = models.ForeignKey(StoredFunction, on_delete=models.CASCADE, related_name="tests")
    name = models.CharField(max_length=100)
    arguments = models.JSONField(default=dict, blank=True)
    expects = models.CharField(max_length=6, choices=Expects.choices, default=Expects.VALUE)
    expected = models.JSONField(null=True, blank=True, help_text="The value, a JSON Schema, or the error type.")
    tolerance = models.FloatField(default=0.0, help_text="Allowed difference between numbers.")

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["function", "name"], name="function_test_name_once")]

    def __str__(self) -> str:
        return self.name


class ExecutionQuerySet(models.QuerySet):
    def visible_to(self, user: Any) -> "ExecutionQuerySet":
        """The user's own calls: the inputs of other users of a shared function are not visible."""
        return self.filter(principal_id=user.pk)


class Execution(models.Model):
    """One call of a function version. Executions are never changed. `run` is a plain id, as the
    runs app is in a higher layer.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    function = models.ForeignKey(
        StoredFunction, db_index=False, on_delete=models.PROTECT, null=True, related_name="executions"
    )
    version = models.ForeignKey(FunctionVersion, on_delete=models.PROTECT, null=True, related_name="executions")
    function_name = models.CharField(max_length=64, blank=True, help_text="Remains when the function is deleted.")
    version_number = models.PositiveIntegerField(null=True)
    principal = models.ForeignKey(
        settings.AUTH_USER_MODEL, db_index=False, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    run = models.UUIDField(null=True, db_index=True)
    call = models.UUIDField(null=True)
    started_at = models.DateTimeField(auto_now_add=True)
    status = models.CharField(
        max_length=10, help_text="ok, error, timeout, memory, cpu, violation, crash, refused, busy, cancelled."
    )
    size = SizeField(
        of=("arguments", "result", "error", "printed", "requests"), least=1000, null=True, editable=False,
        help_text="Of what it holds, if that is large.",
    )  # fmt: skip
    arguments = models.JSONField(default=dict)
    result = models.JSONField(null=True)
    error = models.JSONField(null=True)
    printed = models.TextField(blank=True)
    wall_ms = models.FloatField(default=0)
    cpu_ms = models.FloatField(default=0)
    peak_kb = models.PositiveIntegerField(default=0)
    isolation = models.CharField(max_length=8, blank=True)
    is_cached = models.BooleanField(default=False)
    requests = models.JSONField(default=list, help_text="Requests made by ctx.http: method, url, status, ms, received.")

    objects = ExecutionQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["function", "-id"]), models.Index(fields=["principal", "-id"])]

    def __str__(self) -> str:
        return f"{self.function_name} {self.status}"
