"""Alice and Charlie have things with equal names and different contents. No cache shows one of them what is the other's
(docs/caches.md).
"""

from datetime import timedelta
from time import monotonic

import pytest
from django.utils import timezone

from agents import available_models, mapping, prompts, schema
from agents.models import Agent, Provider, Tool, ToolGrant
from agents.models.agent import tool_changed
from connectors.models import Connection
from connectors.toolsets import sessions
from devices import statements
from functions import execution, reading
from functions import store as function_store
from knowledge.models import Skill
from knowledge.skills import store as skill_store
from plumbing import texts
from registry import tool_search
from registry.factory import live_agent
from registry.routing import embeddings, profiles
from runs.models import Run
from runs.models.figures import earlier
from tests.connectors.fake_mcp import FakeMcp
from tests.fakes import says
from tests.functions import library
from tests.knowledge.skills.samples import skill_md

pytestmark = pytest.mark.django_db


@pytest.fixture
def people(alice, charlie):
    return [alice, charlie]


@pytest.fixture
def site_provider(stub):
    """Everybody's: the cache of its models is shared by all."""
    return Provider.objects.create(name="site", kind="openai-compatible", base_url=stub.url, api_key="sk-site")


@pytest.fixture
def make(site_provider):
    """A published agent of this person with these tools."""

    def make(person, *tools, provider=None, name="helper", **fields):
        fields = {"model_name": "stub", "system_prompt": "You help.", **fields}
        agent = Agent.objects.create(owner=person, name=name, provider=provider or site_provider, **fields)
        for tool in tools:
            ToolGrant.objects.create(agent=agent, tool=tool)
        agent.publish(author=person)
        return Agent.objects.get(pk=agent.pk)

    return make


def make_tool(person, name="lookup", **fields):
    fields = {"kind": "function", "description": words_of(person), "input_schema": schema_for(person), **fields}
    tool = Tool(owner=person, name=name, **fields)
    tool.freeze_hash()
    tool.save()
    return tool


def words_of(person):
    return f"Looks up what {person.username} wrote."


def schema_for(person):
    return {"type": "object", "properties": {person.username: {"type": "string"}}}


def shown_tools(stub):
    """What the model was shown of each tool in the last request: name → (description, parameters)."""
    tools = [tool["function"] for tool in stub.requests[-1]["tools"]]
    return {tool["name"]: (tool["description"], tool["parameters"]) for tool in tools}


# -- what a model is shown --------------------------------------------------------------------------------------------


def test_tools_that_callers_send_over_rest(people, make, worker, api, stub, django_capture_on_commit_callbacks):
    """Also a caller that changes the schema of its tool is shown the new one."""
    for person in people:
        make(person)
    for person, word in [(people[0], "first"), (people[1], "second"), (people[0], "third")]:
        rule = {"type": "object", "properties": {word: {"type": "string"}}}
        stub.script(says("Fine."))
        tool = {"name": "lookup", "description": f"Looks up the {word}.", "input_schema": rule}
        with django_capture_on_commit_callbacks(execute=True):
            answer = api(person).post(
                "/api/v1/agents/helper/messages", {"message": "Hello", "tools": [tool], "wait": 0}
            )
        assert answer.status_code in (200, 202), answer.content
        worker.work()
        assert shown_tools(stub) == {"lookup": (f"Looks up the {word}.", rule)}


def test_lists_of_skills(people, make, worker, stub):
    for person in people:
        skill = Skill(owner=person)
        skill_store.save_skill(
            skill, skill_md(name="invoices", description=words_of(person)), {}, user=person, untrusted=False
        )
        skill_store.publish_skill(skill, user=person)
        make(person, Tool.objects.get(owner=person, kind="skill"))
    for person in (*people, people[0]):
        stub.script(says("Fine."))
        worker.send_message(person, "Hello", Agent.objects.get(owner=person))
        description, _ = shown_tools(stub)["read_skill"]
        assert [one.username for one in people if words_of(one) in description] == [person.username]


def test_the_search_for_tools(people, make, worker, stub, settings):
    settings.TOOLS_SHOWN = 1
    for person in people:
        make(person, *(make_tool(person, f"{person.username}_{number}") for number in range(2)))
    for person in (*people, people[0]):
        stub.script(says("Fine."))
        worker.send_message(person, "Hello", Agent.objects.get(owner=person))
        description, _ = shown_tools(stub)["search_tools"]
        assert [one.username for one in people if f"{one.username} (2)" in description] == [person.username]


def test_agents_and_tools(people, make, worker, stub):
    for person in people:
        make(person, make_tool(person), system_prompt=f"You help {person.username}.")
    for person in (*people, people[0]):
        stub.script(says("Fine."))
        worker.send_message(person, "Hello", Agent.objects.get(owner=person))
        assert shown_tools(stub) == {"lookup": (words_of(person), schema_for(person))}
        assert f"You help {person.username}." in stub.requests[-1]["messages"][0]["content"]


def test_providers(people, make, worker, stub):
    for person in people:
        fields = {"kind": "openai-compatible", "base_url": stub.url, "api_key": f"sk-{person.username}"}
        make(person, provider=Provider.objects.create(owner=person, name="local", **fields))
    for person in (*people, people[0]):
        stub.script(says("Fine."))
        worker.send_message(person, "Hello", Agent.objects.get(owner=person))
        assert stub.headers[-1]["authorization"] == f"Bearer sk-{person.username}"


# -- what agents are built from ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [{"deadline_s": 7.0}, {"untrusted": True}, {"record_fields": ["id"]}, {"description": "Else."}]
)
@pytest.mark.parametrize("is_older", [False, True], ids=["published", "older version"])
def test_an_agent_is_built_anew_when_its_tool_changes(alice, make, change, is_older):
    tool = make_tool(alice)
    agent = make(alice, tool)
    first = agent.published
    if is_older:
        Agent.objects.filter(pk=agent.pk).update(system_prompt="You hinder.")
        agent = Agent.objects.get(pk=agent.pk)
        agent.publish(author=alice)
    live_agent(Agent.objects.get(pk=agent.pk), first)
    for name, value in change.items():
        setattr(tool, name, value)
    tool.freeze_hash()
    tool.save()
    tool_changed(tool)
    spec = live_agent(Agent.objects.get(pk=agent.pk), first).tools["lookup"]
    assert {name: getattr(spec, name) for name in change} == {
        name: tuple(value) if isinstance(value, list) else value for name, value in change.items()
    }


def test_a_tool_that_is_switched_off_in_the_admin_is_offered_no_more(alice, site_admin, make, client):
    tool = make_tool(alice)
    agent = make(alice, tool)
    assert live_agent(agent).tools.keys() == {"lookup"}
    client.force_login(site_admin)
    form = {"enabled": "", "untrusted": "", "record_fields": "[]", "deadline_s": "30"}
    answer = client.post(f"/admin/agents/tool/{tool.pk}/change/", form)
    assert answer.status_code == 302, answer.content.decode()[:3000]
    assert live_agent(Agent.objects.get(pk=agent.pk)).tools == {}


def test_profiles_for_the_router(people, make):
    for person in people:
        make(person, description=words_of(person))
    for person in (*people, people[0]):
        (profile,) = profiles.list_profiles(person)
        assert profile.description == words_of(person)


def test_a_profile_is_kept_under_the_hash_that_belongs_to_it(alice, make):
    """The agent is published anew between the two queries, and rolled back later."""
    agent = make(alice, description="Before.")
    old = (agent.pk, agent.live_hash)
    Agent.objects.filter(pk=agent.pk).update(description="After.")
    Agent.objects.get(pk=agent.pk).publish(author=alice)
    assert profiles.build_profiles([old])[old].description == "After."
    agent.rollback(1)
    assert [profile.description for profile in profiles.list_profiles(alice)] == ["Before."]


def test_words_of_tools(people):
    tools = [make_tool(person) for person in people]
    for person, tool in zip(people, tools, strict=True):
        entry = tool_search.build_entry(tool)
        assert tool_search.build_entry(tool) is entry and words_of(person) in entry.about
    assert tool_search.build_entry(tools[0]) is not tool_search.build_entry(tools[1])


def test_vectors(people, stub):
    """Two accounts with one name, and texts that make one text together with the model's name."""
    asked = []
    for person in people:
        provider = Provider.objects.create(owner=person, name="local", kind="openai-compatible", base_url=stub.url)
        for model, text in (("small", "cat:dog"), ("small:cat", "dog"), ("small", "cat:dog")):
            before = len(stub.embedded)
            embeddings.vectors(provider, model, [text])
            asked.append(len(stub.embedded) - before)
    assert asked == [1, 1, 0] * 2


# -- functions, schemas, expressions ----------------------------------------------------------------------------------


def test_functions_and_their_results(people):
    """The same name and the same arguments; each calls twice."""
    results = []
    for person in people:
        source = f"def who(text: str) -> str:\n    return '{person.username} ' + text\n"
        library.publish(person, source, "who", is_pure=True, cache_ttl=60)
    for person in (*people, *people):
        function = function_store.StoredFunction.objects.get(owner=person)
        version = execution.ready(function.published_id, function.published.sha256)
        done = execution.perform(version, {"text": "wrote"}, execution.Caller(person.pk))
        results.append((done.result, done.is_cached))
    assert results == [(f"{person.username} wrote", was) for was in (False, True) for person in people]


def test_signatures(people):
    for person in (*people, people[0]):
        assert reading.read_signature(f"def who({person.username}: str) -> str:\n    return ''\n").input_schema[
            "required"
        ] == [person.username]


def test_schemas_expressions_and_prompts(people):
    for person in (*people, people[0]):
        rule = {"type": "object", "required": [person.username]}
        assert schema.validate(rule, {person.username: 1}) == []
        assert schema.validate(rule, {"nobody": 1}) != []
        scope = {"input": {one.username: one.pk for one in people}}
        assert mapping.search_expression(f"input.{person.username}", scope) == person.pk
        assert prompts.render_prompt("Hello {{ name }}", {"name": person.username}) == f"Hello {person.username}"
        told = f"There is no tool “{person.username}”."
        assert person.username in texts.translate_into("de", told)
        assert statements.parse_device_tools(f'{{"lookup": "{person.username}"}}') == {"lookup": person.username}


# -- servers, figures -------------------------------------------------------------------------------------------------


def test_the_lists_of_models(people, model_server):
    handler, address = model_server
    listed = []
    for person in (*people, *people):
        fields = {"kind": "openai-compatible", "base_url": address, "api_key": f"sk-{person.username}"}
        provider, _ = Provider.objects.get_or_create(owner=person, name="local", defaults=fields)
        handler.answer = (200, {"data": [{"id": person.username}]})
        listed.append(available_models.models(provider))
    assert listed == [["alice"], ["charlie"]] * 2
    assert [headers["Authorization"] for _, headers in handler.seen] == ["Bearer sk-alice", "Bearer sk-charlie"]


def test_sessions_with_a_server_that_both_use(people, settings):
    """The connection is the site's, and the secret of nobody: still, each has a session of their own."""
    settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    with FakeMcp() as fake:
        connection = Connection.objects.create(name="fake", provider="mcp", base_url=fake.address)
        used = []
        for person in (*people, *people):
            with sessions.open_kept_session(connection, person.pk, monotonic() + 20) as (kept, _):
                used.append(kept)
        sessions.drop_all(connection)
    assert used[0] is used[2] and used[1] is used[3] and used[0] is not used[1]
    assert fake.sessions == 2


def test_counts_of_earlier_days(people, make):
    """Two queries that find the same newest run, and count different ones."""
    now = timezone.now().replace(hour=12)
    at = now - timedelta(days=2)
    agent = make(people[0])
    first = earlier.build_first_id(at).int
    for number, person in enumerate((people[1], people[0])):
        Run.objects.create(
            id=earlier.build_first_id(at).__class__(int=first + number),
            principal=person, agent=agent, version=agent.published, created_at=at,
        )  # fmt: skip
    start, today = now - timedelta(days=5), now - timedelta(days=1)

    def count(runs):
        return len(earlier.counted_before(runs, start, today, now, lambda rows: rows.values("pk"), name="runs")[1])

    everybody = Run.objects.filter(principal__in=[person.pk for person in people])
    assert [count(everybody), count(Run.objects.visible_to(people[0])), count(everybody)] == [2, 1, 2]
    in_queries = [Run.objects.filter(agent__in=Agent.objects.filter(owner=person)) for person in people]
    assert [count(runs) for runs in in_queries] == [2, 0]
