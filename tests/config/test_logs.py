"""What a log line holds, and what it must not."""

import io
import json
import logging
import logging.config

import pytest
import structlog

from config import logs


@pytest.fixture
def written(monkeypatch):
    """What a logger of ours writes when it is set up in one of the two forms."""

    def write(pretty, say):
        configuration = logs.configuration(level="WARNING", pretty=pretty)
        formatter = structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=logs.SHARED, processors=configuration["formatters"]["lines"]["processors"]
        )
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter)
        logger = logging.getLogger("tests.logs")
        logger.handlers, logger.propagate = [handler], False
        say(logger)
        return stream.getvalue()

    return write


def fail(logger):
    password = "correct horse"  # noqa: F841  (a local variable, as any function has)
    try:
        raise ValueError("on purpose")
    except ValueError:
        logger.exception("it failed")


@pytest.mark.parametrize("pretty", [True, False])
def test_a_traceback_names_the_error_and_never_the_local_variables(written, pretty):
    text = written(pretty, fail)

    assert "on purpose" in text
    assert "correct horse" not in text


def test_machines_get_one_object_a_line_with_the_request_s_id(written):
    structlog.contextvars.bind_contextvars(request_id="abc")

    line = json.loads(written(False, lambda logger: logger.warning("hello %s", "there")))

    assert (line["event"], line["level"], line["request_id"]) == ("hello there", "warning", "abc")
