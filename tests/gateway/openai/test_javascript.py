"""OpenAI's JavaScript SDK and the AI SDK, unchanged, against a running Muster."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fakes import calls, says

pytestmark = pytest.mark.live
HERE = Path(__file__).parent
PACKAGES = Path(os.environ.get("OPENAI_JS_HOME", HERE.parents[2] / "build" / "openai"))
WANTED = "openai@7 ai@7 @ai-sdk/open-responses@2"


@pytest.mark.skipif(not shutil.which("node"), reason="there is no node")
@pytest.mark.skipif(
    not (PACKAGES / "node_modules" / "@ai-sdk").exists(), reason=f"npm install --prefix {PACKAGES} {WANTED}"
)
def test_the_javascript_sdks(agents, model):
    live, key = agents
    model.turns.clear()
    model.requests.clear()
    weather = calls(("weather", {"city": "Oslo"}))
    calculate = calls(("calculate", {"expression": "6 * 7"}))
    model.script(
        says("Hello."), says("One two."), weather, says("It rains."),
        calculate, says("42."), says("Yes."), weather, says("Sunny."),
        says('{"colour": "red"}'),
        says("Hi."), says("One two."), weather, says("It hails."), calculate, says("It is 42."),
        says("late", silent_s=20),
    )  # fmt: skip
    command = ["node", str(HERE / "openai.mjs"), str(PACKAGES), f"{live.url}/v1", key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "models": True, "chat": ["Hello.", "stop", 18], "streamed": ["One two.", 18],
        "caller": ["weather", '{"city":"Oslo"}', "It rains."],
        "items": ["mcp_call", "message"], "events": True,
        "output": "42", "next": ["Yes.", True, 18], "cancelled": "cancelled",
        "called": "Sunny.", "parsed": {"colour": "red"}, "deleted": True,
        "errors": [[404, "not_found"], [400, "max_tool_calls"], 401],
        "generated": ["Hi.", "stop", 18], "flowing": "One two.", "tool": ["It hails.", 2], "agent": "It is 42.",
    }  # fmt: skip
    assert any("heron" in json.dumps(one) and "image/png" in json.dumps(one) for one in model.requests)
