"""Searches the text of files in the shared folders, and returns excerpts with their places. Keeps no index: the newest
files are read first, and what the time does not allow is left out and reported.

A folder that has too many files for the time, or a slow disk, is looked through to its end in the background. The next
search then knows its newest files from the start.
"""

import math
import os
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from .. import documents, stopping
from ..encodings import count_bytes, decode_whole, find_mark, show_letters
from ..exceptions import ToolRefused
from ..folding import UNSPACED, fold_text, split_bigrams
from ..text import sendable
from ..workspace import Opened, Workspace
from .filesystem import MAX_DEPTH, Listing, clean_prefix

JSON = Any
# Somebody waits for the answer for 1.5 s.
READING_S = 1.2
# The part of that time after which no more names are looked at.
LISTED = 0.8
# Seconds for which a folder is looked through in the background.
LOOK_ON_S = 120.0
# Folders whose newest files are kept in memory.
KEPT_FOLDERS = 20
MAX_FILES = 5000
# Bytes of one file that are searched.
MAX_TEXT_BYTES = 2 * 1024 * 1024
MAX_RESULTS = 20
# Words of a question.
MAX_WORDS = 20
# Characters of an excerpt.
BLOCK = 800
# Parts that have one of the words.
MAX_BLOCKS = 4000
# Documents whose pages are kept in memory.
KEPT_DOCUMENTS = 100
WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a file's text. `offset` is where read_file_content finds it."""

    path: str
    text: str
    offset: int
    line: int | None
    page: int | None
    # Those of the question that are in it.
    words: tuple[str, ...]

    def shown(self) -> dict[str, JSON]:
        text = sendable(self.text.strip()[:BLOCK])
        return {"path": self.path, "line": self.line, "page": self.page, "offset": self.offset, "text": text}


def search_files(workspace: Workspace, query: str, path: str = ".", limit: int = 8) -> dict[str, JSON]:
    """Search the text of the files in a folder and the folders below it; PDF and Word files too. Returns excerpts, best
    first, with file and line (in PDF: page); read_file_content reads on at an excerpt's offset.

    Args:
        query: words to look for
        path: the folder, relative to the shared folder
        limit: how many excerpts, at most 20
    """
    question = Question(query)
    if not question.words and not question.bigrams:
        raise ToolRefused("invalid_arguments", "the query has no word")
    reading = Reading(workspace, question, time.monotonic() + READING_S)
    reading.read_folders(sorted(workspace.roots) if workspace.is_top(path) else [path])
    best = reading.best(max(1, min(limit, MAX_RESULTS)))
    return {"results": [one.shown() for one in best], "searched": reading.searched, "truncated": reading.is_cut}


class Question:
    """The words to look for, in any case and spelling. Of Chinese, Japanese and Korean, which do not part words, each
    two letters that stand together.
    """

    def __init__(self, query: str) -> None:
        folded = fold_text(query)
        # Chinese, Japanese and the like have no spaces: two letters stand for a word.
        bigrams: dict[str, None] = {}
        for run in UNSPACED.findall(folded):
            bigrams.update(dict.fromkeys(split_bigrams(run)))
        self.bigrams = list(bigrams)[:MAX_WORDS]
        self.words = list_beginnings(UNSPACED.sub(" ", folded))
        self.pattern = None
        if self.words:
            self.pattern = compile_beginnings(self.words)

    def find_hits(self, text: str) -> set[str]:
        folded = fold_text(text)
        hits = {pair for pair in self.bigrams if pair in folded}
        if self.pattern is not None:
            hits.update(self.pattern.findall(UNSPACED.sub(" ", folded)))
        return hits


def list_beginnings(text: str) -> list[str]:
    """The beginnings of words to look for: “parcels” finds “parcel” too."""
    words = list(dict.fromkeys(WORD.findall(text)))[:MAX_WORDS]
    # Short words are in every text; they count only if there are no others.
    longer = [word for word in words if len(word) > 2]
    beginnings = dict.fromkeys(map(cut_plural, longer or words))
    return list(beginnings)


def cut_plural(word: str) -> str:
    if len(word) > 4 and word.endswith("s"):
        return word[:-1]
    return word


def compile_beginnings(words: list[str]) -> re.Pattern[str]:
    """Finds words that begin with one of these."""
    either = "|".join(map(re.escape, words))
    return re.compile(rf"\b(?:{either})")


class Reading:
    """One search over the files of a workspace until the time is over."""

    def __init__(self, workspace: Workspace, question: Question, until: float) -> None:
        self.workspace = workspace
        self.question = question
        self.until = until
        self.blocks: list[Block] = []
        self.searched = 0
        self.is_cut = False

    def read_folders(self, paths: list[str]) -> None:
        """The newest files of all folders are read first."""
        files: list[dict[str, JSON]] = []
        end_of_listing = self.until - READING_S * (1 - LISTED)
        for number, path in enumerate(paths):
            seconds = (end_of_listing - time.monotonic()) / (len(paths) - number)
            files += self.list_files(path, seconds)
        for file in sorted(files, key=newest):
            if self.is_over():
                return
            self.file(file["path"])

    def list_files(self, path: str, seconds: float) -> list[dict[str, JSON]]:
        until = time.monotonic() + seconds
        listing = Listing((), None, MAX_FILES, until, has_folders=False)
        with self.workspace.open(path) as opened:
            if not opened.is_directory:
                raise ToolRefused("not_a_folder", f"“{path}” is a file: read it with read_file_content")
            prefix = clean_prefix(path)
            listing.read(os.dup(opened.fd), prefix, depth=MAX_DEPTH)
            if listing.is_full:
                self.is_cut = True
            earlier_entries = FOLDERS.find_files(opened, prefix) if listing.is_late() else []
        entries = {entry["path"]: entry for entry in [*earlier_entries, *listing.entries]}
        return [entry for entry in entries.values() if entry["type"] == "file"]

    def is_over(self) -> bool:
        stopping.raise_if_stopped()
        if time.monotonic() < self.until and len(self.blocks) < MAX_BLOCKS:
            return False
        self.is_cut = True
        return True

    def file(self, path: str) -> None:
        """A file that cannot be read, or is not text, is passed over."""
        try:
            with self.workspace.open(path) as opened:
                ending = PurePath(path).suffix.lower()
                read = {".pdf": self.pdf, ".docx": self.docx}.get(ending, self.text)
                self.blocks += read(path, opened)
        except ToolRefused:
            return
        self.searched += 1

    def text(self, path: str, opened: Opened) -> list[Block]:
        data = os.pread(opened.fd, MAX_TEXT_BYTES, 0)
        if reason := documents.describe_binary(data[:8192]):
            raise ToolRefused("binary", reason)
        mark, encoding = find_mark(data) or (b"", "utf-8")
        raw = decode_whole(data[len(mark) :], encoding)
        text = show_letters(raw)
        if opened.info.st_size > len(data):
            self.is_cut = True
        blocks = []
        for start, part, hits in self.parts(text):
            offset = len(mark) + count_bytes(raw[:start], encoding)
            blocks.append(Block(path, part, offset, self.find_line(text, start, part), None, hits))
        return blocks

    def find_line(self, text: str, start: int, part: str) -> int:
        """Of the first word that was found in the part that begins at `start`."""
        first = text.count("\n", 0, start) + 1
        for number, line in enumerate(part.split("\n")):
            if self.question.find_hits(line):
                return first + number
        return first

    def docx(self, path: str, opened: Opened) -> list[Block]:
        pages = PAGES.read(path, opened, self.until)
        blocks = []
        for start, part, hits in self.parts("".join(pages.texts)):
            blocks.append(Block(path, part, start, None, None, hits))
        return blocks

    def pdf(self, path: str, opened: Opened) -> list[Block]:
        pages = PAGES.read(path, opened, self.until)
        if not pages.is_complete:
            self.is_cut = True
        # Where the page begins in the text of the whole document.
        start = 0
        blocks = []
        for number, text in enumerate(pages.texts, 1):
            for at, part, hits in self.parts(text):
                blocks.append(Block(path, part, start + at, None, number, hits))
            start += len(text) + len(documents.BETWEEN_PAGES)
        return blocks

    def parts(self, text: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Where a part begins, the part, and the words in it."""
        if not self.question.find_hits(text):
            return
        for start, part in split_paragraphs(text):
            if hits := self.question.find_hits(part):
                yield start, part, tuple(hits)

    def best(self, limit: int) -> list[Block]:
        """Rare words count more; the first of equal parts is of the newest file."""
        counts: Counter[str] = Counter()
        for block in self.blocks:
            counts.update(block.words)
        worth = {word: math.log(1 + len(self.blocks) / count) for word, count in counts.items()}

        def rate_block(block: Block) -> float:
            return sum(worth[word] for word in block.words)

        # In reverse order, equal blocks keep their order all the same.
        best_first = sorted(self.blocks, key=rate_block, reverse=True)
        return best_first[:limit]


def newest(entry: dict[str, JSON]) -> Any:
    # Texts cannot be negated, but their letters can: the latest time comes first.
    modified_at = entry["modified_at"] or ""
    backwards = [-ord(letter) for letter in modified_at]
    return backwards, entry["path"]


def split_paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, joined up to the size of an excerpt; longer ones are cut at the end of a line."""
    start = end = 0
    for line in text.splitlines(keepends=True):
        is_break = not line.strip() and end - start > BLOCK // 3
        if end > start and (is_break or end + len(line) - start > BLOCK):
            yield start, text[start:end]
            start = end
        end += len(line)
        while end - start > BLOCK:
            # A line that is too long.
            yield start, text[start : start + BLOCK]
            start += BLOCK
    if end > start:
        yield start, text[start:end]


@dataclass(slots=True)
class Pages:
    texts: list[str]
    is_complete: bool = False


class KnownPages:
    """The text of PDF and Word files that were read before, as long as they do not change. A long PDF is read further
    with each search.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pages: OrderedDict[tuple[int, ...], Pages] = OrderedDict()

    def read(self, path: str, opened: Opened, until: float) -> Pages:
        if opened.info.st_size > documents.MAX_DOCUMENT_BYTES:
            raise ToolRefused("too_large", f"“{path}” is too large")
        info = opened.info
        key = (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_size)
        with self.lock:
            pages = self.pages.setdefault(key, Pages([]))
            self.pages.move_to_end(key)
            while len(self.pages) > KEPT_DOCUMENTS:
                self.pages.popitem(last=False)
            if not pages.is_complete:
                self.go_on(path, opened, pages, until)
            return Pages(list(pages.texts), pages.is_complete)

    def go_on(self, path: str, opened: Opened, pages: Pages, until: float) -> None:
        with os.fdopen(os.dup(opened.fd), "rb") as file:
            file.seek(0)
            if path.lower().endswith(".docx"):
                pages.texts, pages.is_complete = [documents.read_docx(file)], True
                return
            for text in documents.iterate_pdf_pages(file, first=len(pages.texts)):
                pages.texts.append(text)
                if time.monotonic() >= until:
                    return
        pages.is_complete = True


class KnownFolders:
    """The newest files of folders that a search could not look through in its time. What is kept may be out of date: a
    file is opened and checked like every other, and one that is gone is passed over.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.files: OrderedDict[tuple[int, int, str], list[dict[str, JSON]]] = OrderedDict()
        self.at_work: threading.Thread | None = None

    def find_files(self, opened: Opened, prefix: str) -> list[dict[str, JSON]]:
        """The newest files as far as they are known; a thread looks through the folder anew."""
        key = (opened.info.st_dev, opened.info.st_ino, prefix)
        with self.lock:
            if self.at_work is None or not self.at_work.is_alive():
                arguments = (key, os.dup(opened.fd), prefix)
                self.at_work = threading.Thread(target=self.look_through, args=arguments, daemon=True)
                self.at_work.start()
            return self.files.get(key, [])

    def look_through(self, key: tuple[int, int, str], fd: int, prefix: str) -> None:
        """Takes ownership of the descriptor."""
        listing = Listing((), None, MAX_FILES, time.monotonic() + LOOK_ON_S, has_folders=False)
        listing.read(fd, prefix, depth=MAX_DEPTH)
        with self.lock:
            self.files[key] = listing.entries
            self.files.move_to_end(key)
            while len(self.files) > KEPT_FOLDERS:
                self.files.popitem(last=False)


PAGES = KnownPages()
FOLDERS = KnownFolders()
