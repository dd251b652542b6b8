"""Traces of ended runs, read back by a collector that decodes what it gets."""

import json
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.utils import timezone
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agents.models import Tool
from runs.models import Duty, ToolCallRecord
from runs.worker.traces import contents, export
from tests.fakes import calls, says

pytestmark = pytest.mark.django_db

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Received:
    def __init__(self):
        self.spans, self.metrics, self.is_away = [], [], False


@pytest.fixture
def collector(settings):
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if received.is_away or self.headers["x-key"] != "k":
                return self.send_error(400)
            if self.path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    received.spans += [span for scope in resource.scope_spans for span in scope.spans]
            else:
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    received.metrics += [one for scope in resource.scope_metrics for one in scope.metrics]
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.OTLP_HEADERS = {"x-key": "k"}
    settings.OTLP_ENDPOINT = f"http://127.0.0.1:{server.server_port}"
    export.collector.cache_clear()
    assert export.tick_traces() == 0  # remembers where to begin
    yield received
    export.collector(settings.OTLP_ENDPOINT, settings.SERVICE_NAME).meters.shutdown()
    export.collector.cache_clear()
    server.shutdown()
    server.server_close()


def later():
    return timezone.now() + timedelta(seconds=20)


def attributes(span):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def nanoseconds(moment):
    return moment.timestamp() * 1e9


def test_a_run_is_a_trace_with_its_calls(helper, stub, send, collector):
    stub.script(calls(("add", {"a": 1, "b": 2})), says("3"))
    run = send()
    assert export.tick_traces(later()) == 1
    spans = {span.name: span for span in collector.spans}
    assert {span.trace_id for span in collector.spans} == {run.pk.bytes}
    root, tool = spans["invoke_agent helper"], spans["execute_tool add"]
    chats = [span for span in collector.spans if span.name.startswith("chat")]
    assert not root.parent_span_id and {span.parent_span_id for span in [tool, *chats]} == {root.span_id}
    assert attributes(root)["gen_ai.operation.name"] == "invoke_agent" and len(chats) == 2
    assert attributes(chats[0])["gen_ai.provider.name"] == "openai" and chats[0].kind == 3
    assert sum(attributes(span)["gen_ai.usage.output_tokens"] for span in chats) == run.output_tokens > 0
    # Compared with the rows, not with each other: the clock of a machine can be set back meanwhile.
    for span, row in ((root, run), (tool, ToolCallRecord.objects.get(run=run))):
        assert nanoseconds(row.started_at) == pytest.approx(span.start_time_unix_nano, abs=2000)
        assert nanoseconds(row.finished_at) == pytest.approx(span.end_time_unix_nano, abs=2000)
    assert "private words" not in str(collector.spans)


def test_contents_are_sent_only_if_the_site_says_so(helper, stub, send, collector, settings):
    settings.TRACE_CONTENTS = True
    stub.script(calls(("add", {"a": 1, "b": 2})), says("3"))
    send()
    export.tick_traces(later())
    [tool] = [span for span in collector.spans if span.name == "execute_tool add"]
    assert attributes(tool)["gen_ai.tool.call.arguments"] == '{"a": 1, "b": 2}'
    assert "private words" in str(collector.spans)


def test_the_callers_trace_is_continued(helper, stub, send, collector):
    stub.script(says("Hi"), says("Hi"), says("Hi"))
    send(traceparent=CALLER)
    send(traceparent=CALLER[:-2] + "00")  # the caller does not record this one
    unclear = send(traceparent="00-zz-1-01")
    assert export.tick_traces(later()) == 3
    roots = [span for span in collector.spans if span.name == "invoke_agent helper"]
    assert [(span.trace_id.hex(), span.parent_span_id.hex()) for span in roots] == [
        (CALLER[3:35], CALLER[36:52]),
        (unclear.pk.hex, ""),
    ]


def test_a_child_run_is_below_the_call_that_started_it(alice, make_agent, stub_provider, stub, send, collector):
    make_agent("minion", provider=stub_provider)
    make_agent("boss", tools=[Tool.objects.get(kind="agent", owner=alice)], provider=stub_provider)
    stub.script(calls(("minion", {"task": "do it"})), says("done"), says("all done"))
    run = send("boss")
    assert run.status == "succeeded"
    export.tick_traces(later())
    spans = {span.name: span for span in collector.spans}
    assert spans["invoke_agent minion"].parent_span_id == spans["execute_tool minion"].span_id
    assert {span.trace_id for span in collector.spans} == {run.pk.bytes}


def test_a_failed_run_is_an_error(helper, stub, send, collector):
    stub.script(says("", status=400))
    run = send()
    export.tick_traces(later())
    [root] = [span for span in collector.spans if span.name == "invoke_agent helper"]
    assert root.status.code == 2 and attributes(root)["error.type"] == run.error["code"]


def test_nothing_is_lost_while_the_collector_is_away(helper, stub, send, collector):
    stub.script(says("Hi"), says("Hi"))
    first = send()
    collector.is_away = True
    assert export.tick_traces(later()) == 0 and collector.spans == []
    second = send()
    collector.is_away = False
    assert export.tick_traces(later()) == 2
    assert {span.trace_id for span in collector.spans} == {first.pk.bytes, second.pk.bytes}
    Duty.objects.filter(name=export.DUTY).update(state={"at": first.created_at.isoformat(), "run": ""})  # it died
    before = {(span.trace_id, span.span_id) for span in collector.spans}
    assert export.tick_traces(later()) == 2
    assert {(span.trace_id, span.span_id) for span in collector.spans} == before
    assert export.tick_traces(later()) == 0


def test_durations_and_tokens_are_metrics(helper, stub, send, collector, settings):
    stub.script(says("Hi"))
    run = send()
    export.tick_traces(later())
    export.collector(settings.OTLP_ENDPOINT, settings.SERVICE_NAME).meters.force_flush()
    metrics = {metric.name: metric.histogram.data_points for metric in collector.metrics}
    by_kind = {attributes(point)["gen_ai.token.type"]: point.sum for point in metrics["gen_ai.client.token.usage"]}
    assert by_kind == {"input": run.input_tokens, "output": run.output_tokens}
    operations = {attributes(point)["gen_ai.operation.name"] for point in metrics["gen_ai.client.operation.duration"]}
    assert operations == {"invoke_agent", "chat"}


def test_the_queries_do_not_grow_with_the_runs(helper, stub, send, collector, django_assert_num_queries):
    stub.script(*[says("Hi")] * 3)
    for _ in range(3):
        send()
    with django_assert_num_queries(10):  # two for each batch, four for its spans, Duty's row locked and written
        assert export.tick_traces(later()) == 3


def test_nothing_is_read_without_a_collector(settings, django_assert_num_queries):
    settings.OTLP_ENDPOINT = ""
    with django_assert_num_queries(0):
        assert export.tick_traces() == 0


def test_no_metrics_are_sent_if_the_site_says_so(helper, stub, send, collector, settings):
    settings.OTLP_METRICS = False
    stub.script(says("Hi"))
    send()
    assert export.tick_traces(later()) == 1 and collector.spans
    export.collector(settings.OTLP_ENDPOINT, settings.SERVICE_NAME).meters.force_flush()
    assert collector.metrics == []


def test_messages_have_the_form_of_the_conventions():
    request = {"messages": [
        {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "add", "arguments": {"a": 1}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "x" * 30_000},
    ]}  # fmt: skip
    user, assistant, tool = json.loads(contents.input_messages(request))
    assert user["parts"] == [{"type": "text", "content": "Look"}, {"type": "text", "content": "[image_url]"}]
    assert assistant["parts"] == [{"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}}]
    assert len(tool["parts"][0]["response"]) == contents.MAX_TEXT
    long = {"messages": [{"role": "user", "content": f"{number} " + "y" * 19_000} for number in range(50)]}
    kept = json.loads(contents.input_messages(long))
    assert 1 < len(kept) < 10 and kept[-1]["parts"][0]["content"].startswith("49 ")
    assert contents.input_messages(None) is None and contents.output_messages(None) is None
    [said] = json.loads(contents.output_messages({"text": "Hi", "tool_calls": []}))
    assert said == {"role": "assistant", "parts": [{"type": "text", "content": "Hi"}], "finish_reason": "stop"}
