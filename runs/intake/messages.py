"""Accepts messages: every message that starts a run comes through here, from whatever protocol."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, models, transaction
from django.utils.translation import gettext_noop as known

from agents import schema
from agents.exceptions import Conflict, IdempotencyMismatch, Invalid
from agents.http.room import check_room
from agents.http.sizes import check_metadata
from agents.models import Agent, AgentSpec, AgentVersion, ApiKey, Chain, ChainVersion
from plumbing import tracing
from plumbing.statements import Select, insert_each, insert_rows
from runs.events import record as events
from runs.models import Message, Run, RunEvent, Session
from runs.models.session import NOT_SHOWN, SCHEDULED, join_part_texts
from runs.queue import fair_queue, wakeups

from . import caller_tools, chains, checks, options, pins, sessions
from . import context as contexts
from .parts import MOST as MOST_PARTS
from .parts import are_untrusted, find_part_problem

# Nothing is built here, and the contents of versions are kept.
NAMED = Agent.objects.select_related("published", "provider").defer("published__spec", "provider__api_key")
ON_BUSY = ("reject", "enqueue", "interrupt")
HASHED_FIELDS = (
    "metadata", "timeout", "device", "parent", "tools", "asked", "context", "priority", "draft", "until", "pinned",
)  # fmt: skip
# What people see in place of a message that nobody wrote; the model does not see it.
GOES_ON = [{"type": "text", "text": "(The conversation goes on with the results of the caller's tools.)"}]


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted run. `is_new` is False if an idempotency key found an earlier one."""

    run: Run
    session: Session
    is_new: bool


def accept_message(
    *,
    user: Any,
    text: str | None = None,
    parts: list[dict[str, Any]] | None = None,
    agent: Agent | str | None = None,
    session: Session | str | None = None,
    input: Any = None,
    idempotency_key: str | None = None,
    request_hash: str = "",
    on_busy: str = "reject",
    device: str | None = None,
    parent: str | None = None,
    is_watched: bool = False,
    untrusted_input: str = "",
    thread: str | None = None,
    continues: bool = False,
    **more: Any,
) -> Accepted:
    """Accept a message for `agent` (None: the router chooses) and queue its run; `more` as in
    message_run.

    `is_watched`: the caller will follow the run. `request_hash`: represents the body for its
    idempotency key. `untrusted_input`: the origin of the input, if it is untrusted. `thread`: the caller's name
    for a new session. `continues`: the person writes nothing; the conversation that was sent along goes on.

    Raises NotFound, NotPublished, ProviderDisabled, BrokenInput, SessionBusy, SessionClosed,
    IdempotencyMismatch, Conflict (quota_exceeded).
    """
    content = GOES_ON if continues else checked_parts(user, text, parts)
    if idempotency_key:
        if not request_hash:
            fields = {**more, "device": device, "parent": parent}
            request_hash = hash_of_request(content, agent, session, input, fields)
        earlier = find_earlier(user, idempotency_key, request_hash)
        if earlier is not None:
            return earlier
    run = message_run(user=user, agent=agent, input=input, **more)
    check_room(user.pk, content, run.input, run.metadata, is_visitors=run.embed is not None)
    run.idempotency_key = idempotency_key
    run.request_hash = request_hash
    mark_input(run, untrusted_input)
    mark_parts(run, content)
    try:
        with transaction.atomic():
            title = join_part_texts(content)
            session = sessions.choose_session(
                run, session, run.agent, on_busy, device=device, title=title, parent=parent, thread=thread
            )
            fair_queue.line_up(run)
            insert_rows(run)  # before a new session: foreign keys are checked at the commit
            options.limit_cost(run)
            about = {NOT_SHOWN: True} if continues else {}
            is_from_visitor = run.embed is not None
            session.add_message(Message.Role.USER, content, run=run, untrusted=is_from_visitor, metadata=about)
            mark_session(run)
            insert_rows(first_event(run))
            if is_watched:
                events.expect_watcher(run.pk)
            # A run behind another is queued when that one ends; an outside program asks for its runs.
            if run.after_id is None and run.trigger != Run.Trigger.EXTERNAL:
                wakeups.enqueue(run)
    except IntegrityError:
        if not idempotency_key:
            raise
        earlier = find_earlier(user, idempotency_key, request_hash)
        if earlier is None:
            raise
        return earlier  # the same request arrived twice at once; the other one was first
    return Accepted(run, session, is_new=True)


def mark_input(run: Run, origin: str) -> None:
    if origin:
        run.has_untrusted = True
        run.metadata = {**run.metadata, "untrusted_input": origin}


def mark_parts(run: Run, content: list[dict[str, Any]]) -> None:
    """The user who attaches a file or a picture has rarely written it, and texts may say so of themselves."""
    is_all_own_text = all(part.get("type") == "text" and not part.get("untrusted") for part in content)
    if not is_all_own_text and are_untrusted(content):
        run.has_untrusted = True


def mark_session(run: Run) -> None:
    """In an existing session; a new one was stored with its mark."""
    if run.has_untrusted and not run.session.has_untrusted:
        Session.objects.filter(pk=run.session.pk).update(has_untrusted=True)
        run.session.has_untrusted = True


def message_run(
    *,
    user: Any,
    agent: Agent | str | None,
    input: Any = None,
    metadata: dict[str, Any] | None = None,
    key: ApiKey | None = None,
    trigger: str = Run.Trigger.MESSAGE,
    version: AgentVersion | int | None = None,
    draft: bool = False,
    policy: dict[str, Any] | None = None,
    timeout: float | None = None,
    tools: list[dict[str, Any]] | None = None,
    asked: dict[str, Any] | None = None,
    context: list[dict[str, Any]] | None = None,
    embed: UUID | None = None,
) -> Run:
    """The run of a message, with its agent checked; not stored, and not in a session yet.

    `draft`: the agent's working row instead of a version, for people who may change the agent.
    `tools`: tools that the caller executes (`caller_tools.check_caller_tools`). `asked`: its options
    (`options.Asked`). `context`: sources of texts that the model reads before the message (context.py).
    `embed`: the visitor of this embed sent it.
    """
    chosen, version, spec = checked_agent(user, agent, version, draft=draft)
    checks.check_input(spec, input)
    check_metadata(metadata or {})
    policy = dict(policy or {})
    if tools:
        own_names = [grant.tool for grant in spec.grants] if spec else []
        policy[caller_tools.POLICY] = caller_tools.check_caller_tools(tools, own_names)
    if timeout:
        asked = {**(asked or {}), "timeout": timeout}
    values = options.parse_options(asked)
    timeout = values.get("timeout")
    about = contexts.gather_message_context(user, context or [])
    policy.update(about)
    is_foreign = bool(about) and contexts.is_untrusted(contexts.Asker(user.pk), context or [])
    caller_tool_names = [tool["name"] for tool in tools or ()]
    is_draft = version is not None and version.is_draft
    run = Run(
        principal=user,
        agent=chosen,
        version=version,
        trigger=Run.Trigger.DRAFT if is_draft else trigger,
        key=key,
        input=input,
        policy=policy,
        embed=embed,
        has_untrusted=is_foreign or embed is not None,
        options=options.build_option_columns(values, caller_tool_names),
        metadata=metadata or {},
        trace_parent=tracing.PARENT.get(),
        deadline=checks.deadline(spec, timeout),
        last_event=1,
    )
    fair_queue.classify(run, is_batch=options.is_batch(run))
    limit = min(timeout, spec.timeout_s) if timeout and spec else None
    options.settle_options(run, spec, timeout=limit, reserved=caller_tool_names)
    return run


def first_event(run: Run) -> RunEvent:
    queued = {"trigger": run.trigger, "agent": run.agent.name if run.agent else None}
    return RunEvent(run=run, seq=1, type="run.queued", at=run.created_at, data=queued)


@transaction.atomic
def open_sessions(runs: list[tuple[Run, str, str | None]]) -> None:
    """Queue many (run, text, device) at once, as created by message_run, each with its own session."""
    messages = []
    for run, text, device in runs:
        is_unattended = run.trigger in sessions.UNATTENDED
        run.session = Session(
            owner=run.principal,
            agent=run.agent,
            title=text[:80].strip(),
            device=device,
            variables={"agent_depth": 0},
            last_seq=1,
            folder=SCHEDULED if is_unattended else "",
        )
        content = [{"type": "text", "text": text}]
        messages.append(Message(session=run.session, seq=1, role=Message.Role.USER, content=content, run=run))
    queued = [run for run, _, _ in runs]
    insert_each([run.session for run in queued])
    for run in queued:
        fair_queue.line_up(run)
    insert_each(queued)
    for run in queued:
        options.limit_cost(run)
    insert_each(messages)
    insert_each([first_event(run) for run in queued])
    wakeups.enqueue_all(queued)


def start_chain(*, user: Any, chain: Any, input: Any = None, idempotency_key: str | None = None, **more: Any) -> Run:
    """Queue a run of a chain; `more` as in chain_run, and `pinned` (runs/intake/pins.py). Raises NotFound,
    NotPublished, BrokenInput, IdempotencyMismatch, Invalid.

    The same idempotency key returns the run it started before.
    """
    if isinstance(chain, str):
        chain = Chain.objects.select_related("published").for_use(user, chain)
    chain.require_use(user)
    request_hash = ""
    if idempotency_key:
        request_hash = hash_of_start(chain, input, more)
        earlier = earlier_run(user, idempotency_key, request_hash)
        if earlier is not None:
            return earlier
    pinned_outputs = more.pop("pinned", None)
    run = chain_run(user=user, chain=chain, input=input, **more)
    pinned = pins.build_pinned_rows(run, chain, pinned_outputs) if pinned_outputs else []
    run.idempotency_key = idempotency_key
    run.request_hash = request_hash
    try:
        chains.insert_chain_runs([run], pinned=pinned)
    except IntegrityError:
        if not idempotency_key:
            raise
        earlier = earlier_run(user, idempotency_key, run.request_hash)
        if earlier is None:
            raise
        return earlier  # the same request arrived twice at once; the other one was first
    return run


def chain_run(
    *,
    user: Any,
    chain: Chain,
    input: Any = None,
    version: ChainVersion | None = None,
    trigger: str = Run.Trigger.MANUAL,
    key: ApiKey | None = None,
    metadata: dict[str, Any] | None = None,
    priority: str | None = None,
    timeout: float | None = None,
    untrusted_input: str = "",
    draft: bool = False,
    until: str = "",
) -> Run:
    """The checked run, ready to be stored (chains.insert_chain_runs). `draft`: the working rows instead of a version,
    for people who may change the chain; `until`: only a step and those it needs. Raises NotPublished,
    BrokenInput, Invalid.
    """
    if draft:
        chain.require_edit(user)
        version, trigger = chain.frozen_draft(author=user, until=until), Run.Trigger.DRAFT
    version = checks.version_of_chain(chain, version)
    if isinstance(input, dict) and isinstance(input.get("device"), str):
        metadata = {"device": input["device"], **(metadata or {})}  # the device for the tool calls of all its steps
    check_metadata(metadata or {})
    fields = {"key": key, "metadata": metadata or {}, "options": options.for_chain(priority)}
    run = chains.prepare_chain_run(user=user, version=version, input=input, trigger=trigger, timeout=timeout, **fields)
    mark_input(run, untrusted_input)
    return run


def hash_of_start(chain: Chain, input: Any, fields: dict[str, Any]) -> str:
    return schema.hash_json(["chain", chain.name, chain.pk, input, *list_hashed_fields(fields)])


def hash_of_request(content: Any, agent: Any, session: Any, input: Any, fields: dict[str, Any]) -> str:
    agent_key = getattr(agent, "pk", agent)
    session_key = str(getattr(session, "pk", session) or "")
    return schema.hash_json([content, agent_key, session_key, input, *list_hashed_fields(fields)])


def list_hashed_fields(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The other parts of a request that change what the run does, for its hash; empty if there are none."""
    hashed = {name: fields[name] for name in HASHED_FIELDS if fields.get(name)}
    version = fields.get("version")
    if version:
        hashed["version"] = getattr(version, "number", version)
    return [hashed] if hashed else []


def find_earlier(user: Any, idempotency_key: str, request_hash: str) -> Accepted | None:
    """The run that this key started before; another body with the same key is a conflict."""
    run = earlier_run(user, idempotency_key, request_hash)
    if run is None:
        return None
    if run.session is None:
        raise Conflict(
            known("The conversation that this key started was deleted."),
            code="session_deleted",
            hint=known("Use a new key."),
        )
    return Accepted(run, run.session, is_new=False)


def earlier_run(user: Any, idempotency_key: str, request_hash: str) -> Run | None:
    run = EARLIER.first(user=user.pk, key=idempotency_key)
    if run is not None and run.request_hash != request_hash:
        raise IdempotencyMismatch(hint=known("Use a new Idempotency-Key for another request."))
    return run


EARLIER = Select(
    lambda at: (
        Run.objects.select_related("session", "agent", "version", "chain_version__chain")
        .filter(principal=at.user, idempotency_key=at.key)
        .order_by()
    ),
    user=models.IntegerField(),
    key=models.CharField(),
)


# -- checks -----------------------------------------------------------------------------------------------------------


def checked_parts(user: Any, text: str | None, parts: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Content parts of the message; plain text becomes one part. Raises Invalid with one detail per
    problem.
    """
    content = parts if parts is not None else [{"type": "text", "text": text or ""}]
    if len(content) > MOST_PARTS:
        raise Invalid(f"A message can have at most {MOST_PARTS} parts.", code="too_many_parts")
    problems = []
    is_empty = True
    for place, part in enumerate(content):
        problem = find_part_problem(user, part)
        if problem:
            problems.append({"field": f"message.{place}", "code": "invalid", "message": problem})
        if isinstance(part, dict) and (part.get("text") or part.get("type") != "text"):
            is_empty = False
    if is_empty:
        problems.append({"field": "message", "code": "empty", "message": "the message is empty"})
    if problems:
        raise Invalid(
            known("The message is not valid."),
            hint=known("Send text, or parts of type text, image or file."),
            details=problems,
        )
    return content


def checked_agent(
    user: Any, agent: Any, version: AgentVersion | int | None, *, draft: bool = False
) -> tuple[Agent | None, AgentVersion | None, AgentSpec | None]:
    """The agent, the version that will run, and its spec; all None if the router chooses."""
    if agent is None and draft:
        raise Invalid(known("A draft is tried by the name of its agent."), code="draft_without_agent")
    if agent is None:
        return None, None, None
    if isinstance(agent, str):
        agent = NAMED.for_use(user, agent)
    agent.require_use(user)
    if draft:
        agent.require_edit(user)
        version = agent.frozen_draft(author=user)
    version = checks.version_of_agent(agent, version)
    return agent, version, version.read_spec()
