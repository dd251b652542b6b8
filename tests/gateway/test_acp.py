"""`muster acp` against a running Muster, driven by the protocol's own client as an editor does."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import pytest
from acp import RequestError, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from tests.fakes import calls, says
from tests.gateway.live_agents import new_key
from tests.live import ROOT

pytestmark = pytest.mark.live
FOLDER = "/home/somebody/project"


class Person:
    """The editor's side: what it was shown, and what is chosen when it is asked."""

    def __init__(self, choice="allow"):
        self.choice, self.shown, self.asked = choice, [], []
        self.waits = asyncio.Event()

    async def session_update(self, session_id, update, **more):
        self.shown.append(update)

    async def request_permission(self, session_id, tool_call, options, **more):
        self.asked.append((tool_call, [option.kind for option in options]))
        self.waits.set()
        if self.choice is None:
            await asyncio.sleep(3600)
        if self.choice == "cancelled":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.choice))

    def on_connect(self, connection):
        pass

    @property
    def text(self):
        return "".join(one.content.text for one in self.shown if one.session_update == "agent_message_chunk")


@pytest.fixture
def editor(agents, model, tmp_path):
    live, key = agents
    model.turns.clear()
    model.requests.clear()

    @asynccontextmanager
    async def open_editor(person, *words, key=key):
        environment = {
            "PATH": os.environ["PATH"], "MUSTER_URL": live.url, "MUSTER_API_KEY": key,
            "MUSTER_CONFIG": str(tmp_path / "none.json"), "PYTHONPATH": str(ROOT / "client"),
        }  # fmt: skip
        command = (sys.executable, "-m", "muster_client", "acp", *words)
        async with spawn_agent_process(person, *command, env=environment) as (agent, process):
            agent.process = process
            await agent.initialize(protocol_version=1)
            yield agent

    return open_editor


async def ask(agent, session, words):
    return (await asyncio.wait_for(agent.prompt(session_id=session, prompt=[text_block(words)]), 60)).stop_reason


def test_a_conversation_is_shown_found_and_loaded(editor, model):
    model.script(calls(("calculate", {"expression": "6 * 7"})), says("42, of course.", pause_s=0.02), says("Bye."))

    async def talk():
        person = Person()
        async with editor(person, "--agent", "clerk") as agent:
            begun = await agent.initialize(protocol_version=1)
            assert begun.protocol_version == 1 and begun.agent_capabilities.load_session
            opened = await agent.new_session(cwd=FOLDER, mcp_servers=[])
            assert opened.modes.current_mode_id == "clerk"
            assert {"-", "plain", "careful"} <= {mode.id for mode in opened.modes.available_modes}
            assert await ask(agent, opened.session_id, "6 * 7?") == "end_turn"
            with pytest.raises(RequestError) as unknown:
                await agent.set_session_mode(mode_id="nobody", session_id=opened.session_id)
            assert unknown.value.code == -32602
        assert person.text == "42, of course."
        tools = [one for one in person.shown if one.session_update.startswith("tool_call")]
        assert [one.status for one in tools] == ["in_progress", "completed"] and "42" in str(tools[1].raw_output)

        again = Person()
        async with editor(again) as agent:
            listed = (await agent.list_sessions(cwd=FOLDER)).sessions
            assert opened.session_id in [one.session_id for one in listed]
            loaded = await agent.load_session(cwd=FOLDER, session_id=opened.session_id, mcp_servers=[])
            assert loaded.modes.current_mode_id == "clerk"
            assert [one.session_update for one in again.shown] == ["user_message_chunk", "agent_message_chunk"]
            assert await ask(agent, opened.session_id, "Thanks.") == "end_turn"
            with pytest.raises(RequestError) as unknown:
                await agent.load_session(cwd=FOLDER, session_id="none", mcp_servers=[])
            assert unknown.value.code == -32002
        assert again.text == "42, of course.Bye."

    asyncio.run(talk())


@pytest.mark.parametrize(("choice", "status"), [("allow", "completed"), ("reject", "failed")])
def test_an_approval_is_asked_for(editor, model, choice, status):
    model.script(calls(("calculate", {"expression": "1 + 1"})), says("Done."))

    async def talk():
        person = Person(choice)
        async with editor(person) as agent:
            session = (await agent.new_session(cwd=FOLDER, mcp_servers=[])).session_id
            await agent.set_session_mode(mode_id="careful", session_id=session)
            assert await ask(agent, session, "1 + 1?") == "end_turn"
        [(call, kinds)] = person.asked
        assert (call.title, kinds) == ("calculate", ["allow_once", "reject_once"])
        last = [one for one in person.shown if one.session_update == "tool_call_update"][-1]
        assert (last.tool_call_id, last.status) == (call.tool_call_id, status) and person.text == "Done."

    asyncio.run(talk())


def test_a_question_is_answered_by_the_next_prompt(editor, model):
    model.script(calls(("ask_user", {"question": "Which?", "options": ["red", "blue"]})), says("Blue it is."))

    async def talk():
        person = Person()
        async with editor(person, "--agent", "curious") as agent:
            session = (await agent.new_session(cwd=FOLDER, mcp_servers=[])).session_id
            assert await ask(agent, session, "paint") == "end_turn"
            assert "Which?" in person.text and "- blue" in person.text
            assert await ask(agent, session, "green") == "end_turn"  # not a choice: asked again
            assert await ask(agent, session, "blue") == "end_turn"
        assert person.text.endswith("Blue it is.")
        assert "blue" in model.requests[1]["messages"][-1]["content"]

    asyncio.run(talk())


def test_a_cancelled_prompt_and_an_editor_that_leaves(agents, editor, model):
    live, _ = agents
    model.script(*[calls(("calculate", {"expression": "1 + 1"}))] * 2)

    async def talk():
        person = Person(choice=None)
        async with editor(person, "--agent", "careful") as agent:
            session = (await agent.new_session(cwd=FOLDER, mcp_servers=[])).session_id
            prompt = asyncio.create_task(ask(agent, session, "1 + 1?"))
            await asyncio.wait_for(person.waits.wait(), 60)
            await agent.cancel(session_id=session)
            assert await prompt == "cancelled"
            person.waits.clear()
            other = (await agent.new_session(cwd=FOLDER, mcp_servers=[])).session_id
            prompt = asyncio.create_task(ask(agent, other, "and 2 + 2?"))
            await asyncio.wait_for(person.waits.wait(), 60)
            agent.process.stdin.close()
            await asyncio.wait_for(agent.process.wait(), 60)
            prompt.cancel()

    asyncio.run(talk())
    newest = live.http.get("/api/v1/runs/", params={"agent": "careful", "limit": 2}).json()["results"]
    assert [run["status"] for run in newest] == ["cancelled", "cancelled"]


def test_a_key_that_may_not_decide_and_one_that_is_wrong(agents, editor, model):
    live, _ = agents
    owner = live.http.get("/v1/models/plain").json()["owned_by"]
    key = new_key(live, owner, "*")
    model.script(calls(("calculate", {"expression": "1 + 1"})))

    async def talk():
        person = Person()
        async with editor(person, "--agent", "careful", key=key) as agent:
            session = (await agent.new_session(cwd=FOLDER, mcp_servers=[])).session_id
            prompt = asyncio.create_task(ask(agent, session, "1 + 1?"))
            while "may not decide" not in person.text:
                await asyncio.sleep(0.05)
            await agent.cancel(session_id=session)
            assert await prompt == "cancelled" and not person.asked
        async with editor(Person(), key="mk_wrong.key") as agent:
            with pytest.raises(RequestError) as refused:
                await agent.new_session(cwd=FOLDER, mcp_servers=[])
            assert refused.value.code == -32000

    asyncio.run(talk())
