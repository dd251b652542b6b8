"""Forked programs: what they inherit of the supervisor, and what not."""

import os
import signal

from supervisor import processes, supervision


def exit_code_of(work) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(processes.fork(work), 0)[1])


def test_a_reader_that_left_is_an_error_and_not_the_end():
    """The web server writes to browsers, devices and the broker, and any of them may be gone at that moment."""

    def write_to_nobody():
        reading, writing = os.pipe()
        os.close(reading)
        try:
            os.write(writing, b"?")
        except BrokenPipeError:
            raise SystemExit(7) from None

    assert exit_code_of(write_to_nobody) == 7


def test_the_supervisor_s_own_handlers_are_not_inherited():
    def ask():
        inherited = [number for number in processes.RESET if signal.getsignal(number) != signal.SIG_DFL]
        raise SystemExit(len(inherited))

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        assert exit_code_of(ask) == 0
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_a_program_breaks_with_is_its_own_end():
    def fall():
        raise RuntimeError("broken")

    assert exit_code_of(fall) == 1
    assert exit_code_of(lambda: None) == 0


def test_however_a_program_ended_there_are_words_for_it():
    ends = [supervision.describe(code) for code in (0, 3, -9, -(signal.SIGRTMIN + 6))]
    assert ends == [
        "ended with exit code 0",
        "ended with exit code 3",
        "was killed by SIGKILL",
        "was killed by signal 40",
    ]
