"""The graph of a chain: dependencies of steps, their order, and validation. Plain Python."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from typing import Any

from .mapping import MappingError, find_compared_texts, find_roots, find_steps, parse_expression, read_source
from .spec import ChainSpec, ContextSource, StepSpec

MAX_STEPS = 200
# Parameters of one step's input.
MAX_PARAMETERS = 200
# Problems that are listed.
MOST_PROBLEMS = 100
KEY = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?")
ROOTS = frozenset(["input", "steps", "variables", "run"])
ITEM_ROOTS = frozenset(["item", "index"])
# Targets whose runs have a session.
TALKING = frozenset(["agent", "router"])
REPEAT_ROOTS = frozenset(["input", "output", "previous", "round"])
COVERS_ROOTS = frozenset(["input", "output", "calls"])
FIELD = re.compile(r"[A-Za-z_]\w*([.\[][\w.\[\]\"-]*)?")
ORDERING = frozenset(["<", "<=", ">", ">="])


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; `step` is the key of the step, empty if the chain itself is concerned."""

    step: str
    code: str
    message: str
    hint: str = ""

    def as_detail(self) -> dict[str, str]:
        return asdict(self)


def find_needs(spec: ChainSpec) -> dict[str, tuple[str, ...]]:
    """The needs of every step with the preset applied: `sequential` adds the previous step; a
    fallback waits for none.
    """
    fallbacks = fallback_keys(spec)
    needs: dict[str, tuple[str, ...]] = {}
    before = ""
    for step in spec.steps:
        own = tuple(dict.fromkeys(step.needs))
        if step.key in fallbacks:
            needs[step.key] = ()
            continue
        if spec.strategy == "sequential" and before and before not in own:
            own = (*own, before)
        needs[step.key] = own
        before = step.key
    return needs


def fallback_keys(spec: ChainSpec) -> frozenset[str]:
    """Steps that only run in place of a failed step."""
    keys = [step.fallback for step in spec.steps if step.on_error == "fallback"]
    return frozenset(key for key in keys if key)


def alternatives(spec: ChainSpec) -> tuple[str, ...]:
    """The steps that a `router` chain chooses from: those without needs, in their order."""
    if spec.strategy != "router":
        return ()
    needs = find_needs(spec)
    fallbacks = fallback_keys(spec)
    return tuple(step.key for step in spec.steps if not needs[step.key] and step.key not in fallbacks)


def order_steps(spec: ChainSpec) -> list[str]:
    """Keys ordered so that each comes after its needs; steps of a cycle are left out."""
    needs = find_needs(spec)
    unmet_counts = {key: len(own) for key, own in needs.items()}
    places = {key: place for place, key in enumerate(needs)}
    followers = defaultdict[str, list[str]](list)
    for key, own in needs.items():
        for need in own:
            followers[need].append(key)
    ordered: list[str] = []
    ready = [key for key, count in unmet_counts.items() if count == 0]
    while ready:
        ordered += ready
        freed = []
        for ready_key in ready:
            for key in followers[ready_key]:
                unmet_counts[key] -= 1
                if unmet_counts[key] == 0:
                    freed.append(key)
        ready = sorted(freed, key=places.__getitem__)
    return ordered


def upstream(spec: ChainSpec) -> dict[str, frozenset[str]]:
    """The keys of the steps that have certainly ended when a step starts. A fallback can also read the
    step that it replaces.
    """
    needs = find_needs(spec)
    nothing: frozenset[str] = frozenset()
    ancestors: dict[str, frozenset[str]] = {}
    for key in order_steps(spec):
        own = frozenset(needs[key])
        ancestors[key] = own.union(*(ancestors.get(need, nothing) for need in own))
    for step in spec.steps:
        if step.on_error == "fallback" and step.fallback in ancestors:
            ancestors[step.fallback] |= ancestors.get(step.key, nothing) | {step.key}
    return ancestors


def cut_after(spec: ChainSpec, key: str) -> ChainSpec:
    """The part of a chain that ends with this step: what it waits for, the fallbacks of these steps,
    and as the result the step's output. Steps of a circle are left in: `problems` reports them.
    """
    needs = find_needs(spec)
    by_key = {step.key: step for step in spec.steps}
    chosen: set[str] = set()
    waiting = [key]
    while waiting:
        step = by_key.get(waiting.pop())
        if step is None or step.key in chosen:
            continue
        chosen.add(step.key)
        waiting += needs[step.key]
        if step.on_error == "fallback":
            waiting.append(step.fallback)
    steps = [step for step in spec.steps if step.key in chosen]
    # The output schema is the whole chain's, and says nothing of this step.
    return spec.model_copy(update={"steps": steps, "output": f'steps."{key}".output', "output_schema": None})


def problems(spec: ChainSpec) -> list[Problem]:
    """The problems of the graph, each with its step; empty if it may be published."""
    # Without keys that are unique and an order of the steps, nothing else can be said.
    basic = list(islice(shape_problems(spec), MOST_PROBLEMS)) or list(cycle_problems(spec))
    if basic:
        return basic
    return list(islice(further_problems(spec), MOST_PROBLEMS))


def further_problems(spec: ChainSpec) -> Iterator[Problem]:
    graph = Graph({step.key: step for step in spec.steps}, upstream(spec))
    yield from reach_problems(spec)
    yield from session_problems(spec, graph)
    for step in spec.steps:
        yield from context_problems(graph, step)
    for step in spec.steps:
        yield from expression_problems(graph, step)
    yield from output_problems(spec, graph)


@dataclass(frozen=True, slots=True)
class Graph:
    """The steps by their keys, and which have ended for certain when each starts."""

    steps: dict[str, StepSpec]
    ancestors: dict[str, frozenset[str]]


def shape_problems(spec: ChainSpec) -> Iterator[Problem]:
    keys = [step.key for step in spec.steps]
    if not keys:
        yield Problem("", "no_steps", "A chain needs at least one step.")
    if len(keys) > MAX_STEPS:
        yield Problem("", "too_many_steps", f"A chain can have {MAX_STEPS} steps; this one has {len(keys)}.")
        return
    counts = Counter(keys)
    for key in sorted(counts):
        if counts[key] > 1:
            hint = "Keys must be unique within a chain."
            yield Problem(key, "duplicate_step", f"Two steps have the key “{key}”.", hint)
    for step in spec.steps:
        yield from name_problems(step, counts)


def name_problems(step: StepSpec, keys: Mapping[str, Any]) -> Iterator[Problem]:
    if not KEY.fullmatch(step.key):
        yield Problem(
            step.key, "invalid_key", f"“{step.key}” is not a valid step key.", "Use lower-case letters, digits, - or _."
        )
    if not step.target and step.target_kind != "router":
        yield Problem(step.key, "no_target", f"Step “{step.key}” does not name {step.target_kind}.")
    if step.covers and step.target_kind == "tool":
        yield Problem(
            step.key, "covers_a_tool", f"Step “{step.key}” has `covers`, which is for steps with their own run."
        )
    for need in step.needs:
        if need == step.key:
            yield Problem(step.key, "cycle", f"Step “{step.key}” needs itself.", "Remove it from `needs`.")
        elif need not in keys:
            yield unknown_step(step.key, "needs", need, keys)
    if step.on_error != "fallback":
        return
    if not step.fallback:
        yield Problem(
            step.key, "no_fallback", f"Step “{step.key}” has on_error: fallback, but does not name a fallback step."
        )
    elif step.fallback == step.key:
        yield Problem(step.key, "cycle", f"Step “{step.key}” is its own fallback.")
    elif step.fallback not in keys:
        yield unknown_step(step.key, "falls back to", step.fallback, keys)


def unknown_step(step: str, verb: str, name: str, steps: Iterable[str]) -> Problem:
    name = name[:64]
    keys = join_some(steps)
    message = f"Step “{step}” {verb} “{name}”, which is not a step of this chain."
    return Problem(step, "unknown_step", message, f"Its steps are {keys}.")


def join_some(keys: Iterable[str]) -> str:
    names = sorted(keys)
    joined = ", ".join(names[:20])
    return f"{joined} …" if len(names) > 20 else joined


def cycle_problems(spec: ChainSpec) -> Iterator[Problem]:
    """One problem per cycle, reported at its first step; a circle of fallbacks counts too."""
    needs = find_needs(spec)
    free = set(order_steps(spec))
    stuck = [step.key for step in spec.steps if step.key not in free]
    if stuck:
        circle = walk_circle(stuck, needs)
        path = " → ".join([*circle, circle[0]])
        yield Problem(circle[0], "cycle", f"Steps wait for each other: {path}.", "Remove one of these needs.")
    fallbacks = {step.key: step.fallback for step in spec.steps if step.on_error == "fallback"}
    for key in fallbacks:
        walked = [key]
        following = fallbacks.get(key)
        while following and following not in walked:
            walked.append(following)
            following = fallbacks.get(following)
        if following == key:
            path = " → ".join([*walked, key])
            yield Problem(key, "cycle", f"The fallbacks form a circle: {path}.")
            # Each step of the circle would report the same one.
            return


def walk_circle(stuck: list[str], needs: dict[str, tuple[str, ...]]) -> list[str]:
    """Follow the needs of blocked steps until one occurs twice; the circle in the order in which they would run."""
    walked = [stuck[0]]
    while True:
        following = next(need for need in needs[walked[-1]] if need in stuck)
        if following in walked:
            circle = walked[walked.index(following) :]
            return circle[::-1]
        walked.append(following)


def reach_problems(spec: ChainSpec) -> Iterator[Problem]:
    """Steps that can never start."""
    fallbacks = fallback_keys(spec)
    for step in spec.steps:
        key = step.key
        blocker = next((need for need in step.needs if need in fallbacks), "")
        if blocker:
            message = f"Step “{key}” needs “{blocker}”, which only runs in place of a failed step."
            hint = "Need the step it replaces: the fallback's output takes the place of that step's output."
            yield Problem(key, "unreachable_step", message, hint)
        if key in fallbacks and step.needs:
            message = f"Step “{key}” is a fallback; it starts when a step fails."
            yield Problem(key, "fallback_with_needs", message, "Remove its needs.")
        if step.when and never_holds(step.when):
            yield Problem(key, "unreachable_step", f"Step “{key}” never runs: its `when` is always false.")
    by_key = {step.key: step for step in spec.steps}
    for key, next_key in pairwise(alternatives(spec)):
        if not by_key[key].when:
            message = f"Step “{next_key}” is never chosen: “{key}” before it has no condition."
            yield Problem(next_key, "unreachable_step", message, "Put the step without `when` last.")
            break


def session_problems(spec: ChainSpec, graph: Graph) -> Iterator[Problem]:
    """In one session for the whole run agents take turns: of any two, one ends before the other
    starts.
    """
    if spec.session != "run":
        return
    talking = [step for step in list_ordered_steps(spec) if step.target_kind in TALKING]
    for step in talking:
        if step.for_each and min(step.max_parallel, spec.max_parallel) > 1:
            message = f"The items of step “{step.key}” would share one session in parallel."
            hint = "Set max_parallel to 1, or session to “step”."
            yield Problem(step.key, "parallel_in_session", message, hint)
    spare = fallback_keys(spec)
    # Of the steps that a router chooses from, one runs.
    either = set(alternatives(spec))
    turns = [step.key for step in talking if step.key not in spare]
    for before, key in pairwise(turns):
        are_alternatives = before in either and key in either
        if before not in graph.ancestors[key] and not are_alternatives:
            message = f"Steps “{before}” and “{key}” would share one session at the same time."
            hint = f"Add “{before}” to the needs of “{key}”, or set session to “step”."
            yield Problem(key, "parallel_in_session", message, hint)


def list_ordered_steps(spec: ChainSpec) -> list[StepSpec]:
    by_key = {step.key: step for step in spec.steps}
    return [by_key[key] for key in order_steps(spec)]


def context_problems(graph: Graph, step: StepSpec) -> Iterator[Problem]:
    if step.context and step.target_kind not in TALKING:
        yield Problem(step.key, "no_session", f"Step “{step.key}” has context, but its target has no session.")
    roots = ROOTS | ITEM_ROOTS if step.for_each else ROOTS
    ancestors = graph.ancestors.get(step.key, frozenset())
    for source in step.context:
        what = f"context “{source.source}”"
        yield from source_problems(graph, step, source, what)
        if isinstance(source.id, str) and source.id:
            yield from one_expression(graph, step.key, f"{what}: its id", source.id, roots, ancestors)


def source_problems(graph: Graph, step: StepSpec, source: ContextSource, what: str) -> Iterator[Problem]:
    """Whether one source names a session or a file, and no more than one."""
    key = step.key
    if source.id and source.step:
        yield Problem(key, "two_sources", f"{what} of step “{key}” names a step and an id.")
    if source.source in ("file", "session") and not source.id and not source.step:
        yield Problem(key, "no_source", f"{what} of step “{key}” needs an id.")
    if source.source == "file" and source.step:
        yield Problem(key, "no_source", f"{what} of step “{key}” needs an id, not a step.")
    if not source.step:
        return
    read_step = graph.steps.get(source.step)
    if read_step is None:
        yield unknown_step(key, "has the context of", source.step, graph.steps)
    elif source.step not in graph.ancestors.get(key, frozenset()):
        message = f"{what} reads “{source.step}”, which may not have ended by then."
        yield Problem(key, "not_upstream", message, f"Add “{source.step}” to the step's needs.")
    elif read_step.target_kind not in TALKING:
        yield Problem(key, "no_session", f"{what} reads “{source.step}”, which has no session.")


def never_holds(expression: str) -> bool:
    try:
        node = parse_expression(expression).parsed
    except MappingError:
        return False
    return node["type"] == "literal" and node["value"] in (False, None, "", [], {})


def expression_problems(graph: Graph, step: StepSpec) -> Iterator[Problem]:
    roots = ROOTS | ITEM_ROOTS if step.for_each else ROOTS
    if step.repeat_until:
        roots |= {"previous", "round"}
    ancestors = graph.ancestors.get(step.key, frozenset())
    mappings = {"input": step.input, "variable": step.variables}
    if any(len(mapping) > MAX_PARAMETERS for mapping in mappings.values()):
        message = f"Step “{step.key}” maps more than {MAX_PARAMETERS} values."
        yield Problem(step.key, "too_many_parameters", message, "Map an object that holds them.")
        return
    for what, mapping in mappings.items():
        for name, source in mapping.items():
            is_constant = isinstance(source, dict) and "value" in source
            if not is_constant:
                yield from one_expression(graph, step.key, f"{what} “{name}”", source, roots, ancestors)
    if step.when:
        yield from one_expression(graph, step.key, "`when`", step.when, ROOTS, ancestors)
        yield from text_problems(graph, step.key, "`when`", step.when)
    if step.for_each:
        yield from one_expression(graph, step.key, "`for_each`", step.for_each, ROOTS, ancestors)
    if step.repeat_until:
        condition = step.repeat_until.condition
        yield from one_expression(graph, step.key, "`repeat_until`", condition, REPEAT_ROOTS, ancestors)
        yield from text_problems(graph, step.key, "`repeat_until`", condition)
    if step.covers:
        for source in (step.covers.values, step.covers.by):
            yield from one_expression(graph, step.key, "`covers`", source, COVERS_ROOTS, frozenset())


def text_problems(graph: Graph, step: str, what: str, condition: str) -> Iterator[Problem]:
    """A field within quotes is a text: `input.count > 'input.limit'` compares no field."""
    try:
        compared = list(find_compared_texts(parse_expression(condition).parsed))
    # `one_expression` reports it.
    except MappingError:
        return
    all_roots = ROOTS | REPEAT_ROOTS | ITEM_ROOTS
    for sign, text in compared:
        root, dot, rest = text.partition(".")
        looks_like_field = dot and root in all_roots and FIELD.fullmatch(text)
        if not looks_like_field:
            continue
        # Nobody asks whether a number is larger than a text; for equality the text must name a step.
        names_step = root == "steps" and rest.split(".")[0] in graph.steps
        if sign in ORDERING or names_step:
            message = f"{what} of step “{step}” compares with the text '{text}', not that field."
            hint = f"Write {text} without quotes. If you mean the text, write join('', ['{text}'])."
            yield Problem(step, "text_for_a_field", message, hint)


def output_problems(spec: ChainSpec, graph: Graph) -> Iterator[Problem]:
    if spec.output:
        yield from one_expression(graph, "", "the chain's output", spec.output, ROOTS, frozenset(graph.steps))


def one_expression(
    graph: Graph, step: str, what: str, source: Any, roots: frozenset[str], ancestors: frozenset[str]
) -> Iterator[Problem]:
    """Whether an expression can be read, and only refers to steps that have ended by then."""
    of_step = f" of step “{step}”" if step else ""
    try:
        path, _, _ = read_source(source)
        node = parse_expression(path).parsed
        named_steps = find_steps(path)
    except MappingError as error:
        yield Problem(step, error.code, f"{what}{of_step}: {error}", error.hint)
        return
    # People write `null` as a name: nothing has that name, and so it means null.
    unknown_roots = set(find_roots(node)) - roots - {"null"}
    for root in sorted(unknown_roots):
        hint = f"Start with {', '.join(sorted(roots))}."
        if root in ("true", "false"):
            hint = f"Write `{root}` within backticks."
        yield Problem(step, "unknown_root", f"{what}{of_step}: “{root}” in `{path}` does not exist.", hint)
    for name in sorted(named_steps - ancestors):
        if name not in graph.steps:
            keys = join_some(graph.steps)
            message = f"{what}{of_step} reads “{name}”, which is not a step of this chain."
            yield Problem(step, "unknown_step", message, f"Its steps are {keys}.")
        else:
            message = f"{what}{of_step} reads “{name}”, which may not have ended by then."
            yield Problem(step, "not_upstream", message, f"Add “{name}” to the step's needs.")
