"""Stored functions: the working row, its immutable versions, its tests, and every execution."""

from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from uuid_utils.compat import uuid7

from agents.models import Tool
from agents.models.team import Owned, OwnedQuerySet, check_name, one_name_per_owner
from agents.models.version import Version
from plumbing.stored_rows import StoredRow


class StoredFunction(Owned):
    class Reuse(models.TextChoices):
        NEVER = "never", "A new process for every call"
        RUN = "run", "One process for all calls of a run"

    class Isolation(models.TextChoices):
        REDUCED = "reduced", "The isolation this machine offers, with at least the core layers"
        FULL = "full", "Full isolation; otherwise the call is refused"

    name = models.CharField(max_length=64, validators=[check_name])
    description = models.TextField(blank=True, help_text="If empty, the first paragraph of the docstring is used.")
    source = models.TextField(help_text="Python. The last top-level def is the entry unless you name one.")
    entry = models.CharField(max_length=100, blank=True)
    is_async = models.BooleanField(default=False)
    requires_context = models.BooleanField(default=False, help_text="The entry has a `ctx` parameter.")
    safe_mode = models.BooleanField(
        default=True, help_text="If off, the source runs without the language layer (requires a permission)."
    )
    is_pure = models.BooleanField(
        default=False,
        help_text="The same input always gives the same result, without side effects: results can be cached.",
    )
    cache_ttl = models.PositiveIntegerField(
        default=0, help_text="How long the result of a pure function is cached (s); 0: never."
    )
    effect = models.CharField(
        max_length=12, default="read", help_text="read, read_out, idempotent, write, sends_out or destructive."
    )
    timeout = models.FloatField(default=30.0, validators=[MinValueValidator(0.05)], help_text="Seconds.")
    memory_limit = models.PositiveIntegerField(default=512, validators=[MinValueValidator(16)], help_text="MB.")
    max_concurrency = models.PositiveIntegerField(
        default=0, validators=[MaxValueValidator(1000)], help_text="Maximum number of concurrent calls; 0: no limit."
    )
    allowed_imports = models.JSONField(default=list, blank=True)
    requires = models.JSONField(
        default=list, blank=True, editable=False, help_text="Libraries named in the source's header."
    )
    allowed_hosts = models.JSONField(default=list, blank=True, help_text="Hosts that ctx.http may reach.")
    secrets = models.JSONField(default=list, blank=True, help_text="Names of secrets that ctx.http may send.")
    reuse = models.CharField(max_length=5, choices=Reuse.choices, default=Reuse.NEVER)
    min_isolation = models.CharField(max_length=7, choices=Isolation.choices, default=Isolation.REDUCED)
    input_schema = models.JSONField(default=dict, blank=True, help_text="If empty, it is derived from the signature.")
    output_schema = models.JSONField(null=True, blank=True)
    is_deprecated = models.BooleanField(default=False)
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
