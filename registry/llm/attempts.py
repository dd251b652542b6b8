"""Retries: back-off for errors that may pass, the next model for those that will not."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from plumbing import json_values
from registry.exceptions import AttemptFailed, ModelFailed

from .chat import Answer, ChatModel, ModelToolCall, Question

# Attempts per model.
TRIES = 3
# Before the second attempt; twice that before the third.
BACKOFF_S = 0.5
# When a provider asks for a longer wait, the next model is tried.
LONGEST_WAIT_S = 30.0


def ask_model(model: ChatModel, question: Question, fallbacks: Sequence[str]) -> tuple[Answer, str, int]:
    """(answer, the model's name, number of attempts). Raises ModelFailed with the last reason, or
    ModelCancelled.
    """
    spoken = Spoken(question.on_delta)
    thought = Spoken(question.on_thought)
    question = replace(
        question,
        on_delta=spoken.hear if question.on_delta else None,
        on_thought=thought.hear if question.on_thought else None,
    )
    failed: AttemptFailed | None = None
    attempts = 0
    for name in (question.model_name, *fallbacks):
        for attempt in range(TRIES):
            question.watch.check()
            attempts += 1
            spoken.begin()
            thought.begin()
            try:
                answer = model.ask(replace(question, model_name=name))
                return clean_answer(answer), name, attempts
            except AttemptFailed as error:
                failed = error
            except ModelFailed as error:
                raise ModelFailed(error.code, error.message, attempts) from error
            wait = wait_before(attempt + 1, failed)
            if wait is None:
                break
            question.watch.pause(wait)
        if failed and failed.code == "model_key_refused":
            # Another model of the same account would be refused as well.
            break
    assert failed is not None
    raise ModelFailed(failed.code, failed.message, attempts) from failed


def clean_answer(answer: Answer) -> Answer:
    """The answer as it can be stored and sent back, whatever the model's server sent."""
    return replace(
        answer,
        text=json_values.clean_text(answer.text),
        calls=tuple(clean_call(call) for call in answer.calls),
        finish=json_values.clean_text(answer.finish),
        extra=json_values.clean_json(answer.extra),
        reasoning=json_values.clean_text(answer.reasoning),
        kept=json_values.clean_json(answer.kept),
    )


def clean_call(call: ModelToolCall) -> ModelToolCall:
    return replace(
        call,
        id=json_values.clean_text(call.id),
        name=json_values.clean_text(call.name),
        arguments=json_values.clean_json(call.arguments),
        problem=json_values.clean_text(call.problem),
    )


def wait_before(attempt: int, error: AttemptFailed) -> float | None:
    """Seconds to wait before this attempt (1 is the second); None if this model is not asked again."""
    if not error.is_retryable or attempt >= TRIES:
        return None
    if error.retry_after is None:
        # Many runs that failed together must not ask again together.
        spread = random.uniform(0.75, 1.25)  # noqa: S311 (no secret)
        return BACKOFF_S * 2 ** (attempt - 1) * spread
    if error.retry_after > LONGEST_WAIT_S:
        return None
    return error.retry_after


class Spoken:
    """Does not repeat text that was already sent when an interrupted answer is requested again.

    If the second answer differs from the text sent so far, no more is sent; the stored message is
    authoritative.
    """

    def __init__(self, listener: Callable[[str], None] | None) -> None:
        self._listener = listener
        self._heard = ""
        self._now = ""
        # The first half of a surrogate pair, whose second half comes with the next piece.
        self._half = ""

    def begin(self) -> None:
        self._now = self._half = ""

    def hear(self, text: str) -> None:
        text = self._half + text
        # A piece may end between the two halves of one character; the first half waits for the second.
        last = text[-1:]
        self._half = ""
        if "\ud800" <= last <= "\udbff":
            self._half = last
        self._now += json_values.clean_text(text.removesuffix(self._half))
        # A second attempt begins anew: what the listener has heard already is not said again.
        if not self._now.startswith(self._heard) or len(self._now) <= len(self._heard):
            return
        fresh = self._now[len(self._heard) :]
        self._heard = self._now
        if self._listener:
            self._listener(fresh)
