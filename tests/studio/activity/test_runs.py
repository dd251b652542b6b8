"""A run's page: what happened, who may act in it, its approvals, once more."""

from dataclasses import replace
from datetime import timedelta

from django.utils import timezone

from agents.models import User
from agents.tools import ToolResult
from devices.models import Device, DeviceCall
from knowledge.collections import calls
from knowledge.collections.device_folders import Asker
from knowledge.models import Collection, Document
from runs.intake import messages as intake
from runs.models import Approval, Run
from studio.activity.runs import find_sources
from studio.activity.waterfall import waterfall
from tests.fakes import fails, says
from tests.knowledge.documents import collection_with


def test_the_run_page_shows_what_happened(alice, signed_in, make_run):
    run = make_run()
    html = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    for words in ("Find Moby-Dick", "lookup", "shelf 3", "offline", f'id="call-{run.tool_calls.get().pk}"'):
        assert words in html
    assert signed_in(alice).get(f"/runs/{run.pk}/?part=live").content.decode().count("<html") == 0


def test_a_run_that_failed_with_its_model_leads_to_the_provider_that_this_person_has(alice, signed_in, make_run, agent):
    unreachable = {"code": "model_unreachable", "message": "The host “models.invalid” cannot be found."}
    run = make_run(status="failed", error=unreachable)
    link = f'href="/providers/{agent.provider.name}/"'
    assert link in signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    agent.provider.owner = User.objects.create(username="somebody")
    agent.provider.save()
    assert link not in signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    run.error = {"code": "deadline", "message": "It took too long."}
    run.save()
    agent.provider.owner = alice
    agent.provider.save()
    assert link not in signed_in(alice).get(f"/runs/{run.pk}/").content.decode()


def test_raw_model_calls_need_a_permission(alice, staff, signed_in, make_run):
    run = make_run()
    path = f"/runs/{run.pk}/model-calls/{run.model_calls.get().pk}/"
    assert signed_in(alice).get(path).status_code == 404
    assert b"raw words" in signed_in(staff(alice)).get(path).content


def test_a_superuser_opens_anyones_run_but_does_not_act_in_it(site_admin, signed_in, make_run):
    run = make_run()
    browser = signed_in(site_admin)
    assert browser.get(f"/runs/{run.pk}/").status_code == 200
    assert browser.post(f"/runs/{run.pk}/again").status_code == 404


def test_wrong_arguments_of_an_approval_are_told_at_the_field_and_kept(alice, signed_in, make_run):
    make_run(status="waiting", waiting_for="approval")
    approval = Approval.objects.get()
    answer = signed_in(alice).post(
        f"/approvals/{approval.pk}/decide", {"decision": "approve", "arguments": "{not json"}
    )
    assert answer.status_code == 422
    assert b"{not json" in answer.content
    assert b"not a JSON object" in answer.content
    approval.refresh_from_db()
    assert approval.status == "open"


def test_an_approval_is_decided_with_edited_arguments(alice, signed_in, make_run):
    make_run(status="waiting", waiting_for="approval")
    approval = Approval.objects.get()
    body = {"decision": "approve", "arguments": '{"title": "Walden"}', "note": "a better book"}
    assert signed_in(alice).post(f"/approvals/{approval.pk}/decide", body).status_code == 302
    approval.refresh_from_db()
    assert (approval.status, approval.edited_arguments, approval.note) == (
        "approved",
        {"title": "Walden"},
        "a better book",
    )


def test_a_device_call_is_a_bar_of_its_own_beneath_its_tool_call(alice, signed_in, make_run):
    run = make_run()
    call = run.tool_calls.get()
    device = Device.objects.create(owner=alice, name="laptop", platform="Linux")
    DeviceCall.objects.create(
        pk=call.pk, owner=alice, device=device, run_id=run.pk, tool="read_file", state="done",
        created_at=(call.started_at or call.created_at) + timedelta(seconds=1), deadline=timezone.now(),
        finished_at=timezone.now() + timedelta(seconds=2),
    )  # fmt: skip
    bars = waterfall(run).bars
    assert [(bar.kind, bar.name, bar.depth) for bar in bars if bar.kind in ("tool", "device")] == [
        ("tool", "lookup", 0),
        ("device", "laptop", 1),
    ]
    page = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert f'id="device-{call.pk}"' in page
    assert f"/devices/{device.pk}/" in page


def test_a_chain_is_run_again_and_retried_from_its_page(alice, signed_in, make_chain, run_chain, worker, functions):
    functions.answers += [ToolResult(ok=True, value=1), ToolResult.failed("no", "not today")]
    chain = make_chain({"key": "a", "tool": "one"}, {"key": "b", "tool": "two", "needs": ["a"]})
    run = run_chain(chain, {"n": 3})
    browser = signed_in(alice)
    page = browser.get(f"/runs/{run.pk}/").content.decode()
    assert "Retry from what failed" in page and "Run again" in page and "<svg" in page
    retried, again = (post(browser, worker, f"/runs/{run.pk}/{verb}") for verb in ("retry", "again"))
    assert [name for name, *_ in functions.asked] == ["one", "two", "two", "one", "two"]
    assert (retried.status, retried.metadata["retry_of"]) == ("succeeded", str(run.pk))
    assert (again.status, again.input, again.metadata["again_of"]) == ("succeeded", {"n": 3}, str(run.pk))
    page = browser.get(f"/runs/{again.pk}/").content.decode()
    assert f'href="/runs/{run.pk}/"' in page and "Retry from what failed" not in page


def test_the_try_of_a_draft_is_run_again_with_the_same_draft(alice, signed_in, make_chain, worker, functions):
    chain = make_chain({"key": "a", "tool": "one"}, {"key": "b", "tool": "two"})
    chain.publish(author=alice)
    chain.steps.filter(key="a").update(target="two")
    with worker.capture(execute=True):
        run = intake.start_chain(user=alice, chain=chain.name, input={"n": 3}, draft=True)
    worker.work()
    again = post(signed_in(alice), worker, f"/runs/{run.pk}/again")
    assert (again.chain_version_id, again.trigger) == (run.chain_version_id, "draft")
    assert [name for name, *_ in functions.asked] == ["two"] * 4


def test_the_draft_of_an_agent_is_run_again_with_the_same_draft(alice, signed_in, make_agent, worker):
    agent = make_agent("clerk")
    agent.system_prompt = "Only in the draft."
    agent.save()
    with worker.capture(execute=True):
        run = intake.accept_message(user=alice, text="hello", agent="clerk", draft=True).run
    worker.work()
    again = post(signed_in(alice), worker, f"/runs/{run.pk}/again")
    assert (again.version_id, again.trigger) == (run.version_id, "draft") and again.version.is_draft


def post(browser, worker, path):
    with worker.capture(execute=True):
        answer = browser.post(path)
    worker.work()
    assert answer.status_code == 302, path
    return Run.objects.get(pk=answer["Location"].strip("/").split("/")[-1])


def test_a_message_is_retried_from_its_page(alice, signed_in, make_agent, worker):
    run = worker.send_message(alice, "add 1 and 2", make_agent("clerk"))
    Run._base_manager.filter(pk=run.pk).update(status="failed")
    again = post(signed_in(alice), worker, f"/runs/{run.pk}/retry")
    assert (again.session_id, again.status) == (run.session_id, "succeeded")


def test_model_calls_start_when_the_model_was_asked_also_if_they_fail(alice, worker, make_agent, stub_provider, stub):
    """The waterfall's bars and “Took” come from these rows."""
    stub.script(says("Fine.", silent_s=2), replace(fails(400), silent_s=2))
    agent = make_agent("slow", provider=stub_provider)
    for status in ("succeeded", "failed"):
        run = worker.send_message(alice, "hello", agent)
        fall = waterfall(run)
        [bar] = [bar for bar in fall.bars if bar.kind == "model"]
        assert run.status == status and bar.took_s >= 2, status
        # A process that had to wait for its core knows the database's time a little late (plumbing/clock.py).
        late = timedelta(seconds=1)
        assert run.started_at <= bar.started_at + late and bar.finished_at <= run.finished_at + late, status
        assert fall.total_s + late.total_seconds() >= (fall.queue_s or 0) + bar.took_s, status


def test_the_sources_of_an_answer_open_the_documents_at_their_place(alice, bob, charlie, team, signed_in, make_run):
    handbook = collection_with(alice, {"returns.md": "# Returns\n\nGoods may be returned within 30 days."})
    Collection.objects.update(team=team)
    url = f"/collections/handbook/documents/{Document.objects.get().pk}/?at=0"
    [found] = calls.answer_search_call(handbook, 1, {"query": "returned goods"}, Asker(alice.pk)).value["results"]
    run = make_run()
    for place in (
        found,
        {"url": "javascript:alert(1)", "title": "bad"},
        {"url": "//evil.example/?at=1", "title": "bad"},
    ):
        run.tool_calls.create(name="search-handbook", kind="knowledge", outcome="ok", result={"results": [place]})
    run.tool_calls.create(name="lookup", kind="function", outcome="ok", result={"url": url, "title": "not a source"})
    assert find_sources(run) == [{"url": url, "title": "returns.md, Returns"}]
    html = signed_in(alice).get(f"/runs/{run.pk}/").content.decode()
    assert f'<li><a href="{url}">returns.md, Returns</a></li>' in html and html.count("<h2>Sources</h2>") == 1
    for person, status in ((alice, 200), (bob, 200), (charlie, 404)):
        assert signed_in(person).get(url).status_code == status


def test_what_is_no_result_of_a_search_has_no_sources(make_run):
    run = make_run()
    for result in (None, [], "text", {"results": "a"}, {"results": [5, {}]}, {"url": 5}):
        run.tool_calls.create(name="search-x", kind="knowledge", outcome="ok", result=result)
    assert find_sources(run) == []
