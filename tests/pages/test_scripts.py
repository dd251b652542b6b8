"""The scripts of pages: their parts without a document (*.test.mjs in Node), their types, and the files that are built."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRONTEND = ROOT / "frontend"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no Node.js on this machine")


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of the pinned programs."""
    ended = subprocess.run([ROOT / ".ci/frontend"], capture_output=True, text=True, timeout=300, check=False)
    if not (FRONTEND / "node_modules/.installed").exists():
        pytest.skip(f"the npm registry is not reachable: {ended.stderr[-200:]}")
    return FRONTEND / "node_modules/.bin"


def test_the_scripts_of_pages():
    files = sorted(map(str, Path(__file__).parent.glob("*.test.mjs")))
    ended = subprocess.run([NODE, "--test", *files], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout
    assert "# pass 0" not in ended.stdout


def test_the_types_of_the_scripts(tools):
    ended = subprocess.run([tools / "tsc", "--project", FRONTEND], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_a_wrong_type_is_found(tools, tmp_path):
    script = tmp_path / "wrong.js"
    script.write_text(f'import {{ money }} from "{ROOT}/static/muster/numbers.js";\nmoney({{}});\n')
    options = {"extends": str(FRONTEND / "tsconfig.json"), "include": [str(script)]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(options))
    ended = subprocess.run([tools / "tsc", "--project", tmp_path], capture_output=True, text=True, check=False)
    assert "wrong.js(2,7): error TS2345" in ended.stdout


@pytest.mark.parametrize("script", ["editor", "vendor"])
def test_what_is_committed_is_what_is_built(tools, script, tmp_path):
    command = json.loads((FRONTEND / "package.json").read_text())["scripts"][script].replace("../static", str(tmp_path))
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(command, shell=True, cwd=FRONTEND, check=True, capture_output=True, env={**os.environ, "PATH": path})  # noqa: S602 - our own package.json
    built = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert built
    for file in built:
        assert file.read_bytes() == (ROOT / "static" / file.relative_to(tmp_path)).read_bytes(), file.name
