"""Texts of the code in the reader's language: errors, problems, reasons.

They are in English where they are made, so a row never keeps the language of the person who caused it. `translate`
translates them where they are read: it finds the text in the message files, with or without values in it. The message
file `code.po` lists them; tests/docs/code_texts.py collects them from the code.
"""

import gettext
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from django.conf import settings
from django.utils.translation import get_language
from django.utils.translation.trans_real import get_supported_language_variant, parse_accept_lang_header

FOLDER = Path(__file__).resolve().parents[1] / "locale"
DOMAINS = ("code", "django")
PLACE = re.compile(r"%\((\w+)\)[sd]")
# Letters by which texts with values are found.
START = 3
# Letters outside its places that a text must have to be recognized.
LEAST = 5
# Characters of a text that is looked for.
MOST = 2000
# Sentences of a text that are looked for one by one.
PARTS = 10
# A value may be such a text too: “input “x”: `a.b` is not valid JMESPath”
DEEP = 3
# Places whose single words are translated.
NOUNS = frozenset(["kind", "what", "field", "target_kind", "verb", "unit"])
SENTENCES = re.compile(r"(?<=[.!?]) ")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with values in it."""

    # Its parts without a value: before, between and after the values.
    literals: tuple[str, ...]
    # Names of the values.
    names: tuple[str, ...]
    translation: str

    @property
    def length(self) -> int:
        return sum(map(len, self.literals))

    def values(self, text: str) -> Sequence[str] | None:
        """The values in a text of this pattern; None if it is another. It reads the text once: a regular expression
        would try all ways to divide a text that somebody made for it.
        """
        first, *others, last = self.literals
        end = len(text) - len(last)
        if len(first) > end or not text.startswith(first) or not text.endswith(last):
            return None
        values, start = [], len(first)
        for literal in others:
            place = text.find(literal, start, end)
            if place < 0:
                return None
            values.append(text[start:place])
            start = place + len(literal)
        return [*values, text[start:end]]


@dataclass(frozen=True, slots=True)
class Texts:
    exact: dict[str, str] = field(default_factory=dict)
    # Single words: kinds and names of fields.
    words: dict[str, str] = field(default_factory=dict)
    # By how they start; the most specific first.
    patterns: dict[str, list[Pattern]] = field(default_factory=dict)

    def of(self, text: str) -> list[Pattern]:
        """Those that start like this text."""
        return self.patterns.get(text[:START]) or self.patterns.get("", [])


def translate(text: str) -> str:
    """The text in the active language; one that no message file has stays as it is."""
    language = get_language() or "en"
    if language == "en" or not text:
        return text
    beginning = str(text)[:MOST]
    rest = str(text)[MOST:]
    return translate_into(language, beginning) + rest


def translate_name(name: str) -> str:
    """The name of a model, a field or a choice in the active language."""
    texts = load_texts(get_language() or "en")
    return texts.words.get(name) or texts.exact.get(name) or name


def find_language(header: str) -> str:
    """The language that an Accept-Language header names first among those of the site."""
    for name, _ in parse_accept_lang_header(header.lower()):
        with suppress(LookupError):
            return get_supported_language_variant(name)
    return settings.LANGUAGE_CODE


@lru_cache(maxsize=1000)
def translate_into(language: str, text: str) -> str:
    texts = load_texts(language)
    return find_translation(texts, text, DEEP) or translate_parts(texts, text)


def translate_parts(texts: Texts, text: str) -> str:
    """Sentence by sentence, and what follows the name of a field: `steps.0: There is no …`."""
    parts = []
    for sentence in SENTENCES.split(text, PARTS):
        parts.append(translate_sentence(texts, sentence))
    return " ".join(parts)


def translate_sentence(texts: Texts, sentence: str) -> str:
    if whole := find_translation(texts, sentence, DEEP):
        return whole
    place, colon, rest = sentence.partition(": ")
    if colon and (after_place := find_translation(texts, rest, DEEP)):
        return f"{place}: {after_place}"
    return sentence


def find_translation(texts: Texts, text: str, depth: int) -> str:
    """Its translation, or "". Values that are texts of the code are translated with it."""
    if text in texts.exact:
        return texts.exact[text]
    for pattern in texts.of(text):
        values = pattern.values(text)
        if values is not None:
            named = zip(pattern.names, values, strict=True)
            translated = {name: translate_value(texts, name, value, depth) for name, value in named}
            return pattern.translation % translated
    return ""


def translate_value(texts: Texts, name: str, value: str, depth: int) -> str:
    is_noun = name.rstrip("0123456789") in NOUNS
    if is_noun and value in texts.words:
        return texts.words[value]
    may_be_text = is_noun or " " in value
    if depth <= 0 or not may_be_text:
        return value
    return find_translation(texts, value, depth - 1) or value


@cache
def load_texts(language: str) -> Texts:
    texts = Texts()
    for domain in DOMAINS:
        if language == "en":
            break
        translations = gettext.translation(domain, FOLDER, [language], fallback=True)
        for text, translation in getattr(translations, "_catalog", {}).items():
            if isinstance(text, str) and text and "<" not in text and "\x04" not in text:
                add_translation(texts, text, translation)
    anything = texts.patterns.setdefault("", [])
    for start, patterns in texts.patterns.items():
        if start:
            patterns += anything
        patterns.sort(key=lambda pattern: -pattern.length)
    return texts


def add_translation(texts: Texts, text: str, translation: str) -> None:
    names = PLACE.findall(text)
    if not names:
        translations = texts.exact if " " in text else texts.words
        translations[text] = translation
        return
    # Every second part of the split is the name of a place.
    literals = [part.replace("%%", "%") for part in PLACE.split(text)[::2]]
    letters = sum(map(str.isalpha, "".join(literals)))
    # A text with few letters of its own would fit anything; one with a name twice cannot be read back.
    if letters < LEAST or len(set(names)) < len(names):
        return
    start = ""
    if len(literals[0]) >= START:
        start = literals[0][:START]
    pattern = Pattern(tuple(literals), tuple(names), translation)
    texts.patterns.setdefault(start, []).append(pattern)
