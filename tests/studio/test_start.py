"""First steps: where a newcomer lands, and what the ticks follow."""

from django.contrib.auth import get_user_model
from django.utils import timezone

from agents.models import Agent, Provider, Tool, ToolGrant
from runs.models import Approval, Run


def ticks(browser):
    done = browser.get("/start/").context["done"]
    return [step for step in ("provider", "function", "agent", "talk", "approval", "schedule") if done[step]]


def signs_in(client, name, **more):
    return client.post("/login/", {"username": name, "password": "a long enough one", **more})["Location"]


def test_who_signs_in_for_the_first_time_lands_on_the_first_steps(client, db):
    get_user_model().objects.create_user("newcomer", password="a long enough one")
    assert signs_in(client, "newcomer") == "/start/"
    client.post("/logout/")
    assert signs_in(client, "newcomer") == "/"


def test_a_link_that_asked_for_the_login_is_followed(client, db):
    get_user_model().objects.create_user("newcomer", password="a long enough one")
    assert signs_in(client, "newcomer", next="/runs/") == "/runs/"


def test_who_may_not_author_lands_in_the_chat(client, db, settings):
    settings.DEFAULT_ROLE = "operator"
    get_user_model().objects.create_user("reader", password="a long enough one")
    assert signs_in(client, "reader") == "/playground/"
    client.post("/logout/")
    assert signs_in(client, "reader", next="/memory/") == "/memory/"


def test_rows_of_the_installation_tick_nothing(alice, signed_in, agent, version, offline):
    Provider.objects.update(owner=None)
    Agent.objects.update(owner=None)
    Run.objects.create(principal=alice, agent=agent, version=version, status="succeeded")
    assert ticks(signed_in(alice)) == []


def test_ticks_follow_what_the_person_did(alice, bob, signed_in, make_run):
    run = make_run()
    approval = Approval.objects.get()
    browser = signed_in(alice)
    assert ticks(browser) == ["agent", "talk"]
    Approval.objects.filter(pk=approval.pk).update(status="approved", decided_by=alice, decided_at=timezone.now())
    assert "approval" in ticks(browser)
    assert ticks(signed_in(bob)) == []
    assert run.agent.owner == alice


def test_the_example_question_is_for_an_agent_that_can_answer_it(alice, signed_in, agent):
    agent.publish()
    words = "What is the monthly payment"
    assert words not in signed_in(alice).get("/start/").content.decode()
    tool = Tool.objects.create(name="loan-payment", kind=Tool.Kind.FUNCTION, owner=alice)
    ToolGrant.objects.create(agent=agent, tool=tool)
    assert words in signed_in(alice).get("/start/").content.decode()


def test_a_refused_function_is_explained_in_whole_sentences(alice, signed_in):
    form = {"step": "function", "function-name": "reads", "function-source": "import os\ndef reads():\n    return 1"}
    answer = signed_in(alice).post("/start/", form)
    assert answer.status_code == 422
    assert "os cannot be imported in a function. Functions have no file system" in answer.content.decode()


def test_a_model_that_was_just_connected_is_chosen_for_the_agent(alice, signed_in, offline, model_server):
    browser = signed_in(alice)
    assert browser.get("/start/").context["forms"]["agent"].initial["provider"] == offline.pk
    form = {
        "step": "provider", "provider-name": "mine", "provider-kind": "openai-compatible",
        "provider-base_url": model_server[1],
    }  # fmt: skip
    html = browser.post("/start/", form, follow=True).content.decode()
    provider = Provider.objects.get(name="mine")
    assert provider.default_model == "small" and "lists 2 models" in html
    assert browser.get("/start/").context["forms"]["agent"].initial["provider"] == provider.pk
    assert ticks(browser) == ["provider"]


def test_a_model_that_does_not_answer_is_not_connected(alice, signed_in, model_server):
    model_server[0].answer = (401, {})
    form = {
        "step": "provider", "provider-name": "mine", "provider-kind": "openai-compatible",
        "provider-base_url": model_server[1],
    }  # fmt: skip
    answer = signed_in(alice).post("/start/", form)
    assert answer.status_code == 422 and "refused the key" in answer.content.decode()
    assert not Provider.objects.filter(name="mine").exists()
