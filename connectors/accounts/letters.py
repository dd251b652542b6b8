"""The texts of messages, read in a process with limits: strangers write them."""

from dataclasses import dataclass, field
from typing import Any

from connectors.content import Attachment, Entry, clean_untrusted_text, describe_loss, mark_cut
from plumbing.untrusted import parse_in_child

JSON = Any
# What functions/sandbox/inside/letters/reading.py describes.
Tree = dict[str, JSON]
# Characters of each part, of a message that took too long.
SHORTER = 100_000
# Characters of a part that are sent to be read.
LONGEST = 4_000_000
TOO_COMPLEX = "The message is too complex to be read."


@dataclass(frozen=True, slots=True)
class Reading:
    """What a person sees of a message."""

    text: str = ""
    length: int = 0
    events: list[dict[str, JSON]] = field(default_factory=list)
    left_out: list[Entry] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)

    @property
    def is_cut(self) -> bool:
        return self.length > len(self.text)

    def as_fields(self) -> dict[str, JSON]:
        """The fields of a Message."""
        left_out = list(self.left_out)
        if self.is_cut:
            why = f"Only the first {len(self.text)} of {self.length} characters are here."
            left_out.append(describe_loss("text", why))
        return {
            "text": mark_cut(self.text, self.length),
            "text_length": self.length,
            "is_cut": self.is_cut,
            "events": self.events,
            "left_out": left_out,
            "attachments": self.attachments,
        }


def read_letter(tree: Tree, max_chars: int) -> Reading:
    """The message that these parts make. Raises Unavailable while the processes that read are busy."""
    left_out: list[Entry] = []
    try:
        read = parse_in_child.run_reader_task("letter", cut_texts(tree, LONGEST, left_out), max_chars)
    except (parse_in_child.TooMuch, parse_in_child.Refused):
        left_out = [describe_loss("message", f"{TOO_COMPLEX} Only the beginning of its parts was read.")]
        read = read_beginning(tree, max_chars)
    text = clean_untrusted_text(read["text"])
    # The length counts characters of the whole message, so those that were removed here must not count.
    removed = len(read["text"]) - len(text)
    left_out.extend(map(clean_values, read["left_out"]))
    return Reading(
        text=text,
        length=read["length"] - removed,
        events=list(map(clean_values, read["events"])),
        left_out=left_out,
        attachments=list(map(build_attachment, read["attached"])),
    )


def build_attachment(file: Tree) -> Attachment:
    name = clean_untrusted_text(file["name"])
    kind = clean_untrusted_text(file["kind"])
    return Attachment(name, kind, file["size"] or 0)


def read_beginning(tree: Tree, max_chars: int) -> dict[str, JSON]:
    """The second try, with less text; if that is too complex as well, only the names of the files are known."""
    beginning = cut_texts(tree, SHORTER, [])
    try:
        read: dict[str, JSON] = parse_in_child.run_reader_task("letter", beginning, max_chars)
    except (parse_in_child.TooMuch, parse_in_child.Refused):
        nothing = describe_loss("message", f"{TOO_COMPLEX} Nothing of its text is here.")
        return {"text": "", "length": 0, "events": [], "left_out": [nothing], "attached": find_files(tree)}
    return read


def cut_texts(part: Tree, limit: int, left_out: list[Entry]) -> Tree:
    """The tree with this much of each text. What is cut is added to `left_out`."""
    changes: Tree = {}
    text = part.get("text")
    if isinstance(text, str) and len(text) > limit:
        what = part.get("name") or part["kind"] or "text"
        why = f"Only the first {limit} of {len(text)} characters of this part are read."
        left_out.append(describe_loss(what, why))
        changes["text"] = text[:limit]
    if part.get("parts"):
        changes["parts"] = [cut_texts(one, limit, left_out) for one in part["parts"]]
    return {**part, **changes}


def find_files(part: Tree) -> list[Tree]:
    """The innermost parts of a message, each as if it were an attached file."""
    inner = part.get("parts") or []
    if not inner:
        name = part.get("name") or ""
        return [{"name": name, "kind": part["kind"], "size": part.get("size")}]
    files = []
    for one in inner:
        files += find_files(one)
    return files


def clean_values(value: JSON) -> JSON:
    """The same JSON; every text in it without invisible characters."""
    if isinstance(value, str):
        return clean_untrusted_text(value)
    if isinstance(value, list):
        return [clean_values(one) for one in value]
    if isinstance(value, dict):
        return {name: clean_values(one) for name, one in value.items()}
    return value
