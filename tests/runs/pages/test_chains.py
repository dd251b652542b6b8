"""The pages of chains: seen by whom, started by a form, and the admin's ways to try and export."""

import pytest
from django.urls import reverse

from agents.models import Chain, ChainStep, Tool, ToolGrant
from runs.models import Run

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@pytest.fixture
def chain(alice):
    tool = Tool.objects.create(name="lookup", kind="builtin", input_schema={"type": "object"})
    made = Chain.objects.create(owner=alice, name="look-up", description="Looks it up.", input_schema=SCHEMA)
    ChainStep.objects.create(chain=made, key="look", target_kind="tool", target="lookup")
    ToolGrant.objects.create(chain=made, tool=tool, mode="allow")
    made.publish(author=alice)
    return made


def test_a_chain_is_looked_at_and_started(alice, signed_in, chain):
    browser = signed_in(alice)
    assert b"look-up" in browser.get("/chains/").content
    page = browser.get("/chains/look-up/")
    assert page.context["form"]["input"].value() == '{"text": ""}'
    started = browser.post("/chains/look-up/", {"input": '{"text": "Moby-Dick"}'})
    run = Run.objects.get()
    assert started["Location"] == f"/runs/{run.pk}/"
    assert (run.input, run.principal) == ({"text": "Moby-Dick"}, alice)


@pytest.mark.parametrize("typed", ["{broken", '{"text": 3}', "{}"])
def test_wrong_input_is_told_at_the_field_and_kept(typed, alice, signed_in, chain):
    answer = signed_in(alice).post("/chains/look-up/", {"input": typed})
    assert answer.status_code == 422
    assert answer.context["form"].errors["input"]
    assert answer.context["form"]["input"].value() == typed
    assert not Run.objects.exists()


def test_charlie_finds_no_chain(charlie, signed_in, chain):
    browser = signed_in(charlie)
    assert b"look-up" not in browser.get("/chains/").content
    assert browser.get("/chains/look-up/").status_code == 404
    assert browser.post("/chains/look-up/", {"input": '{"text": "x"}'}).status_code == 404
    assert not Run.objects.exists()


def test_the_admin_tries_chains_and_agents_on_their_pages(alice, charlie, staff, signed_in, chain, agent):
    browser = signed_in(staff(alice))
    assert browser.get(reverse("admin:agents_chain_try_out", args=[chain.pk]))["Location"] == "/chains/look-up/"
    to_try = reverse("admin:agents_agent_try_out", args=[agent.pk])
    assert browser.get(to_try)["Location"] == reverse("admin:agents_agent_change", args=[agent.pk])
    agent.publish(author=alice)
    assert browser.get(to_try)["Location"] == "/playground/?agent=librarian"
    assert signed_in(staff(charlie)).get(to_try).status_code == 404


def test_the_admin_exports_definitions(alice, charlie, staff, signed_in, chain, agent):
    agent.publish(author=alice)
    for kind, row in (("chain", chain), ("agent", agent)):
        sent = {"action": "export_selected", "_selected_action": [row.pk]}
        answer = signed_in(staff(alice)).post(reverse(f"admin:agents_{kind}_changelist"), sent)
        assert answer["Content-Disposition"] == f'attachment; filename="{row.name}.yaml"'
        assert f"kind: {kind}\nname: {row.name}\n" in answer.content.decode()
        other = signed_in(staff(charlie)).post(reverse(f"admin:agents_{kind}_changelist"), sent)
        assert row.name.encode() not in other.content
