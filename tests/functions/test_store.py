import threading

import pytest
from django.contrib.auth.models import Permission
from django.db import OperationalError, connection

from agents.exceptions import Conflict, Forbidden, Invalid
from agents.models import AuditEvent, Tool, ToolGrant
from functions import store
from functions.models import Execution, FunctionTest, StoredFunction
from tests.functions.library import ADD, make, publish


def permit(user, codename):
    user.user_permissions.add(Permission.objects.get(content_type__app_label="functions", codename=codename))
    for cache in ("_perm_cache", "_user_perm_cache"):
        user.__dict__.pop(cache, None)


def actions(function):
    rows = AuditEvent.objects.filter(subject_kind="storedfunction", subject_id=str(function.pk))
    return [row.action for row in rows.order_by("id")]


def test_it_reads_entry_flags_documentation_and_schema_from_the_source(alice):
    function = make(alice, 'async def main(ctx, a: int):\n    """Double."""\n    return 2 * a\n')

    assert (function.entry, function.is_async, function.requires_context) == ("main", True, True)
    assert function.description == "Double."
    assert function.input_schema["properties"] == {"a": {"type": "integer"}}
    assert actions(function) == ["function.created"]


def test_it_refuses_with_line_reason_and_what_to_write_instead(alice):
    with pytest.raises(Invalid) as caught:
        make(alice, "def main():\n    import os\n    return eval('1')\n")

    lines = {detail["line"] for detail in caught.value.details}
    assert lines == {2, 3}
    assert all(detail["message"] and detail["hint"] for detail in caught.value.details)
    assert not StoredFunction.objects.exists()


def test_new_source_brings_its_own_schema_but_an_edited_one_stays(alice):
    function = make(alice)
    function.source = "def add(x: str) -> str:\n    return x\n"
    store.save_function(function, user=alice)
    assert list(function.input_schema["properties"]) == ["x"]

    function.input_schema = {
        "type": "object",
        "properties": {"x": {"type": "string", "maxLength": 3}},
        "required": ["x"],
    }
    store.save_function(function, user=alice)
    function.source = "def add(x: str) -> str:\n    return x + x\n"
    store.save_function(function, user=alice)
    assert function.input_schema["properties"]["x"] == {"type": "string", "maxLength": 3}


def test_a_renamed_entry_is_found_again(alice):
    function = make(alice)
    function.source = "def plus(a: int) -> int:\n    return a\n"
    store.save_function(function, user=alice)
    assert function.entry == "plus"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"timeout": 100_000}, "over_the_maximum"),
        ({"memory_limit": 100_000}, "over_the_maximum"),
        ({"cache_ttl": 5}, "not_pure"),
        ({"output_schema": {"$ref": "http://example.com"}}, "remote_ref"),
        ({"output_schema": {"type": "nothing"}}, "not_a_schema"),
        ({"input_schema": {"type": "object", "properties": {"a": {"pattern": "(a+)+$"}}}}, "bad_pattern"),
        ({"input_schema": {"type": "array"}}, "not_an_object"),
    ],
)
def test_it_refuses_limits_and_schemas_that_cannot_be(site_admin, fields, code):
    with pytest.raises(Invalid) as caught:
        make(site_admin, **fields)
    assert code in [detail["code"] for detail in caught.value.details]


def test_it_keeps_to_the_imports_and_hosts_of_this_site(alice, settings):
    settings.FUNCTION_IMPORTS = ["math"]
    settings.FUNCTION_HOSTS = ["*.example.com"]
    with pytest.raises(Invalid) as caught:
        make(alice, allowed_imports=["math", "re"], allowed_hosts=["api.example.com", "evil.test"])
    assert [(one["field"], one["code"]) for one in caught.value.details] == [
        ("allowed_imports", "not_on_this_site"),
        ("allowed_hosts", "not_on_this_site"),
    ]


def test_raising_a_limit_needs_a_permission_and_is_audited(alice):
    with pytest.raises(Forbidden):
        make(alice, timeout=60)
    permit(alice, "raise_limits")
    function = make(alice, timeout=60)
    raised = AuditEvent.objects.get(action="function.limit_raised")
    assert raised.details == {"limit": "timeout", "from": 30.0, "to": 60}
    function.description = "x"
    store.save_function(function, user=alice)
    assert AuditEvent.objects.filter(action="function.limit_raised").count() == 1


def test_switching_the_language_layer_off_needs_a_permission(alice):
    with pytest.raises(Forbidden):
        make(alice, safe_mode=False)
    permit(alice, "run_unsafe")
    assert make(alice, safe_mode=False).pk


def test_publishing_freezes_a_version_and_lists_a_tool(alice):
    function = publish(alice)

    assert function.published.number == 1
    assert function.published.source == ADD
    tool = Tool.objects.get(name="add")
    assert (tool.kind, tool.owner, tool.source["version"]) == ("function", alice, 1)
    assert tool.input_schema == function.input_schema
    assert actions(function) == ["function.created", "function.published"]


def test_equal_content_is_the_same_version(alice):
    function = publish(alice)
    assert store.publish_function(function, user=alice).number == 1

    function.source = ADD + "# changed\n"
    store.save_function(function, user=alice)
    assert store.publish_function(function, user=alice).number == 2
    function.source = ADD
    store.save_function(function, user=alice)
    assert store.publish_function(function, user=alice).number == 1
    assert function.versions.count() == 2


def test_limits_and_imports_are_part_of_the_content(alice):
    function = publish(alice)
    function.timeout = 5
    store.save_function(function, user=alice)
    assert store.publish_function(function, user=alice).number == 2
    function.allowed_imports = ["math", "math"]
    store.save_function(function, user=alice)
    assert store.publish_function(function, user=alice).number == 3
    function.allowed_imports = ["math"]
    store.save_function(function, user=alice)
    assert store.publish_function(function, user=alice).number == 3


def test_rollback_moves_the_pointer_and_the_tool(alice):
    function = publish(alice)
    function.source = ADD + "# changed\n"
    store.save_function(function, user=alice)
    store.publish_function(function, user=alice)
    store.rollback_function(function, 1, user=alice)

    function.refresh_from_db()
    assert function.published.number == 1
    assert function.source.endswith("# changed\n")
    assert Tool.objects.get(name="add").source["version"] == 1
    with pytest.raises(Invalid):
        store.rollback_function(function, 9, user=alice)


def test_a_rollback_and_its_line_in_the_audit_log_stand_or_fall_together(alice, monkeypatch):
    function = publish(alice)
    function.source = ADD.replace("+", "-")
    store.save_function(function, user=alice)
    store.publish_function(function, user=alice)
    with monkeypatch.context() as away:
        away.setattr(AuditEvent, "record", broken)
        with pytest.raises(OperationalError):
            store.rollback_function(function, 1, user=alice)
    assert StoredFunction.objects.get().published.number == 2
    store.rollback_function(StoredFunction.objects.get(), 1, user=alice)
    assert actions(function)[-1] == "function.rolled_back"


def broken(*arguments, **details):
    raise OperationalError("the disk is full")


def test_a_red_test_blocks_publishing(alice):
    function = make(alice)
    FunctionTest.objects.create(function=function, name="wrong", arguments={"a": 1}, expected=4)
    with pytest.raises(Invalid) as caught:
        store.publish_function(function, user=alice)
    assert caught.value.code == "tests_failed"
    assert caught.value.details[0]["reason"] == "result is 3, but 4 was expected"
    function.refresh_from_db()
    assert function.published is None
    assert not Tool.objects.exists()


def test_publishing_over_a_red_test_needs_a_permission_and_is_recorded(alice):
    function = make(alice)
    FunctionTest.objects.create(function=function, name="wrong", arguments={"a": 1}, expected=4)
    with pytest.raises(Forbidden):
        store.publish_function(function, user=alice, override=True)
    permit(alice, "publish_red")
    assert store.publish_function(function, user=alice, override=True).number == 1
    assert AuditEvent.objects.get(action="function.published_red").details["tests"] == ["wrong"]


def test_what_changed_while_it_was_looked_at_is_not_published(alice):
    function = make(alice)
    seen = store.draft_hash(function)
    StoredFunction.objects.filter(pk=function.pk).update(source=ADD + "# hers\n")
    with pytest.raises(Conflict):
        store.publish_function(function, user=alice)
    function.refresh_from_db()
    with pytest.raises(Conflict):
        store.publish_function(function, user=alice, expected=seen)
    assert store.publish_function(function, user=alice).source.endswith("# hers\n")


@pytest.mark.django_db(transaction=True)
def test_two_authors_may_publish_at_once_and_nothing_is_lost(alice):
    function = make(alice)
    answers = []

    def go():
        try:
            answers.append(store.publish_function(StoredFunction.objects.get(pk=function.pk), user=alice).number)
        except Conflict:
            answers.append("conflict")
        finally:
            connection.close()

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 in answers
    assert set(answers) <= {1, "conflict"}
    function.refresh_from_db()
    assert function.published.number == 1
    assert Tool.objects.filter(name="add").count() == 1


def test_a_tool_of_another_kind_keeps_its_name(alice):
    function = make(alice)
    Tool.objects.create(name="add", kind="builtin", owner=alice)
    with pytest.raises(Conflict):
        store.publish_function(function, user=alice)
    function.refresh_from_db()
    assert function.published is None
    assert not function.versions.exists()


def test_what_is_in_use_is_not_deleted(alice, agent):
    function = publish(alice)
    tool = Tool.objects.get(name="add")
    grant = ToolGrant.objects.create(agent=agent, tool=tool, pinned_version=1)
    with pytest.raises(Conflict) as caught:
        store.delete_function(function, user=alice)
    assert caught.value.details == [{"kind": "agent", "name": str(agent), "mode": "allow", "version": 1}]

    grant.delete()
    Execution.objects.create(
        function=function, version=function.published, function_name="add", principal=alice, status="ok"
    )
    store.delete_function(function, user=alice)
    assert not StoredFunction.objects.exists()
    assert not Tool.objects.exists()
    assert Execution.objects.get().function_name == "add"


def test_deprecating_keeps_what_uses_it_working(alice):
    function = publish(alice)
    store.deprecate(function, True, user=alice)
    assert StoredFunction.objects.get().is_deprecated
    assert Tool.objects.filter(name="add").exists()


def test_what_cannot_be_written_into_the_audit_log_is_not_done(alice, api, monkeypatch):
    function = publish(alice)
    test = FunctionTest.objects.create(function=function, name="adds", arguments={"a": 1}, expected=3)
    monkeypatch.setattr(AuditEvent, "record", broken)
    with pytest.raises(OperationalError):
        store.deprecate(function, True, user=alice)
    assert api(alice).delete(f"/api/v1/functions/add/tests/{test.pk}").status_code == 503
    assert not StoredFunction.objects.get().is_deprecated and FunctionTest.objects.exists()


def test_strangers_and_viewers_change_nothing(alice, charlie):
    function = publish(alice)
    for verb in (store.publish_function, store.delete_function):
        with pytest.raises(Forbidden):
            verb(function, user=charlie)
    with pytest.raises(Forbidden):
        store.rollback_function(function, 1, user=charlie)


def test_names_are_unique_per_owner(alice, charlie):
    make(alice)
    with pytest.raises(Conflict):
        make(alice)
    assert make(charlie).pk
