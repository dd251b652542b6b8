"""The built-in tool `run_python`: plain Python over the files of a conversation.

The code runs in a sandbox process of its own that keeps its variables and files while its run is at
work, and for a while when the run waits. It sees the files of the conversation in /mnt/inputs, and
the agent's skills in /mnt/skills; what it writes to /mnt/outputs is stored as files of the run.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from agents.tools import RetryTool, ToolCall, ToolContext, ToolFailed, ToolResult
from functions import sandbox
from functions.execution import clean_result, read_printed_text
from functions.tools import CODES
from functions.watching import watch
from plumbing.waits import run_blocking

LIMITS = sandbox.Limits(
    timeout_s=60.0, memory_mb=1024, traffic_kb=64 << 10, call_kb=1024, answer_kb=8 << 10, kept_s=1800.0, max_calls=2000
)
# Bytes of all input files of a call together.
INPUT_BYTES = 32 << 20
# Stands before the id of an archive.
OF_SKILL = "skill:"
# Processes of runs that wait, in one worker process.
MOST_WAITING = 4
# Seconds that a worker keeps the variables of run_python while the run waits.
WAIT_S = 600.0
LOST = "The variables and files of earlier calls are lost: the process was ended."


class Session:
    """The turn of one run's calls: they share a process, so one call waits for another."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()
_lock = threading.Lock()


class Files:
    """The sandbox's host for one call: reads the input files and stores what the code wrote."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context
        self.content: dict[str, bytes] = {}

    def read_file(self, file: str, offset: int, size: int) -> bytes:
        """A piece of an input file. Raises FileNotFoundError."""
        if file not in self.content:
            content = self.content_of(file)
            if content is None:
                raise FileNotFoundError("the file was deleted")
            # They are read one after another: one is kept at a time.
            self.content = {file: content}
        return self.content[file][offset : offset + size]

    def content_of(self, file: str) -> bytes | None:
        reader = self.context.read_file
        if file.startswith(OF_SKILL):
            reader = self.context.read_skill
        if reader is None:
            return None
        return reader(file.removeprefix(OF_SKILL))

    def save_file(self, name: str, content: bytes, media_type: str) -> dict[str, Any]:
        assert self.context.save_file is not None
        return self.context.save_file(name, content, media_type)


def run_python(call: ToolCall, context: ToolContext) -> ToolResult:
    """Run `code` and return {"value", "files", "inputs", "is_new"}; printed text is separate.

    `value` is the text of the last expression, `files` are the stored outputs, `inputs` the names in
    /mnt/inputs, and `is_new` says that no earlier call of this run shares its variables.
    """
    code = call.arguments.get("code")
    if not isinstance(code, str) or not code.strip():
        raise RetryTool("Give the code to run.")
    if context.run_id is None or context.save_file is None:
        raise ToolFailed("Python can only be run in a run.", code="cannot_run")
    files = []
    if context.files:
        files = context.files()
    skills = []
    if context.skills:
        skills = context.skills()
    inputs = choose_input_files(files)
    skill_inputs = [as_input(skill) for skill in skills]
    outcome = run_blocking(in_turn, code, [*inputs, *skill_inputs], context)
    # What the code read may stand in what it returns.
    is_untrusted = context.is_untrusted or any(one["untrusted"] for one in [*files, *skills])
    fields: dict[str, Any] = {
        "printed": read_printed_text(outcome),
        "untrusted": is_untrusted,
        "details": {"isolation": outcome.isolation, "cpu_ms": outcome.cpu_ms, "peak_kb": outcome.peak_kb},
    }
    if not outcome.ok:
        return ToolResult(ok=False, error=describe_interpreter_error(outcome), **fields)
    result = outcome.result
    value = {
        "value": result["value"],
        "files": result["files"],
        "inputs": [one["name"] for one in inputs],
        "is_new": result["call"] == 1,
    }
    if result["skipped"]:
        value["not_stored"] = result["skipped"]
    return ToolResult(ok=True, value=clean_result(value), **fields)


def as_input(skill: dict[str, Any]) -> dict[str, Any]:
    """A skill for the sandbox, which unpacks its archive."""
    file = None
    if skill["file"]:
        file = f"{OF_SKILL}{skill['file']}"
    return {"file": file, "skill": skill["name"], "text": skill["text"]}


def choose_input_files(files: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The files with names that differ, newest first, as many as fit."""
    chosen: dict[str, dict[str, str]] = {}
    room = INPUT_BYTES
    for file in files:
        name = find_free_file_name(file["name"], chosen)
        if file["size"] <= room:
            room -= file["size"]
            chosen[name] = {"file": file["file"], "name": name}
    return list(chosen.values())


def find_free_file_name(name: str, names: dict[str, Any]) -> str:
    stem, dot, extension = name.rpartition(".")
    number = 1
    free = name
    while free in names or free in (".", ".."):
        number += 1
        if dot:
            free = f"{stem}-{number}.{extension}"
        else:
            free = f"{name}-{number}"
    return free


def in_turn(code: str, inputs: list[dict[str, Any]], context: ToolContext) -> sandbox.Outcome:
    """The outcome of the code in the run's process, which is killed if the run is cancelled or its
    time is up.
    """
    run = str(context.run_id)

    def is_over() -> bool:
        return context.is_cancelled() or context.seconds_left(LIMITS.timeout_s) <= 0

    with take_turn(run), watch.over(is_over) as cancellation:
        return sandbox.interpret(
            code,
            inputs,
            session=name_interpreter_session(run),
            host=Files(context),
            limits=LIMITS,
            owner=str(context.user_id),
            cancellation=cancellation,
        )


@contextmanager
def take_turn(run: str) -> Iterator[None]:
    with _lock:
        session = sessions.get(run)
        if session is None:
            session = sessions[run] = Session()
    with session.lock:
        yield


# -- while the run waits -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wait:
    """A waiting run whose process is kept until the timer ends it."""

    # The one that used the process last.
    attempt: int
    timer: threading.Timer


# By run; the one that waits longest is first.
waiting: dict[str, Wait] = {}


def name_interpreter_session(run: str) -> str:
    """Not the id alone, under which the processes of functions are kept: those end when the run waits."""
    return f"python {run}"


def keep_interpreter(run: str, attempt: int) -> None:
    """The run waits: its process, if it has one, stays for a while in case this worker continues it."""
    if not sandbox.keeps(name_interpreter_session(run)):
        return
    timer = threading.Timer(WAIT_S, end_late, (run, attempt))
    timer.daemon = True
    forget_interpreter(run)
    with _lock:
        waiting[run] = Wait(attempt, timer)
        ending = list(waiting)[:-MOST_WAITING]
    timer.start()
    for other in ending:
        end_interpreter(other)


def continue_interpreter(run: str, attempt: int) -> None:
    """The run continues here. If another worker had it in between, the process is out of date and ends."""
    kept = forget_interpreter(run)
    if kept is not None and kept.attempt != attempt - 1:
        sandbox.release(name_interpreter_session(run))


def forget_interpreter(run: str) -> Wait | None:
    with _lock:
        wait = waiting.pop(run, None)
    if wait is not None:
        wait.timer.cancel()
    return wait


def end_interpreter(run: str) -> None:
    forget_interpreter(run)
    sandbox.release(name_interpreter_session(run))


def end_late(run: str, attempt: int) -> None:
    """It has waited too long, unless it went on and waits for something else."""
    with _lock:
        wait = waiting.get(run)
        if wait is None or wait.attempt != attempt:
            return
        del waiting[run]
    sandbox.release(name_interpreter_session(run))


def describe_interpreter_error(outcome: sandbox.Outcome) -> dict[str, Any]:
    error = outcome.error or sandbox.FunctionError("Error", outcome.status)
    message = error.message.replace("\0", "�")
    message = message.replace("<function>", "the code")
    if outcome.status != "error":
        message = f"{message}. {LOST}"
    code = CODES.get(outcome.status, "function_error")
    return {"code": code, "type": error.type, "line": error.line, "message": message}
