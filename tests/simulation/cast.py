"""What the simulated workers work on: agents with a scripted model, tools whose effects an outside ledger counts, and a
person.
"""

import json
from collections import defaultdict
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model

from agents.models import Agent, Chain, Provider, Tool, ToolGrant
from agents.tools import OutcomeUnknown, ToolFailed, ToolResult
from plumbing import waits
from plumbing.statements import Select
from registry.agents import LiveAgent, ModelReply, ModelToolCall
from registry.exceptions import ModelCancelled
from runs.calls import approvals
from runs.exceptions import AlreadyDecided, RunFinished
from runs.intake import messages as intake
from runs.models import Approval, Budget, Run
from runs.queue import endings

from .world import World

EFFECTS = {"pay": "write", "careful": "write", "put": "idempotent", "look": "read", "shop": "read"}
CALLBACKS = {"shop": ("look", "pay")}  # it may be repeated, but not once it has called the second
TOKEN = {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
SCRIPT = "Script: "
RETRY = {"attempts": 3, "backoff_s": 5, "jitter": 0}
FOR_EVER = 1_000_000
STEPS = (
    {"key": "pay", "tool": "pay", "input": {"token": "input.pay"}, "retry": RETRY},
    {"key": "look", "tool": "look", "input": {"token": "input.look"}, "retry": RETRY, "on_error": "continue"},
    {
        "key": "each",
        "tool": "pay",
        "input": {"token": "item"},
        "for_each": "input.each",
        "on_error": "continue",
        "retry": RETRY,
    },
    {"key": "ask", "agent": "helper", "input": {"message": "input.task"}},
)


def set_up() -> None:
    """The rows that every seed begins with."""
    alice = get_user_model().objects.create_user("alice")
    offline = Provider.objects.create(name="offline", kind="offline")
    for name, effect in EFFECTS.items():
        tool = Tool(owner=alice, name=name, kind="function", description=name, effect=effect, input_schema=TOKEN)
        tool.freeze_hash()
        tool.save()
    make_agent(alice, offline, "helper", ("pay", "put", "look", "shop"))
    make_agent(alice, offline, "boss", (*EFFECTS, "helper"))
    for strategy in ("sequential", "parallel"):
        chain = Chain.objects.create(owner=alice, name=strategy, strategy=strategy)
        chain.replace_steps([dict(step) for step in STEPS])
        for tool in Tool.objects.filter(name__in=("pay", "look")):
            ToolGrant.objects.create(chain=chain, tool=tool, mode="allow")
        chain.publish(author=alice)


def make_agent(owner: Any, provider: Provider, name: str, tools: tuple[str, ...]) -> None:
    agent = Agent.objects.create(owner=owner, name=name, provider=provider, model_name="stub", system_prompt="Work.")
    for tool in Tool.objects.filter(name__in=tools):
        ToolGrant.objects.create(agent=agent, tool=tool, mode="ask" if tool.name == "careful" else "allow")
    agent.publish(author=owner)


class Cast:
    """The outside of the engine in one seed."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, world.rng
        self.alice = get_user_model().objects.get(username="alice")
        self.effects: dict[str, list[tuple[str, str]]] = defaultdict(list)  # token → (tool, call) of each effect
        self.accepted: set[Any] = set()
        self.sessions: list[Any] = []
        self.tokens = 0
        settings.APPROVAL_S = self.rng.choice((60, FOR_EVER))  # whether a deadline hides that a wake-up was lost
        self.messages = self.rng.choice((1, 1, 2, 3))  # still to be sent
        if self.rng.random() < 0.3:
            limit = self.rng.choice((4_000, 12_000, 40_000))
            Budget.objects.create(owner=self.alice, user=self.alice, max_tokens=limit, max_runs=20)

    # -- the person -----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """In the web process: send a message, decide what waits, sometimes cancel."""
        if self.messages:
            self.messages -= 1
            self.send()
        for approval in OPEN.all():
            if self.rng.random() < 0.4:
                self.decide(approval)
        if self.rng.random() < 0.03:
            self.cancel()

    def send(self) -> None:
        if self.rng.random() < 0.35:
            name = self.rng.choice(("sequential", "parallel"))
            given = {"pay": self.token(), "look": self.token(), "each": [self.token(), self.token()]}
            run = intake.start_chain(user=self.alice, chain=name, input={**given, "task": self.task(depth=1)})
        else:
            session = self.rng.choice([None, *self.sessions])
            taken = intake.accept_message(
                user=self.alice, text=self.task(), agent="boss", session=session, on_busy="enqueue"
            )
            self.sessions.append(str(taken.session.pk))
            run = taken.run
        self.accepted.add(run.pk)
        self.world.tell(f"accepted {self.world.name_of(run.pk)}")

    def decide(self, approval: Approval) -> None:
        decision = self.rng.choice(("approve", "approve", "deny"))
        with suppress(AlreadyDecided):
            approvals.decide_approval(approval, decision, by=self.alice)
            self.world.tell(f"{decision} {approval.arguments['token']}")

    def cancel(self) -> None:
        run = Run.objects.live().filter(parent=None).order_by("id").first()
        if run is not None:
            with suppress(RunFinished):
                endings.cancel_run(run, by=self.alice)
                self.world.tell(f"cancel {self.world.name_of(run.pk)}")

    # -- the script, which the model follows -----------------------------------------------------------------------

    def token(self) -> str:
        self.tokens += 1
        return f"t{self.tokens}"

    def task(self, depth: int = 0) -> str:
        turns = [[self.call(depth) for _ in range(self.rng.choice((1, 1, 2)))] for _ in range(self.rng.randint(1, 2))]
        return SCRIPT + json.dumps(turns)

    def call(self, depth: int) -> list[str]:
        name = self.rng.choice((*EFFECTS, "pay") if depth == 0 else ("pay", "put", "look", "shop"))
        if depth == 0 and self.rng.random() < 0.15:
            return ["helper", self.task(depth + 1)]
        return [name, self.token()]

    def reply(self, live: LiveAgent, messages: list[dict[str, Any]], **question: Any) -> ModelReply:
        """In place of `LiveAgent.reply`: what the script says for this turn, however often it is asked."""
        with waits.AROUND.get()():
            self.world.pause(self.rng.choice((0.2, 1.0, 5.0)) * self.rng.random())
        self.world.risk("before the model's answer")
        if question["is_cancelled"]():
            raise ModelCancelled
        calls = [] if question["tool_names"] == [] else calls_of(messages, [text_of(one) for one in messages])
        self.world.tell(f"model: {[[call.name, call.arguments] for call in calls] or 'done'}")
        written = min(question["max_tokens"] or 40, 40)
        return ModelReply("" if calls else "Done.", tuple(calls), 60, written, "stub", 1, None, 1.0, {}, {})

    # -- the tools, and what they do outside -----------------------------------------------------------------------

    def call_tool(self, tool: Any, call: Any, context: Any) -> ToolResult:
        token = call.arguments["token"]
        self.world.pause(self.rng.choice((0.1, 2.0)) * self.rng.random())
        if tool.name in ("look", "pay") and self.rng.random() < 0.1:
            raise ToolFailed("The shop is closed.", code="closed")  # before anything was done: may be tried again
        self.happen(tool.name, token, call.id)
        for name in CALLBACKS.get(tool.name, ()):
            context.call_tool(name, {"token": f"{token}.{name}"})
        self.world.pause(self.rng.choice((0.1, 2.0)) * self.rng.random())
        if self.rng.random() < 0.05:
            raise OutcomeUnknown("The line went dead.")
        return ToolResult(ok=True, value={"token": token})

    def happen(self, name: str, token: str, call_id: str) -> None:
        """The effect itself, which nobody can take back."""
        self.world.risk("before an effect")
        self.effects[token].append((name, call_id))
        self.world.tell(f"{name} {token}")
        self.world.risk("after an effect")


OPEN = Select(lambda _: Approval.objects.open().order_by("id"))


def calls_of(messages: list[dict[str, Any]], texts: list[str]) -> list[ModelToolCall]:
    begun = max(place for place, text in enumerate(texts) if messages[place]["role"] == "user" and SCRIPT in text)
    turns, _ = json.JSONDecoder().raw_decode(texts[begun].split(SCRIPT, 1)[1])
    turn = sum(message["role"] == "assistant" for message in messages[begun:])
    named = turns[turn] if turn < len(turns) else []
    return [
        ModelToolCall(f"c{turn}.{place}", name, {"task" if name == "helper" else "token": given})
        for place, (name, given) in enumerate(named)
    ]


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
