"""Providers in the admin: tried with a button and when their address or key is saved."""

import re

import pytest
from django.urls import reverse

from agents import available_models
from agents.models import AuditEvent, Provider

pytestmark = pytest.mark.django_db
GOOD = {"ok": True, "code": "", "message": "It answered.", "hint": "", "models": 2, "wall_ms": 1.0}


@pytest.fixture
def tried(monkeypatch):
    asked = []
    monkeypatch.setattr(available_models, "verdict", lambda provider, model="": asked.append(provider.name) or GOOD)
    return asked


@pytest.fixture
def mine(alice):
    return Provider.objects.create(name="mine", kind="openai", api_key="sk-secret", owner=alice)


def test_the_button_asks_the_server_and_says_so(alice, staff, signed_in, mine, tried):
    answer = signed_in(staff(alice)).post(reverse("admin:agents_provider_try_out", args=[mine.pk]), follow=True)
    assert b"It answered." in answer.content and tried == ["mine"]
    assert AuditEvent.objects.filter(action="provider.tested").count() == 1


def test_nobody_tries_a_stranger_s_provider(charlie, bob, team, staff, signed_in, mine, tried):
    url = reverse("admin:agents_provider_try_out", args=[mine.pk])
    assert signed_in(staff(charlie)).post(url).status_code == 404
    assert tried == []


def test_saving_a_new_address_tries_it_after_the_transaction(
    alice, staff, signed_in, mine, tried, django_capture_on_commit_callbacks
):
    form = {"name": "mine", "kind": "openai", "base_url": "", "api_key": "sk-new", "api": "chat", "tool_calling": "native", "thinking": "split",
            "enabled": "on", "prices": "{}", "owner": alice.pk, "default_model": "", "team": ""}  # fmt: skip
    browser = signed_in(staff(alice))
    with django_capture_on_commit_callbacks(execute=True):
        browser.post(reverse("admin:agents_provider_change", args=[mine.pk]), form)
    assert tried == ["mine"] and Provider.objects.get().api_key == "sk-new"


def test_the_form_of_an_agent_suggests_models(alice, staff, signed_in):
    page = signed_in(staff(alice)).get(reverse("admin:agents_agent_add")).content.decode()
    assert 'list="served-models"' in page and "muster/models.js" in page and 'type="module"' in page


def test_there_is_no_blank_choice_for_thoughts(alice, staff, signed_in, alice_api):
    page = signed_in(staff(alice)).get(reverse("admin:agents_provider_add")).content.decode()
    choices = page.partition('name="thinking"')[2].partition("</select>")[0]
    assert re.findall('value="([^"]*)"', choices) == ["split", "text"]
    body = {"name": "blank", "kind": "offline", "thinking": ""}
    assert alice_api.post("/api/v1/providers/", body).status_code == 422
