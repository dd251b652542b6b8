"""The package as somebody gets it who has nothing of the server."""

import subprocess
import sys
import venv
import zipfile

import pytest

from tests.docs.reference import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "client"
    subprocess.run(["cp", "-r", str(ROOT / "client"), str(source)], check=True)
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(source))
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def bare(tmp_path_factory, wheel):
    """A new virtual environment with the wheel and what it declares, from the package registry."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    pip(folder / "bin" / "python", "install", f"{wheel}[tui]")
    return folder / "bin"


def pip(python, *words):
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr


def run(*command, cwd="/"):
    environment = {"PATH": "/usr/bin:/bin", "MUSTER_CONFIG": "/nonexistent/credentials.json"}
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60
    )


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"muster_client"}
    assert {"muster_client/py.typed", "muster_client/types.py", "muster_client/_sync/client.py"} <= set(names)
    assert not any("generate" in name for name in names)


def test_it_works_where_no_django_is(bare):
    found = run(
        bare / "python",
        "-c",
        "import muster_client.tui.screen, sys; print(muster_client.__version__, 'django' in sys.modules)",
    )
    assert found.stdout == "0.1.0 False\n", found.stderr
    assert run(bare / "python", "-c", "import django").returncode == 1
    assert run(bare / "muster", "--version").stdout == "muster, version 0.1.0\n"
    assert run(bare / "python", "-m", "muster_client", "--help").returncode == 0
    refused = run(bare / "muster", "whoami")
    assert refused.returncode == 4 and "muster login" in refused.stderr
    assert "pip install ./devices/client" in run(bare / "muster", "device", "status").stderr
