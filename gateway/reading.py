"""What happens in a turn, as each protocol wants to hear it: text as it is written, calls, results,
questions, the end. Stored events and those that are arriving are read by the same code.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from plumbing import json_values
from registry.llm.answer_builder import name_cut
from runs.events.frames import Frame

from .turns import Pause, Turn

JSON = Any
BEGIN, TEXT, REPLACED, CLOSE, CALL, FILE, RESULT, APPROVAL, QUESTION, END = (
    "begin", "text", "replaced", "close", "call", "file", "result", "approval", "question", "end",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """`kind`: BEGIN (a message of the assistant begins), TEXT (a piece of it), REPLACED (all of it
    that was sent so far is replaced), CLOSE (it is complete), CALL, FILE (that a call made), RESULT (of the
    agent's own call), APPROVAL, QUESTION (an input request), END.

    `data` is the event's data; of BEGIN, TEXT, REPLACED and CLOSE {"turn", "text"}.
    """

    kind: str
    data: dict[str, JSON]


class Reading:
    """Reads a turn's events in order. The other protocols' translators are built on it."""

    def __init__(self, *, for_approvals: bool = True, for_answers: bool = False) -> None:
        """`for_answers`: a question that is answered has its call's result too, not only a call that was approved."""
        self.for_answers = for_answers
        self.pause = Pause(for_approvals=for_approvals)
        # The turn of the message that is being written.
        self.turn: int | None = None
        self.text = ""
        self.has_text = False
        # The kind of each call by its id.
        self.kinds: dict[str, str] = {}
        self.end: dict[str, JSON] | None = None
        # Why the last answer of the model ended too early: length, content_filter.
        self.cut = ""
        self.is_paused = False
        # Of the turn's own calls of the model; None if there was none.
        self.usage: dict[str, int] | None = None

    def take(self, frame: Frame) -> Iterator[Step]:
        data = frame.data
        match frame.type:
            case "message.delta":
                yield from self.write(data["turn"], data["offset"], data["text"])
            case "model.finished":
                self.cut = name_cut(data.get("finish") or "")
                self.count(data)
                yield from self.correct(data["turn"], data["text"])
                if data["text"]:
                    yield from self.write(data["turn"], 0, data["text"])
                yield from self.close()
            case "tool.called" if data["kind"] == "caller" and data.get("refused"):
                # A client would make the call that it is shown.
                self.kinds[data["id"]] = "caller"
            case "tool.called" if not data["parent_call"]:
                self.kinds[data["id"]] = data["kind"]
                yield Step(CALL, data)
            case "artifact.created":
                yield Step(FILE, data)
            case "tool.finished" | "tool.denied" if self.kinds.get(data["id"], "caller") != "caller":
                yield Step(RESULT, data)
            case "approval.decided" if data.get("call"):
                # The turn may begin after its call.
                self.kinds.setdefault(data["call"], "")
            case "input.answered" if self.for_answers and data.get("kind") == "form":
                self.kinds.setdefault(data["call"], "")
            case "approval.requested":
                yield Step(APPROVAL, data)
            case "input.requested":
                yield Step(QUESTION, data)
            case "run.finished":
                yield from self.finish(data)
        self.is_paused = self.pause.ends_with(frame) and self.end is None

    def count(self, data: dict[str, JSON]) -> None:
        if self.usage is None:
            self.usage = {"input_tokens": 0, "output_tokens": 0}
        for name in self.usage:
            self.usage[name] += data.get(name) or 0

    def spent(self, turn: Turn) -> dict[str, int]:
        """Tokens of this turn: each call of a model counts in the turn in which it was made. A run that called none
        itself, such as a chain's, has those of the runs below it.
        """
        nothing = {"input_tokens": 0, "output_tokens": 0}
        if self.usage:
            return self.usage
        if turn.after or self.end is None:
            return nothing
        return self.end.get("usage") or nothing

    def write(self, turn: int, offset: int, text: str) -> Iterator[Step]:
        """Text at an offset of the turn's message; what is there already is left out."""
        if self.turn != turn:
            yield from self.close()
            self.turn = turn
            self.text = ""
            self.has_text = True
            yield Step(BEGIN, {"turn": turn, "text": ""})
        overlap = max(0, len(self.text) - offset)
        piece = text[overlap:]
        if piece:
            self.text += piece
            yield Step(TEXT, {"turn": turn, "text": piece})

    def correct(self, turn: int, text: str) -> Iterator[Step]:
        """What was sent so far may not be the message: it was thoughts, or an answer that broke off and was asked for
        again.
        """
        if self.turn == turn and not text.startswith(self.text):
            self.text = text
            yield Step(REPLACED, {"turn": turn, "text": text})

    def close(self) -> Iterator[Step]:
        if self.turn is not None:
            yield Step(CLOSE, {"turn": self.turn, "text": self.text})
        self.turn = None

    def finish(self, data: dict[str, JSON]) -> Iterator[Step]:
        """The reply of a run that ended without an answer of the model is the tool's result."""
        self.end = data
        reply = data.get("reply") or {}
        self.cut = name_cut(reply.get("finish") or "") or self.cut
        text = reply.get("text")
        if text and not self.has_text:
            yield from self.write(0, 0, text)
        yield from self.close()
        yield Step(END, data)


def render_result_value(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return json_values.dump_json(value).decode()


def result_text(data: dict[str, JSON]) -> str:
    """The result of a call as its model reads it; of a failed one {"error": …}."""
    if data.get("outcome") != "ok":
        error = data.get("error") or {"code": "denied", "message": data.get("reason", "")}
        return render_result_value({"error": error})
    if data.get("text") is not None:
        return data["text"]
    return render_result_value(data["result"])


def file_url(id: Any) -> str:
    """Readable with the same key, if it has the scope `runs:read`, and in a browser after login."""
    return f"{settings.PUBLIC_URL}/api/v1/files/{id}/content"


def bare(id: str) -> str:
    """An id without hyphens."""
    return id.replace("-", "")
