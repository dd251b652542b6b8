"""Texts at which an answer ends, whether or not the model's server knows them. Plain Python."""

from collections.abc import Callable, Sequence


def cut_before_stops(text: str, stops: Sequence[str]) -> str:
    """The text before the first of the stops."""
    end = len(text)
    for stop in stops:
        place = text.find(stop)
        if 0 <= place < end:
            end = place
    return text[:end]


class StopFilter:
    """Passes pieces of a text on, up to the first stop. `end` passes on what was held back."""

    def __init__(self, listener: Callable[[str], None], stops: Sequence[str]) -> None:
        self._listener = listener
        self._stops = stops
        self._held = ""
        self._is_over = False

    def hear(self, text: str) -> None:
        if self._is_over:
            return
        text = self._held + text
        before = cut_before_stops(text, self._stops)
        if len(before) < len(text):
            self._is_over = True
            self._pass_on(before)
            return
        self._held = text[len(text) - self._measure_beginning(text) :]
        self._pass_on(text[: len(text) - len(self._held)])

    def end(self) -> None:
        if not self._is_over:
            self._pass_on(self._held)

    def _measure_beginning(self, text: str) -> int:
        """How many characters at the end may be the beginning of a stop."""
        # One character less than the longest stop: the whole of it would have been found.
        longest = max(map(len, self._stops)) - 1
        for size in range(min(longest, len(text)), 0, -1):
            tail = text[-size:]
            if any(stop.startswith(tail) for stop in self._stops):
                return size
        return 0

    def _pass_on(self, text: str) -> None:
        if text:
            self._listener(text)
