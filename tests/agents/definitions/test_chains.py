"""Chains as files: lossless, refused with the step's name; the starters are valid and drawn."""

from pathlib import Path

import pytest
import yaml
from django.core.management import call_command

from agents.definitions import files
from agents.exceptions import Invalid
from agents.models import Chain

pytestmark = pytest.mark.django_db
FILE = """
kind: chain
name: outer
output: steps.b.output
steps:
  - key: a
    tool: add
    input: {a: input.x, b: {value: 1}}
    retry: {attempts: 3}
  - key: b
    chain: inner
    needs: [a]
    when: input.x > `0`
    input: {x: steps.a.output}
grants:
  - {tool: add, mode: ask}
---
kind: chain
name: inner
steps:
  - {key: only, tool: add, input: {a: input.x, b: input.x}}
grants: [add]
"""


def applied(tmp_path, text, alice):
    path = tmp_path / "chains.yaml"
    path.write_text(text)
    plan = files.plan_changes(files.load_definition_files(path), owner=alice)
    files.apply_changes(plan, owner=alice, actor=alice)
    return plan


def test_a_chain_goes_to_a_file_and_back_without_loss(alice, make_tool, tmp_path):
    make_tool("add")
    plan = applied(tmp_path, FILE, alice)
    assert [change.name for change in plan] == ["inner", "outer"]
    exported = files.dump_definitions(files.export_definitions(alice, only="chain"))
    wanted = {one["name"]: one for one in yaml.safe_load_all(FILE)}
    assert {one["name"]: one for one in yaml.safe_load_all(exported)} == wanted
    assert [change.verb for change in applied(tmp_path, exported, alice)] == ["same", "same"]
    assert Chain.objects.get(name="outer").published.number == 1


def test_a_broken_chain_is_refused_whole(alice, make_tool, tmp_path):
    make_tool("add")
    with pytest.raises(Invalid, match="ghost"):
        applied(tmp_path, FILE.replace("needs: [a]", "needs: [ghost]"), alice)
    assert Chain.objects.count() == 0


@pytest.mark.slow
def test_the_starter_chains_are_published(db):
    call_command("init_db", verbosity=0)
    published = Chain.objects.filter(owner=None, published__isnull=False)
    assert {"digest", "research-with-review", "triage-then-process"} <= set(published.values_list("name", flat=True))
    assert all(chain.problems() == [] for chain in published)
    assert (Path(files.__file__).parents[1] / "starters/chains.yaml").exists()
