"""Reads from the database which texts a run has received, and where each came from.

`runs.rules.provenance` compares the arguments of tool calls with these texts. They are only read once
the run has read untrusted content; a plain message costs nothing.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Q

from agents import storage
from agents.tools import ToolSpec
from runs.intake import parts
from runs.intake.checks import lineage
from runs.models import Approval, Message, Run, ToolCallRecord
from runs.models.session import join_part_texts
from runs.rules.provenance import CLEAN, Call, Finding, Origins

WRITTEN_BY_MODELS = [Run.Trigger.AGENT, Run.Trigger.CHAIN]
TASK = "the task that it was given"
VISITOR = "a visitor"
SENT = "the conversation that was sent along"
ATTACHED = "a text that was attached to the message"
MOST_CALLS = 2000  # answered calls that are read; if there are more, only the user's own words are trusted


def read_origins(run: Run, tools: Mapping[str, ToolSpec]) -> Origins:
    """The texts that the run has received until now.

    Only for a run that has read untrusted content. If no row holds such a text, an unknown one is assumed to
    have come before all others.
    """
    origins = Origins()
    add_run_texts(origins, run, tools)
    if origins.marked:
        # Tasks last: a value's origin is the first text that holds it, best the one where it was read first.
        origins.marked.sort(key=lambda pair: pair[0] == TASK)
        return origins
    origins = Origins()
    origins.mark("", "text that this run was started with")
    add_run_texts(origins, run, tools)
    return origins


def add_run_texts(origins: Origins, run: Run, tools: Mapping[str, ToolSpec]) -> None:
    """Add the user's words, the instructions, the files and the tasks, then every answered call in order."""
    # The run first, then those above it; the last one is the root.
    line = lineage(run)
    add_user_texts(origins, line)
    add_instructions(origins, line)
    mark_files(origins, line[-1])
    mark_tasks(origins, line)
    calls = list_answered_calls(line)
    for call in calls[:MOST_CALLS]:
        answer = call.result if call.outcome == call.Outcome.OK else [call.error]
        origins.record(describe_call(call, tools), answer)
    if len(calls) > MOST_CALLS:
        origins.distrust()


def add_user_texts(origins: Origins, line: list[Run]) -> None:
    """Add what the user wrote: messages to the root run, its input and options, and arguments they edited."""
    root = line[-1]
    for message in list_sent_messages(root):
        origins.mark([join_part_texts(message.content), message.tool_calls], SENT)
    for message in list_user_messages(root):
        add_user_message(origins, message)
    add_input_and_options(origins, root)
    edited = Approval.objects.filter(run__in=line, edited_arguments__isnull=False)
    for arguments in edited.values_list("edited_arguments", flat=True):
        origins.say(arguments)


def add_user_message(origins: Origins, message: Message) -> None:
    if message.untrusted:
        origins.mark(join_part_texts(message.content), VISITOR if message.run_id else SENT)
        return
    own_parts = [part for part in message.content if not part.get("untrusted")]
    attached_parts = [part for part in message.content if part.get("untrusted")]
    origins.say(join_part_texts(own_parts))
    attached_text = join_part_texts(attached_parts)
    if attached_text:
        origins.mark(attached_text, ATTACHED)


def add_input_and_options(origins: Origins, root: Run) -> None:
    """Add the root run's input and the options of its message. `untrusted_input` says whether they are a stranger's."""
    options = root.options.get("asked", {})
    values = [value for value in (options.get("instructions"), options.get("variables")) if value]
    if root.input is not None:
        values.insert(0, root.input)
    origin = root.metadata.get("untrusted_input")
    for value in values:
        if origin:
            origins.mark(value, str(origin))
        else:
            origins.say(value)


def list_user_messages(root: Run) -> Iterable[Message]:
    """The messages that the user wrote, or a visitor (these are untrusted).

    Without the tasks that agents and chains wrote at the start of a child session.
    """
    if root.session_id is None:
        return ()
    messages = Message.objects.filter(session_id=root.session_id, role=Message.Role.USER)
    return messages.exclude(run__trigger__in=WRITTEN_BY_MODELS).order_by("seq")


def list_sent_messages(root: Run) -> Iterable[Message]:
    """The assistant's part of an earlier conversation that the caller sent, with results of the caller's tools."""
    if root.session_id is None:
        return ()
    messages = Message.objects.filter(session_id=root.session_id, run=None, untrusted=True)
    return messages.exclude(role=Message.Role.USER).order_by("seq")


def add_instructions(origins: Origins, line: list[Run]) -> None:
    """Add the instructions of the agents and chains involved: their authors are trusted."""
    for run in line:
        if run.version is not None:
            origins.trust(run.version.read_spec().system_prompt)
        if run.chain_version is not None:
            steps = run.chain_version.read_spec().steps
            origins.trust([json.dumps(step.input, ensure_ascii=False) for step in steps])
            origins.trust([step.instructions for step in steps])


def mark_files(origins: Origins, root: Run) -> None:
    """Add the attached files of the root run's messages, as far as models see them."""
    messages = [message for message in list_user_messages(root) if not message.untrusted]
    has_picture = any(part.get("type") == "image" for message in messages for part in message.content)
    if has_picture:
        origins.mark("", "an attached picture")
    for row in parts.load_message_files(messages, root.principal_id).values():
        content = storage.read_stored_file(row) or b""
        text, note = parts.read_file_text(row, content)
        text_for_model = f"{text}\n{note}"
        if row.untrusted:
            origins.mark(text_for_model, f"the file “{row.name}”")
        else:
            origins.say(text_for_model)


def mark_tasks(origins: Origins, line: list[Run]) -> None:
    """Mark the messages, inputs and options of untrusted child runs: the runs above them wrote these."""
    children = [run for run in line[:-1] if run.has_untrusted]
    messages = Message.objects.filter(run__in=children, role=Message.Role.USER, untrusted=True)
    tasks = [join_part_texts(message.content) for message in messages]
    for run in children:
        if run.input is not None:
            tasks.append(run.input)
    for run in children:
        if run.options.get("asked"):
            tasks.append(run.options["asked"])
    if tasks:
        origins.mark(tasks, TASK)


def list_answered_calls(line: list[Run]) -> list[ToolCallRecord]:
    """The answered calls of the run, of the runs above it and of their sessions; for a chain also of its steps' runs.

    Oldest first, and at most one more than `MOST_CALLS`.
    """
    sessions = [run.session_id for run in line if run.session_id]
    within = Q(run__in=line) | Q(run__session__in=sessions)
    if line[0].chain_version_id:
        within |= Q(run__parent=line[0])
    answered = ToolCallRecord.objects.filter(within).exclude(outcome="")
    return list(answered.order_by("id")[: MOST_CALLS + 1])


def describe_call(row: ToolCallRecord, tools: Mapping[str, ToolSpec]) -> Call:
    tool = tools.get(row.name)
    return Call(
        name=row.name,
        arguments=row.arguments,
        effect=row.effect or "destructive",
        schema=tool.input_schema if tool else None,
        untrusted=row.untrusted,
        fields=tool.record_fields if tool else (),
    )


def is_delegation(tool: ToolSpec) -> bool:
    if tool.kind == "builtin":
        return tool.source.get("builtin") == "delegate"
    return tool.kind in ("agent", "chain")


def matters(tool: ToolSpec, grant: Any) -> bool:
    """Whether the origin of its arguments decides if this tool may be called, or how its answer is marked."""
    if grant is None or grant.allow_after_untrusted or is_delegation(tool):
        return False
    is_read_of_strangers = tool.untrusted and tool.effect == "read"
    return not is_read_of_strangers


def is_derived(findings: list[Finding] | None) -> bool:
    """Whether a call's answer is untrusted because of its arguments, whatever tool gives it.

    It is if some of them are untrusted, or if they were not judged (None).
    """
    if findings is None:
        return True
    return any(finding.source not in CLEAN for finding in findings)
