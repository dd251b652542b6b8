"""MCP servers that are programs on this host, and the reference server over HTTP."""

import shlex
import sys
from pathlib import Path

import psutil
import pytest

from agents.models import Tool
from agents.tools import OutcomeUnknown, ToolFailed
from connectors.models import Connection
from connectors.toolsets.mcp import fetch_server_tools
from tests.connectors.linked import call_tool, spec_of
from tests.connectors.mcp.calls import API, call
from tests.live import command_line
from tests.servers import free_port, served

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = [sys.executable, "-m", "tests.connectors.mcp_server"]

# -- programs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def program(alice, settings, closed_sessions, monkeypatch):
    monkeypatch.chdir(ROOT)
    settings.MCP_COMMANDS = [shlex.join(PROGRAM)]
    row = Connection.objects.create(owner=alice, name="local", provider="mcp", config={"command": PROGRAM})
    fetch_server_tools(row, alice.pk)
    return row


def test_no_program_is_started_unless_an_administrator_named_it(alice_api, settings):
    settings.MCP_COMMANDS = []
    body = {"name": "local", "provider": "mcp", "config": {"command": ["/bin/sh", "-c", "id"]}}
    answer = alice_api.post(f"{API}/", body)
    assert answer.status_code == 422 and "MUSTER_MCP_COMMANDS" in str(answer.json())


@pytest.mark.parametrize(
    ("allowed", "is_allowed"),
    [
        ("true", False),
        ("true --safe", True),
        ("true --safe --more", False),
        ("true *", True),
        ("true --other *", False),
        ("*", False),
        ("", False),
    ],
)
def test_an_allowed_command_is_allowed_with_its_arguments_only(alice_api, settings, allowed, is_allowed):
    settings.MCP_COMMANDS = [allowed]
    body = {"name": "local", "provider": "mcp", "config": {"command": ["true", "--safe"]}}
    assert (alice_api.post(f"{API}/", body).status_code == 201) == is_allowed


def test_the_reference_server_runs_as_a_program(alice, program):
    assert set(Tool.objects.values_list("name", flat=True)) >= {"local_add", "local_shout"}
    assert call(alice, "local_add", a=2, b=3, seconds=60).value == {"result": 5}
    failed = call(alice, "local_fail", seconds=60)
    assert not failed.ok and "it is broken" in failed.error["message"] and failed.untrusted
    names = call(alice, "local_environment", seconds=60).value["result"]
    assert not {name for name in names if name.startswith(("MUSTER", "DJANGO", "SECRET"))}


def test_a_program_that_dies_is_started_again(alice, program):
    with pytest.raises(OutcomeUnknown):
        call(alice, "local_die", seconds=60)
    assert call(alice, "local_add", a=1, b=1, seconds=60).value == {"result": 2}


def test_a_program_that_takes_too_long_is_ended_with_its_group(alice, program):
    before = [child.pid for child in psutil.Process().children() if "mcp_server" in command_line(child)]
    with pytest.raises(OutcomeUnknown):
        call_tool(spec_of(Tool.objects.get(name="local_sleep"), deadline_s=0.7), alice, {"seconds": 30})
    assert before and not any(psutil.pid_exists(pid) for pid in before)


def test_a_program_that_floods_is_stopped(alice, program):
    with pytest.raises((ToolFailed, OutcomeUnknown), match="larger"):
        call(alice, "local_large", size=5_000_000, seconds=60)


# -- the reference server over HTTP --------------------------------------------------------------------------------------


@pytest.fixture
def reference(allowed, closed_sessions):
    """The SDK's own server, streamable HTTP, in a process of its own."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    with served([*PROGRAM, "streamable-http"], url, cwd=ROOT, MCP_TEST_PORT=str(port)):
        yield url


def test_the_reference_server_is_used_over_streamable_http(alice, reference):
    row = Connection.objects.create(owner=alice, name="ref", provider="mcp", base_url=reference)
    assert "add" in fetch_server_tools(row, alice.pk).new
    assert call(alice, "ref_add", a=20, b=22, seconds=60).value == {"result": 42}
    assert call(alice, "ref_shout", text="hey", seconds=60).value == {"result": "HEY"}
