import pytest

from agents.http import throttles
from agents.models import Agent, AuditEvent, Membership, Provider, Secret, Team, Tool, ToolGrant

V1 = "/api/v1"
NEW = {"name": "librarian", "description": "Finds books.", "system_prompt": "Be brief.", "provider": "offline"}


@pytest.fixture
def lookup(alice):
    return Tool.objects.create(name="lookup", kind="function", owner=alice, description="Looks a book up")


def fields_of(answer):
    return [detail["field"] for detail in answer.json()["error"]["details"]]


def test_me_tells_who_and_what_the_key_may(alice, team, api):
    me = api(alice, "runs:read").get(f"{V1}/me").json()
    assert (me["username"], me["scopes"], me["teams"]) == (
        "alice",
        ["runs:read"],
        [{"team": "alice-and-bob", "role": "administrator"}],
    )


def test_without_a_key_everything_is_401(db, client):
    for path in ("me", "keys/", "providers/", "agents/", "tools/", "teams/", "secrets/", "audit/"):
        answer = client.get(f"{V1}/{path}")
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "not_authenticated"
        assert "Bearer" in answer["WWW-Authenticate"]


def test_who_asks_for_a_stream_still_gets_errors_as_json(alice_api):
    answer = alice_api.get(f"{V1}/agents/nothing", headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/json")


def test_a_key_needs_the_scope(alice, api):
    reader = api(alice, "agents:read")
    assert reader.get(f"{V1}/agents/").status_code == 200
    assert reader.post(f"{V1}/agents/", NEW).status_code == 403
    assert reader.get(f"{V1}/providers/").status_code == 403


# Providers


def test_a_providers_key_goes_in_and_never_comes_out(alice_api):
    made = alice_api.post(f"{V1}/providers/", {"name": "mine", "kind": "openai", "api_key": "sk-1"})
    assert made.status_code == 201
    assert made.json()["has_key"] is True
    assert "sk-1" not in made.content.decode() + alice_api.get(f"{V1}/providers/mine").content.decode()
    assert Provider.objects.get(name="mine").api_key == "sk-1"


def test_a_new_address_clears_the_key_and_counts_the_revision_up(alice_api):
    alice_api.post(f"{V1}/providers/", {"name": "mine", "kind": "openai", "api_key": "sk-1"})
    moved = alice_api.patch(f"{V1}/providers/mine", {"base_url": "https://evil.example/v1"}, "application/json")
    assert moved.json()["has_key"] is False
    assert Provider.objects.get(name="mine").revision == 2
    both = {"base_url": "https://good.example/v1", "api_key": "sk-2"}
    assert alice_api.patch(f"{V1}/providers/mine", both, "application/json").json()["has_key"] is True


def test_a_provider_in_use_is_not_deleted(alice, alice_api):
    provider = Provider.objects.create(name="mine", kind="openai", owner=alice)
    Agent.objects.create(name="librarian", provider=provider, owner=alice)
    answer = alice_api.delete(f"{V1}/providers/mine")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "in_use")
    assert "librarian" in answer.json()["error"]["hint"]


def test_the_sites_provider_is_seen_by_all_and_changed_by_few(offline, charlie_api, site_admin, api):
    assert charlie_api.get(f"{V1}/providers/offline").status_code == 200
    assert charlie_api.patch(f"{V1}/providers/offline", {"enabled": False}, "application/json").status_code == 403
    assert charlie_api.delete(f"{V1}/providers/offline").status_code == 403
    assert api(site_admin).patch(f"{V1}/providers/offline", {"enabled": False}, "application/json").status_code == 200


# Agents


def test_an_agent_is_made_published_changed_compared_and_rolled_back(alice_api, offline, lookup):
    made = alice_api.post(
        f"{V1}/agents/", {**NEW, "model_params": {"temperature": 0.2}, "grants": [{"tool": "lookup", "mode": "ask"}]}
    )
    assert made.status_code == 201
    assert made.json()["published_version"] is None
    first = alice_api.post(f"{V1}/agents/librarian/publish", {"note": "first"}).json()
    assert first["version"] == 1
    assert alice_api.post(f"{V1}/agents/librarian/publish").json() == first
    alice_api.patch(
        f"{V1}/agents/librarian",
        {"system_prompt": "Be thorough.", "model_params": {"temperature": 0.9}},
        "application/json",
    )
    assert alice_api.post(f"{V1}/agents/librarian/publish").json()["version"] == 2
    versions = alice_api.get(f"{V1}/agents/librarian/versions/").json()["results"]
    assert [(row["version"], row["is_live"], row["note"]) for row in versions] == [(2, True, ""), (1, False, "first")]
    whole = alice_api.get(f"{V1}/agents/librarian/versions/1").json()
    assert whole["spec"]["grants"][0]["tool"] == "lookup"
    changes = alice_api.get(f"{V1}/agents/librarian/diff?from=1&to=2").json()
    assert [change["path"] for change in changes["changes"]] == ["model_params.temperature", "system_prompt"]
    assert "+system_prompt: Be thorough." in changes["text"]
    assert alice_api.post(f"{V1}/agents/librarian/rollback", {"version": 1}).json()["version"] == 1
    assert AuditEvent.objects.get(action="agent.rolled_back").details == {"version": 1}
    assert alice_api.get(f"{V1}/agents/librarian").json()["published_version"] == 1
    assert AuditEvent.objects.filter(action="agent.published").count() == 3


def test_after_a_rollback_the_agent_is_offered_to_others_as_it_is_now(alice_api, offline):
    alice_api.post(f"{V1}/agents/", {**NEW, "description": "Answers about books."})
    alice_api.post(f"{V1}/agents/librarian/publish")
    alice_api.patch(f"{V1}/agents/librarian", {"description": "Answers about films."}, "application/json")
    alice_api.post(f"{V1}/agents/librarian/publish")
    assert Tool.objects.get(name="librarian").description == "Answers about films."
    alice_api.post(f"{V1}/agents/librarian/rollback", {"version": 1})
    assert Tool.objects.get(name="librarian").description == "Answers about books."


def test_grants_are_listed_and_replaced(alice_api, offline, lookup, alice):
    Tool.objects.create(name="other", kind="builtin")
    alice_api.post(f"{V1}/agents/", {**NEW, "grants": [{"tool": "lookup", "mode": "allow"}]})
    answer = alice_api.put(
        f"{V1}/agents/librarian/grants/", [{"tool": "other", "mode": "deny", "version": 3}], "application/json"
    )
    assert answer.status_code == 200
    listed = alice_api.get(f"{V1}/agents/librarian/grants/").json()
    assert [(grant["tool"], grant["mode"], grant["version"]) for grant in listed["results"]] == [("other", "deny", 3)]
    assert alice_api.put(f"{V1}/agents/librarian/grants/", listed, "application/json").json() == listed


@pytest.mark.parametrize(
    ("grants", "field"),
    [
        ([{"tool": "nothing"}], "0.tool"),
        ([{"tool": "lookup"}, {"tool": "lookup"}], "1.tool"),
        ([{"tool": "lookup", "mode": "maybe"}], "0.mode"),
        ({"tool": "lookup"}, ""),
    ],
)
def test_wrong_grants_are_told_one_by_one_and_change_nothing(grants, field, alice_api, agent, lookup):
    ToolGrant.objects.create(agent=agent, tool=lookup)
    answer = alice_api.put(f"{V1}/agents/librarian/grants/", grants, "application/json")
    assert (answer.status_code, fields_of(answer)) == (422, [field])
    assert agent.grants.count() == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "Not a slug"}, "name"),
        ({"name": "publish"}, "name"),
        ({"name": 12}, "name"),
        ({"provider": "nowhere"}, "provider"),
        ({"provider": {"name": "offline"}}, "provider"),
        ({"model_params": {"temperature": 9}}, "model_params.temperature"),
        ({"model_params": {"temperature": "hot"}}, "model_params.temperature"),
        ({"model_params": []}, "model_params"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": 10**30}, "max_steps"),
        ({"max_steps": "12"}, "max_steps"),
        ({"timeout": 1e300}, "timeout"),
        ({"enabled": "yes"}, "enabled"),
        ({"capabilities": "books"}, "capabilities"),
        ({"capabilities": [1]}, "capabilities.0"),
        ({"input_schema": {"$ref": "http://example.com/schema"}}, "input_schema"),
        ({"output_schema": {"type": "nonsense"}}, "output_schema"),
        ({"session_context": "all"}, "session_context"),
        ({"team": "not-mine"}, "team"),
        ({"team": 3}, "team"),
    ],
)
def test_a_wrong_value_is_422_at_its_field(change, field, alice_api, offline):
    answer = alice_api.post(f"{V1}/agents/", {**NEW, **change})
    assert answer.status_code == 422
    assert fields_of(answer) == [field]
    assert not Agent.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[1, 2",
        b'{"name": NaN}',
        b'{"name": "a\\u0000b"}',
        b'{"name": "\\ud800"}',
        b'{"x": 1e999}',
        b"\xff",
        b"[" * 5000,
        b'{"n": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_body_that_is_no_decent_json_is_400(body, alice_api):
    answer = alice_api.generic("POST", f"{V1}/agents/", body, "application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "malformed")


def test_a_number_of_too_many_digits_is_refused_in_words_for_the_sender(alice_api):
    answer = alice_api.generic("POST", f"{V1}/agents/", b'{"n": ' + b"9" * 5000 + b"}", "application/json")
    assert answer.json()["error"]["message"] == "The body is not JSON: a number is too large"


@pytest.mark.parametrize("body", ["[]", '"text"', "null", "3"])
def test_a_body_that_is_no_object_is_422(body, alice_api):
    assert alice_api.generic("POST", f"{V1}/agents/", body, "application/json").status_code == 422


@pytest.mark.parametrize("name", ["%00", "Ünïcödé", "a" * 300, "..", "%F0%9F%92%A9", "'; drop table"])
def test_an_impossible_name_is_just_not_there(name, alice_api):
    assert alice_api.get(f"{V1}/agents/{name}").status_code == 404


@pytest.mark.parametrize(
    "query",
    [
        "cursor=%00",
        "cursor=abc",
        "cursor=cD1hYmM%3D",
        "limit=0",
        "limit=x",
        "limit=99999999999999999999",
        "enabled=maybe",
    ],
)
def test_a_wrong_query_is_told(query, alice_api, agent):
    assert alice_api.get(f"{V1}/agents/?{query}").status_code in (200, 404, 422)


def test_a_taken_name_is_a_conflict(alice_api, agent):
    answer = alice_api.post(f"{V1}/agents/", NEW)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "name_taken")


def test_an_agent_goes_with_its_versions(alice_api, agent):
    alice_api.post(f"{V1}/agents/librarian/publish")
    assert alice_api.delete(f"{V1}/agents/librarian").status_code == 204
    assert not Agent.objects.exists()


def test_an_agent_with_runs_stays(alice, alice_api, agent):
    from runs.models import Run

    version = agent.publish(author=alice)
    Run.objects.create(principal=alice, agent=agent, version=version)
    assert alice_api.delete(f"{V1}/agents/librarian").status_code == 409
    agent.refresh_from_db()
    assert agent.published == version


def test_charlie_finds_nothing_of_alices(alice_api, charlie_api, agent, lookup, alice):
    alice_api.post(f"{V1}/agents/librarian/publish")
    Secret.objects.create(name="crm", value="hush", owner=alice)
    Provider.objects.create(name="hers", kind="openai", owner=alice)
    for path in ("agents/", "secrets/", "tools/", "audit/", "teams/"):
        assert charlie_api.get(f"{V1}/{path}").json()["results"] == []
    for path in (
        "agents/librarian",
        "agents/librarian/versions/",
        "agents/librarian/versions/1",
        "agents/librarian/grants/",
        "agents/librarian/diff?from=1&to=1",
        "tools/lookup",
        "secrets/crm",
        "providers/hers",
    ):
        assert charlie_api.get(f"{V1}/{path}").status_code == 404, path
    for path in ("agents/librarian/publish", "agents/librarian/rollback"):
        assert charlie_api.post(f"{V1}/{path}", {"version": 1}).status_code == 404
    assert charlie_api.put(f"{V1}/agents/librarian/grants/", [], "application/json").status_code == 404
    assert charlie_api.patch(f"{V1}/agents/librarian", {"enabled": False}, "application/json").status_code == 404
    assert charlie_api.delete(f"{V1}/agents/librarian").status_code == 404
    hers = charlie_api.post(f"{V1}/agents/", {**NEW, "name": "thief", "provider": "hers"})
    assert (hers.status_code, fields_of(hers)) == (422, ["provider"])
    hers = charlie_api.post(f"{V1}/agents/", {**NEW, "name": "thief", "grants": [{"tool": "lookup"}]})
    assert (hers.status_code, fields_of(hers)) == (422, ["grants.0.tool"])


def test_a_team_viewer_sees_but_does_not_change(alice, alice_api, bob, bob_api, team, agent):
    alice_api.patch(f"{V1}/agents/librarian", {"team": "alice-and-bob"}, "application/json")
    Membership.objects.filter(user=bob).update(role="viewer")
    assert bob_api.get(f"{V1}/agents/librarian").json()["owner"] == "alice"
    assert bob_api.patch(f"{V1}/agents/librarian", {"description": "x"}, "application/json").status_code == 403
    assert bob_api.post(f"{V1}/agents/librarian/publish").status_code == 403
    Agent.objects.get(name="librarian").refresh_from_db()
    assert Agent.objects.get(name="librarian").owner == alice


def test_ones_own_comes_before_the_sites(alice_api, agent, offline):
    Agent.objects.create(name="librarian", description="The site's.", provider=offline)
    assert alice_api.get(f"{V1}/agents/librarian").json()["description"] == "Finds books."


# Tools, teams, secrets, audit


def test_tools_are_found_by_words_and_kind(alice_api, lookup):
    Tool.objects.create(name="clock", kind="builtin", description="What time it is")

    def names(query):
        return [tool["name"] for tool in alice_api.get(f"{V1}/tools/{query}").json()["results"]]

    assert names("") == ["clock", "lookup"]
    assert names("?search=BOOK") == ["lookup"]
    assert names("?kind=builtin") == ["clock"]
    assert alice_api.get(f"{V1}/tools/?kind=magic").status_code == 422
    assert names("?search=%00") == ["clock", "lookup"]
    assert alice_api.post(f"{V1}/tools/", {}).status_code == 405


def test_a_team_is_made_by_its_administrator(alice_api, bob, charlie, charlie_api):
    made = alice_api.post(f"{V1}/teams/", {"name": "readers"})
    assert made.json()["members"] == [{"user": "alice", "role": "administrator"}]
    Membership.objects.create(team=Team.objects.get(name="readers"), user=bob, role="author")
    members = [{"user": "alice", "role": "administrator"}, {"user": "bob", "role": "viewer"}]
    changed = alice_api.patch(f"{V1}/teams/readers", {"members": members}, "application/json")
    assert changed.json()["members"] == members
    assert charlie_api.get(f"{V1}/teams/readers").status_code == 404
    without = alice_api.patch(f"{V1}/teams/readers", {"members": members[1:]}, "application/json")
    assert without.status_code == 422
    nobody = [*members, {"user": "nobody"}]
    assert alice_api.patch(f"{V1}/teams/readers", {"members": nobody}, "application/json").status_code == 422
    assert Team.objects.get(name="readers").memberships.count() == 2


def test_a_member_who_is_no_administrator_cannot_change_the_team(bob, bob_api, team):
    assert bob_api.get(f"{V1}/teams/alice-and-bob").status_code == 200
    assert bob_api.patch(f"{V1}/teams/alice-and-bob", {"name": "bobs"}, "application/json").status_code == 403


def test_a_secret_goes_in_and_never_comes_out(alice_api):
    made = alice_api.post(f"{V1}/secrets/", {"name": "crm", "value": "hush", "hosts": ["api.example.com"]})
    assert made.status_code == 201
    assert "hush" not in made.content.decode() + alice_api.get(f"{V1}/secrets/crm").content.decode()
    assert Secret.objects.get().value == "hush"
    assert "hush" not in str(list(AuditEvent.objects.values_list("details", flat=True)))


def test_the_audit_log_says_who_did_what_from_where(alice_api, offline):
    alice_api.post(f"{V1}/agents/", NEW)
    line = alice_api.get(f"{V1}/audit/?action=agent.created").json()["results"][0]
    assert (line["actor"], line["subject_name"], line["source"]) == ("alice", "librarian", "127.0.0.1")


@pytest.mark.parametrize(
    "path", ["agents/", "tools/", "providers/", "secrets/", "keys/", "teams/", "audit/", "agents/a0/versions/"]
)
def test_lists_ask_a_constant_number_of_queries(path, alice, alice_api, offline, django_assert_max_num_queries):
    tools = [Tool.objects.create(name=f"t{number}", kind="function", owner=alice) for number in range(20)]
    for number in range(20):
        agent = Agent.objects.create(name=f"a{number}", provider=offline, owner=alice)
        ToolGrant.objects.bulk_create(ToolGrant(agent=agent, tool=tool) for tool in tools)
        agent.publish(author=alice)
        Provider.objects.create(name=f"p{number}", kind="openai", owner=alice)
        Secret.objects.create(name=f"s{number}", value="x", owner=alice)
        Membership.objects.create(team=Team.objects.create(name=f"team{number}"), user=alice)
    alice_api.get(f"{V1}/me")
    with django_assert_max_num_queries(6):
        answer = alice_api.get(f"{V1}/{path}")
    assert answer.status_code == 200


def test_pages_follow_each_other(alice_api, alice, offline):
    Agent.objects.bulk_create(Agent(name=f"a{number:02}", provider=offline, owner=alice) for number in range(25))
    seen, url = [], f"{V1}/agents/?limit=10"
    while url:
        page = alice_api.get(url).json()
        seen += [row["name"] for row in page["results"]]
        url = page["next"]
    assert seen == [f"a{number:02}" for number in range(25)]


def test_requests_pass_while_the_cache_is_down(alice, api, settings):
    settings.CACHE_URL = "redis://127.0.0.1:9/0"
    throttles.cache_connection.cache_clear()
    try:
        assert api(alice).get(f"{V1}/me").status_code == 200
    finally:
        throttles.cache_connection.cache_clear()


def test_too_many_requests_are_told_when_to_come_back(alice, api, settings, one_minute):
    settings.RATE_PER_KEY = 3
    client = api(alice)
    statuses = [client.get(f"{V1}/me").status_code for _ in range(4)]
    refused = client.get(f"{V1}/me")
    assert statuses == [200, 200, 200, 429]
    assert (refused.json()["error"]["code"], refused["Retry-After"]) == ("rate_limited", "31")
