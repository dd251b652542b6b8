"""The parts of pages that draw nothing are tested in Node (*.test.mjs)."""

import shutil
import subprocess
from pathlib import Path

import pytest

NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="there is no Node.js on this machine")
def test_the_scripts_of_pages():
    files = sorted(map(str, Path(__file__).parent.glob("*.test.mjs")))
    ended = subprocess.run([NODE, "--test", *files], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "# pass 0" not in ended.stdout
