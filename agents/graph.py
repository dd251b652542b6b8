"""The graph of a chain: dependencies of steps, their order, and validation. Plain Python."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, islice, pairwise
from typing import Any

from .mapping import MappingError, find_compared_texts, find_roots, find_steps, parse, read_source
from .spec import ChainSpec, StepSpec

MAX_STEPS = 200
MAX_PARAMETERS = 200  # of one step's input
MOST_PROBLEMS = 100  # that are listed
KEY = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?")
ROOTS = frozenset(["input", "steps", "variables", "run"])
ITEM_ROOTS = frozenset(["item", "index"])
TALKING = frozenset(["agent", "router"])  # targets whose runs have a session
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
    return frozenset(step.fallback for step in spec.steps if step.on_error == "fallback" and step.fallback)


def alternatives(spec: ChainSpec) -> tuple[str, ...]:
    """The steps that a `router` chain chooses from: those without needs, in their order."""
    if spec.strategy != "router":
        return ()
    needs = find_needs(spec)
    return tuple(step.key for step in spec.steps if not needs[step.key] and step.key not in fallback_keys(spec))


def order_steps(spec: ChainSpec) -> list[str]:
    """Keys ordered so that each comes after its needs; steps of a cycle are left out."""
    needs = find_needs(spec)
    unmet = {key: len(own) for key, own in needs.items()}
    places = {key: place for place, key in enumerate(needs)}
    followers = defaultdict[str, list[str]](list)
    for key, own in needs.items():
        for need in own:
            followers[need].append(key)
    done: list[str] = []
    ready = [key for key, number in unmet.items() if not number]
    while ready:
        done += ready
        freed = []
        for key in chain.from_iterable(followers[key] for key in ready):
            unmet[key] -= 1
            if not unmet[key]:
                freed.append(key)
        ready = sorted(freed, key=places.__getitem__)
    return done


def upstream(spec: ChainSpec) -> dict[str, frozenset[str]]:
    """The keys of the steps that have certainly ended when a step starts. A fallback can also read the
    step that it replaces.
    """
    needs = find_needs(spec)
    ancestors: dict[str, frozenset[str]] = {}
    for key in order_steps(spec):
        ancestors[key] = frozenset(needs[key]).union(*(ancestors.get(need, frozenset()) for need in needs[key]))
    for step in spec.steps:
        if step.on_error == "fallback" and step.fallback in ancestors:
            ancestors[step.fallback] |= ancestors.get(step.key, frozenset()) | {step.key}
    return ancestors


def cut_after(spec: ChainSpec, key: str) -> ChainSpec:
    """The part of a chain that ends with this step: what it waits for, the fallbacks of these steps,
    and as the result the step's output. Steps of a circle are left in: `problems` reports them.
    """
    needs, by_key = find_needs(spec), {step.key: step for step in spec.steps}
    kept, waiting = set[str](), [key]
    while waiting:
        step = by_key.get(waiting.pop())
        if step is None or step.key in kept:
            continue
        kept.add(step.key)
        waiting += [*needs[step.key], *([step.fallback] if step.on_error == "fallback" else [])]
    steps = [step for step in spec.steps if step.key in kept]
    return spec.model_copy(update={"steps": steps, "output": f'steps."{key}".output', "output_schema": None})


def problems(spec: ChainSpec) -> list[Problem]:
    """The problems of the graph, each with its step; empty if it may be published."""
    if first := list(islice(shape_problems(spec), MOST_PROBLEMS)) or list(cycle_problems(spec)):
        return first
    graph = Graph({step.key: step for step in spec.steps}, upstream(spec))
    each = chain(
        reach_problems(spec),
        session_problems(spec, graph),
        (problem for step in spec.steps for problem in context_problems(graph, step)),
        (problem for step in spec.steps for problem in expression_problems(graph, step)),
        output_problems(spec, graph),
    )
    return list(islice(each, MOST_PROBLEMS))


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
    for key in sorted(key for key, number in Counter(keys).items() if number > 1):
        yield Problem(key, "duplicate_step", f"Two steps have the key “{key}”.", "Keys must be unique within a chain.")
    for step in spec.steps:
        yield from name_problems(step, dict.fromkeys(keys))


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
    name, keys = name[:64], join_some(steps)
    return Problem(
        step, "unknown_step", f"Step “{step}” {verb} “{name}”, which is not a step of this chain.",
        f"Its steps are {keys}.",
    )  # fmt: skip


def join_some(keys: Iterable[str]) -> str:
    names = sorted(keys)
    return ", ".join(names[:20]) + (" …" if len(names) > 20 else "")


def cycle_problems(spec: ChainSpec) -> Iterator[Problem]:
    """One problem per cycle, reported at its first step; a circle of fallbacks counts too."""
    needs = find_needs(spec)
    free = set(order_steps(spec))
    stuck = [step.key for step in spec.steps if step.key not in free]
    if stuck:
        circle = walk_circle(stuck, needs)
        path = " → ".join([*circle, circle[0]])
        yield Problem(circle[0], "cycle", f"Steps wait for each other: {path}.", "Remove one of these needs.")
    instead = {step.key: step.fallback for step in spec.steps if step.on_error == "fallback"}
    for key in instead:
        seen = [key]
        while (following := instead.get(seen[-1])) and following not in seen:
            seen.append(following)
        if following == key:
            yield Problem(key, "cycle", f"The fallbacks form a circle: {' → '.join([*seen, key])}.")
            return


def walk_circle(stuck: list[str], needs: dict[str, tuple[str, ...]]) -> list[str]:
    """Follow the needs of blocked steps until one occurs twice."""
    seen = [stuck[0]]
    while True:
        following = next(need for need in needs[seen[-1]] if need in stuck)
        if following in seen:
            return list(reversed(seen[seen.index(following) :]))
        seen.append(following)


def reach_problems(spec: ChainSpec) -> Iterator[Problem]:
    """Steps that can never start."""
    fallbacks = fallback_keys(spec)
    for step in spec.steps:
        if blocker := next((need for need in step.needs if need in fallbacks), None):
            yield Problem(
                step.key, "unreachable_step",
                f"Step “{step.key}” needs “{blocker}”, which only runs in place of a failed step.",
                "Need the step it replaces: the fallback's output takes the place of that step's output.",
            )  # fmt: skip
        if step.key in fallbacks and step.needs:
            yield Problem(
                step.key, "fallback_with_needs", f"Step “{step.key}” is a fallback; it starts when a step fails.",
                "Remove its needs.",
            )  # fmt: skip
        if step.when and never_holds(step.when):
            yield Problem(step.key, "unreachable_step", f"Step “{step.key}” never runs: its `when` is always false.")
    chosen = alternatives(spec)
    by_key = {step.key: step for step in spec.steps}
    for index, key in enumerate(chosen[:-1]):
        if not by_key[key].when:
            yield Problem(
                chosen[index + 1], "unreachable_step",
                f"Step “{chosen[index + 1]}” is never chosen: “{key}” before it has no condition.",
                "Put the step without `when` last.",
            )  # fmt: skip
            break


def session_problems(spec: ChainSpec, graph: Graph) -> Iterator[Problem]:
    """In one session for the whole run agents take turns: of any two, one ends before the other
    starts.
    """
    if spec.session != "run":
        return
    ancestors, spare, either = graph.ancestors, fallback_keys(spec), set(alternatives(spec))
    talking = [step for step in in_order(spec) if step.target_kind in TALKING]
    turns = [step.key for step in talking if step.key not in spare]
    for step in talking:
        if step.for_each and min(step.max_parallel, spec.max_parallel) > 1:
            yield Problem(
                step.key, "parallel_in_session", f"The items of step “{step.key}” would share one session in parallel.",
                "Set max_parallel to 1, or session to “step”.",
            )  # fmt: skip
    for before, key in pairwise(turns):
        if before not in ancestors[key] and not {before, key} <= either:
            yield Problem(
                key, "parallel_in_session", f"Steps “{before}” and “{key}” would share one session at the same time.",
                f"Add “{before}” to the needs of “{key}”, or set session to “step”.",
            )  # fmt: skip


def in_order(spec: ChainSpec) -> list[StepSpec]:
    by_key = {step.key: step for step in spec.steps}
    return [by_key[key] for key in order_steps(spec)]


def context_problems(graph: Graph, step: StepSpec) -> Iterator[Problem]:
    ancestors, by_key = graph.ancestors.get(step.key, frozenset()), graph.steps
    if step.context and step.target_kind not in TALKING:
        yield Problem(step.key, "no_session", f"Step “{step.key}” has context, but its target has no session.")
    for source in step.context:
        what = f"context “{source.source}”"
        if source.id and source.step:
            yield Problem(step.key, "two_sources", f"{what} of step “{step.key}” names a step and an id.")
        if source.source in ("file", "session") and not source.id and not source.step:
            yield Problem(step.key, "no_source", f"{what} of step “{step.key}” needs an id.")
        if source.source == "file" and source.step:
            yield Problem(step.key, "no_source", f"{what} of step “{step.key}” needs an id, not a step.")
        if source.step and source.step not in by_key:
            yield unknown_step(step.key, "has the context of", source.step, by_key)
        elif source.step and source.step not in ancestors:
            yield Problem(
                step.key, "not_upstream", f"{what} reads “{source.step}”, which may not have ended by then.",
                f"Add “{source.step}” to the step's needs.",
            )  # fmt: skip
        elif source.step and by_key[source.step].target_kind not in TALKING:
            yield Problem(step.key, "no_session", f"{what} reads “{source.step}”, which has no session.")
        if isinstance(source.id, str) and source.id:
            roots = ROOTS | (ITEM_ROOTS if step.for_each else frozenset())
            yield from one_expression(graph, step.key, f"{what}: its id", source.id, roots, ancestors)


def never_holds(expression: str) -> bool:
    try:
        node = parse(expression).parsed
    except MappingError:
        return False
    return node["type"] == "literal" and node["value"] in (False, None, "", [], {})


def expression_problems(graph: Graph, step: StepSpec) -> Iterator[Problem]:
    roots = ROOTS | (ITEM_ROOTS if step.for_each else frozenset())
    ancestors = graph.ancestors.get(step.key, frozenset())
    inputs = roots | ({"previous", "round"} if step.repeat_until else frozenset())
    mappings = (("input", step.input), ("variable", step.variables))
    if max(len(mapping) for _, mapping in mappings) > MAX_PARAMETERS:
        yield Problem(
            step.key, "too_many_parameters", f"Step “{step.key}” maps more than {MAX_PARAMETERS} values.",
            "Map an object that holds them.",
        )  # fmt: skip
        return
    for what, name, source in ((what, *pair) for what, mapping in mappings for pair in mapping.items()):
        if not (isinstance(source, dict) and "value" in source):
            yield from one_expression(graph, step.key, f"{what} “{name}”", source, inputs, ancestors)
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
        compared = list(find_compared_texts(parse(condition).parsed))
    except MappingError:
        return  # told by one_expression
    for sign, text in compared:
        parts = text.split(".")
        is_field = len(parts) > 1 and bool(FIELD.fullmatch(text)) and parts[0] in ROOTS | REPEAT_ROOTS | ITEM_ROOTS
        is_meant = sign in ORDERING or (parts[0] == "steps" and parts[1] in graph.steps)
        if is_field and is_meant:
            yield Problem(
                step, "text_for_a_field", f"{what} of step “{step}” compares with the text '{text}', not that field.",
                f"Write {text} without quotes. If you mean the text, write join('', ['{text}']).",
            )  # fmt: skip


def output_problems(spec: ChainSpec, graph: Graph) -> Iterator[Problem]:
    if spec.output:
        yield from one_expression(graph, "", "the chain's output", spec.output, ROOTS, frozenset(graph.steps))


def one_expression(
    graph: Graph, step: str, what: str, source: Any, roots: frozenset[str], ancestors: frozenset[str]
) -> Iterator[Problem]:
    """Whether it can be read, and only refers to steps that have ended by then."""
    of_step = f" of step “{step}”" if step else ""
    try:
        path, _, _ = read_source(source)
        node, named = parse(path).parsed, find_steps(path)
    except MappingError as error:
        yield Problem(step, error.code, f"{what}{of_step}: {error}", error.hint)
        return
    for root in sorted(set(find_roots(node)) - roots - {"null"}):  # a name that is never there means null
        is_constant = root in ("true", "false")
        yield Problem(
            step, "unknown_root", f"{what}{of_step}: “{root}” in `{path}` does not exist.",
            f"Write `{root}` within backticks." if is_constant else f"Start with {', '.join(sorted(roots))}.",
        )  # fmt: skip
    for name in sorted(named - ancestors):
        if name not in graph.steps:
            keys = join_some(graph.steps)
            yield Problem(
                step, "unknown_step", f"{what}{of_step} reads “{name}”, which is not a step of this chain.",
                f"Its steps are {keys}.",
            )  # fmt: skip
        else:
            yield Problem(
                step, "not_upstream", f"{what}{of_step} reads “{name}”, which may not have ended by then.",
                f"Add “{name}” to the step's needs.",
            )  # fmt: skip
