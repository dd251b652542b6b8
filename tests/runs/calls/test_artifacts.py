"""Files that runs make: by stored functions, the built-in tool, devices and MCP servers."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections, transaction
from django.utils import timezone

from agents import storage
from agents.exceptions import Conflict
from agents.models import StoredFile, Tool, ToolGrant
from agents.tools import ToolCall, ToolContext, ToolFailed, ToolResult, ToolSpec
from connectors.attachments import with_files_stored
from devices.files import with_files
from runs.calls import artifacts
from runs.models import Artifact, Run, Session
from runs.worker import pruning
from tests.fakes import calls, says
from tests.functions.library import publish
from tests.functions.test_tools import RUN
from tests.functions.test_tools import call as call_function
from tests.runs.api.test_files import PNG, in_storage

pytestmark = pytest.mark.django_db

REPORT = '''
def report(text: str, ctx: Context) -> dict:
    """Write a report."""
    return ctx.save_file("report.csv", text, "text/csv")
'''
LARGE = '''
async def report(ctx: Context) -> list:
    """Write two large files at once."""
    first = ctx.save_file("first.bin", b"\\x00" + b"a" * 700_000)
    second = ctx.save_file("second.bin", b"\\x00" + b"b" * 300_000)
    return [await second, await first]
'''
BUILTIN = {"kind": "builtin", "source": {"builtin": "save_file"}, "effect": "idempotent", "input_schema": {}}


@pytest.fixture
def run_with(worker, alice, make_agent, stub_provider, stub):
    """Send one message to an agent with this tool, whose model calls it so."""

    def send(tool, *arguments, **more):
        agent = make_agent(tools=[tool], provider=stub_provider)
        stub.script(*(calls((tool.name, one)) for one in arguments), says("Done."))
        return worker.send_message(alice, "Go", agent, **more)

    return send


def function_tool(alice, source, entry="report", **fields):
    publish(alice, source, entry, **fields)
    return Tool.objects.get(name=entry)


def test_a_function_saves_a_file_and_the_run_lists_it(run_with, alice, alice_api):
    run = run_with(function_tool(alice, REPORT), {"text": "a,b\n1,2\n"})
    assert run.status == "succeeded", run.error
    (made,) = alice_api.get(f"/api/v1/runs/{run.pk}/artifacts/").json()["results"]
    assert (made["name"], made["media_type"], made["size"], made["untrusted"]) == ("report.csv", "text/csv", 8, False)
    assert alice_api.get(f"/api/v1/files/{made['file']}/content").content == b"a,b\n1,2\n"
    call = run.tool_calls.get()
    assert str(call.pk) == made["call"] and call.result["file"] == made["file"]
    event = run.events.get(type="artifact.created").data
    assert (event["file"], event["name"], event["call"]) == (made["file"], "report.csv", made["call"])
    assert alice_api.get("/api/v1/files/?source=run").json()["results"][0]["id"] == made["file"]


def test_a_function_hears_of_the_quota_and_nothing_is_stored(run_with, alice, settings):
    settings.FILE_BYTES_PER_PERSON = 4
    run = run_with(function_tool(alice, REPORT), {"text": "more than four"})
    call = run.tool_calls.get()
    assert call.outcome == "failed" and "MB in total" in call.error["message"]
    assert not Artifact.objects.exists() and not StoredFile.objects.exists()


@pytest.mark.parametrize(
    "source", ["ctx.save_file('a', 5)", "ctx.save_file('', 'x')", "ctx.save_file('a', 'x' * 20_000_000)"]
)
def test_what_is_no_file_is_an_error_the_function_can_catch(run_with, alice, source):
    code = f"def report(ctx: Context) -> str:\n    try:\n        {source}\n    except (TypeError, CallFailed) as error:\n        return 'refused'\n    return 'stored'\n"
    run = run_with(function_tool(alice, code), {})
    assert run.tool_calls.get().result == "refused" and not Artifact.objects.exists()


def test_a_run_makes_only_so_many_files(run_with, alice, monkeypatch):
    monkeypatch.setattr(artifacts, "LIMIT", 1)
    tool = function_tool(alice, REPORT)
    run = run_with(tool, {"text": "a"}, {"text": "b"})
    assert sorted(run.tool_calls.values_list("outcome", flat=True)) == ["failed", "ok"]
    assert run.artifacts.count() == 1


def test_a_try_run_stores_nothing(alice, alice_api):
    publish(alice, REPORT, "report")
    answer = alice_api.post("/api/v1/functions/report/execute", {"arguments": {"text": "a"}}).json()
    assert answer["result"] == {"file": None, "name": "report.csv", "media_type": "text/csv", "size": 1}
    assert not StoredFile.objects.exists()


def test_an_agent_writes_a_file_with_the_built_in_tool(run_with, make_tool, alice_api):
    run = run_with(
        make_tool("save_file", **BUILTIN), {"name": "plan.md", "text": "# Plan", "media_type": "text/markdown"}
    )
    (made,) = alice_api.get(f"/api/v1/runs/{run.pk}/artifacts/").json()["results"]
    assert (made["name"], made["media_type"]) == ("plan.md", "text/markdown")


def test_the_file_of_a_run_that_read_a_strangers_text_carries_the_mark(
    worker, alice, make_agent, make_tool, stub_provider, stub, functions
):
    mail, save = make_tool("mail", untrusted=True, effect="read", input_schema={}), make_tool("save_file", **BUILTIN)
    agent = make_agent(tools=[mail, save], provider=stub_provider)
    ToolGrant.objects.filter(tool=save).update(allow_after_untrusted=True)
    functions.answers.append(ToolResult(ok=True, value="Dear all", untrusted=True))
    stub.script(calls(("mail", {})), calls(("save_file", {"name": "a", "text": "Dear all"})), says("Done."))
    run = worker.send_message(alice, "Go", agent)
    assert run.artifacts.get().file.untrusted


def test_a_call_that_is_repeated_after_a_crash_finds_its_file(run_with, alice, make_tool):
    run = run_with(make_tool("save_file", **BUILTIN), {"name": "a.txt", "text": "once"})
    record = run.tool_calls.get()
    again = artifacts.save_artifact(None, None, record, "a.txt", b"once")
    assert again["file"] == str(run.artifacts.get().file_id) and Artifact.objects.count() == 1


def test_the_first_run_of_a_tree_lists_the_files_of_those_below(run_with, alice, alice_api, make_tool):
    child = run_with(make_tool("save_file", **BUILTIN), {"name": "below.txt", "text": "deep"})
    top = Run.objects.create(principal=alice, status="succeeded")
    Run.objects.filter(pk=child.pk).update(parent=top, root=top)
    (made,) = alice_api.get(f"/api/v1/runs/{top.pk}/artifacts/").json()["results"]
    assert (made["name"], made["run"]) == ("below.txt", str(child.pk))


def test_strangers_team_mates_and_the_team_see_no_artifact(run_with, make_tool, bob_api, charlie_api, site_admin, api):
    run = run_with(make_tool("save_file", **BUILTIN), {"name": "a.txt", "text": "mine"})
    file = run.artifacts.get().file_id
    for other in (bob_api, charlie_api, api(site_admin)):
        assert other.get(f"/api/v1/runs/{run.pk}/artifacts/").status_code == 404
        assert other.get(f"/api/v1/files/{file}/content").status_code == 404


def test_the_list_of_artifacts_takes_as_many_queries_for_five_as_for_one(
    run_with, alice_api, make_tool, django_assert_num_queries
):
    run = run_with(make_tool("save_file", **BUILTIN), *({"name": f"{n}.txt", "text": str(n)} for n in range(5)))
    path = f"/api/v1/runs/{run.pk}/artifacts/"
    alice_api.get(path)
    with django_assert_num_queries(3):
        assert len(alice_api.get(path).json()["results"]) == 5


def test_a_deleted_run_takes_its_files_along(run_with, make_tool, settings, django_capture_on_commit_callbacks):
    run = run_with(make_tool("save_file", **BUILTIN), {"name": "a.txt", "text": "gone with its run"})
    assert in_storage(settings, b"gone with its run")
    Run.objects.filter(pk=run.pk).update(finished_at=timezone.now() - timedelta(days=1000))
    with django_capture_on_commit_callbacks(execute=True):
        assert pruning.prune()["files"] == 1
    assert not in_storage(settings, b"gone with its run") and not StoredFile.objects.exists()


def test_a_file_of_a_deleted_run_stays_while_a_message_contains_it(run_with, alice, make_tool):
    run = run_with(make_tool("save_file", **BUILTIN), {"name": "a.txt", "text": "kept"})
    session = Session.objects.create(owner=alice)
    session.add_message("user", [{"type": "file", "file": str(run.artifacts.get().file_id)}])
    Run.objects.filter(pk=run.pk).update(finished_at=timezone.now() - timedelta(days=1000))
    pruning.prune()
    assert StoredFile.objects.get().name == "a.txt" and not Artifact.objects.exists()
    fork = session.fork(before=2)
    session.delete()
    assert fork.messages.get().attachments.count() == 1


def test_the_run_page_and_the_chat_show_the_file_with_its_link(run_with, alice, make_tool, signed_in):
    run = run_with(make_tool("save_file", **BUILTIN), {"name": "plan & co.md", "text": "# Plan"})
    link = f"/api/v1/files/{run.artifacts.get().file_id}/content"
    for path in (f"/runs/{run.pk}/", f"/playground?session={run.session_id}", f"/sessions/{run.session_id}/"):
        page = signed_in(alice).get(path, follow=True).content.decode()
        assert link in page and "plan &amp; co.md" in page, path


# -- devices and servers ----------------------------------------------------------------------------------------------


class Files(list):
    """Takes what a toolset saves, as a run would."""

    def save(self, name, content, declared=""):
        if name == "full":
            raise ToolFailed("no room", code="quota_exceeded")
        self.append((name, content, declared))
        return {"file": str(len(self)), "name": name, "media_type": declared, "size": len(content)}


def test_large_files_arrive_in_pieces_also_two_at_once(alice):
    function_tool(alice, LARGE)
    made = Files()
    result = call_function("report", {}, alice, ToolContext(alice.pk, run_id=RUN, save_file=made.save))
    assert result.ok, result.error
    assert {name: content for name, content, _ in made} == {
        "first.bin": b"\x00" + b"a" * 700_000,
        "second.bin": b"\x00" + b"b" * 300_000,
    }


def sent(*files, **more):
    return ToolResult(ok=True, value={"files": list(files), **more})


def test_a_devices_files_become_files_of_the_run(alice):
    made = Files()
    picture = {"name": "a.png", "data": base64.b64encode(PNG).decode(), "media_type": "image/png"}
    result = with_files(
        ToolCall("1", "shot", {}), ToolContext(alice.pk, save_file=made.save), sent(picture, text="done")
    )
    assert made == [("a.png", PNG, "image/png")]
    assert (
        result.value["text"] == "done"
        and result.value["files"][0]["file"] == "1"
        and "data" not in result.value["files"][0]
    )


@pytest.mark.parametrize(
    "value",
    [{"files": ["a.txt", "b.txt"]}, {"files": "a"}, {"files": [{"name": "a", "size": 3}]}, {"files": []}, "text", None],
)
def test_a_result_that_only_mentions_files_stays_as_it_is(alice, value):
    result = ToolResult(ok=True, value=value)
    assert with_files(ToolCall("1", "list", {}), ToolContext(alice.pk, save_file=Files().save), result) is result


def test_a_file_that_cannot_be_stored_leaves_its_error(alice):
    bad, full = {"name": "bad", "data": "%%"}, {"name": "full", "data": "YQ=="}
    result = with_files(ToolCall("1", "shot", {}), ToolContext(alice.pk, save_file=Files().save), sent(bad, full))
    assert [set(one) for one in result.value["files"]] == [{"name", "error"}, {"name", "error"}]


def test_the_images_of_an_mcp_server_become_files_of_the_run(alice):
    made, data = Files(), base64.b64encode(PNG).decode()
    tool = ToolSpec(1, "draw", "mcp", "", {}, None, "read", {}, "")
    content = [
        {"type": "text", "text": "Here."},
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///tmp/x.pdf", "mimeType": "application/pdf", "blob": data}},
        {"type": "image", "data": 7, "mimeType": "image/png"},
        {"type": "audio", "data": "%%", "mimeType": "audio/mpeg"},
    ]
    shown = with_files_stored({"content": content}, tool, ToolContext(alice.pk, save_file=made.save))["content"]
    assert [(name, declared) for name, _, declared in made] == [
        ("draw-1.png", "image/png"),
        ("x.pdf", "application/pdf"),
    ]
    assert shown[1]["text"] == "[file draw-1.png, image/png, stored as file:1]"
    assert shown[3] is content[3] and "left out" in shown[4]["text"]


# -- two at once ------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_two_files_at_once_do_not_exceed_the_quota_together(alice, settings):
    settings.FILE_BYTES_PER_PERSON = 10
    both = threading.Barrier(2)

    def save(name):
        file = storage.store_bytes(alice.pk, name, b"x" * 8)
        both.wait(60)
        try:
            with transaction.atomic():
                storage.insert_file_row(file)
        except Conflict:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(save, ["a", "b"])) == [False, True]
