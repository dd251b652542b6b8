"""Answers that are cut off or split at every place, of every server: nothing is called by halves."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.exceptions import AttemptFailed
from registry.llm.chat import Question
from registry.llm.watch import Watch
from tests.matrices import is_exhaustive

from .acts import Act
from .keepers import SERVERS
from .stories import ADD, NOW, SYSTEM, user

PAY = {"a": 10**6, "b": 2}
ACT = Act("I añd 😀.", (("add", PAY), ("now", {})), reasoning="Short.")
# Cut at each byte are those whose streams differ in kind; the others at each seventh, and at each by `make exhaustive`.
EVERY_BYTE = {"openai", "openai responses", "gemini", "mistral", "vllm", "ollama", "google"}
WHOLE = [("add", PAY), ("now", {})]


def ask(pool, model, *, listens):
    """The calls that would be made, or None if the answer was refused."""
    pool.acts = [ACT]
    hear = (lambda text: None) if listens else None
    try:
        answer = model.ask(Question(pool.server.model, [SYSTEM, user("Add")], (ADD, NOW), None, hear, Watch()))
    except AttemptFailed as error:
        assert error.is_retryable, error.message
        return None
    return [(call.name, call.arguments) for call in answer.calls if not call.problem]


def size_of_answer(pool, *, listens):
    return len(pool.server.answer(ACT, {"stream_options": {"include_usage": True}}, is_streamed=listens).content)


@pytest.mark.parametrize("listens", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("server", SERVERS)
def test_an_answer_that_is_cut_at_any_byte_calls_nothing_by_halves(keep, server, listens):
    pool, model = keep(server, size=4096)
    ask(pool, model, listens=listens)  # what this server refuses in a request is known from here on
    outcomes = []
    step = 1 if is_exhaustive() else (1 if server in EVERY_BYTE else 7)
    for place in range(0, size_of_answer(pool, listens=listens), step):
        pool.ends_after, pool.breaks = place, bool(place % 2)
        outcomes.append(ask(pool, model, listens=listens))
    assert [outcome for outcome in outcomes if outcome not in (None, WHOLE)] == []
    assert outcomes[0] is None
    pool.ends_after = None
    assert ask(pool, model, listens=listens) == WHOLE


@pytest.mark.parametrize("server", SERVERS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(size=st.integers(1, 400))
def test_an_answer_in_parts_of_any_size_is_the_same(keep, server, size):
    pool, model = keep(server, size=size)
    assert ask(pool, model, listens=True) == WHOLE
