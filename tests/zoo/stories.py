"""Stories that every server of the zoo plays: a conversation, and what the server answers in it."""

from dataclasses import dataclass, field
from typing import Any

from agents.tools import ToolSpec
from registry.exceptions import ModelFailed
from registry.llm.attempts import ask_model
from registry.llm.chat import ChatModel, Question
from registry.llm.watch import Watch
from runs.calls import model_messages
from runs.models import ToolCallRecord

from .acts import Act, calls, fails, says

JSON = Any
PAIR = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
ADD = ToolSpec(1, "add", "function", "Add two numbers", PAIR, None, "read", {}, "")
NOW = ToolSpec(2, "now", "function", "The time", {}, None, "read", {}, "")
SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
SYSTEM = {"role": "system", "content": "You help."}
ONE, TWO = {"a": 1, "b": 2}, {"a": 3, "b": 4}


def user(text: str) -> dict[str, JSON]:
    return {"role": "user", "content": text}


def reply(text: str) -> dict[str, JSON]:
    return {"role": "assistant", "content": text}


@dataclass(frozen=True, slots=True)
class Story:
    acts: tuple[Act, ...]
    expected: list[JSON]  # (text, calls) of each answer, or the code of an error
    opening: tuple[dict[str, JSON], ...] = (SYSTEM, user("Add 1 and 2"))
    output_schema: JSON = None
    tries: int | None = None  # attempts of the last answer
    notes: dict[int, str] = field(default_factory=dict)  # what the run says to the model behind that turn


@dataclass(slots=True)
class Journal:
    """What came of a story, the same with and without a listener."""

    entries: list[JSON] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finishes: list[str] = field(default_factory=list)
    attempts: int = 0


def play(model: ChatModel, name: str, story: Story, *, listens: bool) -> Journal:
    """A conversation as the run loop holds it: the model's calls are answered until it has a reply."""
    journal = Journal()
    messages = list(story.opening)
    for turn in range(len(story.acts)):
        hear = journal.heard.append if listens else None
        question = Question(name, messages, (ADD, NOW), story.output_schema, hear, Watch())
        try:
            answer, _, journal.attempts = ask_model(model, question, ())
        except ModelFailed as error:
            journal.entries.append(error.code)
            return journal
        made = [(call.name, call.arguments, bool(call.problem)) for call in answer.calls]
        journal.entries.append((answer.text, made))
        journal.reasoning.append(answer.reasoning)
        journal.finishes.append(answer.finish)
        if not answer.calls:
            return journal
        records = [record_of(call) for call in answer.calls]
        messages += model_messages.turn_messages(answer.text, records, answer.kept)
        if turn in story.notes:
            messages.append(user(story.notes[turn]))
    return journal


def record_of(call: Any) -> ToolCallRecord:
    """The row of a call that was made."""
    return ToolCallRecord(
        model_call_id=call.id[:128], name=call.name, arguments=call.arguments, outcome="ok", result={"sum": 3}
    )


def made(*wanted: tuple[str, JSON]) -> list[JSON]:
    return [(name, arguments, False) for name, arguments in wanted]


LONG = [message for number in range(40) for message in (user(f"Question {number}"), reply(f"Answer {number}"))]
FOREIGN = {"id": "functions.add:0<|channel|>", "name": "functions.add", "arguments": ONE}
EARLIER = [
    user("Add"),
    {"role": "assistant", "content": "", "tool_calls": [FOREIGN, {**FOREIGN, "id": ""}], "is_earlier": True},
    {"role": "tool", "tool_call_id": FOREIGN["id"], "name": "functions.add", "content": ""},
    reply("Three."),
]

STORIES = {
    "plain": Story((says("Good day to you."),), [("Good day to you.", [])]),
    "tool": Story((calls(("add", ONE)), says("Three.")), [("", made(("add", ONE))), ("Three.", [])]),
    "tool without arguments": Story((calls(("now", {})), says("Noon.")), [("", made(("now", {}))), ("Noon.", [])]),
    "text and call": Story(
        (says("I add them.", calls=(("add", ONE),)), says("Three.")),
        [("I add them.", made(("add", ONE))), ("Three.", [])],
    ),
    "two parallel calls": Story(
        (calls(("add", ONE), ("add", TWO)), says("Three and seven.")),
        [("", made(("add", ONE), ("add", TWO))), ("Three and seven.", [])],
    ),
    "several turns": Story(
        (calls(("add", ONE)), calls(("add", TWO)), calls(("now", {})), says("Done.")),
        [("", made(("add", ONE))), ("", made(("add", TWO))), ("", made(("now", {}))), ("Done.", [])],
    ),
    "big number": Story((calls(("add", {"a": 2**70, "b": 1})), says("Big.")),
                        [("", made(("add", {"a": 2**70, "b": 1}))), ("Big.", [])]),
    "error": Story((fails("refused"),), ["model_refused"], tries=1),
    "retry": Story((fails("busy"), says("Here I am.")), [("Here I am.", [])], tries=2),
    "broken": Story((fails("broken"), says("Here I am.")), [("Here I am.", [])], tries=2),
    "overflow": Story((fails("overflow"),), ["context_overflow"], tries=1),
    "reasoning": Story((says("Four.", reasoning="Two and two are four."),), [("Four.", [])]),
    "reasoning and call": Story(
        (calls(("add", ONE), reasoning="I have to add."), calls(("add", TWO), reasoning="Once more."), says("Three.")),
        [("", made(("add", ONE))), ("", made(("add", TWO))), ("Three.", [])],
        opening=(SYSTEM, user("Think, then add 1 and 2")),
    ),
    "refusal": Story((Act(refusal="I cannot help with that."),), None),  # type: ignore[arg-type]
    "cut by length": Story(
        (calls(("add", ONE), finish="length"), says("Three.")),
        [("", [("add", {}, True)]), ("Three.", [])],
    ),
    "output schema": Story((says('{"sum": 3}'),), [('{"sum": 3}', [])], output_schema=SCHEMA),
    "long history": Story((says("Fine."),), [("Fine.", [])], opening=(SYSTEM, *LONG, user("And now?"))),
    "foreign history": Story((says("Fine."),), [("Fine.", [])], opening=(SYSTEM, *EARLIER, *EARLIER, user("And now?"))),
    "failed turn before": Story(
        (says("Fine."),), [("Fine.", [])], opening=(SYSTEM, user("Hello"), user("Hello?"), reply(""), user("Anybody?"))
    ),
    "interrupted turn before": Story(
        (says("Fine."),),
        [("Fine.", [])],
        opening=(SYSTEM, {**EARLIER[1], "tool_calls": [FOREIGN]}, user("Where were we?")),
    ),
    "a note behind results": Story(
        (calls(("add", ONE)), says("Three.")),
        [("", made(("add", ONE))), ("Three.", [])],
        notes={0: "You have no steps left."},
    ),
    "nothing but earlier": Story((says("Fine."),), [("Fine.", [])], opening=(SYSTEM, user("Hello"), reply("Hello."))),
}  # fmt: skip
