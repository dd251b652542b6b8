"""Rights between people, and of keys and clients (docs/security.md, "Rights between people"): ways round them that were
tried from outside. Each is one case of a kind.
"""

import pytest
from django.contrib.auth.models import Group

from agents import roles
from agents.models import ApiKey, Membership, Provider, Tool
from agents.models.key import SCOPES
from runs.models import Approval, Run
from runs.worker import recovery
from tests.fakes import calls, says
from tests.gateway.mcp.oauth_requests import consent, exchange, refresh, register
from tests.gateway.mcp.test_protocol import modern
from tests.people import ApiClient

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
JSON = {"content_type": "application/json"}
SOURCE = "def three() -> int:\n    return 3\n"


# -- the last administrator of a team ---------------------------------------------------------------------------------


def leave_by_api(client, browser, team):
    return client.post(f"{V1}/teams/{team}/leave").status_code == 204


def leave_by_page(client, browser, team):
    browser.post(f"/teams/{team}/leave")


def step_down_by_api(client, browser, team):
    client.patch(f"{V1}/teams/{team}", {"members": [{"user": "alice", "role": "author"}]}, **JSON)


def step_down_by_page(client, browser, team):
    browser.post(f"/teams/{team}/members", {"username": "alice", "role": "viewer"})


def remove_oneself_by_page(client, browser, team):
    browser.post(f"/teams/{team}/members", {"username": "alice", "role": "remove"})


@pytest.mark.parametrize("has_mate", [True, False])
@pytest.mark.parametrize(
    "door", [leave_by_api, leave_by_page, step_down_by_api, step_down_by_page, remove_oneself_by_page]
)
def test_the_last_administrator_stays_whichever_door_they_take(
    alice, alice_api, team, signed_in, door, has_mate, request
):
    if has_mate:
        request.getfixturevalue("bob")
    door(alice_api, signed_in(alice), team.name)
    assert Membership.objects.get(team=team, user=alice).role == "administrator"


def test_the_refusal_says_what_to_do_and_others_leave_freely(alice, alice_api, bob_api, team):
    refused = alice_api.post(f"{V1}/teams/{team.name}/leave")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_administrator")
    assert refused.json()["error"]["hint"]
    assert bob_api.post(f"{V1}/teams/{team.name}/leave").status_code == 204
    assert alice_api.delete(f"{V1}/teams/{team.name}").status_code == 204


def test_an_administrator_leaves_where_another_one_stays(alice, alice_api, bob, team):
    Membership.objects.filter(user=bob).update(role="administrator")
    assert alice_api.post(f"{V1}/teams/{team.name}/leave").status_code == 204


def test_the_admin_keeps_an_administrator_too(alice, bob, team, site_admin, signed_in):
    rows = list(team.memberships.order_by("pk"))
    form = {
        "name": team.name, "memberships-TOTAL_FORMS": 2, "memberships-INITIAL_FORMS": 2,
        "invitations-TOTAL_FORMS": 0, "invitations-INITIAL_FORMS": 0,
    }  # fmt: skip
    for number, row in enumerate(rows):
        form |= {
            f"memberships-{number}-{name}": value
            for name, value in (("id", row.pk), ("team", team.pk), ("role", row.role))
        }
    browser = signed_in(site_admin)
    for change in ({"memberships-0-DELETE": "on"}, {"memberships-0-role": "viewer"}):
        browser.post(f"/admin/agents/team/{team.pk}/change/", {**form, **change})
        assert team.memberships.filter(role="administrator").exists()


# -- scopes of keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scopes", [["functions:execute"], ["functions:write"], ["functions:read"]])
def test_code_of_ones_own_takes_the_right_to_write_and_to_execute(api, alice, scopes):
    answer = api(alice, *scopes).post(f"{V1}/functions/try", {"source": SOURCE, "entry": "three", "arguments": {}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_a_key_with_both_tries_a_draft(api, alice):
    client = api(alice, "functions:write", "functions:execute")
    answer = client.post(f"{V1}/functions/try", {"source": SOURCE, "entry": "three", "arguments": {}})
    assert answer.json()["result"] == 3


def test_an_operator_of_the_site_executes_and_tries_nothing_of_their_own(api, alice):
    roles.make_roles()
    alice.groups.add(Group.objects.get(name="operator"))
    answer = api(alice).post(f"{V1}/functions/try", {"source": SOURCE, "entry": "three", "arguments": {}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "role_forbids")


def scopes_of_views():
    from django.urls import URLPattern, get_resolver

    def views(patterns):
        for pattern in patterns:
            if isinstance(pattern, URLPattern):
                yield getattr(pattern.callback, "cls", None) or getattr(pattern.callback, "view_class", None)
            else:
                yield from views(pattern.url_patterns)

    asked = set()
    for view in filter(None, views(get_resolver().url_patterns)):
        scope = getattr(view, "scope", None)
        if isinstance(scope, str):
            asked |= {f"{scope}:read", f"{scope}:write"}
        named = getattr(view, "scopes", None)
        asked |= set(named.values()) if isinstance(named, dict) else set()
    return asked - {None, "approvals:write"}


def test_every_scope_that_an_address_asks_for_can_be_given_to_a_key(alice_api):
    asked = scopes_of_views()
    assert {"collections:read", "prompts:write", "account:write"} <= asked
    assert asked <= SCOPES
    made = alice_api.post(f"{V1}/keys/", {"name": "all", "scopes": sorted(asked - {"approvals:decide"})})
    assert made.status_code == 201, made.json()


@pytest.mark.parametrize("resource", ["collections", "prompts"])
def test_a_key_for_one_kind_opens_that_kind_alone(api, alice, resource):
    reader, writer = api(alice, f"{resource}:read"), api(alice, f"{resource}:write")
    body = {"name": "papers", "description": "Papers.", **({"text": "Hi"} if resource == "prompts" else {})}
    assert reader.get(f"{V1}/{resource}/").status_code == 200
    assert reader.post(f"{V1}/{resource}/", body).status_code == 403
    assert writer.post(f"{V1}/{resource}/", body).status_code == 201
    assert writer.get(f"{V1}/{resource}/").status_code == 403
    assert reader.get(f"{V1}/agents/").status_code == 403


# -- OAuth ------------------------------------------------------------------------------------------------------------


def test_a_code_that_is_used_twice_ends_what_it_gave(alice, signed_in, client):
    registered = register(client).json()["client_id"]
    code = consent(signed_in(alice), registered)["code"]
    tokens = exchange(client, registered, code).json()
    holder = ApiClient(alice, tokens["access_token"])
    assert modern(holder, "tools/list").status_code == 200
    assert exchange(client, registered, code).status_code == 400
    assert modern(holder, "tools/list").status_code == 401
    assert refresh(client, registered, tokens["refresh_token"]).status_code == 400
    assert not ApiKey.objects.exclude(authorization=None).filter(revoked_at=None).exists()


def test_a_code_ends_also_what_was_refreshed_since(alice, signed_in, client):
    registered = register(client).json()["client_id"]
    code = consent(signed_in(alice), registered)["code"]
    tokens = exchange(client, registered, code).json()
    tokens = refresh(client, registered, tokens["refresh_token"]).json()
    exchange(client, registered, code)
    assert modern(ApiClient(alice, tokens["access_token"]), "tools/list").status_code == 401


def test_another_client_cannot_end_what_a_code_gave(alice, signed_in, client):
    """Whoever sees a code, but has no part in it, learns nothing and changes nothing."""
    registered, other = (register(client).json()["client_id"] for _ in range(2))
    code = consent(signed_in(alice), registered)["code"]
    tokens = exchange(client, registered, code).json()
    exchange(client, other, code)
    exchange(client, registered, "another code")
    assert modern(ApiClient(alice, tokens["access_token"]), "tools/list").status_code == 200


# -- approvals that nobody is left to decide --------------------------------------------------------------------------


@pytest.fixture
def asked(worker, make_agent, make_tool, stub_provider, stub, functions, alice, bob, team):
    """Bob's run of Alice's agent, whose grant lets Alice, the team or its administrators decide."""

    def ask(**grant):
        tool = make_tool(effect="sends_out")
        agent = make_agent(tools=[tool], provider=stub_provider)
        for model in (type(agent), Tool, Provider):
            model.objects.update(owner=alice, team=team)
        agent.grants.update(mode="ask", **grant)
        agent.refresh_from_db()
        stub.script(calls(("add", {"a": 1, "b": 2})), says("done"))
        return worker.send_message(bob, "add", agent)

    return ask


def unshare(api, team, alice):
    assert api.patch(f"{V1}/agents/helper", {"team": None}, **JSON).status_code == 200


def remove_the_runs_person(api, team, alice):
    members = [{"user": "alice", "role": "administrator"}]
    assert api.patch(f"{V1}/teams/{team.name}", {"members": members}, **JSON).status_code == 200


def deactivate_the_owner(api, team, alice):
    type(alice).objects.filter(pk=alice.pk).update(is_active=False)


GRANTS = [
    {"decides": "owner"},
    {"decides": "role", "decider_role": "administrator"},
    {"decides": "team", "not_starter": True},
]


@pytest.mark.parametrize("grant", GRANTS, ids=lambda grant: grant["decides"])
@pytest.mark.parametrize("change", [unshare, remove_the_runs_person, deactivate_the_owner])
def test_a_question_that_nobody_may_answer_any_more_is_closed(
    settings, worker, asked, alice, alice_api, bob_api, team, functions, grant, change
):
    settings.APPROVAL_DEFAULT = "approve"  # of one that nobody may decide, nobody's silence is a yes
    run = asked(**grant)
    approval = Approval.objects.get(status="open")
    change(alice_api, team, alice)
    with worker.capture(execute=True):
        recovery.tick_recovery()
    worker.work()
    run.refresh_from_db()
    approval.refresh_from_db()
    assert run.is_done and approval.status != "open" and functions.asked == []
    assert Run.objects.live().count() == 0


def test_a_question_that_somebody_may_answer_stays_open(worker, asked, alice_api, bob_api, team, functions):
    run = asked(decides="owner")
    recovery.tick_recovery()
    approval = Approval.objects.get(status="open")
    with worker.capture(execute=True):
        assert alice_api.post(f"{V1}/approvals/{approval.pk}", {"decision": "approve"}).status_code == 200
    worker.work()
    run.refresh_from_db()
    assert run.status == "succeeded" and len(functions.asked) == 1


# -- answers of a server that a person names --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["openai-compatible", "openai", "anthropic", "google", "ollama"])
@pytest.mark.parametrize(
    "body", [b"[" * 500_000, b'{"data":' * 100_000, b'{"data": ' + b"[" * 400_000 + b"]" * 400_000 + b"}", b"\xff", b"null",
             b'{"data": 7}', b'{"models": {"a": 1}}', b'{"data": [[]]}', b'{"models": [{"name": 5}]}'],
    ids=range(9),
)  # fmt: skip
def test_a_hostile_list_of_models_is_a_plain_error(alice, alice_api, model_server, kind, body):
    handler, address = model_server
    handler.answer = (200, body)
    Provider.objects.create(owner=alice, name="local", kind=kind, base_url=address, api_key="sk")
    answer = alice_api.get(f"{V1}/providers/local/models")
    assert answer.status_code in (200, 502, 503), answer.content


@pytest.mark.parametrize("path", ["/oauth/register/", "/mcp", "/api/v1/agents/", "/v1/chat/completions", "/a2a"])
def test_a_deeply_nested_body_is_a_plain_error(alice_api, client, path):
    body = b'{"redirect_uris": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    for sender in (client, alice_api):
        assert sender.generic("POST", path, body, content_type="application/json").status_code in range(400, 500)


def test_operators_use_the_mcp_endpoint_and_viewers_only_look(api, alice, agent):
    """Each method asks for its own scope and role; the endpoint itself asks for none (found by tests/attacks/people)."""
    roles.make_roles()
    agent.publish()
    for role, may in (("operator", True), ("viewer", False)):
        alice.groups.set([Group.objects.get(name=role)])
        client = api(alice)
        listed = modern(client, "tools/list")
        names = [tool["name"] for tool in listed.json()["result"]["tools"]]
        assert (listed.status_code, "librarian" in names) == (200, may)
