"""Logs, metrics and traces."""

import os

from config import logs
from config.settings.environment import env
from config.settings.site import HOST
from supervisor import refusals

LOG_REQUESTS = env.bool("MUSTER_LOG_REQUESTS", default=False)  # one log line per request
LOGGING = logs.configuration(
    level=env.str("MUSTER_LOG_LEVEL", default="WARNING"),  # log level of third-party code; our own code logs from INFO
    # "pretty" or "json"
    pretty=env.str("MUSTER_LOG_FORMAT", default="pretty" if refusals.is_loopback(HOST) else "json") == "pretty",
)

# serve /metrics without a key to this machine
METRICS_ON_LOOPBACK = env.bool("MUSTER_METRICS_ON_LOOPBACK", default=True)

# address of an OpenTelemetry collector (OTLP over HTTP) that gets the traces of runs; empty: nothing is sent
OTLP_ENDPOINT = env.str("OTEL_EXPORTER_OTLP_ENDPOINT", default="")
OTLP_HEADERS = env.dict("OTEL_EXPORTER_OTLP_HEADERS", default={})  # sent with them: name=value,name=value
OTLP_METRICS = env.str("OTEL_METRICS_EXPORTER", default="otlp") != "none"  # whether metrics are sent as well
SERVICE_NAME = env.str("OTEL_SERVICE_NAME", default="muster")  # name of this site in traces
TRACE_CONTENTS = env.bool("MUSTER_TRACE_CONTENTS", default=False)  # messages, arguments and results in traces
os.environ.setdefault("LANGSMITH_TRACING", "false")  # no traces are sent unless enabled
