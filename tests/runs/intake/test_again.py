"""A run of an agent once more: the same message, the same version or the live one, linked to the run before."""

import pytest

from agents.models import Chain
from agents.tools import ToolFailed
from runs.intake import messages as intake
from runs.models import Run, Session
from tests.fakes import fails, says

pytestmark = pytest.mark.django_db
V1 = "/api/v1"


@pytest.fixture
def agent(make_agent, stub_provider):
    return make_agent("clerk", provider=stub_provider, system_prompt="You were wrong.")


@pytest.fixture
def failed(alice, agent, worker, stub):
    stub.script(fails(400))
    run = worker.send_message(alice, "What is due?", agent)
    assert run.status == "failed"
    return run


def retry(api, worker, run, status=202, **body):
    with worker.capture(execute=True):
        answer = api.post(f"{V1}/runs/{run.pk}/retry", body)
    assert answer.status_code == status, answer.json()
    worker.work()
    return Run.objects.get(pk=answer.json()["id"]) if status == 202 else answer.json()["error"]


def told(stub):
    """What the model was last told, without the system prompt."""
    return [(message["role"], message["content"]) for message in stub.requests[-1]["messages"][1:]]


def test_it_answers_the_same_message_in_the_same_session(alice_api, worker, failed, stub):
    stub.script(says("Nothing."))
    again = retry(alice_api, worker, failed)
    assert (again.status, again.session_id, again.version_id) == ("succeeded", failed.session_id, failed.version_id)
    assert (again.trigger, again.metadata["retry_of"]) == ("manual", str(failed.pk))
    assert told(stub) == [("user", "What is due?")]  # the attempt that failed is not shown to the model
    failed.refresh_from_db()
    assert failed.status == "failed"


def test_a_retry_of_a_retry_is_told_of_neither(alice_api, worker, failed, stub):
    stub.script(fails(400), says("Nothing."))
    again = retry(alice_api, worker, retry(alice_api, worker, failed))
    assert again.status == "succeeded"
    assert told(stub) == [("user", "What is due?")]


def test_metadata_that_only_looks_like_a_link_does_no_harm(alice_api, worker, failed, stub):
    Run.objects.filter(pk=failed.pk).update(metadata={"instead_of": "of the old report", "kept": 1})
    stub.script(says("Nothing."))
    again = retry(alice_api, worker, failed)
    assert again.metadata == {"kept": 1, "retry_of": str(failed.pk), "instead_of": [str(failed.pk)]}


def test_it_takes_the_live_version_when_asked(alice_api, worker, failed, stub, agent):
    agent.system_prompt = "You are right."
    agent.save()
    live = agent.publish()
    stub.script(says("One."), says("Two."))
    assert retry(alice_api, worker, failed).version_id == failed.version_id
    assert "You were wrong." in stub.requests[-1]["messages"][0]["content"]
    again = retry(alice_api, worker, failed, live=True)
    assert again.version_id == live.pk
    assert "You are right." in stub.requests[-1]["messages"][0]["content"]


def test_where_the_session_has_gone_on_it_is_forked(alice_api, alice, agent, worker, stub):
    stub.script(says("Hello."), says("Two are due."), says("Bye."), says("Three are due."))
    first = worker.send_message(alice, "Hi", agent)
    middle = worker.send_message(alice, "What is due?", agent, session=first.session)
    worker.send_message(alice, "Bye", agent, session=first.session)
    again = retry(alice_api, worker, middle)
    assert again.session_id != first.session_id
    assert told(stub) == [("user", "Hi"), ("assistant", "Hello."), ("user", "What is due?")]
    assert first.session.messages.count() == 6


def test_what_cannot_be_retried_is_refused(alice_api, alice, agent, worker, failed):
    assert retry(alice_api, worker, failed, 422, step="a")["code"] == "unknown_step"
    Run.objects.filter(pk=failed.pk).update(trigger="external")
    assert retry(alice_api, worker, failed, 409)["code"] == "is_external"
    with worker.capture(execute=False):
        queued = intake.accept_message(user=alice, text="wait", agent=agent).run
    assert retry(alice_api, worker, queued, 409)["hint"] == "Cancel it first, or wait."
    Run._base_manager.filter(pk=queued.pk).update(status="failed", parent=failed, root=failed)
    assert str(failed.pk) in retry(alice_api, worker, queued, 409)["hint"]


def with_key(api, worker, run, key="one", **body):
    with worker.capture(execute=True):
        answer = api.post(f"{V1}/runs/{run.pk}/retry", body, headers={"Idempotency-Key": key})
    worker.work()
    return answer


def test_the_same_key_and_body_is_the_same_retry(alice_api, worker, failed, stub):
    stub.script(says("Nothing."))
    first, second = (with_key(alice_api, worker, failed) for _ in range(2))
    assert first.status_code == second.status_code == 202
    assert first.json()["id"] == second.json()["id"] and Run.objects.count() == 2
    assert second.json()["status"] == "succeeded"


def test_another_body_or_run_under_the_same_key_is_a_conflict(alice_api, alice, agent, worker, failed, stub):
    stub.script(says("Nothing."), fails(400))
    with_key(alice_api, worker, failed)
    other = worker.send_message(alice, "And today?", agent)
    for answer in (with_key(alice_api, worker, failed, live=True), with_key(alice_api, worker, other)):
        assert answer.status_code == 409 and answer.json()["error"]["code"] == "idempotency_mismatch"
    assert alice_api.post(
        f"{V1}/agents/clerk/messages", {"message": "What is due?"}, headers={"Idempotency-Key": "one"}
    ).status_code == 409  # fmt: skip
    assert with_key(alice_api, worker, failed, key="k" * 256).status_code == 422


def test_a_key_used_again_makes_no_second_fork(alice_api, alice, agent, worker, stub):
    stub.script(says("Hello."), says("Bye."), says("Hello again."))
    first = worker.send_message(alice, "Hi", agent)
    worker.send_message(alice, "Bye", agent, session=first.session)
    for _ in range(2):
        assert with_key(alice_api, worker, first).status_code == 202
    assert Session.objects.count() == 2 and Run.objects.count() == 3


def test_of_two_same_retries_at_once_one_is_made(alice_api, alice, agent, worker, stub, monkeypatch):
    stub.script(says("Hello."), says("Bye."), says("Hello again."))
    first = worker.send_message(alice, "Hi", agent)
    worker.send_message(alice, "Bye", agent, session=first.session)
    made = with_key(alice_api, worker, first).json()["id"]
    find, blind = intake.earlier_run, iter([True, True])  # both looked before either had written
    monkeypatch.setattr(intake, "earlier_run", lambda *asked: None if next(blind, False) else find(*asked))
    assert with_key(alice_api, worker, first).json()["id"] == made
    assert Session.objects.count() == 2 and Run.objects.count() == 3


@pytest.fixture
def failed_chain(make_chain, run_chain, functions):
    functions.answers.append(ToolFailed("no", code="broken"))
    run = run_chain(make_chain({"key": "add", "tool": "add"}))
    assert run.status == "failed"
    return run


def test_a_retried_chain_takes_a_key_too(alice_api, worker, failed_chain, monkeypatch):
    run = failed_chain
    first, second = (with_key(alice_api, worker, run) for _ in range(2))
    assert first.status_code == 202 and first.json()["id"] == second.json()["id"] and Run.objects.count() == 2
    assert with_key(alice_api, worker, run, step="add").status_code == 409
    find, blind = intake.earlier_run, iter([True])
    monkeypatch.setattr(intake, "earlier_run", lambda *asked: None if next(blind, False) else find(*asked))
    assert with_key(alice_api, worker, run).json()["id"] == first.json()["id"] and Run.objects.count() == 2


def test_a_chain_that_is_no_longer_shared_or_switched_off_is_not_retried(alice_api, worker, failed_chain, charlie):
    Chain.objects.update(enabled=False)
    assert retry(alice_api, worker, failed_chain, 409)["code"] == "target_not_visible"
    Chain.objects.update(enabled=True, owner=charlie)
    assert retry(alice_api, worker, failed_chain, 409)["code"] == "target_not_visible"


def test_charlie_can_retry_nothing_of_alices(charlie_api, failed):
    assert charlie_api.post(f"{V1}/runs/{failed.pk}/retry", {}).status_code == 404
    assert Run.objects.count() == 1
