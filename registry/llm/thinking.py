"""Separates what a model thinks from what it says, where its server sends both as one text. Plain Python.

Small models write `<think>…</think>` before their answer. Only a block at the beginning counts, or one that follows
another: an answer may speak about these tags. The templates of some models write the opening tag themselves, so that
the answer has only the closing one. That is known when it comes, after all the thoughts: the whole answer is read
rightly, but somebody who listened has heard them as its text. So it is remembered for the model (wire_model.py), and
from then on nothing is heard before the closing tag.
"""

import re

NAMES = ("think", "thinking", "thought", "reasoning", "seed:think")
OPENINGS = (*(f"<{name}>" for name in NAMES), "[think]")
TAG = re.compile(r"<(/?)(?:think|thinking|thought|reasoning|seed:think)>|\[(/?)THINK\]", re.IGNORECASE)
LONGEST_TAG = max(len(tag) for tag in OPENINGS) + 1
FENCE = "```"
CLOSING_ALONE = re.compile(r"(?:^|\n)[ \t]*</think>|</think>[ \t]*(?:\n|$)", re.IGNORECASE)


class ThinkingSplitter:
    """`add` returns the part of a piece that belongs to the answer, as far as it is known; `finish` the whole.

    `is_open`: the template of this model has opened the block. An answer without a closing tag is then no thought.
    `was_open` says after `finish` that it had.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        self.was_open = False
        # Not decided yet: white space, or the beginning of a tag.
        self._rest = ""
        self._is_open = is_open
        self._depth = 1 if is_open else 0
        self._is_answer = False
        self._has_thought = False
        self._answer: list[str] = []
        self._thoughts: list[str] = []
        # Number of thoughts that were taken.
        self._taken = 0
        # Number of thoughts up to the last closing tag.
        self._closed = 0

    def add(self, piece: str) -> str:
        if self._is_answer:
            self._answer.append(piece)
            return piece
        self._rest += piece
        words = ""
        while self._rest and not self._is_answer:
            before = self._rest
            if self._depth:
                self._think()
            else:
                words += self._begin()
            if self._rest == before:
                break
        return words

    def take_thoughts(self) -> str:
        """Those that are certain and were not taken yet."""
        if self._is_open:
            return ""
        fresh = "".join(self._thoughts[self._taken :])
        self._taken = len(self._thoughts)
        return fresh

    def _begin(self) -> str:
        """At the beginning of the answer, or behind a block: another block, the answer, or too little to know."""
        text = self._rest.lstrip()
        opening = TAG.match(text)
        if opening and not is_closing(opening):
            self._rest = text[opening.end() :]
            self._depth = 1
            self._has_thought = True
            return ""
        if may_become_tag(text):
            return ""
        # White space between the thoughts and the answer belongs to neither.
        if self._has_thought:
            return self._answer_with(text)
        return self._answer_with(self._rest)

    def _answer_with(self, text: str) -> str:
        self._is_answer = True
        self._rest = ""
        self._answer.append(text)
        return text

    def _think(self) -> None:
        if self._is_open and not self._thoughts and self._begins_with_tag():
            return
        tag = TAG.search(self._rest)
        if tag is None:
            certain = len(self._rest) - unfinished_tag(self._rest)
            self._think_aloud(certain)
            return
        self._think_aloud(tag.start())
        # What stood before the tag is gone from the rest by now.
        self._rest = self._rest[tag.end() - tag.start() :]
        if not is_closing(tag):
            self._depth += 1
            return
        self._depth -= 1
        self._closed = len(self._thoughts)
        self.was_open = self._is_open
        self._is_open = False
        self._has_thought = True

    def _begins_with_tag(self) -> bool:
        """Whether the answer begins with an opening tag although its template should have written it, or with too
        little to know.
        """
        text = self._rest.lstrip()
        opening = TAG.match(text)
        if opening and not is_closing(opening):
            self._rest = text[opening.end() :]
            self._is_open = False
            self._has_thought = True
        return may_become_tag(text)

    def _think_aloud(self, end: int) -> None:
        if end:
            self._thoughts.append(self._rest[:end])
            self._rest = self._rest[end:]

    def finish(self) -> tuple[str, str]:
        """(the answer, the thoughts)."""
        if self._is_open:
            # No closing tag came, so nothing was a thought.
            return "".join([*self._thoughts, self._rest]), ""
        if self._depth and self._rest:
            self._thoughts.append(self._rest)
        elif self._rest.strip() or not self._has_thought:
            self._answer.append(self._rest)
        if self._depth and self._closed:
            # One opening tag too many: the answer stands behind the last closing one.
            self._answer = self._thoughts[self._closed :]
            self._thoughts = self._thoughts[: self._closed]
        answer = "".join(self._answer)
        thoughts = "".join(self._thoughts)
        if self._has_thought:
            return answer.lstrip(), thoughts.strip()
        closing = find_closing(answer)
        if closing:
            # The template opened the block, and nobody knew it until now.
            self.was_open = True
            return answer[closing.end() :].lstrip(), answer[: closing.start()].strip()
        return answer, thoughts.strip()


class Unsplit:
    """For providers whose texts are left as they are."""

    was_open = False

    def __init__(self) -> None:
        self._answer: list[str] = []

    def take_thoughts(self) -> str:
        return ""

    def add(self, piece: str) -> str:
        self._answer.append(piece)
        return piece

    def finish(self) -> tuple[str, str]:
        return "".join(self._answer), ""


def find_closing(answer: str) -> re.Match[str] | None:
    """The closing tag of a block that the template opened, unless the answer speaks about these tags."""
    closing = CLOSING_ALONE.search(answer)
    if closing is None:
        return None
    before = answer[: closing.start()]
    is_in_code = before.count(FENCE) % 2 == 1
    if is_in_code or TAG.search(before):
        return None
    return closing


def is_closing(tag: re.Match[str]) -> bool:
    return tag.group(1) == "/" or tag.group(2) == "/"


def unfinished_tag(text: str) -> int:
    """How many characters at the end may be the beginning of a tag."""
    tail = text[-LONGEST_TAG:].lower()
    start = max(tail.rfind("<"), tail.rfind("["))
    if start < 0:
        return 0
    # Opening and closing tags differ only in the stroke.
    begun = tail[start:].replace("/", "", 1)
    if not any(tag.startswith(begun) for tag in OPENINGS):
        return 0
    return len(tail) - start


def may_become_tag(text: str) -> bool:
    """Whether more of the text may make an opening tag of it."""
    beginning = text.lower()
    return any(tag.startswith(beginning) for tag in OPENINGS)
