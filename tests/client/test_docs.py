"""The Python examples of the documentation are typed as the package is: mypy reads them as they are printed."""

import os
import re
import subprocess
import sys

import pytest

from tests.docs.reference import ROOT

pytestmark = pytest.mark.slow
GIVEN = "from muster_client import Muster, Run\nmuster = Muster()\nrun: Run\n"


@pytest.mark.parametrize("page", ["docs/howto/client.md", "client/README.md"])
def test_the_examples_pass_a_strict_type_check(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    program = tmp_path / "example.py"
    program.write_text(
        GIVEN
        + "\n".join(
            f"def part_{number}(muster: Muster, run: Run) -> None:\n{indented(block)}"
            for number, block in enumerate(blocks)
        )
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        os.devnull,
        "--cache-dir",
        str(tmp_path / "cache"),
        str(program),
    ]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "client")}

    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    assert blocks and done.returncode == 0, done.stdout + done.stderr


def indented(block):
    return "".join(f"    {line}\n" if line else "\n" for line in block.splitlines())
