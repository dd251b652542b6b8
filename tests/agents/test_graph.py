"""What publish refuses, and the step each refusal names."""

import pytest

from agents.graph import alternatives, find_needs, order_steps, problems, upstream
from agents.spec import ChainSpec, StepSpec


def chain(*steps, **fields):
    return ChainSpec(name="digest", steps=[StepSpec(**{"target": "t", **step}) for step in steps], **fields)


def test_a_diamond_is_fine_and_joins():
    spec = chain(
        {"key": "a"},
        {"key": "b", "needs": ["a"], "input": {"x": "steps.a.output"}},
        {"key": "c", "needs": ["a"]},
        {"key": "d", "needs": ["b", "c"], "input": {"x": "steps.a.output", "y": "steps.c.output"}},
        output="steps.d.output",
    )
    assert problems(spec) == []
    assert order_steps(spec) == ["a", "b", "c", "d"]
    assert upstream(spec)["d"] == {"a", "b", "c"}


def test_the_sequential_preset_chains_the_steps_and_leaves_fallbacks_out():
    spec = chain(
        {"key": "a", "on_error": "fallback", "fallback": "spare"}, {"key": "spare"}, {"key": "b"}, strategy="sequential"
    )
    assert find_needs(spec) == {"a": (), "spare": (), "b": ("a",)}
    assert problems(spec) == []


def test_the_router_preset_chooses_among_the_steps_without_needs():
    spec = chain({"key": "a", "when": "input.x"}, {"key": "b"}, {"key": "c", "needs": ["a", "b"]}, strategy="router")
    assert alternatives(spec) == ("a", "b")
    assert problems(spec) == []


@pytest.mark.parametrize(
    ("steps", "fields", "step", "code"),
    [
        ([], {}, "", "no_steps"),
        ([{"key": "a", "needs": ["a"]}], {}, "a", "cycle"),
        ([{"key": "s"}, {"key": "a", "needs": ["c"]}, {"key": "b", "needs": ["a"]}, {"key": "c", "needs": ["b"]}], {}, "b", "cycle"),  # noqa: E501
        ([{"key": "a", "needs": ["b"]}, {"key": "b"}], {"strategy": "sequential"}, "b", "cycle"),
        ([{"key": "a", "needs": ["ghost"]}], {}, "a", "unknown_step"),
        ([{"key": "a"}, {"key": "a"}], {}, "a", "duplicate_step"),
        ([{"key": "A b"}], {}, "A b", "invalid_key"),
        ([{"key": "a", "target": ""}], {}, "a", "no_target"),
        ([{"key": f"s{n}"} for n in range(201)], {}, "", "too_many_steps"),
        ([{"key": "a", "on_error": "fallback"}], {}, "a", "no_fallback"),
        ([{"key": "a", "on_error": "fallback", "fallback": "ghost"}], {}, "a", "unknown_step"),
        ([{"key": "a", "on_error": "fallback", "fallback": "b"}, {"key": "b", "on_error": "fallback", "fallback": "a"}], {}, "a", "cycle"),  # noqa: E501
        ([{"key": "a", "on_error": "fallback", "fallback": "b"}, {"key": "b"}, {"key": "c", "needs": ["b"]}], {}, "c", "unreachable_step"),  # noqa: E501
        ([{"key": "a", "when": "`false`"}], {}, "a", "unreachable_step"),
        ([{"key": "a"}, {"key": "b", "when": "input.x"}], {"strategy": "router"}, "b", "unreachable_step"),
        ([{"key": "a", "input": {"x": "steps.ghost.output"}}], {}, "a", "unknown_step"),
        ([{"key": "a"}, {"key": "b", "input": {"x": "steps.a.output"}}], {}, "b", "not_upstream"),
        ([{"key": "a", "input": {"x": "item.id"}}], {}, "a", "unknown_root"),
        ([{"key": "a", "input": {"x": 5}}], {}, "a", "invalid_mapping"),
        ([{"key": "a", "when": "input.["}], {}, "a", "invalid_expression"),
        ([{"key": "a", "for_each": "nope.x"}], {}, "a", "unknown_root"),
        ([{"key": "a", "when": "input.count > limit"}], {}, "a", "unknown_root"),
        ([{"key": "a", "when": "input.paid == true"}], {}, "a", "unknown_root"),
        ([{"key": "a", "when": "input.count > 'input.limit'"}], {}, "a", "text_for_a_field"),
        ([{"key": "a"}, {"key": "b", "needs": ["a"], "when": "input.x == 'steps.a.output'"}], {}, "b", "text_for_a_field"),
        ([{"key": "a", "repeat_until": {"condition": "output.n >= 'input.limit'"}}], {}, "a", "text_for_a_field"),
        ([{"key": "a"}], {"output": "steps.ghost.output"}, "", "unknown_step"),
    ],
)  # fmt: skip
def test_a_broken_graph_is_refused_and_the_offending_step_is_named(steps, fields, step, code):
    found = problems(chain(*steps, **fields))
    assert [(problem.step, problem.code) for problem in found][:1] == [(step, code)]
    assert all(problem.message for problem in found)


def test_problems_are_listed_as_far_as_they_help():
    found = problems(chain(*({"key": f"s{number}", "needs": [f"x{one}" for one in range(50)]} for number in range(50))))
    assert len(found) == 100
    assert all(len(problem.message) + len(problem.hint) < 500 for problem in found)


def test_a_step_maps_at_most_so_many_values():
    [problem] = problems(chain({"key": "a", "input": {f"p{number}": "input.x" for number in range(201)}}))
    assert problem.code == "too_many_parameters"


def test_each_step_comes_after_its_needs_in_the_order_of_the_steps():
    spec = chain({"key": "d", "needs": ["c", "a"]}, {"key": "c", "needs": ["b"]}, {"key": "b"}, {"key": "a"})
    assert order_steps(spec) == ["b", "a", "c", "d"]


def test_a_cycle_is_told_as_a_path():
    [problem] = problems(chain({"key": "a", "needs": ["b"]}, {"key": "b", "needs": ["a"]}))
    assert problem.message == "Steps wait for each other: b → a → b."


def test_a_step_of_a_loop_may_read_its_item_and_its_last_round():
    spec = chain(
        {
            "key": "a",
            "for_each": "input.mails",
            "input": {"mail": "item", "place": "index", "before": {"path": "previous", "default": None}},
            "repeat_until": {"condition": "output.done", "limit": 3},
        }
    )
    assert problems(spec) == []


@pytest.mark.parametrize(
    "condition",
    [
        "input.count > input.limit",
        "input.event == 'input.requested'",
        "input.rows[?count > limit]",
        "input.x == null",
        "length(input.rows) > `1` && !input.done",
    ],
)
def test_a_condition_may_name_fields_and_texts(condition):
    assert problems(chain({"key": "a", "when": condition})) == []
