"""What the screen asks before a decision."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static, TextArea

from ..cli.output import clean

LOOK = """
#box { width: 80%; height: auto; max-height: 80%; border: thick $warning; padding: 1 2; background: $surface; }
TextArea { height: 12; }
"""


class Reason(ModalScreen[str | None]):
    """A reason, which may be empty; None to leave it."""

    CSS = "Reason { align: center middle; }" + LOOK
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(self.question, markup=False)
            yield Input(placeholder="Reason (Enter: deny, Escape: leave it)")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_leave(self) -> None:
        self.dismiss(None)


class Arguments(ModalScreen[dict[str, Any] | None]):
    """The arguments as JSON, to be changed; None to leave it."""

    CSS = "Arguments { align: center middle; }" + LOOK
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave"),
        Binding("ctrl+s", "approve", "Approve", priority=True),
    ]

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.tool, self.arguments = tool, arguments

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(f"Arguments of {clean(self.tool)} (Ctrl-S: approve, Escape: leave it)", markup=False)
            yield TextArea(clean(json.dumps(self.arguments, indent=2, ensure_ascii=False)))
            yield Static("", id="problem", markup=False)

    def action_approve(self) -> None:
        try:
            arguments = json.loads(self.query_one(TextArea).text)
        except ValueError as error:
            self.query_one("#problem", Static).update(f"This is not JSON: {error}")
            return
        if isinstance(arguments, dict):
            self.dismiss(arguments)
        else:
            self.query_one("#problem", Static).update("Write a JSON object.")

    def action_leave(self) -> None:
        self.dismiss(None)
