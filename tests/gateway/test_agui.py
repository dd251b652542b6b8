"""AG-UI against a running Muster: each event is valid by the protocol's models, and the order is what its client
accepts.
"""

import json

import httpx2
import pytest
from ag_ui.core import Event, ToolMessage
from pydantic import TypeAdapter

from agents.exceptions import Invalid
from gateway import agui
from tests.fakes import calls, says
from tests.gateway.live_agents import new_key

pytestmark = pytest.mark.live
EVENT = TypeAdapter(Event)
WEATHER = {"name": "weather", "description": "The weather", "parameters": {"type": "object"}}


@pytest.fixture
def run(agents, model):
    live, key = agents
    model.turns.clear()
    model.requests.clear()

    def run(agent, *messages, thread="t1", key=key, status=200, **more):
        """Run the agent: its events, each checked."""
        body = {"threadId": thread, "runId": "r1", "messages": [numbered(*one) for one in enumerate(messages)], **more}
        answer = httpx2.post(
            f"{live.url}/agui/{agent}", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=60
        )
        assert answer.status_code == status, answer.text
        return checked(answer.text) if status == 200 else answer.json()["error"]

    return run


def numbered(place, message):
    return {"id": f"m{place}", **({"role": "user", "content": message} if isinstance(message, str) else message)}


def checked(text):
    events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    for event in events:
        EVENT.validate_python(event)
        assert without_data(event).isdisjoint({None}), event  # the client's types know no null
    verify_order(events)
    return events


def without_data(event):
    """The values of an event and of its interrupts, but for what an agent, a tool or a person wrote."""
    interrupts = event.get("outcome", {}).get("interrupts", ())
    rows = [event, *({**one, "metadata": ""} for one in interrupts)]
    return {value if value is None else "" for row in rows for value in row.values()}


def verify_order(events):
    """The rules of the protocol's own verifier: what begins also ends, before the run does, and nothing follows."""
    assert events[0]["type"] == "RUN_STARTED"
    assert [event["type"] for event in events if event["type"] in ("RUN_FINISHED", "RUN_ERROR")] == [events[-1]["type"]]
    messages, tools = set(), set()
    for event in events:
        match event["type"]:
            case "TEXT_MESSAGE_START":
                assert event["messageId"] not in messages
                messages.add(event["messageId"])
            case "TEXT_MESSAGE_CONTENT":
                assert event["messageId"] in messages and event["delta"]
            case "TEXT_MESSAGE_END":
                messages.remove(event["messageId"])
            case "TOOL_CALL_START":
                tools.add(event["toolCallId"])
            case "TOOL_CALL_ARGS":
                assert event["toolCallId"] in tools
            case "TOOL_CALL_END":
                tools.remove(event["toolCallId"])
            case "RUN_FINISHED":
                assert not messages and not tools


def names(events):
    return [event["type"] for event in events]


def text_of(events):
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def test_a_message_is_streamed_and_the_thread_goes_on(run, model):
    model.script(says("Hello Alice.", pause_s=0.05), says("Alice."))
    events = run("plain", "I am Alice.", thread="first")
    assert text_of(events) == "Hello Alice." and names(events)[-1] == "RUN_FINISHED"
    assert events[-1]["outcome"] == {"type": "success"} and events[-1]["usage"][0]["outputTokens"] == 7
    reply = {"role": "assistant", "content": "Hello Alice."}
    assert text_of(run("plain", "I am Alice.", reply, "Who am I?", thread="first")) == "Alice."
    said = [one["content"] for one in model.requests[1]["messages"]]
    assert said == ["I am Alice.", "Hello Alice.", "Who am I?"]  # nothing stands twice


def test_the_agents_own_calls_have_results(run, model):
    model.script(calls(("calculate", {"expression": "6 * 7"})), says("42."))
    events = run("clerk", "6 * 7?", thread="own")
    assert names(events)[1:5] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert "42" in events[4]["content"]


def test_a_tool_of_the_frontend(run, model):
    model.script(calls(("weather", {"city": "Oslo"})), says("It rains."))
    context = [{"description": "page", "value": "maps"}]
    events = run("plain", "the weather?", thread="tools", tools=[WEATHER], context=context)
    pending = events[-1]["outcome"]["pendingToolCallIds"]
    assert len(pending) == 1 and "page: maps" in model.requests[0]["messages"][0]["content"]
    result = {"role": "tool", "toolCallId": pending[0], "content": "rain"}
    assert text_of(run("plain", "the weather?", result, thread="tools", tools=[WEATHER])) == "It rains."
    assert run("plain", "the weather?", result, thread="tools", status=409)["code"] == "already_answered"


def test_a_tool_of_the_frontend_that_failed_says_why(run, model):
    model.script(calls(("weather", {"city": "Oslo"})), says("No weather."))
    pending = run("plain", "the weather?", thread="failed tool", tools=[WEATHER])[-1]["outcome"]["pendingToolCallIds"]
    result = {"role": "tool", "toolCallId": pending[0], "content": "", "error": "no station"}
    run("plain", "the weather?", result, thread="failed tool", tools=[WEATHER])
    assert "The tool failed: no station" in model.requests[1]["messages"][-1]["content"]


def test_the_result_of_a_tool_may_be_parts_of_text():
    text = {"type": "text", "text": "rain"}
    picture = {"type": "image", "source": {"type": "url", "value": "https://example.org/x.png"}}
    result = {"id": "1", "toolCallId": "c", "role": "tool"}
    message = ToolMessage.model_validate({**result, "content": [text, {**text, "text": "and wind"}]})
    assert agui.read_tool_message(message) == "rain\nand wind"
    with pytest.raises(Invalid, match="image"):
        agui.read_tool_message(ToolMessage.model_validate({**result, "content": [text, picture]}))


@pytest.mark.parametrize(
    "turn", [calls(("weather", {"city": "Oslo"}), finish="length"), calls(("weather", '{"city": "Os'))]
)
def test_a_refused_call_of_a_tool_of_the_frontend_is_not_shown_to_it(run, model, turn):
    """It would be executed there, with half of its arguments or none. The model is told and may call again."""
    model.script(turn, says("I do not know."))
    events = run("plain", "the weather?", thread=f"refused {turn.finish}", tools=[WEATHER])
    assert [name for name in names(events) if name.startswith("TOOL_CALL")] == []
    assert text_of(events) == "I do not know." and "error" in model.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(("approved", "outcome"), [(True, "2"), (False, "approval_denied")])
def test_an_approval_is_an_interrupt(run, model, approved, outcome):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Done."))
    events = run("careful", "1 + 1?", thread=f"approval {approved}")
    (interrupt,) = events[-1]["outcome"]["interrupts"]
    assert interrupt["reason"] == "tool_approval" and interrupt["metadata"]["tool"] == "calculate"
    entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": approved}}
    events = run("careful", thread=f"approval {approved}", resume=[entry])
    assert text_of(events) == "Done." and outcome in model.requests[1]["messages"][-1]["content"]


def test_a_question_is_an_interrupt_with_a_schema(run, model):
    model.script(calls(("ask_user", {"question": "Which?", "options": ["red", "blue"]})), says("Blue."))
    (interrupt,) = run("curious", "paint", thread="question")[-1]["outcome"]["interrupts"]
    assert interrupt["message"] == "Which?" and interrupt["responseSchema"]["enum"] == ["red", "blue"]
    wrong = {"interruptId": interrupt["id"], "status": "resolved", "payload": "green"}
    assert run("curious", thread="question", resume=[wrong], status=422)["code"] == "invalid_answer"
    events = run("curious", thread="question", resume=[{**wrong, "payload": "blue"}])
    assert text_of(events) == "Blue."
    [result] = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert result["toolCallId"] == interrupt["toolCallId"] and "blue" in result["content"]


def test_a_declined_question_has_its_result_too(run, model):
    model.script(calls(("ask_user", {"question": "Which?"})), says("As you like."))
    (interrupt,) = run("curious", "paint", thread="declined")[-1]["outcome"]["interrupts"]
    events = run("curious", thread="declined", resume=[{"interruptId": interrupt["id"], "status": "cancelled"}])
    assert names(events)[1:2] == ["TOOL_CALL_RESULT"] and text_of(events) == "As you like."


def test_messages_of_the_system_and_the_developer_are_instructions_of_the_run(run, model):
    model.script(says("Arr."), says("Aye."), says("Hello."))
    system = {"role": "system", "content": "Speak like a pirate."}
    developer = {"role": "developer", "content": "Be short."}
    run("plain", system, developer, "hi", thread="pirate")
    first = model.requests[0]["messages"]
    assert first[0]["role"] == "system" and "Speak like a pirate.\n\nBe short." in first[0]["content"]
    context = [{"description": "page", "value": "maps"}]
    run("plain", system, "hi", {"role": "assistant", "content": "Arr."}, "again", thread="pirate", context=context)
    second = model.requests[1]["messages"][0]["content"]
    assert "Speak like a pirate." in second and "page: maps" in second and "Be short." not in second
    run("plain", "and now", thread="pirate")
    assert "pirate" not in str(model.requests[2]["messages"][0])  # what a request says holds for its run alone


def test_instructions_that_are_no_text_or_too_long_are_refused(run):
    assert run("plain", {"role": "system", "content": 7}, "hi", thread="odd", status=422)["details"]
    long = {"role": "developer", "content": "x" * 1_000_000}
    assert run("plain", long, "hi", thread="odd", status=422)["code"]
    assert run("plain", {"role": "system", "content": "alone"}, thread="odd", status=422)["code"] == "invalid_messages"


def test_a_failure_is_a_run_error(run, model):
    model.script(*[says("", status=400)] * 4)
    events = run("plain", "hi", thread="failing")
    assert names(events)[-1] == "RUN_ERROR" and events[-1]["code"]


def test_a_page_that_comes_back_gets_the_messages(run, model, agents):
    live, key = agents
    model.script(says("Hello."))
    run("plain", "hi", thread="again")
    answer = httpx2.get(f"{live.url}/agui/plain/threads/again", headers={"Authorization": f"Bearer {key}"})
    events = checked(answer.text)
    assert [one["content"] for one in events[1]["messages"]] == ["hi", "Hello."]
    assert names(events) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]


def test_another_person_has_neither_the_thread_nor_its_interrupts(run, model, agents):
    live, _ = agents
    model.script(calls(("weather", {})), says("secret"))
    pending = run("plain", "mine", thread="private", tools=[WEATHER])[-1]["outcome"]["pendingToolCallIds"]
    stranger = new_key(live, "agui_stranger", "*", "approvals:decide")
    answer = httpx2.get(f"{live.url}/agui/plain/threads/private", headers={"Authorization": f"Bearer {stranger}"})
    assert answer.status_code == 404
    result = {"role": "tool", "toolCallId": pending[0], "content": "lie"}
    assert run("plain", result, thread="private", key=stranger, status=422)["code"] == "unknown_call"
    assert run("plain", "hi", thread="private", key="mk_no.no", status=401)["code"] == "not_authenticated"


@pytest.mark.parametrize("body", [{}, [], {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "x"}]}])
def test_what_is_no_run_input_is_refused(agents, body):
    live, key = agents
    answer = httpx2.post(f"{live.url}/agui/plain", json=body, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 422 and answer.json()["error"]["details"]
