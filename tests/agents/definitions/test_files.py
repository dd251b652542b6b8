"""Files ↔ rows: lossless, planned before applied, and starters that never overwrite an author."""

import pytest
import yaml
from django.core.management import CommandError, call_command

from agents.definitions import agents, files
from agents.exceptions import Invalid
from agents.management.commands.init_db import STARTERS
from agents.models import Agent, Provider, Starter, Tool, ToolGrant
from functions import store
from functions.models import StoredFunction

pytestmark = pytest.mark.django_db
DOUBLE = """
kind: function
name: double
source: |
  def double(n: int) -> int:
      return n * 2
tests:
  - {name: two, arguments: {n: 1}, result: 2}
---
kind: agent
name: doubler
provider: offline
system_prompt: |
  You double.
  Nothing else.
capabilities: [doubling]
grants:
  - tool: double
    mode: ask
"""


@pytest.fixture
def offline(db):
    return Provider.objects.create(name="offline", kind="offline")


@pytest.fixture
def folder(tmp_path, offline):
    (tmp_path / "a.yaml").write_text(DOUBLE)
    return tmp_path


def test_a_file_becomes_rows_and_comes_back_the_same(folder, tmp_path, alice):
    call_command("apply_definitions", str(folder), user="alice", verbosity=0)
    agent = Agent.objects.get(name="doubler")
    assert agent.owner == alice and agent.published.number == 1
    assert agent.grants.get().mode == "ask"
    exported = tmp_path / "out" / "all.yaml"
    exported.parent.mkdir()
    call_command("export_definitions", str(exported), user="alice")
    back = {one["name"]: one for one in yaml.safe_load_all(exported.read_text())}
    assert back["double"]["tests"] == [{"name": "two", "arguments": {"n": 1}, "result": 2}]
    assert back["doubler"]["grants"] == [{"tool": "double", "mode": "ask"}]
    changes = files.plan_changes(files.load_definition_files(exported), owner=alice)
    assert {change.verb for change in changes} == {"same"}


def test_a_plan_changes_nothing(folder, alice, capsys):
    call_command("apply_definitions", str(folder), user="alice", plan=True)
    assert "create   function double" in capsys.readouterr().out
    assert not StoredFunction.objects.exists() and not Agent.objects.exists()


def test_one_bad_definition_changes_nothing_at_all(folder, alice):
    (folder / "b.yaml").write_text("kind: agent\nname: lonely\nprovider: offline\ngrants: [no_such_tool]\n")
    with pytest.raises(CommandError, match="no_such_tool"):
        call_command("apply_definitions", str(folder), user="alice")
    assert not StoredFunction.objects.exists() and not Agent.objects.exists()


@pytest.mark.parametrize(
    "text", ["[1, 2", "kind: spaceship\nname: x\n", "kind: agent\n", "- 7\n", "!!python/object:os.system {}"]
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, offline, text):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(CommandError):
        call_command("apply_definitions", str(tmp_path))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{type: object, properties: {a: {description: One thing, and another}}}", "“and another” has no value"),
        ("{type: object, required: [a], type: array}", "“type” occurs twice"),
        ("\n  type: object\n  type: array", "“type” occurs twice"),
    ],
)
def test_what_yaml_would_read_as_something_else_is_refused_with_its_line(tmp_path, offline, text, why):
    (tmp_path / "bad.yaml").write_text(f"kind: agent\nname: a\nprovider: offline\ninput_schema: {text}\n")
    with pytest.raises(CommandError, match=why) as refused:
        call_command("apply_definitions", str(tmp_path))
    assert "line " in str(refused.value)
    assert not Agent.objects.exists()


@pytest.mark.parametrize(
    "text", ['{description: "One thing, and another"}', "{description: ''}", "{description: null}"]
)
def test_quoted_texts_and_written_nulls_are_read(tmp_path, text):
    (tmp_path / "good.yaml").write_text(f"kind: agent\nname: a\ninput_schema: {text}\n")
    assert len(files.load_definition_files(tmp_path)) == 1


def test_no_starter_has_a_property_that_its_author_did_not_mean(db):
    """A description cut at a comma leaves a keyword that JSON Schema does not have."""
    schemas = [(one["name"], one.get("input_schema") or {}) for one in files.load_definition_files(STARTERS)]
    words = {"type", "description", "items", "enum", "default", "format", "minLength", "maxLength", "minItems",
             "maxItems", "minimum", "maximum", "pattern", "properties", "required", "additionalProperties"}  # fmt: skip
    odd = {
        name: set(rule) - words
        for name, schema in schemas
        for rule in schema.get("properties", {}).values()
        if set(rule) - words
    }
    assert odd == {}


def test_a_red_test_refuses_the_file(folder, alice):
    (folder / "a.yaml").write_text(DOUBLE.replace("result: 2", "result: 3"))
    with pytest.raises(CommandError, match="test"):
        call_command("apply_definitions", str(folder), user="alice")
    assert not StoredFunction.objects.exists()


def test_an_agent_may_call_another_whichever_comes_first(tmp_path, offline):
    (tmp_path / "x.yaml").write_text(
        "kind: agent\nname: boss\nprovider: offline\ngrants: [ask-minion]\n---\n"
        "kind: tool\nname: ask-minion\nagent: minion\n---\n"
        "kind: agent\nname: minion\nprovider: offline\n"
    )
    call_command("apply_definitions", str(tmp_path), verbosity=0)
    assert Tool.objects.get(name="ask-minion").source == {"agent": Agent.objects.get(name="minion").pk}


def test_starters_are_installed_once_and_an_edit_is_never_overwritten(folder, offline):
    site = files.Site()
    assert len(files.install_starters(folder, actor=site)) == 2
    assert files.install_starters(folder, actor=site) == []
    Agent.objects.update(system_prompt="Mine now.")
    (folder / "a.yaml").write_text(DOUBLE.replace("You double.", "You double newly.").replace("n * 2", "2 * n"))
    changed = files.install_starters(folder, actor=site)
    assert [change.name for change in changed] == ["double"]
    assert Agent.objects.get().system_prompt == "Mine now."
    assert StoredFunction.objects.get().published.number == 2


def test_a_starter_that_was_deleted_stays_deleted(folder, offline):
    site = files.Site()
    files.install_starters(folder, actor=site)
    Agent.objects.get().grants.all().delete()
    Agent.objects.update(published=None)
    Agent.objects.get().versions.all().delete()
    Agent.objects.all().delete()
    assert files.install_starters(folder, actor=site) == []
    assert Starter.objects.filter(name="doubler").exists()


@pytest.mark.slow
def test_init_db_gives_a_fresh_database_agents_that_work(db):
    call_command("init_db", verbosity=0)
    assert {"assistant", "helper", "bookkeeper", "planner", "analyst"} <= set(
        Agent.objects.values_list("name", flat=True)
    )
    assert Agent.objects.filter(published=None).count() == 0
    assert StoredFunction.objects.filter(published__isnull=False).count() >= 25
    call_command("init_db", verbosity=0)


def test_the_starters_say_what_their_rows_are(db):
    """Hand-written files and the rows made from them compare as the same, so that a plan is quiet."""
    call_command("init_db", verbosity=0)
    changes = files.plan_changes(files.load_definition_files(STARTERS), owner=None)
    assert [str(change) for change in changes if change.verb != "same"] == []


def test_what_cannot_be_undone_asks_unless_the_file_says_allow(tmp_path, offline, alice):
    for name, effect in (("wipe", "destructive"), ("wipe-freely", "destructive"), ("look", "read")):
        Tool.objects.create(owner=alice, name=name, kind="function", effect=effect)
    grants = ["wipe", {"tool": "wipe-freely", "mode": "allow"}, "look"]
    agent = {"kind": "agent", "name": "helper", "provider": "offline", "grants": grants}
    (tmp_path / "helper.yaml").write_text(files.dump_definitions([agent]))
    wanted = files.load_definition_files(tmp_path)
    files.apply_changes(files.plan_changes(wanted, owner=alice), owner=alice, actor=alice)
    modes = dict(ToolGrant.objects.values_list("tool__name", "mode"))
    assert modes == {"wipe": "ask", "wipe-freely": "allow", "look": "allow"}
    assert [change.verb for change in files.plan_changes(wanted, owner=alice)] == ["same"]
    [written] = [one for one in files.export_definitions(alice) if one["kind"] == "agent"]
    assert written["grants"] == grants


def test_a_field_that_left_the_file_is_a_change(folder, alice):
    (folder / "a.yaml").write_text(DOUBLE.replace("kind: function\n", "kind: function\nis_pure: true\n"))
    call_command("apply_definitions", str(folder), user="alice", verbosity=0)
    (folder / "a.yaml").write_text(DOUBLE)
    changes = files.plan_changes(files.load_definition_files(folder), owner=alice)
    assert [str(change) for change in changes if change.verb != "same"] == ["change   function double (is_pure)"]
    files.apply_changes(changes, owner=alice, actor=alice)
    assert not StoredFunction.objects.get().is_pure


def test_drafts_teams_and_what_is_live_come_back(folder, tmp_path, alice, team):
    call_command("apply_definitions", str(folder), user="alice", verbosity=0)
    function = StoredFunction.objects.get()
    function.source, function.team = function.source.replace("n * 2", "n * 3"), team
    function.tests.all().delete()
    store.save_function(function, user=alice)
    store.save_function(
        StoredFunction(name="draft", source="def f(on: str = 'off'):\n    return on\n", owner=alice), user=alice
    )
    file = tmp_path / "out.yml"
    before = files.export_definitions(alice)
    file.write_text(files.dump_definitions(before))
    ToolGrant.objects.all().delete()
    for row in StoredFunction.objects.all():
        store.delete_function(row, user=alice)
    call_command("apply_definitions", str(file), user="alice", verbosity=0)
    assert files.export_definitions(alice) == before
    double, draft = (StoredFunction.objects.get(name=name) for name in ("double", "draft"))
    assert "n * 3" in double.source and "n * 2" in double.published.source and double.team == team
    assert draft.published is None


HOOKED = """
kind: function
name: check
source: |
  def check(event: dict) -> dict:
      return {"verdict": "allow"}
---
kind: agent
name: clerk
provider: offline
hooks:
  - {place: message_in, function: check}
  - {place: before_tool, function: check, tools: ["send_*"], timeout_s: 1.0, pinned_version: 1}
"""


def test_the_hooks_of_an_agent_come_back_the_same(tmp_path, offline, alice):
    (tmp_path / "a.yaml").write_text(HOOKED)
    call_command("apply_definitions", str(tmp_path), user="alice", verbosity=0)
    agent = Agent.objects.get(name="clerk")
    assert list(agent.hooks.order_by("pk").values_list("place", "tools", "timeout_s", "pinned_version")) == [
        ("message_in", [], 2.0, None),
        ("before_tool", ["send_*"], 1.0, 1),
    ]
    expected = list(yaml.safe_load_all(HOOKED))[1]["hooks"]
    expected[1] = {key: expected[1][key] for key in ("place", "function", "pinned_version", "tools", "timeout_s")}
    assert agents.AgentKind().read(agent)["hooks"] == expected
    assert {change.verb for change in files.plan_changes(files.load_definition_files(tmp_path), owner=alice)} == {
        "same"
    }


@pytest.mark.parametrize(
    "hook",
    [
        "{place: sometimes, function: check}",
        "{place: message_in, function: nothing}",
        "{place: message_in, function: check, timeout: 3}",
        "{place: message_in, function: [check]}",
        "check",
    ],
)
def test_a_hook_that_cannot_be_is_refused_and_nothing_is_stored(tmp_path, offline, alice, hook):
    (tmp_path / "a.yaml").write_text(HOOKED.split("  - {place: message_in")[0] + f"  - {hook}\n")
    with pytest.raises((CommandError, Invalid)):
        call_command("apply_definitions", str(tmp_path), user="alice", verbosity=0)
    assert not Agent.objects.filter(name="clerk").exists()


def test_the_live_version_of_an_agent_comes_back_beside_its_draft(folder, tmp_path, alice):
    call_command("apply_definitions", str(folder), user="alice", verbosity=0)
    agent = Agent.objects.get()
    assert "live" not in agents.AgentKind().read(agent)
    agent.system_prompt, agent.timeout, agent.model_params = "Unfinished.", 60, {"temperature": 0.5}
    agent.save()
    agent.grants.all().delete()
    (exported,) = (one for one in files.export_definitions(alice) if one["kind"] == "agent")
    assert (exported["system_prompt"], exported["live"]["system_prompt"][:11]) == ("Unfinished.", "You double.")
    assert (exported.get("grants"), exported["live"]["grants"]) == (None, [{"tool": "double", "mode": "ask"}])
    before = files.export_definitions(alice)
    file = tmp_path / "out.yml"
    file.write_text(files.dump_definitions(before))
    agent.delete_unused()
    call_command("apply_definitions", str(file), user="alice", verbosity=0)
    again = Agent.objects.get()
    assert files.export_definitions(alice) == before
    assert (again.published.spec["system_prompt"][:11], again.system_prompt) == ("You double.", "Unfinished.")
    assert {
        change.verb for change in files.plan_changes(files.load_definition_files(tmp_path / "out.yml"), owner=alice)
    } == {"same"}


def test_words_of_a_file_stay_words(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "kind: function\nname: f\nsource: x\ntests:\n"
        "  - {name: n, arguments: {a: 2026-01-01, b: 12:30, c: on, d: 007, e: 1.5}}\n"
    )
    (found,) = files.load_definition_files(tmp_path)
    assert found["tests"][0]["arguments"] == {"a": "2026-01-01", "b": "12:30", "c": "on", "d": "007", "e": 1.5}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("kind: agent\nname: a\nprovider: offline\ninstructions: Be brief.\n", "instructions"),
        ("kind: agent\nname: a\nmodel_params: {temprature: 1}\n", "model_params.temprature"),
        ("kind: agent\nname: a\ngrants: [{tool: add, modus: ask}]\n", "grants.0.modus"),
        ("kind: agent\nname: a\nlive: {prompt: Be brief.}\n", "live.prompt"),
        ("kind: provider\nname: p\nllm: offline\napi_key: x\n", "api_key"),
        ("kind: provider\nname: p\nllm: offline\nprices: {m: {in: 1}}\n", "prices.m.in"),
        ("kind: tool\nname: t\nbuiltin: delegate\ndeadline: 5\n", "deadline"),
        ("kind: chain\nname: c\nsteps: [{key: one, tool: add, retry: {tries: 2}}]\n", "steps.0.retry.tries"),
        ("kind: function\nname: f\nsource: x\ntests: [{name: t, expected: 1}]\n", "tests.0.expected"),
    ],
)
def test_a_field_that_a_definition_does_not_have_is_refused(tmp_path, text, field):
    file = tmp_path / "one.yaml"
    file.write_text(text)
    with pytest.raises(Invalid) as refused:
        files.load_definition_files(file)
    assert refused.value.code == "unknown_field" and [one["field"] for one in refused.value.details] == [field]
