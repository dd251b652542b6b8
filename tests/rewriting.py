"""The test modules compiled as pytest compiles them, before worker processes do so side by side, each of them all.

On a fresh clone this takes twenty seconds of CPU, and would take them in each lane.
"""

import os
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.assertion.rewrite import assertstate_key

TESTS = Path(__file__).parent


def compile_test_modules(config: pytest.Config) -> None:
    """On all processors. A module that is compiled already is left alone, one with an error is left to the workers."""
    if sys.dont_write_bytecode:
        return
    stale = [file for file in sorted(TESTS.rglob("test_*.py")) if not is_compiled(file)]
    processors = os.cpu_count() or 1
    children = []
    for number in range(processors if stale else 0):
        if child := os.fork():
            children.append(child)
            continue
        try:
            for file in stale[number::processors]:
                compile_module(file, config)
        finally:
            os._exit(0)
    for child in children:
        os.waitpid(child, 0)


def place_of_compiled(file: Path) -> Path:
    return rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"


def is_compiled(file: Path) -> bool:
    """Whether it was compiled after it was written. Workers look again, at its content."""
    compiled = place_of_compiled(file)
    return compiled.exists() and compiled.stat().st_mtime >= file.stat().st_mtime


def compile_module(file: Path, config: pytest.Config) -> None:
    try:
        source_hash, code = rewrite._rewrite_test(file, config)
    except (SyntaxError, ValueError):
        return
    compiled = place_of_compiled(file)
    compiled.parent.mkdir(exist_ok=True)
    rewrite._write_pyc(config.stash[assertstate_key], code, source_hash, compiled)
