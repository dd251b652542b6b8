"""The content of versions: typed, frozen, hashed; equal content has an equal hash."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .schema import canonical_json, hash_json

# Of what is published here. Raise it with a field that older workers must not ignore; they then leave such runs.
FORMAT = 1


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    def canonical(self) -> str:
        return canonical_json(self.model_dump(mode="json"))

    def sha256(self) -> str:
        return hash_json(self.model_dump(mode="json"))


class ModelParams(Frozen):
    """Parameters sent to the model; None leaves a parameter to the provider."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)


class CallerContext(Frozen):
    """What an agent that is called as a tool reads of its caller's session; `last` counts the messages
    of a transcript.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["summary", "compact", "transcript"]
    last: int = Field(default=10, ge=1, le=200)


class ContextSource(Frozen):
    """A text that the instructions of a step's run contain. `id` (JMESPath, or a constant as {"value"}) names a
    session or a file, `step` the session of an earlier step; neither: the session around the chain.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["summary", "compact", "session", "transcript", "file"]
    step: str = ""
    id: str | dict[str, Any] = ""
    last: int = Field(default=10, ge=1, le=200)


class GrantSpec(Frozen):
    """One granted tool at the time of publishing. The current mode is read when a call is made."""

    tool: str
    tool_id: int
    mode: Literal["allow", "ask", "deny"] = "allow"
    pinned_version: int | None = None
    deadline_s: float | None = None
    offline: Literal["fail", "wait", "any"] = "fail"
    definition_hash: str = ""
    context: list[CallerContext] = []


class ToolPolicy(Frozen):
    """The tools a step or a message may use; only ever narrows a grant. Blocked wins; `allowed` None
    means all granted tools; those in `ask` need an approval.
    """

    allowed: list[str] | None = Field(default=None, max_length=500)
    blocked: list[str] = Field(default=[], max_length=500)
    ask: list[str] = Field(default=[], max_length=500)


class Retry(Frozen):
    """Wait `backoff_s`, doubled each time up to `max_backoff_s`; `jitter` spreads the waits."""

    attempts: int = Field(default=1, ge=1, le=20)
    backoff_s: float = Field(default=1.0, ge=0, le=3600)
    max_backoff_s: float = Field(default=60.0, ge=0, le=86400)
    jitter: float = Field(default=0.1, ge=0, le=1)


class RepeatUntil(Frozen):
    """Repeat the step until `condition` (JMESPath over the step's output) holds, at most `limit`
    times.
    """

    condition: str
    limit: int = Field(default=5, ge=1, le=100)


class Covers(Frozen):
    """Each element of the list `values` must be in the list `by`, or the step ends as partial. JMESPath
    over the step's own {"input", "output", "calls"}.
    """

    values: str
    by: str


class StepSpec(Frozen):
    """One step. Mappings and conditions are JMESPath over {"input", "steps", "item", "index", "variables"}.

    `model`, `instructions` and `variables` (a mapping, like `input`) are options of an agent's run.
    """

    key: str
    target_kind: Literal["agent", "tool", "chain", "router"] = "tool"
    target: str = ""
    target_id: int | None = None
    target_version: int | None = Field(default=None, ge=1, le=2**31 - 1)
    needs: list[str] = Field(default=[], max_length=200)
    input: dict[str, Any] = {}
    when: str = ""
    for_each: str = ""
    max_parallel: int = Field(default=8, ge=1, le=256)
    repeat_until: RepeatUntil | None = None
    retry: Retry = Retry()
    on_error: Literal["stop", "continue", "fallback"] = "stop"
    fallback: str = ""
    timeout_s: float = Field(default=300.0, gt=0)
    approval: bool = False
    approval_expires_s: float = Field(default=86400.0, gt=0)
    policy: ToolPolicy = ToolPolicy()
    max_turns: int | None = Field(default=None, ge=1, le=200)
    output_schema: dict[str, Any] | None = None
    model: str = Field(default="", max_length=100)
    instructions: str = Field(default="", max_length=20_000)
    variables: dict[str, Any] = {}
    covers: Covers | None = None
    context: list[ContextSource] = Field(default=[], max_length=10)


class ChainSpec(Frozen):
    """A chain version: a graph of steps over agents, tools and chains.

    `session`: each agent's step has a session of its own (`step`), or all are turns of one (`run`).
    """

    name: str
    description: str = ""
    strategy: Literal["graph", "sequential", "parallel", "router"] = "graph"
    session: Literal["step", "run"] = "step"
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    output: str = ""
    max_chain_depth: int = Field(default=3, ge=0, le=10)
    timeout_s: float = Field(default=3600.0, gt=0)
    max_parallel: int = Field(default=16, ge=1, le=256)
    steps: list[StepSpec] = []
    grants: list[GrantSpec] = []

    @property
    def takes_arguments(self) -> bool:
        """Whether the arguments of a tool call can be the input as they are."""
        return self.input_schema is None or self.input_schema.get("type") == "object"
