"""Database statements that are compiled once and then only bound to values. See docs/statements.md.

Django needs ten times as long to compile a query as the database needs to run it by key. The
statements that every message needs are compiled at first use and kept; everything else uses the
ORM. The private parts of Django used here are checked by tests/plumbing/test_statements.py.
"""

from .binding import Bound, Question, cursor_of_kept, database
from .numbers import take_numbers
from .queries import Select, Update
from .rows import insert_each, insert_plain, insert_rows, update_each, write_row

__all__ = [
    "Bound",
    "Question",
    "Select",
    "Update",
    "cursor_of_kept",
    "database",
    "insert_rows",
    "insert_each",
    "insert_plain",
    "take_numbers",
    "update_each",
    "write_row",
]
