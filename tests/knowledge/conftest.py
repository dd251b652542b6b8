"""The libraries that read documents, for tests that need them."""

import json
from pathlib import Path

import pypdf
import pytest

from functions import sandbox
from functions.sandbox.libraries import find_offered_libraries

READING = {"pypdf": ["pypdf"], "python-docx": ["docx"], "openpyxl": ["openpyxl"], "chardet": ["chardet"],
           "cryptography": ["cryptography"]}  # fmt: skip
NEEDED = ("lxml", "typing_extensions.py", "et_xmlfile", "cffi", "pycparser", "_cffi_backend*", "*__mypyc*.so")


def put_libraries(directory):
    """The libraries of this environment, as `install_libraries` would put them beside the application."""
    packages = Path(pypdf.__file__).parent.parent
    for pattern in (*(modules[0] for modules in READING.values()), *NEEDED):
        for found in packages.glob(pattern):
            (directory / found.name).symlink_to(found)
    (directory / "libraries.json").write_text(json.dumps(READING))


def find_libraries(directory):
    return find_offered_libraries(directory, [], list(READING))


@pytest.fixture(autouse=True)
def one_turn_is_enough(monkeypatch):
    """However busy the machine is, all documents that wait are indexed in one turn."""
    monkeypatch.setattr("knowledge.indexing.work.TURN_S", 600.0)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    directory = tmp_path_factory.mktemp("libraries")
    put_libraries(directory)
    earlier = sandbox._libraries
    sandbox.close()
    sandbox.offer(find_libraries(directory))
    yield
    sandbox.close()
    sandbox.offer(earlier)
