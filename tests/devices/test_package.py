"""The client's wheel that the server offers: its address, its files, and a real installation in a new environment."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from io import BytesIO

import pytest

from devices import package


def test_everybody_may_download_it_and_nothing_else(client, db, alice, signed_in):
    answer = client.get(f"/devices/client/{package.filename()}")
    assert (answer.status_code, answer.content) == (200, package.wheel())
    for other in ("x.whl", "protocol.py", "..%2F..%2Fmanage.py"):
        assert client.get(f"/devices/client/{other}").status_code == 404, other
    page = signed_in(alice).post("/devices/pair").content.decode()
    assert f"/devices/client/{package.filename()}" in page and "muster-device pair --server" in page


def test_it_lists_each_of_its_files_and_carries_nothing_of_the_server():
    with zipfile.ZipFile(BytesIO(package.wheel())) as archive:
        names = archive.namelist()
        record = archive.read(f"{package.base_name()}.dist-info/RECORD").decode().splitlines()
        listed = dict(line.rsplit(",", 2)[:2] for line in record if not line.endswith(",,"))
        for name, digest in listed.items():
            made = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={made}", name
    assert set(names) == {*listed, f"{package.base_name()}.dist-info/RECORD"}
    modules = {name for name in names if name.endswith(".py")}
    assert {"devices/protocol.py", "devices/wire.py", "devices/client/connection.py"} <= modules
    assert all(
        name.startswith("devices/client/") or name in ("devices/protocol.py", "devices/wire.py") for name in modules
    )


def test_it_is_installed_and_runs_in_an_environment_of_its_own(tmp_path):
    """Its dependencies are those of this environment, so that the test needs no network."""
    wheel = tmp_path / package.filename()
    wheel.write_bytes(package.wheel())
    run(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", tmp_path / "own")
    python = tmp_path / "own" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q", wheel)
    command = tmp_path / "own" / "bin" / "muster-device"
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    outside |= {"MUSTER_DEVICE_HOME": str(tmp_path / "home"), "PYTHONPATH": site_packages()}
    help_text = run(command, "--help", env=outside, cwd=tmp_path)
    assert "pair" in help_text
    where = run(python, "-c", "import devices.client as c; print(c.__file__)", env=outside, cwd=tmp_path)
    assert str(tmp_path / "own") in where, "not the checkout"
    refused = subprocess.run([command, "run"], env=outside, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "not paired yet" in refused.stderr


def site_packages():
    import websockets

    return os.path.dirname(os.path.dirname(websockets.__file__))


def run(*command, **more):
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["Metadata-Version: 2.1", "Requires-Dist: websockets>=13", 'extra == "mcp"'])
def test_its_metadata_is_that_of_the_project(name):
    assert name in package.metadata().decode()
