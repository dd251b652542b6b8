"""Libraries that a function requires: from the operator's list, installed apart, behind the same kernel layers."""

from __future__ import annotations

import json
import time

import pytest
from django.conf import settings

from functions import sandbox
from functions.sandbox.libraries import Libraries, build_profile_name, find_offered_libraries

GREETING = 'requires = ["greet-er"]\nimport greeter\nfrom greeter.words import WORD\ndef main():\n    return greeter.hello(WORD)\n'
LIMITS = sandbox.Limits(timeout_s=20)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A library as `manage.py install_libraries` leaves it."""
    directory = tmp_path_factory.mktemp("libraries")
    directory.chmod(0o755)
    package = directory / "greeter"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os, sys\nfrom . import words\n_calls = 0\n"
        "def hello(name):\n    return f'hello {name}'\n"
        "def read(path):\n    return open(path).read()\n"
        "def later():\n    import greeter.late\n    return greeter.late.VALUE\n"
    )
    (package / "words.py").write_text("WORD = 'world'\n")
    (package / "late.py").write_text("VALUE = 'loaded before'\n")
    (package / "broken.py").write_text("import what_is_not_there\n")
    (directory / "libraries.json").write_text(json.dumps({"greet-er": ["greeter"], "other": ["other"]}))
    return directory


@pytest.fixture(scope="module")
def pool(installed):
    pool = sandbox.Pool(spares=1, libraries=find_offered_libraries(installed, ["Greet_er"]))
    yield pool
    pool.close()


def test_a_function_uses_the_library_that_it_requires(pool):
    outcome = pool.execute(GREETING, limits=LIMITS)
    assert (outcome.error, outcome.result) == (None, "hello world")
    assert outcome.isolation in ("full", "reduced")


def test_what_a_library_loads_late_is_loaded_before(pool):
    source = 'requires = ["greet-er"]\nimport greeter\ndef main():\n    return greeter.later()\n'
    assert pool.execute(source, limits=LIMITS).result == "loaded before"


def test_a_library_reads_no_file(pool, installed):
    source = f'requires = ["greet-er"]\nimport greeter\ndef main():\n    return greeter.read({str(installed / "libraries.json")!r})\n'
    assert pool.execute(source, limits=LIMITS).status == "error"


@pytest.mark.parametrize("name", ["os", "sys", "_calls"])
def test_a_library_shows_neither_what_it_imports_nor_what_is_private(pool, name):
    source = f'requires = ["greet-er"]\nimport greeter\ndef main():\n    return greeter.{name}\n'
    assert pool.execute(source, limits=LIMITS).error.type == "AttributeError"


@pytest.mark.parametrize(
    ("source", "code", "hint"),
    [
        ('requires = ["other"]\ndef main(): pass', "library-missing", "add other to MUSTER_LIBRARIES"),
        ('requires = ["Pandas"]\ndef main(): pass', "library-missing", "`manage.py install_libraries`"),
        ("import pandas\ndef main(): pass", "import-unknown", "add pandas to MUSTER_LIBRARIES"),
        ("import greeter\ndef main(): pass", "import-unknown", 'Write requires = ["greet-er"]'),
    ],
)
def test_a_missing_library_says_how_it_is_added(pool, source, code, hint):
    refusal = pool.check(source)[0]
    assert (refusal.code, refusal.line, hint in refusal.hint) == (code, 1, True)


def test_a_variable_called_requires_may_hold_anything_else(pool):
    assert pool.execute("requires = [1, 2]\ndef main():\n    return sum(requires)\n").result == 3


def test_each_set_of_libraries_has_a_fork_server_that_is_kept_warm(pool):
    pool.execute(GREETING, limits=LIMITS)
    server = pool._servers.by_profile[build_profile_name(["greet-er"])]
    assert pool.execute(GREETING, limits=LIMITS).ok
    assert pool._servers.by_profile[build_profile_name(["greet-er"])] is server


def test_a_fork_server_with_libraries_that_nobody_uses_ends(pool, monkeypatch):
    pool.execute(GREETING, limits=LIMITS)
    server = pool._servers.by_profile[build_profile_name(["greet-er"])]
    server.used_at = time.monotonic() - 3600
    pool._servers._forget_idle()
    assert not server.is_alive
    assert pool.execute(GREETING, limits=LIMITS).ok


def test_sets_are_warmed_once_each_and_no_more_than_are_kept(tmp_path):
    names = [f"plain-{number}" for number in range(5)]
    (tmp_path / "libraries.json").write_text(json.dumps({name: [] for name in names}))
    pool = sandbox.Pool(spares=0, libraries=find_offered_libraries(tmp_path, names))
    pool.warm([["missing"], [names[1], names[0]], *([name] for name in names)])
    started = list(pool._servers.by_profile)
    pool.close()
    assert started == [build_profile_name(names[:2]), *(build_profile_name([name]) for name in names[:3])]


def test_nothing_is_offered_before_anything_is_installed(tmp_path):
    assert find_offered_libraries(tmp_path, ["pandas"]) == Libraries()
    (tmp_path / "libraries.json").write_text("[1]")
    assert find_offered_libraries(tmp_path, ["pandas"]) == Libraries()


@pytest.mark.skipif(
    not find_offered_libraries(settings.BASE_DIR / "var" / "libraries", ["pandas"]).offered,
    reason="install_libraries has not run",
)
def test_pandas_and_its_company_run():
    names = ["numpy", "pandas", "pydantic", "beautifulsoup4", "pyyaml", "python-dateutil", "jinja2"]
    pool = sandbox.Pool(spares=1, libraries=find_offered_libraries(settings.BASE_DIR / "var" / "libraries", names))
    source = f"""
requires = {names!r}
import io
import numpy as np
import pandas as pd
import yaml
from bs4 import BeautifulSoup
from dateutil.relativedelta import relativedelta
from jinja2 import Template
from pydantic import BaseModel, Field
class Row(BaseModel):
    a: int = Field(gt=0)
def main():
    frame = pd.read_csv(io.StringIO("a,b\\n1,x\\n,y\\n"))
    return [frame, frame["a"].sum(), np.arange(4).reshape(2, 2) @ np.eye(2), np.float64(1.5), Row(a="2"),
            BeautifulSoup("<p>a<b>b</b></p>", "html.parser").b.text, yaml.safe_load("a: [1]"),
            pd.Timestamp("2024-01-31", tz="Europe/Berlin") + relativedelta(months=1),
            Template("{{{{ x|upper }}}}").render(x="a"), pd.NaT]
"""
    outcome = pool.execute(source, allowed_imports=["io"], limits=LIMITS)
    pool.close()
    assert (outcome.error, outcome.result) == (None, [
        [{"a": 1.0, "b": "x"}, {"a": None, "b": "y"}], 1.0, [[0.0, 1.0], [2.0, 3.0]], 1.5, {"a": 2}, "b", {"a": [1]},
        "2024-02-29T00:00:00+01:00", "A", None,
    ])  # fmt: skip
