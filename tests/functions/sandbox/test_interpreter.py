"""The interpreter: plain Python that keeps its variables and files, behind the kernel's layers alone."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from uuid import uuid4

import pytest

from functions import sandbox
from functions.sandbox.inside import calls, files
from functions.sandbox.libraries import find_offered_libraries
from tests.corpus.documents import CASES

LIMITS = sandbox.Limits(timeout_s=20, kept_s=600, traffic_kb=65536, answer_kb=8192)
TABLE = b"month,sales\n1,20\n2,40\n"


class Host:
    """Serves input files from memory and keeps what was saved."""

    def __init__(self, **inputs):
        self.inputs, self.saved = inputs, []

    def read_file(self, file, offset, size):
        return self.inputs[file][offset : offset + size]

    def save_file(self, name, content, media_type):
        self.saved.append((name, content))
        return {"file": str(len(self.saved)), "name": name, "media_type": "text/plain", "size": len(content)}


@pytest.fixture(scope="module")
def pool():
    pool = sandbox.Pool(spares=2)
    yield pool
    pool.close()


@pytest.fixture
def run(pool):
    session, host = str(uuid4()), Host(table=TABLE)

    def run(code, *, inputs=({"file": "table", "name": "sales.csv"},), session=session, limits=LIMITS, host=host):
        return pool.interpret(code, inputs, session=session, host=host, limits=limits)

    run.host = host
    yield run
    pool.release(session)


def value(outcome):
    assert outcome.error is None, outcome.error
    return outcome.result["value"]


def test_variables_last_from_call_to_call_and_the_last_expression_is_the_value(run):
    first = run("import math\nradius = 2\nprint('computed')")
    assert (first.printed, value(first), first.result["call"]) == ("computed\n", None, 1)
    second = run("round(math.pi * radius ** 2, 2)")
    assert (value(second), second.result["call"]) == ("12.57", 2)


def test_two_runs_share_neither_variables_nor_files(pool, run):
    run("secret = 'mine'\nopen('outputs/secret.txt', 'w').write(secret)\nopen('notes', 'w').write(secret)")
    other = run("import os\nsorted(os.listdir()), os.listdir('outputs'), 'secret' in globals()", session="other")
    assert value(other) == "(['inputs', 'outputs'], [], False)"
    pool.release("other")


def test_inputs_are_there_and_cannot_be_changed(run):
    assert value(run("open('/mnt/inputs/sales.csv').read()")) == repr(TABLE.decode())
    assert run("open('/mnt/inputs/sales.csv', 'w')").error.type == "PermissionError"


def test_a_large_input_arrives_in_pieces(pool):
    content = os.urandom(5 << 20)
    host = Host(big=content)
    code = "import hashlib\nhashlib.sha256(open('inputs/big.bin', 'rb').read()).hexdigest()"
    outcome = pool.interpret(code, [{"file": "big", "name": "big.bin"}], session="big", host=host, limits=LIMITS)
    import hashlib

    assert value(outcome) == repr(hashlib.sha256(content).hexdigest())
    pool.release("big")


def test_what_is_written_to_outputs_is_stored_once_and_again_when_it_changes(run):
    run("import os\nos.mkdir('outputs/deep')\nopen('outputs/deep/a.txt', 'w').write('one')")
    run("1 + 1")
    run("open('outputs/deep/a.txt', 'w').write('three')")
    assert run.host.saved == [("deep-a.txt", b"one"), ("deep-a.txt", b"three")]


def test_a_large_output_is_stored_in_pieces_and_one_that_is_too_large_is_named(run):
    outcome = run(
        "open('outputs/a.bin', 'wb').write(b'x' * (3 << 20))\nopen('outputs/b.bin', 'wb').write(b'x' * (11 << 20))"
    )
    assert [(name, len(content)) for name, content in run.host.saved] == [("a.bin", 3 << 20)]
    assert "b.bin has 11 MB" in outcome.result["skipped"][0]


def test_an_error_names_its_line_and_the_variables_stay(run):
    run("kept = 7")
    outcome = run("a = 1\nb = a / 0")
    assert (outcome.status, outcome.error.type, outcome.error.line) == ("error", "ZeroDivisionError", 2)
    assert value(run("kept")) == "7"
    assert run("def broken(:").error.type == "SyntaxError"


def test_the_standard_library_works_without_its_sources(run):
    code = """
import csv, json, sqlite3, tempfile, zipfile, zoneinfo, datetime, xml.etree.ElementTree as tree
rows = list(csv.DictReader(open('inputs/sales.csv')))
base = sqlite3.connect('sales.db')
base.execute('create table sales (month, sales)')
base.executemany('insert into sales values (?, ?)', [(row['month'], row['sales']) for row in rows])
base.commit()
with tempfile.NamedTemporaryFile() as scratch, zipfile.ZipFile('a.zip', 'w') as packed:
    scratch.write(b'x')
    packed.writestr('ümlaut.txt', 'x')
[base.execute('select sum(sales) from sales').fetchone()[0], len(rows), 'x'.encode('cp437'), tree.fromstring('<a b="1"/>').get('b')]
"""
    assert value(run(code)) == "[60, 2, b'x', '1']"


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("open('/etc/passwd').read()", ["FileNotFoundError"]),
        ("open('/proc/self/environ').read()", ["FileNotFoundError"]),
        ("import os\nos.open('/', os.O_TMPFILE | os.O_RDWR)", ["OSError", "PermissionError"]),
        ("open('/new', 'w')", ["OSError", "PermissionError"]),
        ("import os\nos.symlink('/', 'root')", ["PermissionError"]),
        ("import os\nos.mknod('device')", ["PermissionError"]),
        ("import os\nos.link('inputs/sales.csv', 'outputs/a')", ["PermissionError"]),
        ("import os\nos.fork()", ["PermissionError"]),
        ("import _thread\n_thread.start_new_thread(print, ())", ["RuntimeError"]),
        ("import subprocess", ["ModuleNotFoundError"]),
        ("import _socket\n_socket.socket()", ["PermissionError"]),
        ("import os\nos.kill(1, 9)", ["PermissionError"]),
        ("import os\nos.setuid(0)", ["PermissionError"]),
        ("import fcntl, os\nfcntl.fcntl(0, fcntl.F_SETOWN, 1)", ["PermissionError"]),
        ("import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))", ["ValueError", "PermissionError"]),
        ("import mmap\nmmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)", ["PermissionError"]),
        ("import os\nos.memfd_create('a')", ["PermissionError"]),
        ("open('fill', 'wb').write(b'x' * (65 << 20))", ["OSError"]),
    ],
)
def test_what_leaves_the_sandbox_is_refused(run, code, kinds):
    outcome = run(f"{code}\n'it succeeded'")
    assert outcome.error is not None and outcome.error.type in kinds, outcome


@pytest.mark.parametrize("call", ["mount", "unshare", "setns", "ptrace", "execve", "io_uring_setup"])
def test_system_calls_of_the_fork_server_end_the_process(run, call):
    import platform

    number = calls.NUMBERS[platform.machine()][call]
    outcome = run(f"import ctypes\nctypes.CDLL(None).syscall({number}, 0, 0, 0, 0, 0)")
    assert outcome.status in ("violation", "error") and not outcome.ok


def test_only_work_and_the_data_of_libraries_are_visible(run):
    assert value(run("import os\nsorted(set(os.listdir('/')) - {'usr'})")) == "['mnt']"


def test_the_files_of_a_process_have_a_limit_together(run):
    code = "written = 0\ntry:\n  for n in range(9):\n    written += open(f'{n}', 'wb').write(b'x' * (10 << 20))\nexcept OSError as error:\n  print(error.errno)\nwritten <= 64 << 20"
    outcome = run(code)
    assert (value(outcome), outcome.printed) == ("True", "28\n")


@pytest.mark.parametrize(("code", "status"), [("while True: pass", "timeout"), ("x = 'a' * (2 << 30)", "memory")])
def test_limits_hold_and_the_next_call_begins_anew(run, code, status):
    limits = sandbox.Limits(timeout_s=3, memory_mb=256)
    run("kept = 1", limits=limits)
    assert run(code, limits=limits).status == status
    after = run("'kept' in globals()", limits=limits)
    assert after.result["call"] == 1 or status == "memory"


def test_nothing_runs_where_a_process_cannot_have_a_file_system_of_its_own():
    pool = sandbox.Pool(spares=0, without_layers=["mount_ns"])
    try:
        outcome = pool.interpret("1", [], session="a", host=Host(), limits=LIMITS)
        assert outcome.status == "refused" and "mount_ns" in outcome.error.message
    finally:
        pool.close()


def test_the_librarys_code_and_data_are_there_without_its_folder(tmp_path):
    package = tmp_path / "chart"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\ndef font():\n    return open(os.path.dirname(__file__) + '/font.txt').read()\n"
    )
    (package / "font.txt").write_text("DejaVu")
    (tmp_path / "libraries.json").write_text(json.dumps({"chart": ["chart"], "other": ["other"]}))
    tmp_path.chmod(0o755)
    pool = sandbox.Pool(spares=0, libraries=find_offered_libraries(Path(tmp_path), [], ["chart"]))
    try:
        outcome = pool.interpret("import chart, os\nchart.font(), os.listdir(os.path.dirname(chart.__file__))", [],
                                 session="a", host=Host(), limits=LIMITS)  # fmt: skip
        assert value(outcome) == "('DejaVu', ['font.txt'])"
    finally:
        pool.close()


def test_the_limits_that_the_documentation_names():
    assert files.WORK_BYTES == 64 << 20


def test_code_reads_a_word_document_and_learns_what_was_left_out(run):
    [case] = [case for case in CASES if case.name == "hidden.docx"]
    host = Host(letter=case.make(), empty=b"PK\x03\x04 not an archive")
    inputs = ({"file": "letter", "name": "letter.docx"}, {"file": "empty", "name": "broken.docx"})
    read = run("import documents\ndocuments.read_document('/mnt/inputs/letter.docx')", inputs=inputs, host=host)
    document = ast.literal_eval(value(read))
    assert [part["text"] for part in document["parts"]] == ["shown"]
    assert document["left_out"] == [
        {"place": "hidden text", "reason": "Text that Word does not show.", "is_lost": True}
    ]
    broken = run("documents.read_document('/mnt/inputs/broken.docx')", inputs=inputs, host=host)
    assert (broken.error.type, "cannot be read" in broken.error.message) == ("Refused", True), broken.error
