import pytest
from django.urls import reverse

from agents.models import Agent, ApiKey, AuditEvent, Provider, Secret, Tool, ToolGrant

LISTS = ["provider", "agent", "tool", "team", "apikey", "secret", "auditevent"]


def agent_form(agent=None, **changes):
    values = {
        "name": "librarian", "description": "Finds books.", "enabled": "on", "system_prompt": "Be brief.",
        "provider": agent.provider_id if agent else "", "model_name": "", "max_steps": 12, "timeout": 300,
        "max_chain_depth": 3, "max_agent_depth": 1, "session_context": "last_n", "context_messages": 20,
        "context_tokens": 8000, "memory": "off", "memory_tokens": 500, "memory_summary": "off",
        "a2a_reply": "task", "grants-TOTAL_FORMS": 0, "grants-INITIAL_FORMS": 0,
    }  # fmt: skip
    return {**values, **changes}


def change_url(row):
    return reverse(f"admin:agents_{row._meta.model_name}_change", args=[row.pk])


@pytest.mark.parametrize("name", LISTS)
def test_every_list_and_form_opens(name, site_admin, signed_in, agent):
    browser = signed_in(site_admin)
    assert browser.get(reverse(f"admin:agents_{name}_changelist")).status_code == 200
    if name not in ("tool", "auditevent"):
        assert browser.get(reverse(f"admin:agents_{name}_add")).status_code == 200


def test_a_stranger_sees_nothing_of_alices(alice, charlie, staff, signed_in, agent):
    browser = signed_in(staff(charlie))
    assert b"librarian" not in browser.get(reverse("admin:agents_agent_changelist")).content
    assert browser.get(change_url(agent)).status_code == 302
    assert browser.get(reverse("admin:agents_agent_show_versions", args=[agent.pk])).status_code == 404


def test_a_stranger_cannot_choose_alices_provider(alice, charlie, staff, signed_in, offline):
    hers = Provider.objects.create(name="hers", kind="openai", owner=alice)
    page = signed_in(staff(charlie)).get(reverse("admin:agents_agent_add")).content.decode()
    assert f'<option value="{hers.pk}"' not in page
    assert f'<option value="{offline.pk}"' in page
    sent = agent_form(name="thief", provider=hers.pk)
    signed_in(charlie).post(reverse("admin:agents_agent_add"), sent)
    assert not Agent.objects.filter(name="thief").exists()


def test_a_site_row_can_be_read_but_not_changed_by_staff(charlie, staff, signed_in, offline):
    browser = signed_in(staff(charlie))
    assert browser.get(change_url(offline)).status_code == 200
    assert browser.post(change_url(offline), {"name": "mine"}).status_code == 403


def test_save_publishes(alice, staff, signed_in, agent):
    answer = signed_in(staff(alice)).post(
        change_url(agent), agent_form(agent, temperature="0.3", capabilities="books\nlending")
    )
    assert answer.status_code == 302
    agent.refresh_from_db()
    assert agent.published.number == 1
    assert agent.published.author == alice
    assert agent.published.spec["model_params"]["temperature"] == 0.3
    assert agent.published.spec["capabilities"] == ["books", "lending"]
    assert AuditEvent.objects.filter(action="agent.published", actor=alice).exists()


def test_keep_as_draft_does_not_publish(alice, staff, signed_in, agent):
    signed_in(staff(alice)).post(change_url(agent), agent_form(agent, keep_as_draft="on", description="Changed."))
    agent.refresh_from_db()
    assert agent.description == "Changed."
    assert agent.published is None


def test_the_grants_of_the_form_are_in_the_version(alice, staff, signed_in, agent):
    tool = Tool.objects.create(name="lookup", kind="function", owner=alice)
    form = agent_form(
        agent,
        **{
            "grants-TOTAL_FORMS": 1,
            "grants-0-tool": tool.pk,
            "grants-0-mode": "ask",
            "grants-0-offline": "fail",
            "grants-0-agent": agent.pk,
        },
    )
    answer = signed_in(staff(alice)).post(change_url(agent), form)
    assert answer.status_code == 302, answer.context["errors"]
    agent.refresh_from_db()
    assert agent.published.read_spec().grants[0].tool == "lookup"


@pytest.mark.parametrize(
    ("effect", "chosen", "mode"),
    [("destructive", "", "ask"), ("write", "", "allow"), ("destructive", "allow", "allow"), ("read", "deny", "deny")],
)
def test_a_grant_without_a_mode_asks_before_what_cannot_be_undone(effect, chosen, mode, alice, staff, signed_in, agent):
    tool = Tool.objects.create(name="lookup", kind="function", owner=alice, effect=effect)
    grant = {"grants-TOTAL_FORMS": 1, "grants-0-tool": tool.pk, "grants-0-mode": chosen, "grants-0-offline": "fail"}
    answer = signed_in(staff(alice)).post(change_url(agent), agent_form(agent, **grant))
    assert answer.status_code == 302, answer.context["errors"]
    assert agent.grants.get().mode == mode


def test_a_new_agent_belongs_to_who_made_it(alice, staff, signed_in, offline):
    signed_in(staff(alice)).post(reverse("admin:agents_agent_add"), agent_form(name="fresh", provider=offline.pk))
    assert Agent.objects.get(name="fresh").owner == alice


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("name", "Not A Slug", "Use 1 to 64 lower-case"),
        ("name", "publish", "reserved word"),
        ("temperature", "9", "less than or equal to 2"),
        ("output_schema", "{", "Enter a valid JSON"),
        ("output_schema", '{"type": "nonsense"}', "type"),
        ("output_schema", '{"$ref": "http://example.com/s"}', "/$ref"),
    ],
)
def test_a_wrong_value_is_told_at_its_field_and_kept(field, value, complaint, alice, staff, signed_in, agent):
    answer = signed_in(staff(alice)).post(change_url(agent), agent_form(agent, **{field: value}))
    assert answer.status_code == 200
    errors = answer.context["adminform"].form.errors
    assert complaint in str(errors[field])
    assert "".join(answer.context["adminform"].form[field].value().split()) == "".join(value.split())


def test_versions_are_compared_and_rolled_back(alice, staff, signed_in, agent):
    browser = signed_in(staff(alice))
    agent.publish(author=alice)
    Agent.objects.filter(pk=agent.pk).update(system_prompt="Be thorough.")
    agent.refresh_from_db()
    agent.publish(author=alice)
    page = browser.get(reverse("admin:agents_agent_show_versions", args=[agent.pk]) + "?from=1&to=2").content.decode()
    assert "Be thorough." in page
    assert "v1 → v2" in page
    assert browser.get(reverse("admin:agents_agent_rollback", args=[agent.pk, 1])).status_code == 403
    browser.post(reverse("admin:agents_agent_rollback", args=[agent.pk, 1]))
    agent.refresh_from_db()
    assert agent.published.number == 1


def test_a_duplicate_is_a_draft_of_ones_own(site_admin, alice, signed_in, agent):
    tool = Tool.objects.create(name="lookup", kind="function", owner=alice)
    ToolGrant.objects.create(agent=agent, tool=tool)
    url = reverse("admin:agents_agent_duplicate", args=[agent.pk])
    signed_in(site_admin).get(url)
    assert Agent.objects.count() == 1
    signed_in(site_admin).post(url, {"_form_submitted": "on"})
    copy = Agent.objects.get(name="librarian-copy")
    assert (copy.owner, copy.published, copy.grants.get().tool) == (site_admin, None, tool)


def test_a_providers_key_is_never_shown_and_stays_when_left_empty(alice, staff, signed_in):
    provider = Provider.objects.create(name="mine", kind="openai", api_key="sk-secret", owner=alice)
    browser = signed_in(staff(alice))
    assert b"sk-secret" not in browser.get(change_url(provider)).content
    browser.post(
        change_url(provider),
        {
            "name": "mine",
            "kind": "openai",
            "api": "chat",
            "tool_calling": "native",
            "thinking": "split",
            "enabled": "on",
            "prices": "{}",
        },
    )
    provider.refresh_from_db()
    assert provider.api_key == "sk-secret"


def test_a_provider_that_moves_loses_its_key(alice, staff, signed_in):
    provider = Provider.objects.create(name="mine", kind="openai", api_key="sk-secret", owner=alice)
    moved = {
        "name": "mine",
        "kind": "openai",
        "api": "chat",
        "tool_calling": "native",
        "thinking": "split",
        "base_url": "https://evil.example/v1",
    }
    signed_in(staff(alice)).post(change_url(provider), moved)
    provider.refresh_from_db()
    assert (provider.base_url, provider.api_key, provider.revision) == ("https://evil.example/v1", "", 2)


def test_a_key_is_shown_once(alice, staff, signed_in):
    page = signed_in(staff(alice)).post(
        reverse("admin:agents_apikey_add"), {"name": "laptop", "scopes": ["runs:read"]}, follow=True
    )
    key = ApiKey.objects.get()
    assert key.user == alice
    secret = page.content.decode().split("<code>")[1].split("</code>")[0]
    assert ApiKey.find(secret) == key
    assert key.digest not in page.content.decode()


def test_a_secret_is_never_shown(alice, staff, signed_in):
    secret = Secret.objects.create(name="crm", value="hush", owner=alice)
    assert b"hush" not in signed_in(staff(alice)).get(change_url(secret)).content


@pytest.mark.parametrize("name", LISTS)
def test_lists_ask_as_often_for_one_row_as_for_thirty(
    name, site_admin, signed_in, offline, django_assert_max_num_queries
):
    for number in range(30):
        owner = site_admin
        Agent.objects.create(name=f"a{number}", provider=offline, owner=owner).publish(author=owner)
        Tool.objects.create(name=f"t{number}", kind="function", owner=owner)
        Secret.objects.create(name=f"s{number}", value="x", owner=owner)
        ApiKey.make(owner, ["*"])
    browser = signed_in(site_admin)
    with django_assert_max_num_queries(14):
        browser.get(reverse(f"admin:agents_{name}_changelist"))
