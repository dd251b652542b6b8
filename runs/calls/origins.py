"""The texts that a run has received, with their origin, read from its rows. runs.rules.provenance
compares arguments with them.

Only read once a run has read untrusted content; a plain message costs nothing.
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
MOST = 2000  # answered calls that are read; beyond that, records are no longer trusted


def read_origins(run: Run, tools: Mapping[str, ToolSpec]) -> Origins:
    """The texts up to now. Where the mark comes from a text that no row holds, nothing before it is trusted."""
    origins = read_rows(run, tools, Origins())
    if origins.marked:
        origins.marked.sort(key=lambda pair: pair[0] == TASK)  # where the text was read first, if that is known
        return origins
    origins = Origins()
    origins.mark("", "text that this run was started with")
    return read_rows(run, tools, origins)


def read_rows(run: Run, tools: Mapping[str, ToolSpec], origins: Origins) -> Origins:
    """The user's words, the instructions, then every answered call of the run's tree and sessions,
    in order.
    """
    line = lineage(run)
    add_user_texts(origins, line)
    instruct(origins, line)
    mark_files(origins, line[-1])
    mark_tasks(origins, line)
    rows = list_line_calls(line)
    for row in rows[:MOST]:
        answer = row.result if row.outcome == row.Outcome.OK else [row.error]
        origins.record(describe_call(row, tools), answer)
    if len(rows) > MOST:
        origins.distrust()
    return origins


def add_user_texts(origins: Origins, line: list[Run]) -> None:
    """What the user wrote: in the first conversation, as its input, and in arguments they edited."""
    root = line[-1]
    for message in sent_along(root):
        origins.mark([join_part_texts(message.content), message.tool_calls], SENT)
    for message in list_user_messages(root):
        add_user_message(origins, message)
    add_values(origins, root)
    edited = Approval.objects.filter(run__in=line, edited_arguments__isnull=False)
    for arguments in edited.values_list("edited_arguments", flat=True):
        origins.say(arguments)


def add_user_message(origins: Origins, message: Message) -> None:
    if message.untrusted:
        origins.mark(join_part_texts(message.content), VISITOR if message.run_id else SENT)
        return
    own = [part for part in message.content if not part.get("untrusted")]
    attached = [part for part in message.content if part.get("untrusted")]
    origins.say(join_part_texts(own))
    attached_text = join_part_texts(attached)
    if attached_text:
        origins.mark(attached_text, ATTACHED)


def add_values(origins: Origins, root: Run) -> None:
    """The input of the first run, and the options of its message. They may be a stranger's."""
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
    """Written by the user, or by a visitor (untrusted): not the task that an agent or a chain wrote at the start of a
    child session.
    """
    if root.session_id is None:
        return ()
    messages = Message.objects.filter(session_id=root.session_id, role=Message.Role.USER)
    return messages.exclude(run__trigger__in=WRITTEN_BY_MODELS).order_by("seq")


def sent_along(root: Run) -> Iterable[Message]:
    """What the caller sent as the assistant's part of an earlier conversation, with results of the caller's tools."""
    if root.session_id is None:
        return ()
    messages = Message.objects.filter(session_id=root.session_id, run=None, untrusted=True)
    return messages.exclude(role=Message.Role.USER).order_by("seq")


def instruct(origins: Origins, line: list[Run]) -> None:
    """The instructions by the authors of the agents and chains involved are trusted like their
    tools.
    """
    for run in line:
        if run.version is not None:
            origins.trust(run.version.read_spec().system_prompt)
        if run.chain_version is not None:
            steps = run.chain_version.read_spec().steps
            origins.trust([json.dumps(step.input, ensure_ascii=False) for step in steps])
            origins.trust([step.instructions for step in steps])


def mark_files(origins: Origins, root: Run) -> None:
    """Attached files, as far as they are shown to a model."""
    messages = [message for message in list_user_messages(root) if not message.untrusted]
    has_picture = any(part.get("type") == "image" for message in messages for part in message.content)
    if has_picture:
        origins.mark("", "an attached picture")
    for row in parts.load_message_files(messages, root.principal_id).values():
        content = storage.read_stored_file(row) or b""
        text, note = parts.read_file_text(row, content)
        shown = f"{text}\n{note}"
        if row.untrusted:
            origins.mark(shown, f"the file “{row.name}”")
        else:
            origins.say(shown)


def mark_tasks(origins: Origins, line: list[Run]) -> None:
    """What a child run was given by one that had read strangers' text."""
    sources = [run for run in line[:-1] if run.has_untrusted]
    messages = Message.objects.filter(run__in=sources, role=Message.Role.USER, untrusted=True)
    tasks = [join_part_texts(message.content) for message in messages]
    for run in sources:
        if run.input is not None:
            tasks.append(run.input)
    for run in sources:
        if run.options.get("asked"):
            tasks.append(run.options["asked"])
    if tasks:
        origins.mark(tasks, TASK)


def list_line_calls(line: list[Run]) -> list[ToolCallRecord]:
    """Those of the run, of the runs above it and of their sessions; for a chain also those of its steps' runs."""
    sessions = [run.session_id for run in line if run.session_id]
    within = Q(run__in=line) | Q(run__session__in=sessions)
    if line[0].chain_version_id:
        within |= Q(run__parent=line[0])
    answered = ToolCallRecord.objects.filter(within).exclude(outcome="")
    return list(answered.order_by("id")[: MOST + 1])


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
    """Whether it depends on the arguments' origin what may be done, or how the answer is marked."""
    if grant is None or grant.allow_after_untrusted or is_delegation(tool):
        return False
    is_read_of_strangers = tool.untrusted and tool.effect == "read"
    return not is_read_of_strangers


def is_derived(findings: list[Finding] | None) -> bool:
    """Requested with untrusted words, or not judged: then the answer is not trusted either, whatever
    tool gives it.
    """
    if findings is None:
        return True
    return any(finding.source not in CLEAN for finding in findings)
