"""Several rows with one name: a name means the nearest, and `?owner=` reaches each of them."""

import pytest

from agents.models import Agent, AuditEvent, Chain, Prompt, Provider, Secret, Tool
from functions.models import StoredFunction
from knowledge.collections import catalog
from knowledge.models import Collection, Skill
from runs.models import Run, Schedule, Trigger
from tests.functions.library import publish
from tests.knowledge.documents import add, index
from tests.knowledge.skills.samples import skill_md

V1 = "/api/v1"
JSON = "application/json"
SOURCE = "def twin(n: int = 1) -> str:\n    return {!r}\n"
KINDS = {
    "providers": (Provider, {"enabled": False}),
    "agents": (Agent, {"description": "changed"}),
    "chains": (Chain, {"description": "changed"}),
    "functions": (StoredFunction, {"description": "changed"}),
    "skills": (Skill, {"text": skill_md(name="twin", body="Changed.")}),
    "collections": (Collection, {"description": "changed"}),
    "prompts": (Prompt, {"text": "changed"}),
    "secrets": (Secret, {"value": "changed"}),
    "schedules": (Schedule, {"text": "changed"}),
    "triggers": (Trigger, {"text": "changed"}),
}


@pytest.fixture
def twins(alice, bob, team, offline, site_admin):
    """`twins(kind)`: rows called "twin" of Alice, of the administrator, of the site, and of Bob for his team."""

    def make(kind):
        model = KINDS[kind][0]
        rows = {owner: made(model, owner, offline) for owner in (alice, site_admin, None)}
        rows[bob] = made(model, bob, offline, team=team)
        return {owner.get_username() if owner else "": row for owner, row in rows.items()}

    return make


def made(model, owner, offline, **fields):
    about = {
        Provider: {"kind": "offline"}, Agent: {"provider": offline}, Secret: {"value": "s3cret", "hosts": ["example.org"]},
        StoredFunction: {"source": SOURCE.format(str(owner)), "entry": "twin"}, Skill: {"text": skill_md(name="twin")},
        Prompt: {"text": "Say hello."}, Trigger: {"kind": "webhook", "text": "go"}, Schedule: {"text": "go"},
    }.get(model, {})  # fmt: skip
    if model in (Schedule, Trigger):
        about["agent"] = Agent.objects.create(name=f"of-{owner}", provider=offline)
    if model is Schedule:
        timing = model._meta.get_field("interval").related_model.objects.create(every=1, period="days")
        about["interval"] = timing
    return model.objects.create(name="twin", owner=owner, **about, **fields)


def state(rows):
    return {owner: type(row).objects.filter(pk=row.pk).values().first() for owner, row in rows.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_means_the_nearest_and_the_owner_names_the_others(twins, alice_api, bob_api, charlie_api, kind):
    path = f"{V1}/{kind}/twin"
    twins(kind)
    shown = {
        owner: alice_api.get(f"{path}?owner={owner}") for owner in ("alice", "", "bob", "site-admin", "nobody", "%00")
    }
    assert {owner: answer.json().get("owner", answer.status_code) for owner, answer in shown.items()} == {
        "alice": "alice", "": None, "bob": "bob", "site-admin": 404, "nobody": 404, "%00": 404,
    }  # fmt: skip
    assert [api.get(path).json()["owner"] for api in (alice_api, bob_api, charlie_api)] == ["alice", "bob", None]
    assert charlie_api.get(f"{path}?owner=").json()["owner"] is None
    assert charlie_api.get(f"{path}?owner=bob").status_code == 404
    assert alice_api.get(f"{V1}/{kind}/?owner=bob").status_code == 422, "a list has the owner of each row"


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_row_of_the_named_owner_is_changed_and_deleted(twins, alice_api, api, site_admin, kind):
    rows, path, body = twins(kind), f"{V1}/{kind}/twin", KINDS[kind][1]
    before = state(rows)
    for owner in ("", "bob"):
        assert alice_api.patch(f"{path}?owner={owner}", body, JSON).status_code == 403
        assert alice_api.delete(f"{path}?owner={owner}").status_code == 403
    assert state(rows) == before
    api = api(site_admin)
    changed = api.patch(f"{path}?owner=", body, JSON)
    assert (changed.status_code, changed.json()["owner"]) == (200, None)
    after = state(rows)
    assert [owner for owner in rows if after[owner] != before[owner]] == [""]
    tag = api.get(path)["ETag"]
    assert api.delete(f"{path}?owner=", headers={"if-match": tag}).status_code == 412, "the ETag of their own row"
    assert api.delete(f"{path}?owner=", headers={"if-match": changed["ETag"]}).status_code == 204
    assert [owner for owner, row in state(rows).items() if row is None] == [""]
    event = AuditEvent.objects.filter(action__endswith=".deleted").latest("pk")
    assert event.subject_id == str(rows[""].pk)


def test_two_teams_that_share_one_name_are_told_apart_by_the_owner(alice, bob, charlie, team, bob_api, charlie_api):
    from agents.models import Membership, Team

    other = Team.objects.create(name="others")
    for person in (bob, charlie):
        Membership.objects.create(team=other, user=person)
    for owner, shared in ((alice, team), (charlie, other)):
        StoredFunction.objects.create(name="twin", source=SOURCE.format(str(owner)), owner=owner, team=shared)
    refused = bob_api.get(f"{V1}/functions/twin")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "ambiguous_name")
    assert "?owner=" in refused.json()["error"]["hint"]
    for owner in ("alice", "charlie"):
        assert bob_api.get(f"{V1}/functions/twin?owner={owner}").json()["owner"] == owner


def test_the_function_of_the_named_owner_runs(alice, bob, team, alice_api, charlie_api):
    for owner in (alice, bob):
        publish(owner, SOURCE.format(str(owner)), "twin", **({"team": team} if owner is bob else {}))
    path = f"{V1}/functions/twin"
    for owner in ("alice", "bob"):
        for body in ({}, {"version": 1}):
            done = alice_api.post(f"{path}/execute?owner={owner}", {"arguments": {}, **body}).json()
            assert done["result"] == owner
        [execution] = alice_api.get(f"{path}/executions/?owner={owner}&limit=1").json()["results"]
        assert execution["result"] == owner
        assert owner in alice_api.get(f"{path}/versions/1?owner={owner}").json()["source"]
        assert alice_api.post(f"{path}/replay?owner={owner}", {}).json()["replayed"] == 1
    assert alice_api.get(f"{path}/tests/?owner=bob").status_code == 200
    assert alice_api.get(f"{path}/used-by?owner=bob").status_code == 403
    assert alice_api.post(f"{path}/publish?owner=bob").status_code == 403
    assert charlie_api.post(f"{path}/execute?owner=bob", {"arguments": {}}).status_code == 404


def test_the_collection_of_the_named_owner_is_searched_and_filled(alice, bob, team, alice_api, charlie_api):
    rows = [
        Collection.objects.create(name="twin", owner=alice),
        Collection.objects.create(name="twin", owner=bob, team=team),
    ]
    for row, text in zip(rows, ("Returns take ten days.", "Returns take thirty days."), strict=True):
        catalog.save_collection_tools(row)
        add(row, "rules.txt", text)
    index()
    path = f"{V1}/collections/twin"
    for owner, days in (("alice", "ten"), ("bob", "thirty")):
        [result] = alice_api.post(f"{path}/search?owner={owner}", {"query": "returns"}).json()["results"]
        assert f"{days} days" in result["text"]
        [document] = alice_api.get(f"{path}/documents/?owner={owner}").json()["results"]
        status = alice_api.delete(f"{path}/documents/{document['id']}?owner=alice").status_code
        assert status == (204 if owner == "alice" else 404)
    refused = alice_api.post(f"{path}/documents/?owner=bob", {"name": "a.txt", "text": "a"})
    assert refused.status_code == 403
    assert charlie_api.post(f"{path}/search?owner=bob", {"query": "returns"}).status_code == 404


def test_messages_and_starts_go_to_the_row_of_the_named_owner(alice, bob, team, offline, alice_api, charlie_api):
    for owner, shared in ((alice, None), (bob, team)):
        Agent.objects.create(name="twin", owner=owner, team=shared, provider=offline).publish(author=owner)
        chain = Chain.objects.create(name="twin", owner=owner, team=shared)
        chain.replace_steps([{"key": "one", "agent": "twin", "input": {"message": {"value": "hello"}}}])
        chain.publish(author=owner)
    for owner in ("alice", "bob"):
        headers = {"Prefer": "respond-async", "Idempotency-Key": "k"}
        path = f"{V1}/agents/twin/messages?owner={owner}"
        answers = [alice_api.post(path, {"message": "hello"}, headers=headers) for _ in range(2)]
        if owner == "bob":
            assert [one.status_code for one in answers] == [409, 409], "the key is of a message to another agent"
            answers = [alice_api.post(path, {"message": "hello"}, headers={**headers, "Idempotency-Key": "l"})]
        for answer in answers:
            assert Run.objects.get(pk=answer.json()["run"]["id"]).agent.owner.username == owner
        started = alice_api.post(f"{V1}/chains/twin/runs?owner={owner}", {}, headers={"Idempotency-Key": f"c-{owner}"})
        assert Run.objects.get(pk=started.json()["id"]).chain_version.chain.owner.username == owner
        assert len(alice_api.get(f"{V1}/chains/twin/runs?owner={owner}").json()["results"]) == 1
        assert alice_api.get(f"{V1}/agents/twin/figures?owner={owner}").status_code == 200
        assert alice_api.get(f"{V1}/agents/twin/used-by?owner={owner}").status_code == 200
    same = alice_api.post(f"{V1}/chains/twin/runs?owner=alice", {}, headers={"Idempotency-Key": "c-bob"})
    assert same.status_code == 409
    assert charlie_api.post(f"{V1}/agents/twin/messages?owner=bob", {"message": "hello"}).status_code == 404


def test_the_tools_of_one_name_are_told_apart(alice, bob, team, alice_api):
    for owner, shared in ((alice, None), (bob, team)):
        Tool.objects.create(name="twin", kind="function", owner=owner, team=shared)
    for owner in ("alice", "bob"):
        assert alice_api.get(f"{V1}/tools/twin?owner={owner}").json()["owner"] == owner


def test_a_row_that_is_sent_back_keeps_what_it_names(api, site_admin, make_tool, offline):
    """An administrator with rows of their own under these names changes rows of the site."""
    tool, nearer = make_tool("twin"), make_tool("other")
    Tool.objects.filter(pk=tool.pk).update(owner=None)
    agent = made(Agent, None, offline)
    agent.grants.create(tool=tool, mode="allow")
    schedule = made(Schedule, None, offline)
    Tool.objects.filter(pk=nearer.pk).update(owner=site_admin, name="twin")
    Provider.objects.create(name=offline.name, kind="offline", owner=site_admin)
    Agent.objects.create(name=schedule.agent.name, provider=offline, owner=site_admin)
    before = agent.provider_id, tool.pk, schedule.agent_id
    for kind, row, names in (("agents", agent, ("provider", "grants")), ("schedules", schedule, ("agent",))):
        path = f"{V1}/{kind}/{row.name}?owner="
        shown = api(site_admin).get(path).json()
        sent = api(site_admin).patch(path, {name: shown[name] for name in names}, JSON)
        assert (sent.status_code, sent.json()["owner"]) == (200, None), sent.json()
        row.refresh_from_db()
    assert (agent.provider_id, agent.grants.get().tool_id, schedule.agent_id) == before
    other = Provider.objects.create(name="another", kind="offline", owner=site_admin)
    assert api(site_admin).patch(f"{V1}/agents/twin?owner=", {"provider": "another"}, JSON).status_code == 200
    agent.refresh_from_db()
    assert agent.provider == other
