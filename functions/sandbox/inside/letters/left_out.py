"""What of a document or a mail is not in its text: a list of places and reasons, for its reader."""

from __future__ import annotations

from typing import Any

# Entries of the list; the last one counts the others.
MOST_LEFT_OUT = 100
# Characters of a place and of a reason.
PLACE, REASON = 120, 300
PICTURE = "Pictures are not read: text in them must be recognised (OCR) before."
# Has place, reason, and is_lost: false for a note on a text that is there.
Entry = dict[str, Any]


class LeftOut:
    """What of a document is not in its text, and what a person should know of it: places and reasons."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, bool], int] = {}
        self.more = 0

    def note(self, place: str, reason: str) -> None:
        """Say something of a text that is not lost."""
        self.add(place, reason, is_lost=False)

    def add(self, place: str, reason: str, *, is_lost: bool = True, count: int = 1) -> None:
        """The same place and reason stand in the list once, with their number."""
        entry = place.strip()[:PLACE] or "document", reason[:REASON], is_lost
        if entry in self.counts:
            self.counts[entry] += count
        elif len(self.counts) < MOST_LEFT_OUT - 1:
            self.counts[entry] = count
        else:
            self.more += count

    def take(self, other: LeftOut) -> None:
        """Add what is left out of a part."""
        for (place, reason, is_lost), count in other.counts.items():
            self.add(place, reason, is_lost=is_lost, count=count)
        self.more += other.more

    def entries(self) -> list[Entry]:
        entries: list[Entry] = []
        for (place, reason, is_lost), count in self.counts.items():
            if count > 1:
                place = f"{place} ({count} times)"
            entries.append({"place": place, "reason": reason, "is_lost": is_lost})
        if self.more:
            reason = f"{self.more} more places are left out."
            entries.append({"place": "document", "reason": reason, "is_lost": True})
        return entries
