"""A run of an agent once more: the same message, the same version or the live one, linked to the run before."""

import pytest

from runs.models import Run
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
        from runs import intake

        queued = intake.accept_message(user=alice, text="wait", agent=agent).run
    assert retry(alice_api, worker, queued, 409)["hint"] == "Cancel it first, or wait."
    Run.objects.filter(pk=queued.pk).update(status="failed", parent=failed, root=failed)
    assert str(failed.pk) in retry(alice_api, worker, queued, 409)["hint"]


def test_charlie_can_retry_nothing_of_alices(charlie_api, failed):
    assert charlie_api.post(f"{V1}/runs/{failed.pk}/retry", {}).status_code == 404
    assert Run.objects.count() == 1
