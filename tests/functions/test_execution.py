import threading
import time
from dataclasses import replace

import pytest

from agents.exceptions import Invalid, TooLarge
from agents.models import AuditEvent, Secret, Tool
from functions import callers, slots, store, testing
from functions.execution import Caller, execute_function, ready
from functions.host import Host
from functions.models import Execution
from functions.sandbox.slots import Slots
from functions.store import draft
from tests.functions.library import make, publish
from tests.live import wait_for


def call(function, arguments, user=None, **more):
    version = function.published
    return execute_function(
        ready(version.pk, version.sha256), arguments, Caller(user_id=user.pk if user else None, **more)
    )


def test_it_runs_the_function_and_keeps_the_execution(alice):
    execution = call(publish(alice), {"a": 40}, alice)

    kept = Execution.objects.get()
    assert kept.pk == execution.pk
    assert (kept.status, kept.result, kept.version_number, kept.function_name) == ("ok", 42, 1, "add")
    assert kept.arguments == {"a": 40, "b": 2}
    assert kept.principal == alice
    assert kept.isolation in ("full", "reduced")
    assert kept.wall_ms > 0 and kept.peak_kb > 0


ATTACK = "import os\ndef add(a: int, b: int = 2):\n    return os.execv('/bin/sh', ['sh'])\n"


def test_a_system_call_that_is_an_attack_takes_the_version_off_until_somebody_publishes_again(site_admin):
    function = publish(site_admin, ATTACK, safe_mode=False)
    assert call(function, {"a": 1}, site_admin).status == "violation"
    function.refresh_from_db()
    assert function.published is None and not Tool.objects.get(name="add").enabled
    actions = AuditEvent.objects.filter(action__startswith="function.").values_list("action", flat=True)
    assert {"function.violation", "function.withdrawn"} <= set(actions)
    store.publish_function(function, user=site_admin)
    assert function.published.number == 1 and Tool.objects.get(name="add").enabled


def test_publishing_leaves_a_tool_off_that_a_person_switched_off(alice):
    function = publish(alice)
    Tool.objects.update(enabled=False)
    store.publish_function(function, user=alice)
    assert not Tool.objects.get(name="add").enabled


def test_a_failing_function_is_an_execution_with_its_line(alice):
    function = publish(alice, "def f(a: int):\n    print('so far')\n    return 1 // a\n", "f")
    execution = call(function, {"a": 0}, alice)
    assert execution.status == "error"
    assert execution.error["type"] == "ZeroDivisionError"
    assert execution.error["line"] == 3
    assert execution.printed == "so far\n"


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("def f():\n    while True:\n        pass\n", "timeout"),
        ("def f():\n    return 'x' * 10**10\n", "memory"),
        ("def f():\n    return 1j\n", "error"),
        ("def f():\n    return float('nan')\n", "error"),
    ],
)
def test_every_bad_ending_has_its_row(alice, source, status):
    execution = call(publish(alice, source, "f", timeout=1 if status == "timeout" else 20), {}, alice)
    assert execution.status == status
    assert Execution.objects.get().error["message"] or Execution.objects.get().error["type"]


def test_arguments_that_break_the_schema_are_told_one_by_one(alice):
    function = publish(alice)
    with pytest.raises(Invalid) as caught:
        call(function, {"a": "one", "c": 3}, alice)
    assert {detail["field"] for detail in caught.value.details} == {"arguments", "arguments/a"}
    assert not Execution.objects.exists()


@pytest.mark.parametrize("arguments", [None, [], "x", {"a": float("inf")}, {"a": object()}])
def test_what_is_no_json_object_is_refused(alice, arguments):
    with pytest.raises(Invalid):
        call(publish(alice), arguments, alice)


def test_ten_megabytes_are_refused(alice):
    function = publish(alice, "def f(text: str):\n    return len(text)\n", "f")
    with pytest.raises(TooLarge):
        call(function, {"text": "x" * 10_000_000}, alice)


def test_bottomless_arguments_are_refused(alice):
    function = publish(alice, "def f(x):\n    return 1\n", "f")
    value: list = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(Invalid):
        call(function, {"x": value}, alice)


def test_defaults_of_an_edited_schema_are_applied(alice):
    schema = {"type": "object", "properties": {"a": {"type": "integer", "default": 7}}}
    function = publish(alice, "def f(a):\n    return a\n", "f", input_schema=schema)
    assert call(function, {}, alice).result == 7


def test_the_result_is_checked_as_well(alice):
    function = publish(alice, "def f(a):\n    return a\n", "f", output_schema={"type": "integer"})
    assert call(function, {"a": 1}, alice).status == "ok"
    execution = call(function, {"a": "x"}, alice)
    assert (execution.status, execution.result) == ("error", None)
    assert execution.error["type"] == "InvalidOutput"


SECONDS = "import time\ndef f(a: int):\n    return time.time()\n"


def test_results_of_pure_functions_are_kept_for_a_while(alice):
    function = publish(alice, SECONDS, "f", allowed_imports=["time"], is_pure=True, cache_ttl=60)
    first, again, other = (call(function, {"a": a}, alice) for a in (1, 1, 2))
    assert again.result == first.result and again.is_cached
    assert other.result != first.result and not other.is_cached
    assert Execution.objects.count() == 3


def test_results_of_other_functions_are_not(alice):
    function = publish(alice, SECONDS, "f", allowed_imports=["time"], is_pure=True)
    assert call(function, {"a": 1}, alice).result != call(function, {"a": 1}, alice).result


def test_only_so_many_calls_at_once(alice):
    function = publish(alice, max_concurrency=1)
    with slots.take_slot_if_free(function.pk, 1, 30) as is_free:
        assert is_free
        assert call(function, {"a": 1}, alice).status == "busy"
    assert call(function, {"a": 1}, alice).status == "ok"


def test_a_crashed_callers_slot_frees_itself(alice):
    assert slots.take_slot("function-slots:test", "dead", 1, -1)
    assert slots.take_slot("function-slots:test", "alive", 1, 5)
    slots.give_back("function-slots:test", "alive")


def test_a_function_logs_keeps_values_and_calls_what_it_was_granted(alice):
    source = (
        "def f(ctx, a: int):\n"
        "    ctx.log('half way')\n"
        "    ctx.progress(1, 2)\n"
        "    ctx.kv_set('seen', a)\n"
        "    return [ctx.kv_get('seen'), ctx.call('double', n=a), ctx['user']]\n"
    )
    function = publish(alice, source, "f")
    told = []
    host = Host(emit=lambda type, data: told.append((type, data.get("message"), data.get("fraction"))))
    grants = {"double": lambda arguments: 2 * arguments["n"]}
    execution = call(function, {"a": 21}, alice, data={"user": alice.pk}, grants=grants, host=host)
    assert execution.result == [21, 42, alice.pk]
    assert told == [("tool.log", "half way", None), ("tool.progress", "", 0.5)]


def test_a_secret_that_came_back_is_not_kept():
    from functions import sandbox

    host = Host(used={"crm": "s3cret-value"})
    outcome = sandbox.Outcome(
        status="error",
        result={"echo": ["Bearer s3cret-value"], "s3cret-value": 1},
        printed="got s3cret-value\n",
        error=sandbox.FunctionError("E", "s3cret-value", 1),
    )
    assert "s3cret" not in str(host.redacted(outcome).as_dict())
    assert "[secret crm]" in host.redacted(outcome).printed


def test_names_of_secrets_do_not_multiply():
    host = Host(used={letter * 64: letter for letter in "secrt"})
    assert host.clean("see") == f"[secret {'s' * 64}]" + 2 * f"[secret {'e' * 64}]"
    assert len(host.clean("s" * 200_000)) == 200_000
    stored = []
    host.files = lambda name, content, media_type: stored.append(content)
    host.save_file("x", b"s" * 2_000_000, "")
    assert stored == [b"*" * 2_000_000]


def test_a_longer_secret_is_found_before_one_that_it_contains():
    host = Host(used={"short": "abc", "long": "abcdef"})
    assert host.clean(["abcdef abc"]) == ["[secret long] [secret short]"]


@pytest.mark.parametrize(("done", "total"), [(1e308, 1e-308), (10**4000, 1), (10**4000, 0.5), (1, 0), ("1", 2)])
def test_progress_that_is_no_number_has_no_fraction(done, total):
    told = []
    Host(emit=lambda type, data: told.append(data["fraction"])).progress(done, total)
    assert told == [None]


def test_a_draft_can_be_run_without_being_stored(alice):
    function = make(alice)
    assert draft(function).number is None


def test_it_needs_few_queries(alice, django_assert_num_queries):
    function = publish(alice)
    call(function, {"a": 1}, alice)
    with django_assert_num_queries(1):
        call(function, {"a": 1}, alice)


HTTP = (
    "def f(ctx, url: str):\n    answer = ctx.http(url, auth='crm')\n    print(answer.text)\n    return answer.json()\n"
)


@pytest.fixture
def crm(alice, settings):
    settings.PRIVATE_HOSTS_ALLOWED = ["localhost"]
    return Secret.objects.create(name="crm", value="s3cret-value", hosts=["localhost"], owner=alice)


def test_a_secret_is_sent_by_name_and_never_kept(alice, crm, internet):
    function = publish(alice, HTTP, "f", allowed_hosts=["localhost"], secrets=["crm"])
    version = ready(function.published.pk, function.published.sha256)
    execution = execute_function(version, {"url": f"http://localhost:{internet}/x?y=1"}, callers.alone(alice, version))
    assert execution.status == "ok", execution.error
    assert execution.result["headers"]["authorization"] == "Bearer [secret crm]"
    kept = Execution.objects.get()
    assert "s3cret" not in str([kept.result, kept.printed, kept.requests, kept.arguments])
    assert kept.requests[0]["status"] == 200


@pytest.mark.parametrize(
    ("changes", "bound", "words"),
    [
        ({"secrets": []}, ["localhost"], "not granted"),
        ({"allowed_hosts": ["other.test"]}, ["localhost"], "localhost"),
        ({}, ["api.example.com"], "crm"),
    ],
)
def test_a_secret_goes_only_where_it_is_granted_and_bound(alice, crm, internet, changes, bound, words):
    Secret.objects.filter(pk=crm.pk).update(hosts=bound)
    fields = {"allowed_hosts": ["localhost"], "secrets": ["crm"], **changes}
    function = publish(alice, HTTP, "f", **fields)
    version = ready(function.published.pk, function.published.sha256)
    execution = execute_function(version, {"url": f"http://localhost:{internet}/"}, callers.alone(alice, version))
    assert execution.status == "error"
    assert "s3cret" not in str(execution.error)
    assert execution.error["type"] == "CallFailed"


def test_an_old_version_reaches_only_the_secrets_of_the_live_one(alice, crm, internet):
    """Its owner took the secret away; naming the old version by its number must not bring it back."""
    function = publish(alice, HTTP, "f", allowed_hosts=["localhost"], secrets=["crm"])
    old = function.published
    function.secrets = []
    function.save()
    store.publish_function(function, user=alice)
    version = ready(old.pk, old.sha256)
    execution = execute_function(version, {"url": f"http://localhost:{internet}/"}, callers.alone(alice, version))
    assert execution.status == "error" and "not granted" in execution.error["message"]


def test_a_strangers_secret_is_not_found(alice, charlie, crm, internet):
    function = publish(alice, HTTP, "f", allowed_hosts=["localhost"], secrets=["crm"])
    version = ready(function.published.pk, function.published.sha256)
    execution = execute_function(version, {"url": f"http://localhost:{internet}/"}, callers.alone(charlie, version))
    assert "There is no secret" in execution.error["message"]


def test_a_nul_character_is_kept_as_a_mark(alice):
    function = publish(alice, "def f(x):\n    print('a\\0b')\n    return len(x)\n", "f")
    execution = call(function, {"x": "a\0b"}, alice)
    kept = Execution.objects.get(pk=execution.pk)
    assert (kept.status, kept.result) == ("ok", 3)
    assert kept.arguments == {"x": "a\ufffdb"}
    assert kept.printed == "a\ufffdb\n"


def test_a_cancelled_run_stops_its_function(alice):
    function = publish(alice, "def f():\n    while True:\n        pass\n", "f")
    cancelled = threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    execution = call(function, {}, alice, is_cancelled=cancelled.is_set)
    assert execution.status == "cancelled"  # one that is not stopped comes to its own time limit


def test_a_pure_result_that_may_differ_from_person_to_person_is_not_kept(alice, bob):
    function = publish(alice, "def f(ctx):\n    return ctx['user']\n", "f", is_pure=True)
    version = ready(function.published.pk, function.published.sha256)
    version = replace(version, spec=version.spec.model_copy(update={"cache_ttl": 60}))
    for person in (alice, bob):
        caller = Caller(user_id=person.pk, data={"user": person.pk}, host=Host(user=person))
        assert execute_function(version, {}, caller).result == person.pk


@pytest.mark.parametrize(
    "fields", [{"allowed_hosts": ["api.example.org"]}, {"secrets": ["crm"]}, {"source": "def f(ctx): return 1"}]
)
def test_a_result_that_depends_on_its_caller_may_not_be_kept(alice, settings, fields):
    settings.FUNCTION_HOSTS = ["*"]
    with pytest.raises(Invalid) as refused:
        make(alice, **{"source": "def f(): return 1", "name": "f", "is_pure": True, "cache_ttl": 60, **fields})
    assert refused.value.details[0]["code"] == "not_pure"


def test_the_values_of_a_call_are_bounded_in_bytes_and_number(alice):
    source = (
        "def f(ctx, size: int, count: int):\n    for number in range(count):\n"
        "        ctx.kv_set(str(number), [{}] * size)\n    return len(ctx.kv_get('0'))\n"
    )
    function = publish(alice, source, "f")
    assert call(function, {"size": 10, "count": 100}, alice, host=Host()).result == 10
    large = call(function, {"size": 60_000, "count": 9}, alice, host=Host())
    assert (large.status, large.error["type"]) == ("error", "CallFailed")
    assert "1024 kB" in large.error["message"]
    host = Host()
    for number in range(1000):
        host.kv_set(str(number), 1)
    host.kv_set("0", 2)
    with pytest.raises(ValueError, match="1000 values"):
        host.kv_set("more", 1)


def test_a_web_request_ends_with_the_call_that_made_it(alice, settings, internet):
    settings.FUNCTION_HOSTS = settings.PRIVATE_HOSTS_ALLOWED = ["127.0.0.1"]
    source = f"def f(ctx):\n    return ctx.http('http://127.0.0.1:{internet}/drip').text\n"
    function = publish(alice, source, "f", timeout=0.5, allowed_hosts=["127.0.0.1"])
    before, began = set(threading.enumerate()), time.monotonic()
    execution = call(function, {}, alice, host=Host(user=alice, allowed_hosts=("127.0.0.1",)))
    assert execution.status in ("timeout", "error")
    assert time.monotonic() - began < 60  # the headers would have come for two minutes
    wait_for(lambda: len(set(threading.enumerate()) - before) <= 1)


def test_tests_and_replays_use_the_share_of_the_person_who_asks(alice, monkeypatch):
    owners = set()
    take = Slots.take
    monkeypatch.setattr(Slots, "take", lambda self, wait, owner=None: owners.add(owner) or take(self, wait, owner))
    function = make(alice, "def f(a: int):\n    return a\n", "f")
    owners.clear()
    function.tests.create(name="one", arguments={"a": 1}, expected=1)
    store.publish_function(function, user=alice)
    call(function, {"a": 2}, alice)
    testing.replay(function, store.draft(function), alice, 5)
    assert owners == {str(alice.pk)}
