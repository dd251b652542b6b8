"""The admin shows why a message went where it went, and what each worker holds; nothing there can be changed."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.models import Agent, AuditEvent, Preference
from runs.models import Embed, RouteDecision, Run, Worker
from runs.queue import workers


@pytest.fixture
def decision(alice, agent):
    run = Run.objects.create(principal=alice, agent=agent, version=agent.publish(author=alice))
    candidates = [
        {"agent": "librarian", "score": 0.81, "reason": "shares shelf"},
        {"agent": "porter", "score": 0.4, "reason": "<b>bold</b>"},
    ]
    return RouteDecision.objects.create(
        run=run, agent=agent, method="words", reason="shares shelf", candidates=candidates
    )


@pytest.fixture
def worker_row(alice, agent, decision):
    agent.refresh_from_db()
    Run._base_manager.update(status="running", lease_owner="box:7", started_at=timezone.now())
    now = timezone.now()
    return Worker.objects.create(
        name="box:7", started_at=now, seen_at=now, runs=1, loaded=[agent.live_hash, "older-hash"]
    )


def page(browser, name, row):
    return browser.get(reverse(f"admin:runs_{name}_change", args=[row.pk]))


def test_a_decision_shows_candidates_scores_and_reasons(alice, staff, signed_in, decision):
    shown = page(signed_in(staff(alice)), "routedecision", decision).content.decode()
    assert "librarian" in shown and "0.81" in shown and "porter" in shown and "shares shelf" in shown
    assert "<b>bold</b>" not in shown and "&lt;b&gt;bold" in shown


def test_nobody_changes_adds_or_deletes_a_decision_or_a_worker(site_admin, signed_in, decision, worker_row):
    browser = signed_in(site_admin)
    for name, row in (("routedecision", decision), ("worker", worker_row)):
        assert browser.get(reverse(f"admin:runs_{name}_add")).status_code == 403
        assert browser.post(reverse(f"admin:runs_{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
        assert b'name="_save"' not in page(browser, name, row).content


def test_a_stranger_on_the_staff_sees_no_decision_of_alices(charlie, staff, signed_in, decision):
    assert page(signed_in(staff(charlie)), "routedecision", decision).status_code == 302


def test_without_the_permission_there_is_no_page(alice, signed_in, decision, worker_row):
    alice.is_staff = True
    alice.save()
    browser = signed_in(alice)
    assert browser.get(reverse("admin:runs_worker_changelist")).status_code == 403
    assert page(browser, "routedecision", decision).status_code == 403


def test_a_worker_shows_which_versions_it_holds_and_which_runs_it_has(alice, agent, staff, signed_in, worker_row):
    agent.refresh_from_db()
    shown = page(signed_in(staff(alice)), "worker", worker_row).content.decode()
    assert agent.live_hash in shown and "librarian" in shown and "1 more" in shown
    assert str(Run.objects.get().pk)[-12:] in shown


def test_of_what_a_worker_holds_a_stranger_sees_the_number_alone(charlie, staff, signed_in, worker_row):
    shown = page(signed_in(staff(charlie)), "worker", worker_row).content.decode()
    assert "librarian" not in shown and "2 more" in shown
    assert str(Run.objects.get().pk)[-12:] not in shown


def test_the_tables_are_in_german(alice, staff, signed_in, decision, worker_row):
    Preference.objects.create(user=alice, language="de")
    browser = signed_in(staff(alice))
    candidates, held = (
        page(browser, *one).content.decode() for one in (("routedecision", decision), ("worker", worker_row))
    )
    assert "<th scope='col'>Wertung</th><th scope='col'>Grund</th>" in candidates
    assert "1 weitere" in held and "<th scope='col'>Lauf</th>" in held
    RouteDecision.objects.update(candidates=[])
    assert "niemand" in page(browser, "routedecision", decision).content.decode()


def test_a_worker_that_fell_silent_is_taken_for_dead(worker_row):
    assert workers.is_alive(worker_row)
    assert not workers.is_alive(worker_row, now=worker_row.seen_at + timedelta(minutes=5))


def test_a_site_agent_is_known_to_everyone(charlie, staff, signed_in, offline, worker_row):
    site = Agent.objects.create(name="helper", provider=offline)
    site.publish()
    site.refresh_from_db()
    Worker.objects.update(loaded=[site.live_hash])
    assert "helper" in page(signed_in(staff(charlie)), "worker", worker_row).content.decode()


def test_an_embed_and_its_budget_are_changed_in_the_admin(client, site_admin, alice, make_agent):
    embed = Embed.objects.create(owner=alice, agent=make_agent())
    client.force_login(site_admin)
    path = f"/admin/runs/embed/{embed.pk}/change/"
    assert client.get(path).status_code == 200 and client.get("/admin/runs/embed/add/").status_code == 403
    form = {
        "enabled": "on", "origins": '["https://shop.example.org"]', "colour": "#123456", "suggestions": "[]", "tools": "[]",
        "per_visitor": 5, "per_minute": 50, "max_characters": 100, "budgets-TOTAL_FORMS": 1, "budgets-INITIAL_FORMS": 0,
        "budgets-0-period": "day", "budgets-0-max_runs": 9, "budgets-0-enabled": "on",
    }  # fmt: skip
    saved = client.post(path, form)
    assert saved.status_code == 302, saved.content
    embed.refresh_from_db()
    assert embed.enabled and embed.origins == ["https://shop.example.org"]
    assert (embed.budgets.get().owner, embed.budgets.get().max_runs) == (alice, 9)
    assert AuditEvent.objects.get(action="embed.changed").actor == site_admin
    assert client.post(path, {**form, "origins": '["*"]'}).status_code == 200
