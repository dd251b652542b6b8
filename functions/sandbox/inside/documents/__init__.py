"""Reads the text of documents, and lists what it leaves out and why.

It runs in the sandbox's profile `files`: for collections, for attachments, and in `run_python` as the module
`documents`. Every file may be hostile: the process has no network and no file but its inputs, and limits of time and
memory. What is checked here only gives a better error.
"""

from __future__ import annotations

from .answer import write_answer
from .kinds import read_content, read_document
from .report import LeftOut, Part, Refused

__all__ = ["LeftOut", "Part", "Refused", "read_content", "read_document", "write_answer"]
