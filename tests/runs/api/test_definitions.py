"""Definitions over REST: what a person may apply, and what is refused before anything is stored."""

import time

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents import documents
from agents.models import Agent, AuditEvent, Chain, Provider, Tool, ToolGrant
from functions.models import StoredFunction
from plumbing.untrusted.parse_in_child import Refused

pytestmark = pytest.mark.django_db
API = "/api/v1/definitions/"
FILE = """
kind: agent
name: doubler
provider: offline
system_prompt: |
  You double.
  Nothing else.
grants:
  - {tool: double, mode: ask}
---
kind: function
name: double
source: |
  def double(n: int) -> int:
      return n * 2
tests:
  - {name: two, arguments: {n: 1}, result: 2}
---
kind: chain
name: twice
steps:
  - {key: one, tool: double, input: {n: input.n}}
grants: [double]
"""
NAMES = ["double", "doubler", "twice"]


@pytest.fixture(autouse=True)
def offline(db):
    return Provider.objects.create(name="offline", kind="offline")


def apply(client, text=FILE, *, path="apply", status=200):
    answer = client.post(f"{API}{path}", {"yaml": text})
    assert answer.status_code == status, answer.content
    return answer.json()["changes"] if status == 200 else answer.json()["error"]


def test_a_file_becomes_published_rows_and_comes_back_as_it_was(api, alice):
    client = api(alice)

    assert {one["verb"] for one in apply(client, path="plan")} == {"create"} and not Agent.objects.exists()
    assert sorted(one["name"] for one in apply(client)) == NAMES

    agent = Agent.objects.get()
    assert (agent.owner, agent.published.number, agent.grants.get().mode) == (alice, 1, "ask")
    assert client.post("/api/v1/functions/double/execute", {"arguments": {"n": 4}}).json()["result"] == 8
    exported = client.get(API).json()["yaml"]
    back = {one["name"]: one for one in yaml.safe_load_all(exported)}
    assert back["double"]["tests"] == [{"name": "two", "arguments": {"n": 1}, "result": 2}]
    assert {one["verb"] for one in apply(client, exported)} == {"same"}
    assert [one["name"] for one in yaml.safe_load_all(client.get(f"{API}?kind=chain").json()["yaml"])] == ["twice"]
    changed = apply(client, exported.replace("You double.", "You double numbers."))
    assert [(one["name"], one["fields"]) for one in changed if one["verb"] == "change"] == [
        ("doubler", ["system_prompt"])
    ]
    assert Agent.objects.get().published.number == 2
    told = set(AuditEvent.objects.filter(actor=alice).values_list("action", "subject_name"))
    assert {("agent.applied", "doubler"), ("chain.applied", "twice"), ("function.published", "double")} <= told


def test_a_stranger_sees_and_changes_nothing_of_it(api, alice, charlie):
    apply(api(alice))

    assert api(charlie).get(API).json() == {"yaml": ""}
    assert {one["verb"] for one in apply(api(charlie), path="plan")} == {"create"}
    apply(api(charlie), FILE.replace("You double.", "Mine."))

    assert Agent.objects.get(owner=alice).system_prompt.startswith("You double.")
    assert Agent.objects.get(owner=charlie).grants.get().tool.owner == charlie


def test_a_team_mate_exports_and_changes_their_own_rows_alone(api, alice, bob, team):
    apply(api(alice), FILE.replace("provider: offline", f"provider: offline\nteam: {team.name}"))

    assert api(bob).get(API).json() == {"yaml": ""}
    error = apply(
        api(bob),
        f"kind: agent\nname: doubler\nprovider: offline\nsystem_prompt: Hacked.\nteam: {team.name}\n",
        status=409,
    )

    assert error["code"] == "name_taken"
    assert Agent.objects.get().system_prompt.startswith("You double.")


def test_nobody_shares_with_a_team_they_do_not_belong_to(api, charlie, team):
    text = f"kind: agent\nname: spy\nprovider: offline\nteam: {team.name}\n"
    apply(api(charlie), text, status=422)
    assert not Agent.objects.exists()


@pytest.mark.parametrize("kind", ["agent", "function", "skill", "collection"])
def test_nobody_learns_whether_a_team_of_others_exists(api, charlie, team, kind):
    """The rows are complete but for the team, which is theirs or nobody's."""
    rows = {
        "agent": {"provider": "offline"},
        "function": {"source": "def spy() -> int:\n    return 1\n"},
        "skill": {"text": "---\nname: spy\ndescription: Spies.\n---\nSpy."},
        "collection": {},
    }
    row = {"kind": kind, "name": "spy", **rows[kind]}
    said = []
    for name in (team.name, "nobodys"):
        error = apply(api(charlie), yaml.safe_dump({**row, "team": name}), status=422)
        said.append(str({**error, "request_id": ""}).replace(name, "X"))
    assert said[0] == said[1]


def test_who_is_not_signed_in_gets_401(client):
    assert client.get(API).status_code == 401
    assert client.post(f"{API}apply", {"yaml": FILE}, content_type="application/json").status_code == 401


def test_a_key_needs_the_scopes_of_every_kind(api, alice):
    missing = apply(api(alice, "agents:write", "functions:write"), status=403)
    assert "chains:write" in missing["message"] and not StoredFunction.objects.exists()
    apply(api(alice, "agents:write", "functions:write", "chains:write"))
    assert api(alice, "agents:read").get(API).status_code == 403
    assert api(alice, "agents:read").get(f"{API}?kind=agent").status_code == 200
    assert apply(api(alice, "agents:read"), "kind: agent\nname: a\n", path="plan")[0]["verb"] == "create"


def test_a_viewer_of_the_site_cannot_write(api, alice):
    from django.contrib.auth.models import Group

    alice.groups.add(Group.objects.get_or_create(name="viewer")[0])
    assert apply(api(alice), status=403)["code"] == "role_forbids"
    assert not StoredFunction.objects.exists()


def test_all_of_it_or_nothing(api, alice):
    error = apply(
        api(alice), FILE + "---\nkind: agent\nname: other\nprovider: offline\ngrants: [nothing]\n", status=422
    )

    assert "nothing" in str(error["details"]) + error["message"]
    assert not (Agent.objects.exists() or StoredFunction.objects.exists() or Tool.objects.exists())


def test_a_failed_test_refuses_the_file_before_anything_is_written(api, alice, django_assert_max_num_queries):
    error = apply(api(alice), FILE.replace("result: 2", "result: 3"), status=422)
    assert error["code"] == "tests_failed" and "two" in error["details"][0]["message"]
    assert not StoredFunction.objects.exists()


def test_tests_run_while_no_transaction_is_open(api, alice, monkeypatch):
    from functions import testing

    inside, real = [], testing.run_tests

    def watch(version, tests, user):
        tests = list(tests)
        inside.append((len(tests), connection.savepoint_ids != []))
        return real(version, tests, user)

    monkeypatch.setattr(testing, "run_tests", watch)
    apply(api(alice))

    assert inside == [(1, False), (0, True)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("kind: [", "unreadable"),
        ("a: &a [1]\nb: *a\n", "unreadable"),
        ("kind: !!python/object/apply:os.system ['id']\n", "unreadable"),
        ("kind: agent\nname: a\nsystem_prompt: !!binary aGk=\n", "unreadable"),
        ("kind: agent\nname: a\ntimeout: .inf\n", "unreadable"),
        ("kind: agent\nname: a\nmodel_params: {1: 2}\n", "unreadable"),
        ('kind: agent\nname: a\nsystem_prompt: "a\\0b"\n', "unreadable"),
        ("kind: agent\nname: a\nmodel_params: " + "{a: " * 60 + "1" + "}" * 60, "unreadable"),
        ("just words", "unknown_kind"),
        ("kind: user\nname: root\n", "unknown_kind"),
        ("kind: agent\n", "nameless"),
        ("kind: agent\nname: a\ninstructions: x\n", "unknown_field"),
        ("kind: agent\nname: a\n---\nkind: agent\nname: a\n", "duplicate"),
        ("kind: tool\nname: t\nbuiltin: delegate\n", "forbidden"),
    ],
)
def test_what_cannot_be_meant_is_refused(api, alice, text, code):
    status = 403 if code == "forbidden" else 422
    assert apply(api(alice), text, status=status)["code"] == code


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ("kind: agent\ntimeout: soon", "timeout"),
        ("kind: agent\ntimeout: true", "timeout"),
        ("kind: agent\nmax_steps: 1.5", "max_steps"),
        ("kind: agent\nenabled: 1", "enabled"),
        ("kind: agent\nsystem_prompt: null", "system_prompt"),
        ("kind: agent\nexamples: [{a: 1}]", "examples"),
        ("kind: agent\ngrants: 5", "grants"),
        ("kind: agent\ngrants: [5]", "grants.0"),
        ("kind: agent\ngrants: [{tool: [x]}]", "grants.0.tool"),
        ("kind: agent\nlive: 5", "live"),
        ("kind: agent\nlive: {timeout: x}", "live.timeout"),
        ("kind: chain\nsteps: {a: 1}", "steps"),
        ("kind: provider\nllm: 5", "llm"),
        ("kind: provider\nllm: offline\nprices: []", "prices"),
        ("kind: function\nsource: [a]", "source"),
        ("kind: function\nsource: x\nallowed_imports: math", "allowed_imports"),
        ("kind: function\nsource: x\nsecrets: [1]", "secrets"),
        ("kind: function\nsource: x\ntests: [5]", "tests.0"),
        ("kind: function\nsource: x\ntests: [{name: t, tolerance: x}]", "tests.0.tolerance"),
    ],
)
@pytest.mark.parametrize("path", ["plan", "apply"])
def test_a_value_of_another_type_is_refused_with_its_place(api, alice, lines, field, path):
    error = apply(api(alice), f"name: one\n{lines}\n", path=path, status=422)
    assert [one["field"] for one in error["details"]] == [field]


@pytest.mark.parametrize(
    "lines",
    [
        "kind: agent\nprovider: offline\ntimeout: 1000000000",
        "kind: agent\nprovider: offline\nmax_steps: -1",
        "kind: agent\nprovider: offline\nmodel_params: {temperature: 7}",
        "kind: agent\nprovider: offline\ninput_schema: {type: 5}",
        "kind: agent\nprovider: nowhere",
        "kind: agent\nprovider: offline\ngrants: [{tool: double, mode: maybe}]",
        "kind: chain\nsteps: [{key: a, tool: double, needs: [b]}]",
        "kind: chain\nsteps: [{tool: double}]",
        "kind: provider",
        "kind: provider\nllm: telepathy",
        "kind: function",
        "kind: function\nsource: 'import os'",
        "kind: function\nsource: 'def f(): return 1'\ntimeout: 100000",
        "kind: tool\nagent: nobody",
        "kind: tool\nagent: doubler\neffect: harmless",
    ],
)
def test_a_value_that_other_endpoints_refuse_is_refused_here(api, alice, lines):
    apply(api(alice))
    before = [Agent.objects.count(), StoredFunction.objects.count(), Tool.objects.count(), ToolGrant.objects.count()]

    answer = api(alice).post(f"{API}apply", {"yaml": f"name: one\n{lines}\n"})

    assert answer.status_code in (403, 422), answer.content
    assert before == [
        Agent.objects.count(),
        StoredFunction.objects.count(),
        Tool.objects.count(),
        ToolGrant.objects.count(),
    ]


def test_a_minions_tool_comes_after_its_agent_and_never_replaces_a_functions_tool(api, alice):
    minion = "kind: tool\nname: ask_doubler\nagent: doubler\ndescription: Doubles.\neffect: read\n"
    apply(api(alice), f"{minion}---\n{FILE}")
    assert Tool.objects.get(name="ask_doubler").kind == "agent"
    assert apply(api(alice), "kind: tool\nname: double\nagent: doubler\n", status=409)["code"] == "name_taken"
    assert Tool.objects.get(name="double").kind == "function"


def test_a_changed_address_clears_a_providers_key(api, alice):
    Provider.objects.create(
        owner=alice, name="mine", kind="openai-compatible", base_url="https://a.example", api_key="sk"
    )
    apply(api(alice), "kind: provider\nname: mine\nllm: openai-compatible\nbase_url: https://evil.example\n")
    assert Provider.objects.get(name="mine").api_key == ""
    assert "sk" not in api(alice).get(API).json()["yaml"]


def test_no_server_is_asked_for_a_model_while_rows_are_written(api, alice):
    Provider.objects.create(owner=alice, name="slow", kind="openai-compatible", base_url="https://slow.example")
    assert apply(api(alice), "kind: agent\nname: a\nprovider: slow\n", status=422)["code"] == "no_model"


def test_unknown_parameters_and_fields_are_refused(api, alice):
    assert api(alice).get(f"{API}?kinds=agent").json()["error"]["code"] == "unknown_parameter"
    assert api(alice).get(f"{API}?kind=user").json()["error"]["code"] == "unknown_kind"
    assert api(alice).post(f"{API}apply", {"yml": FILE}).status_code == 422
    assert api(alice).post(f"{API}apply", {"yaml": 5}).status_code == 422


def test_a_crafted_text_costs_no_more_than_its_share(api, alice):
    started = time.monotonic()
    answer = api(alice).post(f"{API}plan", {"yaml": "a: " + "[" * 49_000})
    assert answer.status_code in (413, 422) and time.monotonic() - started < 20
    many = "kind: agent\nname: a\n---\n" * 600
    assert api(alice).post(f"{API}plan", {"yaml": many}).status_code == 413


def test_lines_are_counted_over_all_portions(api, alice):
    long = "kind: agent\nname: a{}\nsystem_prompt: {}\n---\n"
    text = "".join(long.format(number, "x" * 30_000) for number in range(4)) + "kind: agent\nname: [\n"
    error = apply(api(alice), text, status=422)
    assert error["details"][0]["line"] >= 17


def test_portions_are_whole_documents():
    text = "".join(
        f"---\nkind: agent\nname: a{number}\nsystem_prompt: |\n  ---\n  {'x' * 90}\n" for number in range(50)
    )
    parts = list(documents.portions(text, 500))
    assert "".join(part for _, part in parts) == text and len(parts) > 5
    assert all(len(part) <= 500 and part.startswith("---\n") for _, part in parts)
    assert [above for above, _ in parts] == [text[: text.index(part)].count("\n") for _, part in parts]
    assert sum(len(documents.read_here(part)) for _, part in parts) == 50
    assert list(documents.portions("", 500)) == [] or documents.read_here("") == []
    with pytest.raises(Refused):
        documents.read_here("a: *b")


def test_an_export_takes_no_more_queries_for_twice_the_rows(api, alice, offline):
    apply(api(alice))
    client, counts = api(alice), []
    for number in range(2):
        new = Agent.objects.bulk_create(Agent(owner=alice, name=f"a{number}-{n}", provider=offline) for n in range(30))
        ToolGrant.objects.bulk_create(ToolGrant(agent=agent, tool=Tool.objects.get(name="double")) for agent in new)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(API).status_code == 200
        counts.append(len(queries))
    assert counts[1] <= counts[0]


def test_more_rows_than_an_export_may_have_are_refused(api, alice, offline):
    Agent.objects.bulk_create(Agent(owner=alice, name=f"a{number}", provider=offline) for number in range(1001))
    assert api(alice).get(API).status_code == 413


QUEUED = """
kind: provider
name: local
llm: offline
max_running: 4
---
kind: agent
name: painter
provider: local
system_prompt: You paint.
pool: gpu
max_running: 2
---
kind: chain
name: gallery
steps:
  - {key: one, agent: painter, input: {message: input.text}}
pool: gpu
"""


def test_pools_and_limits_come_back_as_they_were_and_make_no_version(api, alice, bob, team):
    client = api(alice)
    apply(client, QUEUED)
    painter = Agent.objects.get(name="painter")
    assert (painter.pool, painter.max_running, painter.provider.max_running) == ("gpu", 2, 4)
    assert Chain.objects.get().pool == "gpu"
    exported = client.get(API).json()["yaml"]
    assert {one["verb"] for one in apply(client, exported)} == {"same"}

    client.patch("/api/v1/agents/painter", {"system_prompt": "You draw.", "pool": "cpu"}, "application/json")
    drafted = {one["name"]: one for one in yaml.safe_load_all(client.get(f"{API}?kind=agent").json()["yaml"])}
    assert drafted["painter"]["pool"] == "cpu" and not {"pool", "max_running"} & drafted["painter"]["live"].keys()
    apply(client, yaml.safe_dump_all(drafted.values()))
    painter.refresh_from_db()
    assert (painter.pool, painter.max_running, painter.published.number) == ("cpu", 2, 1)

    apply(client, QUEUED.replace("pool: gpu\n", "").replace("max_running: 2\n", "").replace("max_running: 4\n", ""))
    painter.refresh_from_db()
    assert (painter.pool, painter.max_running, painter.published.number) == ("", None, 1)


@pytest.mark.parametrize(
    "line", ["pool: GPU", 'pool: "gpu\\n"', "pool: 5", "pool: null", "max_running: 0", "max_running: two",
             "max_running: true", "live: {system_prompt: x, pool: gpu}"]
)  # fmt: skip
def test_wrong_pools_and_limits_are_refused_with_the_whole_file(api, alice, line):
    apply(api(alice), f"kind: agent\nname: painter\nprovider: offline\nsystem_prompt: x\n{line}\n", status=422)
    assert not Agent.objects.exists()
