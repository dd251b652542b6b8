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
START = 3  # letters by which texts with values are found
LEAST = 5  # letters outside its places that a text must have to be recognized
MOST = 2000  # characters of a text that is looked for
PARTS = 10  # sentences of a text that are looked for one by one
DEEP = 3  # a value may be such a text too: “input “x”: `a.b` is not valid JMESPath”
NOUNS = frozenset(["kind", "what", "field", "target_kind", "verb", "unit"])  # places whose single words are translated
SENTENCES = re.compile(r"(?<=[.!?]) ")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with values in it."""

    literals: tuple[str, ...]  # its parts without a value: before, between and after the values
    names: tuple[str, ...]  # of the values
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
    words: dict[str, str] = field(default_factory=dict)  # single words: kinds and names of fields
    patterns: dict[str, list[Pattern]] = field(default_factory=dict)  # by how they start; the most specific first

    def of(self, text: str) -> list[Pattern]:
        """Those that start like this text."""
        return self.patterns.get(text[:START]) or self.patterns.get("", [])


def translate(text: str) -> str:
    """The text in the active language; one that no message file has stays as it is."""
    language = get_language() or "en"
    return text if language == "en" or not text else translate_into(language, str(text)[:MOST]) + str(text)[MOST:]


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
        place, colon, rest = sentence.partition(": ")
        after_place = find_translation(texts, rest, DEEP) if colon else ""
        with_place = f"{place}: {after_place}" if after_place else sentence
        parts.append(find_translation(texts, sentence, DEEP) or with_place)
    return " ".join(parts)


def find_translation(texts: Texts, text: str, depth: int) -> str:
    """Its translation, or "". Values that are texts of the code are translated with it."""
    if text in texts.exact:
        return texts.exact[text]
    for pattern in texts.of(text):
        values = pattern.values(text)
        if values is not None:
            named = zip(pattern.names, values, strict=True)
            return pattern.translation % {name: translate_value(texts, name, value, depth) for name, value in named}
    return ""


def translate_value(texts: Texts, name: str, value: str, depth: int) -> str:
    is_noun = name.rstrip("0123456789") in NOUNS
    if is_noun and value in texts.words:
        return texts.words[value]
    may_be_text = depth > 0 and (is_noun or " " in value)
    return (may_be_text and find_translation(texts, value, depth - 1)) or value


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
        patterns += anything if start else []
        patterns.sort(key=lambda pattern: -pattern.length)
    return texts


def add_translation(texts: Texts, text: str, translation: str) -> None:
    names = PLACE.findall(text)
    if not names:
        (texts.exact if " " in text else texts.words)[text] = translation
        return
    literals = [part.replace("%%", "%") for part in PLACE.split(text)[::2]]
    if len(set(names)) == len(names) and sum(map(str.isalpha, "".join(literals))) >= LEAST:
        start = literals[0][:START] if len(literals[0]) >= START else ""
        texts.patterns.setdefault(start, []).append(Pattern(tuple(literals), tuple(names), translation))
