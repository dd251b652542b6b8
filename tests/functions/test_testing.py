import pytest

from functions import store, testing
from functions.execution import Caller, execute_function, ready
from functions.models import FunctionTest
from tests.functions.library import make, publish


def verdict(function, **fields):
    return testing.run_test(store.draft(function), FunctionTest(name="t", **fields), function.owner)


def test_a_test_expects_a_value_a_schema_or_an_error(alice):
    function = make(alice, "def f(a: int):\n    return {'half': 1 / a}\n", "f")
    assert verdict(function, arguments={"a": 3}, expected={"half": 0.3333}, tolerance=0.001).ok
    assert not verdict(function, arguments={"a": 3}, expected={"half": 0.3333}).ok
    schema = {"properties": {"half": {"type": "number"}}}
    assert verdict(function, arguments={"a": 2}, expects="schema", expected=schema).ok
    assert not verdict(function, arguments={"a": 2}, expects="schema", expected={"type": "array"}).ok
    assert verdict(function, arguments={"a": 0}, expects="error", expected="ZeroDivisionError").ok
    assert verdict(function, arguments={"a": 0}, expects="error", expected={"message": "division"}).ok
    assert not verdict(function, arguments={"a": 0}, expects="error", expected="KeyError").ok
    assert not verdict(function, arguments={"a": 1}, expects="error", expected="KeyError").ok
    assert verdict(function, arguments={"a": "x"}, expects="error", expected="InvalidArguments").ok


@pytest.mark.parametrize(
    ("expected", "got", "reason"),
    [
        (1, 1.0, ""),
        (True, 1, "result is 1, but True was expected"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "result.a[1] is 3, but 2 was expected"),
        ({"a": 1}, {"b": 1}, "result has the keys ['b'], not ['a']"),
        ([1], [1, 2], "result has 2 items, not 1"),
        ("x", None, "result is None, but 'x' was expected"),
    ],
)
def test_it_says_where_two_values_differ(expected, got, reason):
    assert testing.difference(expected, got, 0.0) == reason


def test_a_test_is_made_from_an_execution(alice):
    function = publish(alice, "def f(a: int):\n    return 1 / a\n", "f")
    version = ready(function.published.pk, function.published.sha256)
    for a, expects in ((3, "value"), (0, "error")):
        execution = execute_function(version, {"a": a}, Caller(user_id=alice.pk))
        test = testing.build_test(execution, f"with {a}")
        assert test.expects == expects
        assert testing.run_test(version, test, alice).ok


def test_replay_lists_what_another_version_would_have_answered(alice, bob):
    function = publish(alice, "def f(a: int):\n    return a * 2\n", "f")
    version = ready(function.published.pk, function.published.sha256)
    for a in (1, 2, 2, 0):
        execute_function(version, {"a": a}, Caller(user_id=alice.pk))
    execute_function(version, {"a": 99}, Caller(user_id=bob.pk))
    function.source = "def f(a: int):\n    return a ** 2\n"
    store.save_function(function, user=alice)

    answer = testing.replay(function, store.draft(function), alice, 10)
    assert (answer["replayed"], answer["same"]) == (3, 2)
    (differing,) = answer["differing"]
    assert (differing["arguments"], differing["before"]["result"], differing["after"]["result"]) == ({"a": 1}, 2, 1)


def test_many_tests_run_beside_each_other(alice):
    function = make(alice)
    tests = [FunctionTest(name=str(n), arguments={"a": n}, expected=n + 2) for n in range(20)]
    assert all(one.ok for one in testing.run_tests(store.draft(function), tests, function.owner))
