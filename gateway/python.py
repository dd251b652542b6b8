"""Muster for Django code in the same process: a thin interface to intake, the registry and the function store.

    from gateway.python import FunctionStore, Registry

    registry = Registry(user)
    reply = registry.process("What is 2 + 3?", conversation_id="ticket-17")

Messages are handled like all others: same rows, same policy, same events. A worker does the work.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction

from agents.definitions import files
from agents.exceptions import Conflict, Invalid
from agents.models import Agent
from agents.models.version import find_earlier_version
from functions import callers, store
from functions.execution import execute_function, ready
from functions.models import StoredFunction
from registry.agents import LiveAgent
from registry.factory import live_agent
from runs.events import waiting
from runs.intake import messages as intake
from runs.models import Message, Session

JSON = Any


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a message. `status` is the run's: still `queued`, `running` or `waiting` if the
    wait ended first.
    """

    text: str
    status: str
    run_id: str
    conversation_id: str
    output: JSON = None
    error: dict[str, JSON] | None = None
    usage: dict[str, JSON] | None = None


class FunctionFailed(Exception):
    """A stored function failed: `error` has type, message and line."""

    def __init__(self, name: str, error: dict[str, JSON]) -> None:
        super().__init__(f"{name}: {error.get('type', 'error')}: {error.get('message', '')}")
        self.error = error


class Registry:
    """The registry as one user sees it."""

    def __init__(self, user: Any) -> None:
        self.user = user

    def process(
        self,
        messages: str | Sequence[dict[str, JSON]],
        conversation_id: str | UUID | None = None,
        *,
        agent: str | None = None,
        input: JSON = None,
        metadata: dict[str, JSON] | None = None,
        options: dict[str, JSON] | None = None,
        wait_s: float = 60.0,
    ) -> Reply:
        """Send the last user message; what stands before it opens the conversation where that is new.

        `messages` is a text or {"role", "content"} dicts. `conversation_id` is a session's id or any word of yours
        (kept per person); None starts another. Without `agent` the router chooses. `options` are those of a
        message: {"model", "model_params", "instructions", "variables", "tool_policy", "output_schema", "max_steps",
        "budget", "priority"}.
        Raises agents.exceptions.
        """
        earlier, text = split_earlier_messages(messages)
        # Listens before the run starts: it could end before somebody listened otherwise.
        waiting.ENDS.listen()
        # A refused message leaves no conversation behind.
        with transaction.atomic():
            session = self._session(conversation_id, earlier, agent)
            acceptance = intake.accept_message(
                user=self.user,
                text=text,
                agent=agent,
                session=session,
                input=input,
                metadata=metadata,
                asked=options,
                on_busy="enqueue",
            )
        run = acceptance.run
        ended = waiting.wait_for_end(run.pk, wait_s)
        name = str(conversation_id or acceptance.session.pk)
        if ended is None:
            run.refresh_from_db()
            return Reply("", run.status, str(run.pk), name)
        reply = ended["reply"] or {}
        return Reply(
            text=reply.get("text", ""),
            status=ended["status"],
            run_id=str(run.pk),
            conversation_id=name,
            output=ended["output"],
            error=ended["error"],
            usage=ended["usage"],
        )

    def get_agent(self, name: str) -> LiveAgent:
        """The live agent with that name. Its `reply` asks the model once and records nothing: use
        `process` to work.

        Raises NotFound, CannotBuild.
        """
        return live_agent(Agent.objects.select_related("published").for_use(self.user, name))

    def register_agent(self, definition: dict[str, JSON]) -> Agent:
        """Create or change one of this user's agents from a definition as in a file, and publish
        it.

        {"name", "description", "system_prompt", "provider", "model_name", "capabilities", "grants":
        [tool names], …}; equal content gives the same version again. Raises Invalid.
        """
        whole = {**definition, "kind": "agent"}
        if not isinstance(whole.get("name"), str):
            raise Invalid("A definition needs a name.", code="nameless")
        files.refuse_unknown(whole)
        with plain_refusals():
            changes = files.plan_changes([whole], owner=self.user)
            files.apply_changes(changes, owner=self.user, actor=self.user)
        return Agent.objects.select_related("published").get(owner=self.user, name=whole["name"])

    def list_agents(self) -> list[Agent]:
        """The published agents that this user can use."""
        return list(Agent.objects.usable_by(self.user).published().order_by("name"))

    def _session(
        self, conversation_id: str | UUID | None, earlier: Sequence[dict[str, JSON]], agent: str | None
    ) -> Session | str | None:
        if isinstance(conversation_id, UUID) or is_uuid(conversation_id):
            return str(conversation_id)
        if conversation_id is None and not earlier:
            return None
        if "\0" in (conversation_id or ""):
            raise Invalid("The name of a conversation cannot contain a NUL character.", code="invalid_conversation")
        return self._own_session(conversation_id, earlier, agent)

    def _own_session(self, word: str | None, earlier: Sequence[dict[str, JSON]], agent: str | None) -> Session:
        """The session with that name, or a new one that starts with the earlier messages."""
        thread = None
        metadata: dict[str, JSON] = {}
        if word is not None:
            named = Session.objects.visible_to(self.user).named("conversation", word).first()
            if named:
                return named
            thread = word[:200]
            metadata = {"conversation": word}
        with_agent = Agent.objects.for_use(self.user, agent) if agent else None
        session = Session.objects.create(
            owner=self.user,
            agent=with_agent,
            thread=thread,
            metadata=metadata,
            variables={"agent_depth": 0},
        )
        for message in earlier:
            session.add_message(message["role"], convert_message_content(message.get("content")))
        return session


class FunctionStore:
    """Stored functions as one user sees them."""

    def __init__(self, user: Any) -> None:
        self.user = user

    def store_function(
        self, name: str, source: str, *, publish: bool = True, note: str = "", **fields: JSON
    ) -> StoredFunction:
        """Check the source and store it under this name; publishes it unless told otherwise.

        `fields` are columns of StoredFunction (timeout, allowed_imports, …). Raises Invalid with
        one detail per refusal.
        """
        function = StoredFunction.objects.filter(owner=self.user, name=name).first()
        function = function or StoredFunction(owner=self.user, name=name)
        function.source = source
        columns = {field.name for field in StoredFunction._meta.concrete_fields} - {"id", "owner", "published"}
        for field, value in fields.items():
            if field not in columns:
                raise Invalid(f"A function has no field “{field}”.", code="unknown_field")
            setattr(function, field, value)
        with plain_refusals():
            store.save_function(function, user=self.user, note=note)
            if publish:
                store.publish_function(function, user=self.user, note=note)
        return function

    def execute_function(
        self, name: str, arguments: dict[str, JSON] | None = None, *, version: int | None = None
    ) -> JSON:
        """Run the published version (or the given one) in the sandbox and return its result.

        Raises NotFound, Conflict (not published), Invalid (arguments), FunctionFailed.
        """
        function = StoredFunction.objects.select_related("published").for_use(self.user, name)
        chosen = find_earlier_version(function, version) if version else function.published
        if chosen is None:
            raise Conflict(f"“{name}” is not published.", code="not_published", hint="Publish it, or give a version.")
        what = ready(chosen.pk, chosen.sha256)
        caller = callers.alone(self.user, what)
        execution = execute_function(what, arguments or {}, caller)
        callers.refuse_callbacks(caller)
        if execution.status != "ok":
            raise FunctionFailed(name, execution.error or {"type": execution.status})
        return execution.result


@contextmanager
def plain_refusals() -> Iterator[None]:
    """Turn Django's validation error into Invalid, with one detail per problem."""
    try:
        yield
    except ValidationError as error:
        raise Invalid.of(error) from error


def split_earlier_messages(messages: str | Sequence[dict[str, JSON]]) -> tuple[list[dict[str, JSON]], str]:
    """(earlier messages, the message itself). Raises Invalid."""
    if isinstance(messages, str):
        return [], messages
    if not messages or any(not isinstance(one, dict) or one.get("role") not in Message.Role.values for one in messages):
        raise Invalid('Each message is {"role": "user" | "assistant" | "system", "content"}.', code="invalid_messages")
    last = messages[-1]
    if last["role"] != Message.Role.USER:
        raise Invalid("The last message must be the user's.", code="invalid_messages")
    earlier = [one for one in messages[:-1] if one["role"] in (Message.Role.USER, Message.Role.ASSISTANT)]
    content = last.get("content")
    if isinstance(content, str):
        return earlier, content
    texts = [part.get("text", "") for part in convert_message_content(content)]
    return earlier, "\n".join(texts)


def convert_message_content(content: JSON) -> list[dict[str, JSON]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content or [] if isinstance(part, dict)]


def is_uuid(text: Any) -> bool:
    try:
        UUID(str(text))
    except ValueError:
        return False
    return True
