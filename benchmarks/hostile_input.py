"""What a person sends, at its worst, and what reading it costs the serving process: time, memory, and others' waiting.

    python -m benchmarks hostile_input

Each entry makes an input of a given size. The test in tests/functions/test_hostile_input.py runs the same entries with
small sizes and fixed limits.
"""

import gc
import json
import os
import resource
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
os.environ.setdefault("MUSTER_DEBUG", "true")

Use = Callable[[], Any]
MB = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """`of(n)` returns a call that reads a hostile input of about n bytes."""

    name: str
    of: Callable[[int], Use]
    size: int


def source_with(docstring: str) -> str:
    return f'def main(a):\n    """Do it.\n\n{docstring}\n    """\n'


def docstring(n: int) -> Use:
    from functions.reading import read_signature

    return quiet(read_signature, source_with(f"    Args:\n        a {'(' * n}: y"))


def nested_source(n: int) -> Use:
    from functions.reading import read_signature

    return quiet(read_signature, "def main(a):\n    return " + "-" * n + "1\n")


def schema_patterns(n: int) -> Use:
    from agents.schema import check_schema

    names = {f"p{i}": {"type": "string", "pattern": rf"\p{{L}}{{40}}{i}"} for i in range(n // 45)}
    return quiet(check_schema, {"type": "object", "properties": names})


def pattern_nesting(n: int) -> Use:
    from agents.schema import check_schema

    depth = min(n // 6, 95)
    one = "(?:" * depth + "a" + "){2,9}" * depth
    return quiet(check_schema, {"type": "object", "properties": {f"p{i}": {"pattern": one} for i in range(n // 950)}})


def large_enum(n: int) -> Use:
    from agents.schema import validate

    return quiet(validate, {"items": {"enum": ["x" * (n // 20)]}}, ["y"] * (n // 5))


def nested_any_of(n: int) -> Use:
    from agents.schema import validate

    schema: dict[str, Any] = {"type": "array"}
    while len(json.dumps(schema)) < 5_000:
        schema = {"anyOf": [schema, schema, {"required": ["a"]}]}
    return quiet(validate, schema, {"b": "x" * n})


def pattern_on_text(n: int) -> Use:
    from agents.schema import validate

    return quiet(validate, {"pattern": r"^(\w+\s?)*$"}, "a" * n + "!")


def doubled_lists(n: int) -> Use:
    from agents.mapping import search_expression

    return quiet(search_expression, "@" + "|[@,@]" * min(n // 6, 300), {"a": 1})


def doubled_text(n: int) -> Use:
    from agents.mapping import search_expression

    return quiet(search_expression, "to_string(@)" + "|join('', [@,@])" * min(n // 16, 120), {"a": 1})


def compared_lists(n: int) -> Use:
    from agents.mapping import search_expression

    rows = [[0] * 500 for _ in range(n // 1500)]
    return quiet(search_expression, "length(a[?@ == b])", {"a": rows, "b": [0] * 500, "c": rows})


def versions_apart(n: int) -> Use:
    from agents.diff import diff_texts

    old, new = ("\n".join(str((i * step) % 101) for i in range(n // 4)) for step in (7, 11))
    return quiet(diff_texts, old, new, "v1", "v2")


def open_comments(n: int) -> Use:
    return read_mail("<!" * (n // 2))


def open_tags(n: int) -> Use:
    return read_mail("<a a='" * (n // 6))


def read_mail(html: str) -> Use:
    from connectors.accounts.letters import read_letter

    return quiet(read_letter, {"kind": "text/html", "text": html}, 100_000)


def yaml_document(n: int) -> Use:
    from connectors.toolsets.openapi import parse_openapi_document

    return quiet(parse_openapi_document, "openapi: 3.0.0\npaths:\n" + "  ? [{a: b}]\n  : [[[]]]\n" * (n // 24))


def many_operations(n: int) -> Use:
    from connectors.toolsets.openapi import parse_openapi_document

    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/big"}}}}
    big = {"properties": {f"p{i}": {"type": "string"} for i in range(n // 60)}}
    paths = {f"/{i}": {"get": {"requestBody": body}} for i in range(min(n // 200, 190))}
    document = {"openapi": "3.0.0", "paths": paths, "components": {"schemas": {"big": big}}}
    text = json.dumps(document)
    return quiet(lambda: list(parse_openapi_document(text, base_url="https://a.example")[1]))


def crontab(n: int) -> Use:
    from datetime import UTC, datetime

    from runs.rules.timing import next_due, read_line

    line = f"{','.join(['0-59/1'] * min(n // 7, 30))} * 30 2 *"
    return quiet(lambda: next_due(read_line(line), datetime.now(UTC)))


def json_body(n: int) -> Use:
    from agents.http.parsers import parse_json_body

    return quiet(parse_json_body, b'{"a":' + b"[[]," * (n // 8) + b"[]" + b"]" * (n // 8) + b"}")


def message_text(n: int) -> Use:
    from registry.llm.arguments import EMAIL, EXPRESSION

    return quiet(lambda: [EMAIL.findall("1" * n), EMAIL.findall("a." * (n // 2)), EXPRESSION.findall("(" * n)])


def fenced_reply(n: int) -> Use:
    from runs.rules.replies import list_json_candidates

    return quiet(list_json_candidates, "```json" + " \n" * (n // 2))


def unknown_fields(n: int) -> Use:
    from functions.serializers import ExecuteSerializer

    body = {f"versio{number}": 1 for number in range(n // 12)}
    return quiet(lambda: ExecuteSerializer(data=body).is_valid())


def steps_backwards(n: int) -> Use:
    from agents.graph import problems

    keys = [f"s{number}" for number in range(min(n // 500, 200))]
    return quiet(problems, chain_of({key: keys[place + 1 :] for place, key in enumerate(keys)}))


def needs_of_nobody(n: int) -> Use:
    from agents.graph import problems

    number = min(n // 500, 200)
    return quiet(problems, chain_of({f"{place:064}": [str(one) for one in range(number)] for place in range(number)}))


def chain_of(needs: dict[str, list[str]]) -> Any:
    from agents.spec import ChainSpec, StepSpec

    return ChainSpec(name="a", steps=[StepSpec(key=key, target="t", needs=own) for key, own in needs.items()])


def needs_of_numbers(n: int) -> Use:
    from agents.models import ChainStep

    return quiet(ChainStep(key="a", needs=[0] * (n // 2)).spec, None)


def many_expressions(n: int) -> Use:
    from agents.graph import problems

    spec = chain_of({"a": []})
    spec.steps[0].input.update({f"p{number}": f"steps.a.output.p{number}" for number in range(n // 40)})
    return quiet(problems, spec)


def long_expressions(n: int) -> Use:
    from agents.mapping import map_input

    slow = "length(rows[?a == `1`])"
    rows = [{"a": 1}] * 200
    return quiet(map_input, {f"p{number}": slow for number in range(n // 40)}, {"rows": rows})


def address_of_variables(n: int) -> Use:
    from gateway.mcp.own_resources import parse_template_values

    return quiet(
        parse_template_values,
        "x:" + "".join(f"{{v{number}}}-" for number in range(50)) + "!",
        "x:" + "-" * min(n, 4000),
    )


def many_grants(n: int) -> Use:
    from agents.http.grant_serializers import GrantSerializer
    from agents.models.tool import MOST_GRANTS

    return quiet(GrantSerializer(data=[{"tool": 1}] * (n // 12), many=True, max_length=MOST_GRANTS).is_valid)


def words_of_numbers(n: int) -> Use:
    from agents.http.strict import Words

    return quiet(Words().run_validation, [0] * (n // 2))


def other_line_ends(n: int) -> Use:
    from agents.diff import side_by_side

    return quiet(side_by_side, "a\u2028" * (n // 2), "a\u2028" * (n // 2) + "b")


def large_spec(n: int) -> Use:
    from agents.diff import render_spec

    return quiet(render_spec, {"schema": {f"p{number}": [number, "a: b"] for number in range(n // 25)}})


def definitions_backwards(n: int) -> Use:
    from agents.definitions.files import needed_first

    grants = [f"t{number}" for number in range(n // 500 // 10)]
    rows = [{"kind": "agent", "name": f"a{place}", "grants": [f"a{place + 1}", *grants]} for place in range(500)]
    return quiet(needed_first, rows)


def unknown_fields_of_steps(n: int) -> Use:
    from agents.definitions.chains import ChainKind

    steps = [{"key": "a", "tol": "b", "neds": "c"} for _ in range(n // 30)]
    return quiet(ChainKind().unknown, {"kind": "chain", "name": "a", "steps": steps})


def names_of_secrets(n: int) -> Use:
    from functions.host import Host

    used = {letter * 64: letter for letter in "secrt"}
    return quiet(Host(used=used).clean, ["s" * (n // 4)])


def problems_in_german(n: int) -> Use:
    from django.utils import translation

    from agents.http.renderers import translate_texts

    sentence = "The value is nested deeper than it may be. "
    details = [{"code": "a", "message": f"{number} {sentence * (n // 100 // len(sentence))}"} for number in range(100)]

    def render() -> Any:
        with translation.override("de"):
            return translate_texts({"error": {"code": "a", "details": details}})

    return quiet(render)


def a2a_data(n: int) -> Use:
    from a2a.types import SendMessageRequest

    from gateway.a2a.requests import parse_a2a_params, parse_data_part

    body = {"message": {"messageId": "a", "role": "ROLE_USER", "parts": [{"data": [0] * (n // 2)}]}}
    return quiet(lambda: parse_data_part(parse_a2a_params(SendMessageRequest, body).message.parts[0]))


def quiet(work: Callable[..., Any], *arguments: Any) -> Use:
    def use() -> Any:
        try:
            return work(*arguments)
        except Exception as error:  # noqa: BLE001 - a refusal is the usual answer
            return error

    return use


ENTRIES = (
    Entry("docstring", docstring, 4_000),
    Entry("deeply nested source", nested_source, 60_000),
    Entry("patterns of a schema", schema_patterns, 60_000),
    Entry("nested repeats in patterns", pattern_nesting, 60_000),
    Entry("large enum", large_enum, 1_000_000),
    Entry("nested anyOf", nested_any_of, 50_000),
    Entry("pattern on a long text", pattern_on_text, 1_000_000),
    Entry("JMESPath that doubles lists", doubled_lists, 2_000),
    Entry("JMESPath that doubles text", doubled_text, 2_000),
    Entry("JMESPath that compares lists", compared_lists, 1_000_000),
    Entry("difference of two versions", versions_apart, 64_000),
    Entry("HTML that opens declarations", open_comments, 1_000_000),
    Entry("HTML that opens tags", open_tags, 1_000_000),
    Entry("OpenAPI document as YAML", yaml_document, 1_000_000),
    Entry("OpenAPI with many operations", many_operations, 1_000_000),
    Entry("crontab", crontab, 240),
    Entry("nested JSON body", json_body, 1_000_000),
    Entry("fields that do not exist", unknown_fields, 1_000_000),
    Entry("message without an address", message_text, 1_000_000),
    Entry("reply with an open fence", fenced_reply, 1_000_000),
    Entry("steps that need all after them", steps_backwards, 100_000),
    Entry("steps that need nobody's", needs_of_nobody, 100_000),
    Entry("needs that are numbers", needs_of_numbers, 1_000_000),
    Entry("a step's many expressions", many_expressions, 1_000_000),
    Entry("a mapping of slow expressions", long_expressions, 8_000),
    Entry("address with many variables", address_of_variables, 4_000),
    Entry("grants of an agent", many_grants, 1_000_000),
    Entry("words that are numbers", words_of_numbers, 1_000_000),
    Entry("versions with other line ends", other_line_ends, 64_000),
    Entry("version with many values", large_spec, 1_000_000),
    Entry("definitions in the wrong order", definitions_backwards, 1_000_000),
    Entry("definition with unknown fields", unknown_fields_of_steps, 300_000),
    Entry("secrets of one letter", names_of_secrets, 256_000),
    Entry("problems in German", problems_in_german, 200_000),
    Entry("A2A data", a2a_data, 1_000_000),
)


def cost(use: Use) -> tuple[float, float]:
    """CPU seconds that this thread spent, and by how many MB the process grew at its largest. Collections of garbage do
    not look at what was there before, which is a gigabyte in a process that has run other tests.
    """
    gc.freeze()
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    use()
    seconds, after = time.thread_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gc.unfreeze()
    return seconds, (after - before) / MB


def waiting(use: Use | None, seconds: float = 2.0) -> float:
    """p95, in ms, of what somebody else does (a millisecond of Python) while one thread repeats `use`."""
    done, took = threading.Event(), []
    thread = threading.Thread(target=lambda: [use() for _ in iter(done.is_set, True)] if use else None)
    thread.start()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        began = time.perf_counter()
        sum(range(30_000))
        took.append((time.perf_counter() - began) * 1000)
        time.sleep(0.002)
    done.set()
    thread.join()
    return statistics.quantiles(took, n=20)[-1]


def run() -> None:
    import django

    django.setup()
    alone = waiting(None)
    print(f"{'entry':32} {'bytes':>9} {'cpu s':>7} {'x half':>7} {'MB':>6} {'others p95':>11}")
    for entry in ENTRIES:
        half, _ = cost(entry.of(entry.size // 2))
        whole, grown = cost(entry.of(entry.size))
        ratio, others = whole / max(half, 0.001), waiting(entry.of(entry.size)) / alone
        print(f"{entry.name:32} {entry.size:9} {whole:7.3f} {ratio:7.2f} {grown:6.1f} {others:9.2f} x")


if __name__ == "__main__":
    run()
