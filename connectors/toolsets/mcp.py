"""MCP servers as sources of tools: pins checked before each call, results typed and cut."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from agents.models import Tool
from agents.models.team import is_open
from agents.schema import drop_unusable_patterns, hash_json
from agents.tools import CallPending, RetryTool, ToolCall, ToolContext, ToolResult, ToolSpec
from connectors.attachments import with_files_stored
from connectors.content import clean_untrusted_text
from connectors.exceptions import build_tool_failure
from connectors.mcp import headers
from connectors.mcp.exceptions import InputRequired, McpFailed, McpRefused, SessionLost
from connectors.mcp.session import Listener, Session
from connectors.models import Connection, RemoteTool
from connectors.remote import Listing, Offered, find_offer_problem, take_offers
from connectors.timing import seconds_left
from plumbing.http import outbound

from . import mcp_questions as questions
from . import mcp_reading as reading
from . import sessions
from .mcp_questions import Round
from .mcp_results import Heard, build_mcp_result
from .sessions import Kept, drop_all

__all__ = ["McpToolset", "drop_all", "fetch_server_tools"]

# How long a list of tools is used before it is read again; a server may say: less.
LISTED_S = 60.0
LEAST_S = 5.0
LIST_S = 30.0
JSON = Any


# -- the catalogue -------------------------------------------------------------------------------------------------


def fetch_server_tools(connection: Connection, user_id: int | None) -> Listing:
    """Read the server's tools and update the catalogue. Raises ToolFailed."""
    until = monotonic() + LIST_S
    try:
        offers = sessions.use(connection, user_id, until, lambda kept: fetch_offers(kept, until, again=True))
    except McpRefused as error:
        raise sessions.unusable(connection, error)
    connection.mark_ok()
    return take_offers(connection, offers, kind=Tool.Kind.MCP)


def fetch_offers(kept: Kept, until: float, *, again: bool = False) -> list[Offered]:
    """The server's tools, and those that read its resources and prompts. `again`: look anew whether it has any."""
    session = kept.session
    tools = session.list_tools(until)
    offers = [read_offer(tool, is_http=kept.is_shared, session=session) for tool in tools]
    offers += reading.find_offers(session, kept.found, until, again=again)
    kept.hashes = hash_definitions(offers)
    kept.listed_at = monotonic()
    return offers


def hash_definitions(offers: list[Offered]) -> dict[str, str]:
    """The hash of each definition by name. Of several with one name, the one that `take_offers` takes."""
    counts = Counter(offer.name for offer in offers)
    hashes: dict[str, str] = {}
    for offer in offers:
        problem = offer.problem
        # Only if a name occurs twice: a check of the schema takes time.
        if counts[offer.name] > 1:
            problem = find_offer_problem(offer, set(hashes))
        if not problem:
            hashes[offer.name] = hash_json(offer.definition())
    return hashes


def read_offer(tool: dict[str, JSON], *, is_http: bool = True, session: Session | None = None) -> Offered:
    """One entry of tools/list. Its annotations are claims that only count after approval."""
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        schema = {}
    output = tool.get("outputSchema")
    if not isinstance(output, dict):
        output = None
    # Headers repeat marked arguments; a program gets none.
    problem = header_problem(schema) if is_http else ""
    details: dict[str, JSON] = {}
    if demands_task(tool.get("execution")):
        details["task"] = True
        problem = problem or task_problem(session)
    words = tool.get("description") or tool.get("title") or ""
    return Offered(
        name=str(tool.get("name", "")),
        description=clean_untrusted_text(str(words)),
        input_schema=drop_unusable_patterns({"type": "object", **schema}),
        output_schema=output,
        effect=claimed_effect(tool.get("annotations")),
        details=details,
        problem=problem,
    )


def demands_task(execution: JSON) -> bool:
    """Whether a tool can only be called as a task (2025-11-25)."""
    if not isinstance(execution, dict):
        return False
    return execution.get("taskSupport") == "required"


def task_problem(session: Session | None) -> str:
    if session is None or session.takes_tasks:
        return ""
    return "It can only be called as a task, and the server does not offer tasks."


def header_problem(schema: JSON) -> str:
    try:
        headers.marks(schema)
    except headers.BadMark as error:
        return str(error)
    except RecursionError:
        return "Its schema is nested too deeply."
    return ""


def claimed_effect(annotations: JSON) -> str:
    """What the tool says of itself; what it does not say is taken for the worst (as MCP has it)."""
    hints = annotations if isinstance(annotations, dict) else {}
    if hints.get("readOnlyHint") is True:
        # Its arguments go to somebody else's server.
        return Tool.Effect.READ_OUT
    if hints.get("destructiveHint", True) is not False:
        return Tool.Effect.DESTRUCTIVE
    if hints.get("idempotentHint") is True:
        return Tool.Effect.IDEMPOTENT
    return Tool.Effect.WRITE


# -- a call --------------------------------------------------------------------------------------------------------


class McpToolset:
    """Executes tools of kind mcp."""

    def call(self, tool: ToolSpec, call: ToolCall, context: ToolContext) -> ToolResult:
        connection, remote = load_tool_source(tool, context.user_id)
        until = monotonic() + seconds_left(tool, context)
        heard = Heard(context.emit, monotonic)
        making = Making(tool, call, connection, remote.offered.get("details") or {}, context, until, heard)
        started = monotonic()
        try:
            with outbound.unless(context.is_cancelled):
                answer = self.answer(making)
        except CallPending:
            raise
        except Exception as problem:
            remote.count((monotonic() - started) * 1000, str(problem) or "The call failed.")
            raise
        remote.count((monotonic() - started) * 1000)
        connection.mark_ok()
        stored = with_files_stored(answer, tool, context)
        return build_mcp_result(answer, tool, heard.printed, stored)

    def answer(self, making: "Making") -> dict[str, JSON]:
        """The server's answer; a question of it to the person is asked, and the call continued later."""
        connection, context = making.connection, making.context
        rounds = questions.list_earlier_rounds(context)
        try:
            while True:
                # Raises CallPending while the person has not answered.
                results = [questions.build_round_results(one, connection, context) for one in rounds]
                try:
                    answer = making.go_on(rounds, results)
                    return making.read(answer)
                except InputRequired as error:
                    rounds.append(questions.next_round(error, rounds))
                    making.leave(rounds[-1])
        except McpRefused as error:
            raise build_tool_failure("tool_refused", f"The server refused the call: {error}")
        except headers.BadMark as error:
            raise RetryTool(str(error))


@dataclass(frozen=True, slots=True)
class Making:
    """One call at its server: started, or continued after a question."""

    tool: ToolSpec
    call: ToolCall
    connection: Connection
    # Of the offer: how the tool is called.
    details: dict[str, JSON]
    context: ToolContext
    until: float
    heard: Heard

    @property
    def method(self) -> str:
        """The protocol's method, for a tool that reads resources or prompts."""
        return str(self.details.get("method") or "")

    def read(self, answer: dict[str, JSON]) -> dict[str, JSON]:
        """The answer in the form of a tool's."""
        if not self.method:
            return answer
        try:
            return reading.build_reading_answer(self.method, answer)
        except McpFailed as error:
            raise sessions.unusable(self.connection, error)

    def go_on(self, rounds: list[Round], results: list[dict[str, JSON]]) -> dict[str, JSON]:
        """Start the call, or continue it with the answers to the last round."""
        state = rounds[-1].state if rounds else None
        if state is None:
            return self.start(questions.replay(rounds, results, self.context))
        answers = results[-1]
        listen = questions.fresh(self.context)
        if "session_id" in state:
            return self.resume(state, answers, self.listener(listen))
        more = dict(state["more"])
        if answers:
            more["inputResponses"] = answers
        return self.start(listen, more)

    def start(self, listen: questions.Answering, more: dict[str, JSON] | None = None) -> dict[str, JSON]:
        """If the server has closed the session, it is opened again once; any other failure ends the
        call.
        """
        listener = self.listener(listen)
        user_id = self.context.user_id
        return sessions.use(self.connection, user_id, self.until, lambda kept: self.make(kept, listener, more))

    def listener(self, listen: questions.Answering) -> Listener:
        return Listener(self.heard.progress, self.heard.log, listen, may_repeat=self.tool.is_repeatable)

    def make(self, kept: Kept, listener: Listener, more: dict[str, JSON] | None) -> dict[str, JSON]:
        """Raises SessionLost only where the server has refused the call itself for it."""
        check_pin(self.tool, self.connection, kept, self.until)
        arguments = self.call.arguments
        with self.doubtful():
            if self.method:
                params = reading.check_reading_params(self.method, arguments)
                params |= more or {}
                return kept.session.call(self.method, params, self.until, listener=listener)
            return kept.session.call_tool(
                self.tool.source["tool"],
                arguments,
                self.until,
                schema=self.tool.input_schema,
                listener=listener,
                more=more,
                as_task=bool(self.details.get("task")),
            )

    def resume(self, state: dict[str, JSON], answers: dict[str, JSON], listener: Listener) -> dict[str, JSON]:
        """Read the rest of a stream that was left, in the session that it belongs to."""
        try:
            with sessions.resume_left_session(self.connection, self.context.user_id) as session, self.doubtful():
                return session.resume_call(state, answers, self.until, listener)
        except McpFailed as error:
            raise sessions.unusable(self.connection, error)

    def leave(self, request_round: Round) -> None:
        """The session of a stream that was left must not be ended at the server."""
        state = request_round.state
        if state is not None and "session_id" in state:
            sessions.remove_left_session(self.connection, state["session_id"])

    @contextmanager
    def doubtful(self) -> Iterator[None]:
        """A call that was sent and must not be repeated has an unknown outcome if its answer does not come."""
        try:
            yield
        except SessionLost:
            raise
        except McpFailed as error:
            error.is_in_doubt = error.was_sent and not self.tool.is_repeatable
            raise


def check_pin(tool: ToolSpec, connection: Connection, kept: Kept, until: float) -> None:
    """The tool still matches its pin; otherwise it is switched off until a user approves it again."""
    name = tool.source["tool"]
    pin = tool.source["pin"]
    if not is_fresh(kept):
        offers = fetch_offers(kept, until)
        if kept.hashes.get(name) != pin:
            take_offers(connection, offers, kind=Tool.Kind.MCP)
    now = kept.hashes.get(name)
    if now is None:
        raise build_tool_failure("not_offered", f"The server no longer offers “{name}”.")
    if now != pin:
        raise build_tool_failure(
            "definition_changed", f"The server has changed “{name}”; a user must approve it again.", offered=now
        )


def is_fresh(kept: Kept) -> bool:
    """May the last list still be used? A server's own limit counts if it is shorter than ours."""
    if not kept.listed_at or kept.session.tools_changed:
        return False
    lifetime = LISTED_S
    if kept.session.list_ttl_s is not None:
        # A server that says 0 is not asked before every call.
        lifetime = max(LEAST_S, min(kept.session.list_ttl_s, LISTED_S))
    return monotonic() - kept.listed_at <= lifetime


def load_tool_source(tool: ToolSpec, user_id: int) -> tuple[Connection, RemoteTool]:
    """The connection of a tool, if this user may use it. Raises ToolFailed."""
    connection = Connection.objects.filter(pk=tool.source.get("connection"), enabled=True).first()
    if connection is None or not may_use(connection, user_id):
        raise build_tool_failure("connection_missing", f"You have no connection for “{tool.name}”.")
    remote = connection.remote_tools.filter(remote_name=tool.source.get("tool")).first()
    if remote is None:
        raise build_tool_failure("not_offered", f"“{tool.name}” is no longer offered.")
    return connection, remote


def may_use(connection: Connection, user_id: int) -> bool:
    return is_open(connection.owner_id, connection.team_id, user_id)
