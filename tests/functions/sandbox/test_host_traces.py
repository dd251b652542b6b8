"""Stored code learns nothing of the host: no path, no person's name, no name of the machine."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from functions import sandbox
from functions.sandbox import forkserver
from functions.sandbox.libraries import find_offered_libraries

LIMITS = sandbox.Limits(timeout_s=60, memory_mb=1024, kept_s=600, answer_kb=8192, output_kb=4096, printed_kb=4096)
PROJECT = str(Path(__file__).parents[3])
LIBRARY = '''
"""Remembers where it is, in every way that libraries do."""
import functools, json, pathlib

HERE = __file__
PLACE = pathlib.Path(__file__).parent
PLACES = [HERE, {"here": (HERE, [HERE])}, {HERE}]
WITH = {HERE: 1}

class Reader:
    path = HERE
    __slots__ = ("kept",)

class Text(str):
    pass

class Plain:
    def __init__(self):
        self.path = HERE

def where(path=HERE, *, also=HERE):
    def inner():
        return path, also
    return inner

@functools.lru_cache
def place(name):
    return f"{HERE}/{name}"

reader, plain, inner = Reader(), Plain(), where()
plain.text = Text(HERE)
plain.text.index = 1
reader.kept = HERE
place("a")

def fail():
    raise ValueError("broken")
'''
# Everything that Python code can reach from what exists, and what it is told when something fails.
GATHER = """
import gc, sys, os
found = set()
def note(value):
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str) and "/" in value:
        found.add(value[:300].encode("ascii", "ignore").decode().replace("\\0", ""))
seen = set()
todo = [*gc.get_objects(), *sys.modules.values()]
while todo:
    owner = todo.pop()
    if id(owner) in seen or owner is found or owner is todo:
        continue
    seen.add(id(owner))
    for one in gc.get_referents(owner):
        note(one)
        if type(one).__name__ == "code":
            note(one.co_filename)
        if type(one) in (dict, tuple, list, set, frozenset) or type(one).__name__ == "code":
            todo.append(one)
    if type(owner).__name__ == "function":
        todo.append(owner.__code__)
        note(owner.__code__.co_filename)
    if type(owner).__module__ in ("pathlib",):
        note(str(owner))
for name in ("json", "re", "encodings", "os"):
    try:
        note(repr(sys.modules[name]))
    except Exception as error:
        note(str(error))
note(repr(os.environ))
"""


def list_marks():
    """What names this host: its directories, its people, itself."""
    paths = {PROJECT, str(Path(PROJECT).resolve()), sys.prefix, sys.base_prefix, str(Path.home()), os.getcwd()}
    neutral = {"/", "/usr", "/usr/local"}
    return {path for path in paths if path not in neutral}


def check_texts(texts, *more):
    marks = list_marks() | set(more)
    told = [text for text in texts if any(mark in text for mark in marks)]
    assert not told, told[:20]


@pytest.fixture
def home(tmp_path):
    """Libraries in the home of somebody."""
    directory = tmp_path / "secret-person"
    directory.mkdir()
    (directory / "placed").mkdir()
    (directory / "placed" / "__init__.py").write_text(LIBRARY)
    (directory / "placed" / "names.txt").write_text("the data")
    (directory / "libraries.json").write_text(json.dumps({"placed": ["placed"]}))
    return directory


@pytest.fixture
def interpret(home):
    libraries = find_offered_libraries(home, ["placed"], ["placed"])
    pool, session = sandbox.Pool(spares=1, libraries=libraries), str(uuid4())

    def interpret(code):
        return pool.interpret(code, [], session=session, host=None, limits=LIMITS)

    yield interpret
    pool.close()


def test_nothing_that_the_interpreter_holds_names_the_host(interpret):
    outcome = interpret(f"{GATHER}\nimport json\nprint(json.dumps(sorted(found)))")
    assert outcome.error is None, outcome.error
    check_texts(json.loads(outcome.printed), "secret-person", socket.gethostname() + "/")


FAILURES = {
    "traceback of the standard library": "import json, traceback\ntry:\n    json.loads('{')\nexcept Exception:\n    traceback.print_exc()",
    "traceback of a library": "import placed, traceback\ntry:\n    placed.fail()\nexcept Exception:\n    traceback.print_exc()",
    "a file beside a module": "import os\nopen(os.__file__)",
    "a program": "import sys\nopen(sys.executable)",
    "an import": "import nothing_of_this_name",
    "a name of a module": "from json import nothing_of_this_name",
    "a module": "import json\njson",
    "a path of imports": "import sys\nprint(sys.path, sys.prefix, sys.base_prefix, sys.executable, sys.argv, sys.orig_argv)",
    "the environment": "import os\nprint(dict(os.environ), os.getcwd(), os.path.expanduser('~'))",
    "the source of a function": "import inspect, json\ninspect.getsource(json.loads)",
    "the file of a function": "import inspect, json\ninspect.getsourcefile(json.loads) or inspect.getfile(json.loads)",
    "the machine": "import platform\nplatform.node(), platform.uname()",
    "the process": "print(open('/proc/self/maps').read())",
    "the person": "import getpass\ngetpass.getuser()",
    "a folder": "import os\n[os.path.join(*one[:1]) for one in os.walk('/')]",
    "a library's path": "import placed\nplaced.PLACE, placed.reader.path, placed.plain.path, placed.plain.text, placed.plain.text.index, placed.inner(), placed.place('a')",
    "a stack that is too deep": "import json\ndef f(): f()\nf()",
}  # fmt: skip


@pytest.mark.parametrize("kind", FAILURES)
def test_no_answer_of_the_interpreter_names_the_host(interpret, kind):
    outcome = interpret(FAILURES[kind])
    said = [outcome.printed, str(outcome.error), json.dumps(outcome.result)]
    check_texts(said, "secret-person", f"'{socket.gethostname()}'")


def test_the_data_of_a_library_is_where_the_library_looks(interpret):
    outcome = interpret("import placed\n(placed.PLACE / 'names.txt').read_text()")
    assert outcome.error is None, outcome.error
    assert outcome.result["value"] == "'the data'"


@pytest.mark.parametrize("imports", [[], ["asyncio"]], ids=["core", "extended"])
def test_nothing_that_an_unrestricted_function_holds_names_the_host(imports):
    source = (
        "def main() -> list:\n" + "".join(f"    {line}\n" for line in GATHER.splitlines()) + "    return sorted(found)"
    )
    pool = sandbox.Pool(spares=1)
    outcome = pool.execute(source, {}, safe_mode=False, allowed_imports=imports, limits=LIMITS)
    pool.close()
    assert outcome.error is None, outcome.error
    check_texts(outcome.result)


class Broken:
    """A host whose storage, database and libraries fail as they do."""

    def __init__(self, error):
        self.error = error

    def kv_get(self, key):
        raise self.error

    def save_file(self, name, content, media_type):
        raise self.error


class DatabaseError(Exception):
    """As those of a library: its text is made by a server."""


DatabaseError.__module__ = "psycopg.errors"
TOLD = {
    "a file of the host": (
        FileNotFoundError(2, "No such file or directory", f"{PROJECT}/var/files/ab"),
        "No such file",
    ),
    "the database": (DatabaseError('connection to "10.9.8.7" failed for user "secret-person"'), "the host failed"),
    "a reason of ours": (PermissionError("the secret “a” is not granted"), "the secret “a” is not granted"),
}


@pytest.mark.parametrize("ask", ["ctx.kv_get('a')", "ctx.save_file('a.txt', b'1')"])
@pytest.mark.parametrize("kind", TOLD)
def test_a_function_is_not_told_how_the_host_failed(kind, ask):
    error, said = TOLD[kind]
    pool = sandbox.Pool(spares=1)
    outcome = pool.execute(f"def main(ctx):\n    return {ask}", host=Broken(error))
    pool.close()
    assert said in outcome.error.message
    check_texts([outcome.error.message], "secret-person", "10.9.8.7")


def test_a_sandbox_that_cannot_start_does_not_say_where(monkeypatch):
    missing = f"{PROJECT}/nowhere/python"
    monkeypatch.setattr(forkserver, "sys", SimpleNamespace(executable=missing, platform=sys.platform))
    outcome = sandbox.Pool(spares=1).execute("def main(): return 1")
    assert outcome.error.type == "SandboxUnavailable"
    check_texts([outcome.error.message], "nowhere")
