"""Reads mails and HTML: what of them a person sees, and a list of what is left out.

One reader for messages of accounts (inside/reader.py) and for mails in collections (inside/documents). It needs nothing
but Python's own library, so the processes of the sandbox load nothing for it.
"""

from __future__ import annotations

from .left_out import LeftOut
from .markup import read_markup
from .reading import LetterReader, read_here

__all__ = ["LeftOut", "LetterReader", "read_here", "read_markup"]
