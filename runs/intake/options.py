"""What one message asks for beside its agent's definition, and what both together make.

A message may choose a model and its parameters, add instructions, give variables and an output
schema, narrow the tools and the limits, and stand back in the queue; it never widens anything. The
row of the run keeps what was asked and the result (`Run.options`), so a run shows what it ran with,
and a retry asks for the same again.
"""

from collections.abc import Collection
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from agents import prompts
from agents.exceptions import Invalid
from agents.models import AgentSpec
from agents.prompts import detail
from agents.schema import check_schema
from agents.spec import ModelParams
from agents.unknown import unknown_names
from runs.models import Budget, Run
from runs.rules import untrusted_tags

JSON = Any
NAMES = (
    "model", "model_params", "instructions", "variables", "tool_policy", "output_schema", "max_steps", "budget",
    "priority",
)  # fmt: skip
MAX_INSTRUCTIONS = 200_000  # characters; those of a coding agent have 20,000 before it reads a project


class Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class Narrowing(Part):
    """Tools of the agent: only `allowed`, without `blocked`, and with an approval for those in `ask`."""

    allowed: list[str] | None = Field(default=None, max_length=500)
    blocked: list[str] = Field(default=[], max_length=500)
    ask: list[str] = Field(default=[], max_length=500)


class Most(Part):
    """The most that the run and its child runs may use: tokens, US dollars."""

    tokens: int | None = Field(default=None, ge=1, le=10**12)
    cost: float | None = Field(default=None, gt=0, le=1_000_000)


class Asked(Part):
    model: str | None = Field(default=None, min_length=1, max_length=100)
    model_params: ModelParams | None = None
    instructions: str | None = Field(default=None, max_length=MAX_INSTRUCTIONS)
    variables: dict[str, JSON] | None = None
    tool_policy: Narrowing | None = None
    output_schema: dict[str, JSON] | None = None
    max_steps: int | None = Field(default=None, ge=1, le=200)
    timeout: float | None = Field(default=None, gt=0, le=86_400)
    budget: Most | None = None
    priority: Literal["batch"] | None = None
    # How the caller's own tools are used; a field of protocols that know it, not of a message over REST.
    tool_choice: str | None = Field(default=None, min_length=1, max_length=64)  # “required”, or the name of one
    parallel_tool_calls: bool | None = None
    stop: list[Annotated[str, Field(min_length=1, max_length=200)]] | None = Field(default=None, max_length=16)


def parse_options(body: dict[str, JSON] | None) -> dict[str, JSON]:
    """The options that were given, checked for their types. Raises Invalid."""
    values = {name: value for name, value in (body or {}).items() if value is not None}
    if not values:
        return {}
    try:
        options = Asked.model_validate(values)
    except pydantic.ValidationError as error:
        problems = []
        for one in error.errors():
            field = ".".join(map(str, one["loc"]))
            problems.append(detail(field, one["type"], one["msg"]))
        raise refuse_options(problems)
    return options.model_dump(exclude_none=True)


def build_option_columns(values: dict[str, JSON], tools: list[str]) -> dict[str, JSON]:
    """What the run's row keeps, before it is merged. `tools`: names of the caller's."""
    columns: dict[str, JSON] = {}
    if values:
        columns["asked"] = values
    if tools:
        columns["tools"] = tools
    return columns


def for_chain(priority: str | None) -> dict[str, JSON]:
    """The options of a chain's run, which may only ask for a priority. Raises Invalid."""
    values = parse_options({"priority": priority})
    return {"asked": values} if values else {}


def is_batch(run: Run) -> bool:
    fields = run.options.get("asked", {})
    return bool(fields.get("priority"))


def refuse_options(details: list[dict[str, str]]) -> Invalid:
    first = f"{details[0]['field']}: {details[0]['message']}"
    return Invalid(f"The options of this message are not valid: {first}", code="invalid_options", details=details)


def settle_options(
    run: Run, spec: AgentSpec | None, *, timeout: float | None = None, reserved: Collection[str] = ()
) -> None:
    """Merge what the run's options ask for with the definition, and put the result into its row.

    Without an agent (the router chooses later) nothing is merged yet. `reserved` are names of the
    caller's own tools, `timeout` is the time limit where it is not the agent's own. Raises Invalid
    with one detail per problem.
    """
    fields = run.options.get("asked", {})
    if spec is None:
        return
    if not fields and not spec.variables:
        return
    assert run.agent is not None
    values, problems = prompts.fill_values(spec.variables, fields.get("variables", {}))
    problems += model_problems(run, spec, fields)
    problems += tool_problems(spec, fields, reserved)
    problems += limit_problems(spec, fields)
    problems += schema_problems(fields)
    if problems:
        raise refuse_options(problems)
    model_params = spec.model_params.model_dump(exclude_none=True)
    merged = {
        "model": fields.get("model", spec.model_name),
        "model_params": {**model_params, **fields.get("model_params", {})},
        "instructions": fields.get("instructions", ""),
        "variables": values,
        "tool_policy": fields.get("tool_policy", Narrowing().model_dump()),
        "output_schema": fields.get("output_schema", spec.output_schema),
        "max_steps": fields.get("max_steps", spec.max_steps),
        "timeout": timeout or spec.timeout_s,
        "budget": fields.get("budget"),
    }
    if spec.variables:
        variables = render_variables(values, run)
        merged["system_prompt"] = prompts.render_prompt(spec.system_prompt, variables)
    run.options = {**run.options, "asked": fields, "merged": merged}
    run.policy = {**run.policy, **narrow_policy(run.policy, fields)}


def render_variables(values: dict[str, JSON], run: Run) -> dict[str, JSON]:
    """The values as the prompt has them: a child's may come from untrusted text."""
    if not run.parent_id or not run.has_untrusted:
        return values
    return {name: mark_variable(value) for name, value in values.items()}


def mark_variable(value: JSON) -> JSON:
    if isinstance(value, str):
        return untrusted_tags.mark_untrusted(value, "variable")
    if isinstance(value, list):
        return [mark_variable(element) for element in value]
    if isinstance(value, dict):
        return {name: mark_variable(member) for name, member in value.items()}
    return value


def narrow_policy(policy: dict[str, JSON], values: dict[str, JSON]) -> dict[str, JSON]:
    """The run's policy, never wider than before."""
    if "tool_policy" not in values:
        return {}
    narrowing = values["tool_policy"]
    allowed = policy.get("allowed")
    asked_names = narrowing.get("allowed")
    if allowed is None:
        allowed = asked_names
    elif asked_names is not None:
        allowed = [name for name in asked_names if name in allowed]
    return {
        "allowed": allowed,
        "blocked": [*policy.get("blocked", ()), *narrowing.get("blocked", ())],
        "ask": [*policy.get("ask", ()), *narrowing.get("ask", ())],
    }


# -- what is wrong ----------------------------------------------------------------------------------------------------


def model_problems(run: Run, spec: AgentSpec, values: dict[str, JSON]) -> list[dict[str, str]]:
    model = values.get("model")
    own_models = (spec.model_name, *spec.fallback_models)
    if model is None or model in own_models:
        return []
    if may_choose(run.agent, run.principal, model):
        return []
    named = [name for name in own_models if name]
    names = ", ".join(dict.fromkeys(named)) or "none"
    return [detail("model", "unknown_model", f"This agent cannot use “{model}”; its models are {names}.")]


def may_choose(agent: Any, user: Any, model: str) -> bool:
    """Any model of a provider that the person may use; where models have prices, one with a price: a
    model without one would not count in budgets.
    """
    return agent.provider.may_use(user) and has_price(agent.provider, model)


def has_price(provider: Any, model: str) -> bool:
    """Whether the provider has a price for this model; true if it has no prices at all."""
    return not provider.prices or model in provider.prices or "*" in provider.prices


def tool_problems(spec: AgentSpec, values: dict[str, JSON], reserved: Collection[str]) -> list[dict[str, str]]:
    policy = values.get("tool_policy", {})
    known_names = {grant.tool for grant in spec.grants} | set(reserved)
    problems = []
    for field in ("allowed", "blocked", "ask"):
        missing = [name for name in policy.get(field) or () if name not in known_names]
        for name, why in unknown_names(missing, "tool", known_names).items():
            problems.append(detail(f"tool_policy.{field}", "unknown_tool", f"“{name[:64]}”: {why}"))
    return problems


def limit_problems(spec: AgentSpec, values: dict[str, JSON]) -> list[dict[str, str]]:
    problems = []
    if values.get("max_steps", 0) > spec.max_steps:
        steps = f"The agent allows {spec.max_steps} steps; a message can only ask for fewer."
        problems.append(detail("max_steps", "above_limit", steps))
    most = spec.model_params.max_tokens
    asked_tokens = values.get("model_params", {}).get("max_tokens", 0)
    if most is not None and asked_tokens > most:
        tokens = f"The agent allows answers of {most} tokens; a message can only ask for fewer."
        problems.append(detail("model_params.max_tokens", "above_limit", tokens))
    return problems


def schema_problems(values: dict[str, JSON]) -> list[dict[str, str]]:
    if "output_schema" not in values:
        return []
    problems = check_schema(values["output_schema"])
    return [detail(f"output_schema{one['path']}", one["code"], one["message"]) for one in problems]


# -- what is made of it -----------------------------------------------------------------------------------------------


def apply_options(run: Run, spec: AgentSpec) -> AgentSpec:
    """The definition with the run's options: what the model is asked with."""
    merged = run.options.get("merged")
    if not merged:
        return spec
    sections = [merged.get("system_prompt", spec.system_prompt), merged["instructions"]]
    changed = {
        "system_prompt": "\n\n".join(section for section in sections if section),
        "model_name": merged["model"],
        "model_params": ModelParams(**merged["model_params"]),
        "output_schema": merged["output_schema"],
        "max_steps": merged["max_steps"],
    }
    return spec.model_copy(update=changed)


def limit_cost(run: Run) -> None:
    """The budget that the message asked for, in the transaction that stores the run."""
    most = run.options.get("asked", {}).get("budget")
    if not most:
        return
    max_cost = Decimal(str(most["cost"])) if most.get("cost") else None
    Budget.objects.create(run=run, period=Budget.Period.RUN, max_tokens=most.get("tokens"), max_cost=max_cost)


def serialize_options(run: Run) -> dict[str, JSON] | None:
    """The merged options, the names of the caller's tools, and the names of what was `asked`; null for nothing."""
    if not run.options:
        return None
    values: dict[str, JSON] = {}
    if "tools" in run.options:
        values["tools"] = run.options["tools"]
    values |= run.options.get("asked", {})
    merged = run.options.get("merged", {})
    return {**values, **merged, "asked": sorted(values)}
