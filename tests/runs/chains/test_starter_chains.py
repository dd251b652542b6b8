"""The chains a fresh database has work end to end: real stored functions in the sandbox, the offline model."""

import pytest
from django.core.management import call_command

from agents.models import Chain
from runs.api import chain_pictures
from tests.chains import step_rows

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture
def starters(db):
    call_command("init_db", verbosity=0)


def test_digest_reads_every_text_and_writes_one(starters, run_chain):
    texts = ["The cat sat on the mat.", "Dogs run. Birds fly.", ""]
    run = run_chain(Chain.objects.get(name="digest"), {"texts": texts})
    assert run.status == "succeeded", run.error
    assert (run.output["texts"], run.output["words"]) == (3, 10)
    assert run.output["digest"]
    picture = chain_pictures.draw_run_chain(run)
    assert 'aria-label="read: tool text_statistics, succeeded, took ' in picture
    assert " s, 3 of 3 items, 0 failed" in picture


def test_triage_leaves_a_short_text_as_it_is_and_routes_it(starters, run_chain):
    run = run_chain(Chain.objects.get(name="triage-then-process"), {"text": "What is 17 * 23?"})
    assert run.status == "succeeded", run.error
    assert run.output["was_shortened"] is False and "391" in run.output["answer"]
    assert step_rows(run) == {"triage": "succeeded", "shorten": "skipped", "process": "succeeded"}


def test_triage_shortens_a_long_text(starters, run_chain):
    run = run_chain(Chain.objects.get(name="triage-then-process"), {"text": "What is 17 * 23? " + "word " * 2500})
    assert (run.status, run.output["was_shortened"]) == ("succeeded", True), run.error


def test_research_is_reviewed_and_revised(starters, run_chain):
    run = run_chain(
        Chain.objects.get(name="research-with-review"), {"questions": ["What is 2 + 2?", "How far is 5 km in miles?"]}
    )
    assert run.status == "succeeded", run.error
    assert set(run.output) == {"answer", "draft", "review"} and all(run.output.values())
