"""The data of a function version besides its source: typed, immutable, hashed together with the
source.
"""

from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from agents.schema import hash_json
from agents.spec import Frozen
from functions import sandbox

GRAVITY = ("read", "read_out", "idempotent", "write", "sends_out", "destructive")


class FunctionSpec(Frozen):
    """Flags, limits and schemas of one version. `policy` is the language policy under which it was
    accepted.
    """

    name: str
    description: str = ""
    entry: str
    is_async: bool = False
    requires_context: bool = False
    safe_mode: bool = True
    is_pure: bool = False
    cache_ttl: int = Field(0, ge=0)
    effect: str = "read"
    timeout: float = Field(30.0, gt=0)
    memory_limit: int = Field(512, ge=1)
    max_concurrency: int = Field(0, ge=0)
    allowed_imports: list[str] = []
    requires: list[str] = []
    allowed_hosts: list[str] = []
    secrets: list[str] = []
    reuse: Literal["never", "run"] = "never"
    min_isolation: Literal["reduced", "full"] = "reduced"
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    policy: int = sandbox.POLICY_VERSION

    @classmethod
    def of(cls, function: Any) -> "FunctionSpec":
        """The working row as a spec; the order of list items and duplicates are ignored."""
        values = {name: getattr(function, name) for name in cls.model_fields if name != "policy"}
        for name in ("allowed_imports", "requires", "allowed_hosts", "secrets"):
            values[name] = sorted(set(values[name]))
        return cls(**values)

    @property
    def real_effect(self) -> str:
        """The effect of the function: at least the effect that its hosts and secrets imply. The
        author can only raise it.
        """
        floor = "read"
        if self.allowed_hosts:
            floor = "sends_out" if self.secrets else "read_out"
        return max(self.effect, floor, key=GRAVITY.index)

    def content_hash(self, source: str) -> str:
        """Equal source, imports, limits, schemas and policy are the same version."""
        return hash_json([source, self.model_dump(mode="json")])

    def limits(self) -> sandbox.Limits:
        return build_limits(self.timeout, self.memory_limit)


@lru_cache(maxsize=256)
def build_limits(timeout: float, memory_mb: int) -> sandbox.Limits:
    """One shared object for equal limits, because kept children are looked up by it."""
    return sandbox.Limits(timeout_s=timeout, memory_mb=memory_mb)


def defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """The input schema's defaults for omitted arguments."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    values = {}
    for name, part in properties.items():
        if isinstance(part, dict) and "default" in part:
            values[name] = part["default"]
    return values
