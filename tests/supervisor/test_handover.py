"""The supervisor replaces itself by exec; its children go on, and nothing that comes meanwhile is lost."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
START = """
import os, signal, sys, time
from pathlib import Path
from supervisor import handover
from supervisor.supervision import Supervision

sys.argv = ["the small one"]
exec_now, logs = os.execv, sys.argv_given[0]
supervision = Supervision(Path(logs))
place = handover.Place(line=-1, lock=0, logs=logs, data_dir="", valkey="", drain_s=0.0)

def is_small(pid):
    return Path(f"/proc/{pid}/cmdline").read_text().startswith("python the small one")
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    start = START.replace("sys.argv_given[0]", repr(str(folder)))
    return subprocess.run([sys.executable, "-c", start + code], cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_signal_that_comes_during_the_exec_stops_it_afterwards(tmp_path):
    done = run(
        """
def stop_and_exec(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    exec_now(*arguments)

os.execv = stop_and_exec
supervision.start(handover.program("worker", lambda notify: (notify(), time.sleep(600)), 0.0))
handover.become_small(supervision, place)
""",
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "muster: stopping\n"), done.stderr


def test_a_line_that_a_child_has_half_written_comes_whole(tmp_path):
    done = run(
        """
def work(notify):
    print("one, ", end="", flush=True)
    notify()
    while not is_small(os.getppid()):
        time.sleep(0.01)
    print("two", flush=True)
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(600)

supervision.start(handover.program("worker", work, 0.0))
handover.become_small(supervision, place)
""",
        tmp_path,
    )
    assert done.stdout.splitlines() == ["  worker | one, two", "muster: stopping"], done.stderr
    assert (tmp_path / "worker.log").read_text() == "one, two\n"


def test_a_child_that_ends_during_the_exec_is_started_again(tmp_path):
    done = run(
        """
def end_child_and_exec(*arguments):
    os.kill(supervision.children[0].pid, signal.SIGKILL)
    exec_now(*arguments)

os.execv = end_child_and_exec
handover.CODE = "import os, signal, supervisor.handover\\n" + handover.CODE.replace(
    "main(", "supervisor.handover.start_alone = lambda *_: os.kill(os.getppid(), signal.SIGTERM); main("
)
supervision.start(handover.program("worker", lambda notify: (notify(), time.sleep(600)), 0.0))
handover.become_small(supervision, place)
""",
        tmp_path,
    )
    said = done.stdout.splitlines()
    assert said[0].startswith("muster: worker was killed by SIGKILL; restarting it"), done.stderr
    assert said[-1] == "muster: stopping"


def test_an_exec_that_fails_changes_nothing(tmp_path):
    done = run(
        """
def refuse(*arguments):
    raise FileNotFoundError(2, "No such file or directory")

os.execv = refuse
supervision.start(handover.program("worker", lambda notify: (notify(), time.sleep(600)), 0.0))
handover.become_small(supervision, place)
output = supervision.children[0].output
print(signal.pthread_sigmask(signal.SIG_BLOCK, []) == set(), os.get_inheritable(output), supervision.is_settled())
supervision.stop()
""",
        tmp_path,
    )
    assert "the supervisor keeps its memory" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "True False True"
