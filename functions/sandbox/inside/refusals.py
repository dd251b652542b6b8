"""The list of all problems in a source, each with its position and a suggested fix."""

from __future__ import annotations

import ast
from typing import Any

MAX_REFUSALS = 100


class Refusals:
    """Rows {severity, code, message, hint, line, column, end_line, end_column}; lines and columns
    start at 1.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._seen: set[tuple[Any, ...]] = set()

    def add(self, node: ast.AST | None, code: str, message: str, hint: str) -> None:
        line = getattr(node, "lineno", None) or 1
        end_line = getattr(node, "end_lineno", None) or line
        # Editors count columns from one.
        column = (getattr(node, "col_offset", None) or 0) + 1
        end_column = (getattr(node, "end_col_offset", None) or 0) + 1
        self._append(code, message, hint, line, column, end_line, end_column)

    def add_syntax_error(self, error: SyntaxError) -> None:
        line = error.lineno or 1
        column = max(error.offset or 1, 1)
        end_line = error.end_lineno or line
        end_column = max(error.end_offset or column, column)
        message = error.msg or "invalid syntax"
        self._append("syntax", message, "Fix the Python syntax on this line.", line, column, end_line, end_column)

    def sorted_rows(self) -> list[dict[str, Any]]:
        return sorted(self.rows, key=lambda row: (row["line"], row["column"]))

    def _append(
        self, code: str, message: str, hint: str, line: int, column: int, end_line: int, end_column: int
    ) -> None:
        key = (code, message, line, column)
        if key in self._seen or len(self.rows) >= MAX_REFUSALS:
            return
        self._seen.add(key)
        row = {
            "severity": "error",
            "code": code,
            "message": message,
            "hint": hint,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
        }
        self.rows.append(row)
