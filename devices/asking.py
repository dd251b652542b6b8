"""Asks devices for something at once, and keeps neither the question nor the answer: the row of a call is deleted as
soon as it has been answered or the time is over. Only for tools that read.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from devices import outbox
from devices.calls import State, render_call_frame, tell_cancelled
from devices.models import DeviceCall
from devices.models.device import new_id
from devices.nudges import ANSWERS
from devices.statements import NewCall
from plumbing import clock
from plumbing.broker.announcements import Waiter
from plumbing.threads import release_connection
from plumbing.waits import run_blocking

# Seconds after which the row of a process that died is deleted.
LEFT_S = 60.0


@dataclass(frozen=True, slots=True)
class Question:
    device_id: UUID
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """`error` is {code, message}; both None: the device did not answer in time."""

    result: Any = None
    error: dict[str, Any] | None = None


def ask_devices(owner_id: Any, questions: Mapping[Any, Question], seconds: float) -> dict[Any, Answer]:
    """The answers of devices that are online, by the keys of the questions. All are asked at the same time."""
    ANSWERS.listen()
    now = clock.near()
    calls = {key: build_question_call(owner_id, question, seconds) for key, question in questions.items()}
    try:
        with ExitStack() as stack:
            # Before anything is sent: an answer may come at once.
            waiters = {}
            for key, call in calls.items():
                waiters[key] = stack.enter_context(ANSWERS.waiter(call.id, Waiter))
            for call in calls.values():
                outbox.post_device_call(call, render_call_frame(call, now))
            run_blocking(wait_for_answers, list(waiters.values()), seconds)
            return {key: read_device_answer(waiter, calls[key].id) for key, waiter in waiters.items()}
    finally:
        forget_questions(owner_id, list(calls.values()))


def build_question_call(owner_id: Any, question: Question, seconds: float) -> NewCall:
    now = clock.near()
    return NewCall(
        id=new_id(), owner_id=owner_id, device_id=question.device_id, run_id=None, root_id=None, tool=question.tool,
        offer="", arguments=question.arguments, run_context={}, state=State.SENT.value, timeout_s=seconds,
        deadline=now + timedelta(seconds=seconds), created_at=now, sent_at=now,
    )  # fmt: skip


def wait_for_answers(waiters: list[Waiter], seconds: float) -> None:
    until = time.monotonic() + seconds
    release_connection()
    for waiter in waiters:
        waiter.wait(until - time.monotonic())


def read_device_answer(waiter: Waiter, call_id: UUID) -> Answer:
    """What was announced; a long answer is read from its row."""
    news: Mapping[str, Any] | None = waiter.news
    if not news:
        rows = DeviceCall.objects.filter(pk=call_id, finished_at__isnull=False)
        news = rows.values("state", "result", "error").first()
    if not news:
        return Answer(error=None)
    state = news["state"]
    if state == State.DONE:
        return Answer(result=news["result"])
    if state == State.FAILED:
        return Answer(error=news["error"])
    return Answer(error=None)


def forget_questions(owner_id: Any, calls: list[NewCall]) -> None:
    """Also what a process left that died before it came here."""
    ids = [call.id for call in calls]
    rows = DeviceCall.objects.filter(pk__in=ids)
    for row in rows.filter(finished_at=None):
        tell_cancelled(row, "nobody waits for it any more")
    rows.delete()
    before = clock.near() - timedelta(seconds=LEFT_S)
    tools = {call.tool for call in calls}
    DeviceCall.objects.filter(owner_id=owner_id, run_id=None, tool__in=tools, created_at__lt=before).delete()
