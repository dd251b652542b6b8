import pytest
from django.contrib.auth.models import Permission
from django.urls import reverse

from agents.models import AuditEvent, Preference, Tool, ToolGrant
from functions.models import Execution, FunctionTest, StoredFunction
from tests.functions.library import ADD, make, publish

LIST = "admin:functions_storedfunction_changelist"


def form(function=None, **changes):
    values = {
        "name": "add", "source": ADD, "effect": "read", "timeout": 30, "memory_limit": 512, "max_concurrency": 0,
        "safe_mode": "on", "cache_ttl": 0, "reuse": "never", "min_isolation": "reduced",
        "tests-TOTAL_FORMS": 0, "tests-INITIAL_FORMS": 0,
    }  # fmt: skip
    return {**values, **changes}


def page(name, row):
    return reverse(f"admin:functions_{row._meta.model_name}_{name}", args=[row.pk])


@pytest.fixture
def browser(alice, staff, signed_in):
    person = staff(alice)
    person.user_permissions.remove(
        *Permission.objects.filter(codename__in=["raise_limits", "publish_red", "run_unsafe"])
    )
    return signed_in(person)


def errors(answer):
    return answer.context["adminform"].form.errors


def test_save_checks_publishes_and_lists_the_tool(browser, alice):
    assert browser.get(reverse("admin:functions_storedfunction_add")).status_code == 200
    test = {
        "tests-TOTAL_FORMS": 1, "tests-0-name": "one", "tests-0-arguments": '{"a": 1}', "tests-0-expects": "value",
        "tests-0-expected": "3", "tests-0-tolerance": "0",
    }  # fmt: skip
    answer = browser.post(reverse("admin:functions_storedfunction_add"), form(version_note="first", **test))
    assert answer.status_code == 302, errors(answer)
    function = StoredFunction.objects.get()
    assert (function.owner, function.published.number, function.published.note) == (alice, 1, "first")
    assert function.tests.get().expected == 3
    assert Tool.objects.get(name="add").kind == "function"
    assert list(AuditEvent.objects.order_by("id").values_list("action", flat=True)) == [
        "function.created",
        "function.published",
    ]


def test_errors_stand_at_the_field_with_their_lines(browser):
    bad = "def main():\n    import os\n    return eval('1')\n"
    found = errors(browser.post(reverse("admin:functions_storedfunction_add"), form(source=bad)))
    assert [text.split(":")[0] for text in found["source"]] == ["line 2", "line 3"]
    found = errors(browser.post(reverse("admin:functions_storedfunction_add"), form(timeout=60)))
    assert "permission" in found["timeout"][0]
    found = errors(browser.post(reverse("admin:functions_storedfunction_add"), form(output_schema='{"type": "x"}')))
    assert "output_schema" in found
    assert not StoredFunction.objects.exists()


def test_a_taken_name_is_an_error_of_the_name(browser, alice):
    make(alice)
    assert "name" in errors(browser.post(reverse("admin:functions_storedfunction_add"), form()))


def test_a_draft_stays_a_draft_and_a_red_test_keeps_it_one(browser, alice):
    function = make(alice)
    FunctionTest.objects.create(function=function, name="wrong", arguments={"a": 1}, expected=4)
    tests = {
        "tests-TOTAL_FORMS": 1, "tests-INITIAL_FORMS": 1, "tests-0-id": function.tests.get().pk,
        "tests-0-function": function.pk, "tests-0-name": "wrong", "tests-0-arguments": '{"a": 1}',
        "tests-0-expects": "value", "tests-0-expected": "4", "tests-0-tolerance": "0",
    }  # fmt: skip
    answer = browser.post(page("change", function), form(description="x", **tests), follow=True)
    assert b"was not published" in answer.content
    function.refresh_from_db()
    assert (function.published, function.description) == (None, "x")
    alice.user_permissions.add(Permission.objects.get(codename="publish_red"))
    browser.post(page("change", function), form(override="on", **tests))
    function.refresh_from_db()
    assert function.published.number == 1


def test_two_authors_do_not_overwrite_each_other(browser, alice):
    function = make(alice)
    seen = browser.get(page("change", function)).context["adminform"].form["seen"].value()
    StoredFunction.objects.filter(pk=function.pk).update(source=ADD + "# hers\n")
    answer = browser.post(page("change", function), form(seen=seen, source=ADD + "# mine\n"))
    assert "Another user saved" in errors(answer)["__all__"][0]
    function.refresh_from_db()
    assert function.source.endswith("# hers\n")


def test_the_try_form_comes_from_the_schema(browser, alice):
    source = (
        "from typing import Literal\n"
        "def f(a: int, b: float = 1.5, text: str = '', kind: Literal['x', 'y'] = 'x', flag: bool = False,"
        " many: list[int] = []):\n    print('hello')\n    return [a, b, text, kind, flag, many]\n"
    )
    function = publish(alice, source, "f", allowed_imports=["typing"])
    assert [field.label for field in browser.get(page("try_out", function)).context["form"]] == [
        "a", "b", "text", "kind", "flag", "many",
    ]  # fmt: skip
    sent = {"arg-a": "3", "arg-b": "2.5", "arg-text": "hi", "arg-kind": "y", "arg-flag": "on", "arg-many": "[1]"}
    answer = browser.post(page("try_out", function), sent)
    assert answer.context["answer"]["row"].result == [3, 2.5, "hi", "y", True, [1]]
    assert b"hello" in answer.content
    assert not Execution.objects.exists()
    browser.post(page("try_out", function), {**sent, "version": "1", "keep": "1"})
    assert Execution.objects.get().version_number == 1
    assert function.tests.get().expected == [3, 2.5, "hi", "y", True, [1]]
    assert b"1 of 1 passed" in browser.get(page("show_tests", function)).content
    assert "1 of 1 the same" in browser.get(page("show_replay", function) + "?limit=5").content.decode()
    wrong = browser.post(page("try_out", function), {**sent, "arg-a": "x"})
    assert wrong.context["form"].errors


def test_versions_are_compared_side_by_side_and_rolled_back(browser, alice):
    function = publish(alice)
    browser.post(page("change", function), form(source=ADD.replace("+", "-")))
    content = browser.get(page("show_versions", function) + "?from=1&to=2").content.decode()
    assert "return a + b" in content and "return a - b" in content
    browser.post(reverse("admin:functions_storedfunction_rollback", args=[function.pk, 1]))
    function.refresh_from_db()
    assert function.published.number == 1


def test_a_replay_says_in_german_what_differs(browser, alice):
    function = publish(alice)
    Execution.objects.create(
        function=function, version=function.published, function_name="add", principal=alice, status="error",
        arguments={"a": 1, "b": 2}, error={"type": "ValueError", "message": "no"},
    )  # fmt: skip
    Preference.objects.create(user=alice, language="de")
    answer = browser.get(page("show_replay", function) + "?limit=5").content.decode()
    assert "es lieferte ein Ergebnis, aber ein Fehler wurde erwartet" in answer


def test_pages_of_a_function_are_in_german(browser, alice):
    function = publish(alice, "def f():\n    return {'a': [1]}\n", "f")
    for name, expected in (("value", {"a": [2]}), ("keys", {"b": 1}), ("number", {"a": []})):
        FunctionTest.objects.create(function=function, name=name, arguments={}, expected=expected)
    Preference.objects.create(user=alice, language="de")
    tests, tries = browser.get(page("show_tests", function)), browser.get(page("try_out", function))
    for reason in (
        "result.a[0] ist 1, aber 2 wurde erwartet",
        "result hat die Schlüssel [&#x27;a&#x27;], nicht [&#x27;b&#x27;]",
        "die Zahl der Elemente von result.a ist 1, nicht 0",
    ):
        assert reason in tests.content.decode()
    assert (tests.context["title"], tries.context["title"]) == ("Tests von „f“", "„f“ ausprobieren")
    assert browser.get(page("show_replay", function)).context["title"] == "Wiederholung von „f“"
    assert [label for _, label in tries.context["chooser"].fields["version"].choices] == ["Der Entwurf", "Version 1"]
    assert ">Argumente</label>" in tries.content.decode() and "Ein JSON-Objekt." in tries.content.decode()


def test_errors_and_states_of_functions_are_in_german(browser, alice):
    function = publish(alice)
    Execution.objects.create(function=function, function_name="add", principal=alice, status="memory", arguments={})
    Preference.objects.create(user=alice, language="de")
    test = {
        "tests-TOTAL_FORMS": 1, "tests-0-name": "one", "tests-0-arguments": "[1]", "tests-0-expects": "value",
        "tests-0-expected": "3", "tests-0-tolerance": "0",
    }  # fmt: skip
    answer = browser.post(reverse("admin:functions_storedfunction_add"), form(**test))
    assert errors(answer)["name"][0] == "Eine Funktion namens „add“ gibt es schon."
    assert "Schreiben Sie ein JSON-Objekt" in answer.content.decode()
    late = errors(browser.post(page("change", function), form(seen="old")))
    assert late["__all__"][0].startswith("Jemand hat diese Funktion gespeichert")
    executions = browser.get(reverse("admin:functions_execution_changelist")).content.decode()
    assert '<span class="pill failed">Speicher erschöpft</span>' in executions


def test_an_execution_becomes_a_test_in_one_click(browser, alice):
    function = publish(alice)
    row = Execution.objects.create(
        function=function, version=function.published, function_name="add", principal=alice, status="ok",
        arguments={"a": 1, "b": 2}, result=3,
    )  # fmt: skip
    assert browser.get(page("change", row)).status_code == 200
    browser.get(page("make_test", row))
    assert not function.tests.exists()  # looking changes nothing
    browser.post(page("make_test", row), {"_form_submitted": "on"})
    assert function.tests.get().expected == 3


def test_what_is_in_use_is_not_deleted(browser, alice, agent):
    function = publish(alice)
    grant = ToolGrant.objects.create(agent=agent, tool=Tool.objects.get(name="add"))
    assert b"librarian" in browser.get(page("delete", function)).content
    browser.post(page("delete", function), {"post": "yes"})
    assert StoredFunction.objects.exists()
    grant.delete()
    browser.post(page("delete", function), {"post": "yes"})
    assert not StoredFunction.objects.exists()


def test_the_page_that_deletes_a_function_is_in_german(browser, alice, bob, make_agent):
    function = publish(alice)
    Preference.objects.create(user=alice, language="de")
    answer = browser.get(page("delete", function))
    assert "add, die Versionen und die Tests" in answer.content.decode()
    assert dict(answer.context["model_count"]) == {"Funktionen": 1}
    for owner, name in ((alice, "clerk"), (bob, "hidden")):
        user = make_agent(name)
        user.owner = owner
        user.save()
        ToolGrant.objects.create(agent=user, tool=Tool.objects.get(name="add"))
    assert browser.get(page("delete", function)).context["protected"] == [
        "Agent clerk",
        "Agent (für Sie nicht sichtbar)",
    ]


def test_charlie_sees_and_changes_nothing(alice, charlie, staff, signed_in):
    function = publish(alice)
    stranger = signed_in(staff(charlie))
    assert not stranger.get(reverse(LIST)).context["cl"].result_list
    for name in ("try_out", "show_versions", "show_tests", "show_replay"):
        assert stranger.get(page(name, function)).status_code == 404
    assert stranger.get(page("change", function)).status_code == 302
    assert stranger.post(reverse("admin:functions_storedfunction_rollback", args=[function.pk, 1])).status_code in (
        403,
        404,
    )


def test_the_editor_is_served_by_ourselves(browser):
    content = browser.get(reverse("admin:functions_storedfunction_add")).content.decode()
    assert 'src="/static/editor/editor.js"' in content
    assert 'data-editor="python"' in content and "/api/v1/functions/validate" in content
    assert browser.get("/static/editor/editor.js").status_code == 200
