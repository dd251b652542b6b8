"""Bad input of a model server, through a whole run: typed errors, bounded rows, and a run that goes on or ends."""

import pytest

from agents.models import Provider
from runs.models import ToolCallRecord

from .acts import calls, says
from .keepers import SERVERS
from .stories import STORIES
from .test_zoo import CELLS, NOT_APPLICABLE, SENT_BACK

pytestmark = pytest.mark.django_db
ONE = {"a": 1, "b": 2}


@pytest.fixture
def start(worker, alice, make_agent, make_tool, functions, keep):
    """Makes a run of an agent with the tool `add` at this server."""

    def start(act, *more, server="vllm", id=None, **fields):
        pool, _ = keep(server)
        if id is not None:
            pool.server.id = lambda place: id
        provider = Provider.objects.create(
            owner=alice, name="zoo", api_key="key", kind=pool.server.kind, base_url=pool.server.base
        )
        agent = make_agent(provider=provider, tools=[make_tool()], model_name=pool.server.model, **fields)
        pool.script(act, *more)
        return pool, worker.send_message(alice, "Add", agent)

    return start


@pytest.mark.parametrize("server", ["vllm", "openai", "ollama /v1"])
def test_an_id_of_10_kb_is_short_in_its_row(start, server):
    pool, run = start(calls(("add", ONE)), says("Three."), server=server, id="i" * 10_000)
    assert run.status == "succeeded", run.error
    assert len(ToolCallRecord.objects.get(run=run).model_call_id) <= 128
    sent = pool.requests[-1]["messages"]
    assert sent[-2]["tool_calls"][0]["id"] == sent[-1]["tool_call_id"]


def test_a_call_to_a_tool_that_was_not_offered_is_told_to_the_model(start, functions):
    _, run = start(calls(("rm_rf", ONE)), says("There is no such tool."))
    record = ToolCallRecord.objects.get(run=run)
    assert run.status == "succeeded" and record.outcome != "ok" and record.error
    assert functions.asked == []


def test_a_name_of_10_kb_ends_nothing(start, functions):
    _, run = start(calls(("n" * 10_000, ONE)), says("There is no such tool."))
    assert run.status == "succeeded", run.error
    assert functions.asked == []


def test_endless_calls_end_with_the_agent_s_steps(start):
    acts = [calls(("add", {"a": number, "b": 1})) for number in range(20)]
    pool, run = start(acts[0], *acts[1:], max_steps=3)
    assert run.status in ("partial", "failed") and run.error["code"] == "step_limit"
    assert len(pool.requests) <= 5


def test_5_000_calls_side_by_side_are_refused_once(start, functions):
    pool, run = start(calls(*[("add", {"a": number, "b": 1}) for number in range(5_000)]))
    assert (run.status, run.error["code"]) == ("failed", "too_many_calls")
    assert len(pool.requests) == 1 and functions.asked == []


def test_the_table_has_no_empty_cell():
    assert len(CELLS) == len(set(CELLS)) == len(SERVERS) * len(STORIES)
    assert set(NOT_APPLICABLE) <= set(CELLS) and all(NOT_APPLICABLE.values())
    assert {(server, story) for story, server in SENT_BACK} <= set(CELLS)
