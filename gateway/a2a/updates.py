"""A run's events as the updates of a task's stream.

The text of the reply is an artifact that grows. When the agent goes on after a tool call, its next
text replaces the earlier one, so that the artifact ends as the reply.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from gateway import turns
from gateway.reading import APPROVAL, BEGIN, END, QUESTION, REPLACED, TEXT, Reading, Step, file_url
from gateway.turns import Turn
from runs.events.frames import Frame
from runs.models import Run
from runs.rules import task_states
from runs.rules.task_states import choose_task_state

from .modes import DATA, accepts_type, convert_artifact, get_output_modes
from .modes import TEXT as TYPE_OF_TEXT
from .tasks import asking, build_a2a_question, build_task_ids, error_message, output_artifact, reply_artifact

JSON = Any


class Updates:
    """Reads a turn's events. A stream stays open while the task waits for an authorization: it may be
    given elsewhere.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.reading = Reading(for_approvals=False)
        self.asked: dict[str, dict[str, JSON]] = {}  # what the task waits for
        self.is_begun = False  # the reply's current text
        self.modes = get_output_modes(run)
        self.takes_text = accepts_type(self.modes, TYPE_OF_TEXT)
        self.said = ""  # where a client takes no text: it gets the reply as a whole

    def take(self, frame: Frame) -> Iterator[dict[str, JSON]]:
        data, at = frame.data, frame.at
        for step in self.reading.take(frame):
            yield from self.of_step(step, at)
        if frame.type in ("run.started", "run.resumed"):
            yield self.status(task_states.WORKING, at)
        elif frame.type in ("input.answered", "approval.decided"):
            self.asked.pop(data["id"], None)
        elif frame.type == "run.waiting":
            message = asking(self.run, list(self.asked.values())) if self.asked else None
            yield self.status(choose_task_state("waiting", data["waiting_for"]), at, message)
        elif frame.type == "artifact.created":
            part = {"url": file_url(data["file"]), "filename": data["name"], "mediaType": data["media_type"]}
            yield self.artifact({"artifactId": data["file"], "name": data["name"], "parts": [part]}, lastChunk=True)

    def of_step(self, step: Step, at: str | None) -> Iterator[dict[str, JSON]]:
        if step.kind in (QUESTION, APPROVAL):
            self.asked[step.data["id"]] = build_a2a_question(step.data)
        elif step.kind == BEGIN:
            self.is_begun, self.said = False, ""
        elif step.kind in (TEXT, REPLACED) and not self.takes_text:
            self.said = step.data["text"] if step.kind == REPLACED else self.said + step.data["text"]
        elif step.kind == TEXT:
            yield self.text(step.data["text"], append=self.is_begun)
            self.is_begun = True
        elif step.kind == REPLACED:
            yield self.text(step.data["text"])
            self.is_begun = True
        elif step.kind == END:
            yield from self.end(step.data, at)

    def end(self, data: dict[str, JSON], at: str | None) -> Iterator[dict[str, JSON]]:
        if self.is_begun:
            yield self.artifact(reply_artifact("", self.reading.cut), append=True, lastChunk=True)
        has_output = isinstance(data["output"], dict | list)
        if has_output and not (self.is_begun and not accepts_type(self.modes, DATA)):
            yield self.artifact(output_artifact(data["output"]), lastChunk=True)
        if self.said and not has_output:
            yield self.artifact(reply_artifact(self.said, self.reading.cut), lastChunk=True)
        error = data.get("error")
        yield self.status(
            choose_task_state(data["status"], error=error), at, error_message(self.run, error) if error else None
        )

    def text(self, text: str, **more: bool) -> dict[str, JSON]:
        return self.artifact(reply_artifact(text), **more)

    def artifact(self, artifact: dict[str, JSON], **more: bool) -> dict[str, JSON]:
        flags = {name: value for name, value in more.items() if value}
        accepted = convert_artifact(artifact, self.modes)
        return {"artifactUpdate": {**build_task_ids(self.run), "artifact": accepted, **flags}}

    def status(self, state: str, at: str | None, message: JSON = None) -> dict[str, JSON]:
        status = {"state": state, **({"timestamp": at} if at else {}), **({"message": message} if message else {})}
        return {"statusUpdate": {**build_task_ids(self.run), "status": status}}


async def stream_task_updates(
    first: dict[str, JSON], turn: Turn, *, is_subscription: bool = False
) -> AsyncIterator[dict[str, JSON] | None]:
    """The task, then its updates until it ends or waits for its caller; None for a heartbeat.

    A subscription to a task that waits goes on, because somebody else may answer.
    """
    yield {"task": first}
    if first["status"]["state"] == task_states.INPUT_REQUIRED and not is_subscription:
        return
    updates = Updates(turn.run)
    async for frame in turns.stream_turn_frames(turn, updates.reading.pause):
        if frame.type == "heartbeat":
            yield None
            continue
        for update in updates.take(frame):
            yield update
