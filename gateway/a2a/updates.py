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
        # What the task waits for, by the ids of the questions.
        self.asked: dict[str, dict[str, JSON]] = {}
        # Whether the reply's current text was begun.
        self.is_begun = False
        self.modes = get_output_modes(run)
        self.takes_text = accepts_type(self.modes, TYPE_OF_TEXT)
        # A client that takes no text gets the reply as a whole, so it is collected here.
        self.said = ""

    def take(self, frame: Frame) -> Iterator[dict[str, JSON]]:
        data = frame.data
        at = frame.at
        for step in self.reading.take(frame):
            yield from self.of_step(step, at)
        if frame.type in ("run.started", "run.resumed"):
            yield self.status(task_states.WORKING, at)
        elif frame.type in ("input.answered", "approval.decided"):
            self.asked.pop(data["id"], None)
        elif frame.type == "run.waiting":
            state = choose_task_state("waiting", data["waiting_for"])
            message = None
            if self.asked:
                message = asking(self.run, list(self.asked.values()))
            yield self.status(state, at, message)
        elif frame.type == "artifact.created":
            part = {"url": file_url(data["file"]), "filename": data["name"], "mediaType": data["media_type"]}
            yield self.artifact({"artifactId": data["file"], "name": data["name"], "parts": [part]}, lastChunk=True)

    def of_step(self, step: Step, at: str | None) -> Iterator[dict[str, JSON]]:
        data = step.data
        if step.kind in (QUESTION, APPROVAL):
            self.asked[data["id"]] = build_a2a_question(data)
        elif step.kind == BEGIN:
            self.is_begun = False
            self.said = ""
        elif step.kind == TEXT:
            if self.takes_text:
                yield self.text(data["text"], append=self.is_begun)
                self.is_begun = True
            else:
                self.said += data["text"]
        elif step.kind == REPLACED:
            if self.takes_text:
                yield self.text(data["text"])
                self.is_begun = True
            else:
                self.said = data["text"]
        elif step.kind == END:
            yield from self.end(data, at)

    def end(self, data: dict[str, JSON], at: str | None) -> Iterator[dict[str, JSON]]:
        """What is left to send of the reply and the output, and how the task ended."""
        # An empty piece closes the reply: it was sent before.
        if self.is_begun:
            yield self.artifact(reply_artifact("", self.reading.cut), append=True, lastChunk=True)
        output = data["output"]
        has_output = isinstance(output, dict | list)
        # The reply says the same as the output, as text: a client that accepts one of them alone gets no other.
        if has_output and (not self.is_begun or accepts_type(self.modes, DATA)):
            yield self.artifact(output_artifact(output), lastChunk=True)
        if self.said and not has_output:
            yield self.artifact(reply_artifact(self.said, self.reading.cut), lastChunk=True)
        error = data.get("error")
        state = choose_task_state(data["status"], error=error)
        message = error_message(self.run, error) if error else None
        yield self.status(state, at, message)

    def text(self, text: str, **more: bool) -> dict[str, JSON]:
        return self.artifact(reply_artifact(text), **more)

    def artifact(self, artifact: dict[str, JSON], **flags: bool) -> dict[str, JSON]:
        """`flags`: append, lastChunk. Those that are false are left out."""
        update: dict[str, JSON] = build_task_ids(self.run)
        update["artifact"] = convert_artifact(artifact, self.modes)
        for name, value in flags.items():
            if value:
                update[name] = value
        return {"artifactUpdate": update}

    def status(self, state: str, at: str | None, message: JSON = None) -> dict[str, JSON]:
        status: dict[str, JSON] = {"state": state}
        if at:
            status["timestamp"] = at
        if message:
            status["message"] = message
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
