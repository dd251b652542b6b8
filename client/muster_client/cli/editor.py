"""An agent of the Agent Client Protocol whose sessions are the server's and whose modes are its agents."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast
from uuid import uuid4

from acp import (
    PROTOCOL_VERSION,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    SetSessionModeResponse,
    run_agent,
    update_agent_message_text,
)  # fmt: skip
from acp.schema import (
    AgentCapabilities,
    Implementation,
    ListSessionsResponse,
    PermissionOption,
    PromptCapabilities,
    SessionCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    ToolCallUpdate,
)  # fmt: skip

from .._async.client import AsyncMuster
from .._async.pages import AsyncPages, keep_row
from .._async.questions import AsyncInputRequest
from .._async.stream import AsyncStream
from .._version import __version__
from ..errors import ConflictError, ForbiddenError, InvalidError, MusterError
from ..events import Event
from .updates import (
    Updates,
    build_refusal_error,
    convert_prompt,
    convert_server_error,
    join_texts,
    replay_message,
    stop_reason,
)
from .watching import convert_answer

# The mode in which the router chooses the agent.
ROUTER = "-"
# Where the metadata of the server's session keeps the editor's id of it, and its folder.
KEPT = "acp"
# Sessions among which one is found again, and messages of it that are shown.
NEWEST = 500
CHOICES = [
    PermissionOption(option_id="allow", name="Allow once", kind="allow_once"),
    PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])


@dataclass
class Talk:
    """A session of the editor. `session` is the id of the server's, once there is a message.

    `run` is the id of the run that is at work now, or asks `questions`; `seen` is the number of its last event that was
    read. `agent` is the current mode, one of `modes`.
    """

    id: str
    cwd: str
    agent: str
    session: str | None = None
    run: str | None = None
    seen: int = 0
    modes: frozenset[str] = frozenset()
    is_busy: bool = False
    is_cancelled: bool = False
    questions: list[AsyncInputRequest] = field(default_factory=list)


def convert_errors(handler: Handler) -> Handler:
    """Decorator of a request's handler: errors of the server become errors of the protocol."""

    @wraps(handler)
    async def call(*args: Any, **more: Any) -> Any:
        try:
            return await handler(*args, **more)
        except MusterError as error:
            raise convert_server_error(error) from error

    return cast(Handler, call)


class Editor:
    """Handles the requests of one editor."""

    def __init__(self, muster: AsyncMuster, agent: str | None = None) -> None:
        self.muster = muster
        self.first_agent = agent or ROUTER
        self.talks: dict[str, Talk] = {}
        # The runs at work when the editor was gone.
        self.abandoned_runs: list[str] = []

    def on_connect(self, connection: Any) -> None:
        self.client = connection

    async def initialize(self, protocol_version: int, **more: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                session_capabilities=SessionCapabilities(list=SessionListCapabilities()),
            ),
            agent_info=Implementation(name="muster", title="Muster", version=__version__),
            auth_methods=[],
        )

    # -- sessions

    @convert_errors
    async def new_session(self, cwd: str, **more: Any) -> NewSessionResponse:
        talk = Talk(str(uuid4()), cwd, self.first_agent)
        modes = await self.list_modes(talk)
        self.talks[talk.id] = talk
        return NewSessionResponse(session_id=talk.id, modes=modes)

    @convert_errors
    async def list_sessions(self, cwd: str | None = None, **more: Any) -> ListSessionsResponse:
        """The sessions that an editor opened; the server keeps the folder of each."""
        sessions = []
        for row, kept in await self.list_kept_sessions():
            if cwd not in (None, kept["cwd"]):
                continue
            session = SessionInfo(
                session_id=kept["id"], cwd=kept["cwd"], title=row.get("title"), updated_at=row["updated_at"]
            )
            sessions.append(session)
        return ListSessionsResponse(sessions=sessions)

    @convert_errors
    async def load_session(self, cwd: str, session_id: str, **more: Any) -> LoadSessionResponse:
        row = await self.find_kept_session(session_id)
        if row is None:
            raise RequestError(-32002, "There is no such session among your newest ones.", {"sessionId": session_id})
        talk = Talk(session_id, cwd, row.get("agent") or self.first_agent, session=row["id"])
        path = f"sessions/{row['id']}/messages/"
        newest_first = await AsyncPages(self.muster._transport, path, {}, keep_row).take(NEWEST)
        for message in reversed(newest_first):
            await self.show(talk, replay_message(message))
        await self.restore_questions(talk)
        self.talks[talk.id] = talk
        return LoadSessionResponse(modes=await self.list_modes(talk))

    async def find_kept_session(self, session_id: str) -> Any:
        """The server's row of a session of the editor; None if it is not among the newest."""
        for row, kept in await self.list_kept_sessions():
            if kept["id"] == session_id:
                return row
        return None

    async def list_kept_sessions(self) -> list[tuple[Any, dict[str, str]]]:
        """(row, what this program keeps of it), newest first."""
        rows = await self.muster.sessions.list(ordering="-updated_at").take(NEWEST)
        pairs = []
        for row in rows:
            metadata = row.get("metadata") or {}
            kept = metadata.get(KEPT)
            if isinstance(kept, dict) and {"id", "cwd"} <= kept.keys():
                pairs.append((row, kept))
        return pairs

    async def store_editor_id(self, talk: Talk) -> None:
        """Store the editor's id and folder on the server, so that the session can be loaded later.

        A key without the scope `sessions:write` cannot.
        """
        with suppress(ForbiddenError):
            kept = {KEPT: {"id": talk.id, "cwd": talk.cwd}}
            await self.muster.request("PATCH", f"sessions/{talk.session}", json={"metadata": kept})

    async def restore_questions(self, talk: Talk) -> None:
        """If a run of the session waits for an answer, show its question: the next prompt answers it."""
        async for run in self.muster.runs.list(session=talk.session, status="waiting"):
            questions = [question async for question in run.inputs() if question.kind == "form"]
            if not questions:
                continue
            talk.run = run.id
            talk.questions = questions
            async for event in run.events():
                talk.seen = event.seq or talk.seen
            await self.show(talk, render_question_text(questions[0]))
            return

    # -- modes

    async def list_modes(self, talk: Talk) -> SessionModeState:
        """The router and the published agents; of these only the session's if the key cannot list agents."""
        descriptions: dict[str, str] = {}
        if talk.agent != ROUTER:
            descriptions[talk.agent] = ""
        with suppress(ForbiddenError):
            async for row in self.muster.agents.list():
                if row.get("enabled", True) and row["published_version"] is not None:
                    descriptions[row["name"]] = str(row.get("description") or "")
        modes = [SessionMode(id=ROUTER, name="Router", description="Muster chooses the agent for each conversation.")]
        for name, description in descriptions.items():
            modes.append(SessionMode(id=name, name=name, description=description))
        talk.modes = frozenset(mode.id for mode in modes)
        return SessionModeState(current_mode_id=talk.agent, available_modes=modes)

    async def set_session_mode(self, session_id: str, mode_id: str, **more: Any) -> SetSessionModeResponse:
        talk = self.get_talk(session_id)
        if mode_id not in talk.modes:
            raise build_refusal_error(f"There is no agent “{mode_id}” in this session.")
        talk.agent = mode_id
        return SetSessionModeResponse()

    def get_talk(self, id: str) -> Talk:
        if id not in self.talks:
            raise RequestError(-32002, "There is no such session.", {"sessionId": id})
        return self.talks[id]

    # -- prompts

    @convert_errors
    async def prompt(self, prompt: list[Any], session_id: str, **more: Any) -> PromptResponse:
        talk = self.get_talk(session_id)
        parts = convert_prompt(prompt)
        if talk.is_busy:
            raise build_refusal_error("The session is busy with another prompt.")
        talk.is_busy = True
        talk.is_cancelled = False
        try:
            reason = await self.run_turn(talk, parts)
            return PromptResponse(stop_reason=reason)
        except (asyncio.CancelledError, ConnectionError):  # the editor is gone
            if talk.run and not talk.questions:
                self.abandoned_runs.append(talk.run)
            raise
        finally:
            talk.is_busy = False

    async def run_turn(self, talk: Talk, parts: list[dict[str, Any]]) -> Any:
        """Returns the stop reason. A prompt after a question is its answer, unless that came from elsewhere."""
        if talk.questions and await self.answer_question(talk, join_texts(parts)):
            # The next question, or the same one again if the answer did not fit.
            if talk.questions:
                await self.show(talk, render_question_text(talk.questions[0]))
                return "end_turn"
            run = await self.muster.runs.get(str(talk.run))
            return await self.follow(talk, run.stream(after=talk.seen))
        talk.run, talk.seen = None, 0
        conversation = self.get_conversation(talk)
        return await self.follow(talk, conversation.message(parts).stream())

    def get_conversation(self, talk: Talk) -> Any:
        if talk.agent == ROUTER:
            return self.muster.conversation(talk.session)
        return self.muster.agent(talk.agent).conversation(talk.session)

    async def answer_question(self, talk: Talk, text: str) -> bool:
        """Answer the first question with this text; returns whether the prompt is used up by that.

        An answer that does not fit leaves the question open.
        """
        question = talk.questions[0]
        try:
            await question.answer(convert_answer(text, question.schema))
        except InvalidError as error:
            await self.show(talk, [update_agent_message_text(str(error))])
            return True
        except ConflictError:  # answered elsewhere, or its run has ended
            talk.questions.clear()
            return False
        talk.questions.pop(0)
        return True

    async def follow(self, talk: Talk, opened: AsyncStream) -> Any:
        """Show a run until it ends or asks the person. Returns the stop reason."""
        updates = Updates()
        async with opened as stream, background_tasks() as start:
            await self.record_run(talk, stream)
            async with aclosing(stream.__aiter__()) as events:
                async for event in events:
                    talk.seen = event.seq or talk.seen
                    await self.show(talk, updates.convert(event))
                    if event.type == "approval.requested":
                        start(self.decide_approval(talk, event.data))
                    if await self.show_question(talk, event):
                        return "end_turn"
            return stop_reason(stream.final)

    async def record_run(self, talk: Talk, stream: AsyncStream) -> None:
        """The server has started the run: from here on its ids are known."""
        talk.run = stream.run
        if talk.session is None and stream.session is not None:
            talk.session = stream.session
            await self.store_editor_id(talk)
        # Cancelled before the run was known.
        if talk.is_cancelled:
            await self.cancel_run(str(talk.run))

    async def show_question(self, talk: Talk, event: Event) -> bool:
        """If the run now waits for an answer, show its question; returns whether it does."""
        if event.type != "run.waiting" or event.data.get("waiting_for") != "input":
            return False
        run = await self.muster.runs.get(str(talk.run))
        talk.questions = [question async for question in run.inputs() if question.kind == "form"]
        if talk.questions:
            await self.show(talk, render_question_text(talk.questions[0]))
        return bool(talk.questions)

    async def decide_approval(self, talk: Talk, data: dict[str, Any]) -> None:
        """Ask the person to decide an approval. One that is dismissed stays open on the server."""
        try:
            if "approvals:decide" not in (await self.muster.me())["scopes"]:
                await self.show_note(
                    talk, "needs an approval, which this key may not decide. Decide it in Muster.", data
                )
                return
            chosen = await self.ask_permission(talk, data)
            approval = await self.muster.approvals.get(str(data["id"]))
            if chosen == "allow":
                await approval.approve()
            elif chosen == "reject":
                await approval.deny()
        except ConflictError:
            # Somebody has decided it elsewhere meanwhile.
            pass
        except (MusterError, RequestError) as error:
            await self.show_note(talk, f"was not decided here: {error}", data)

    async def ask_permission(self, talk: Talk, data: dict[str, Any]) -> str | None:
        """The id of the option that the person chose; None if they dismissed the question."""
        call_id = str(data.get("call") or data["id"])
        call = ToolCallUpdate(
            tool_call_id=call_id, title=str(data["tool"]), status="pending", raw_input=data.get("arguments")
        )
        answered = await self.client.request_permission(talk.id, call, CHOICES)
        return getattr(answered.outcome, "option_id", None)

    async def show_note(self, talk: Talk, words: str, data: dict[str, Any]) -> None:
        await self.show(talk, [update_agent_message_text(f"\n\n`{data['tool']}` {words}\n\n")])

    async def show(self, talk: Talk, updates: list[Any]) -> None:
        for update in updates:
            await self.client.session_update(talk.id, update)

    # -- the end

    async def cancel(self, session_id: str, **more: Any) -> None:
        talk = self.get_talk(session_id)
        if not talk.is_busy and not talk.questions:
            return
        talk.is_cancelled = True
        talk.questions.clear()
        if talk.run:
            await self.cancel_run(talk.run)

    async def leave(self) -> None:
        """Cancel the runs that nobody follows any more, and close the connection to the server."""
        for run in self.abandoned_runs:
            await self.cancel_run(run)
        await self.muster.close()

    async def cancel_run(self, run: str) -> None:
        """Cancel the run; its last event then ends the prompt."""
        # A run that has ended meanwhile cannot be cancelled, and needs not be.
        with suppress(ConflictError):
            row = await self.muster.runs.get(run)
            await row.cancel("cancelled in the editor")


def render_question_text(question: AsyncInputRequest) -> list[Any]:
    """A question as text, with what may be answered."""
    words = question.prompt or question.name
    for choice in question.schema.get("enum") or ():
        words += f"\n- {choice}"
    return [update_agent_message_text(f"\n\n{words}")]


@asynccontextmanager
async def background_tasks() -> AsyncIterator[Callable[[Any], None]]:
    """Gives `start(coroutine)`, which starts a task; tasks that are not done at the end are cancelled."""
    started: list[asyncio.Task[None]] = []
    try:
        yield lambda work: started.append(asyncio.create_task(work))
    finally:
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)


async def serve(muster: AsyncMuster, agent: str | None) -> None:
    """Serve one editor until it closes its end or sends SIGTERM; its prompts are then cancelled."""
    editor = Editor(muster, agent)
    this_task = cast("asyncio.Task[None]", asyncio.current_task())
    # On Windows an event loop takes no signals; there the editor closes its end.
    with suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this_task.cancel)
    try:
        with suppress(asyncio.CancelledError):
            await run_agent(cast(Any, editor))
    finally:
        await editor.leave()
