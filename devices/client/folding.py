"""One form of words for every search, on devices and on the server. The standard library alone.

Only what is compared is folded: texts that are shown and quoted stay as they were written.
"""

import re
import unicodedata
from collections.abc import Iterator

# Chinese, Japanese and Korean, whose words no space ends. Of Thai and others, FTS5 takes the vowel signs for spaces.
UNSPACED = re.compile("[々\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af]+")


def fold_text(text: str) -> str:
    """Composed letters, in no case and no width: “Straße”, “STRASSE” and “Ｓｔｒａｓｓｅ” become the same."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def split_bigrams(run: str) -> Iterator[str]:
    """Each two letters that stand together; a letter that stands alone is itself."""
    if len(run) == 1:
        yield run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


def list_spellings(word: str) -> list[str]:
    """How a word may be written where only a database compares, which knows the case of ASCII letters alone."""
    folded = fold_text(word)
    forms = [word, folded, folded.upper(), folded.title(), folded.replace("ss", "ß")]
    if word.isascii():
        forms = [word, folded.replace("ss", "ß")]
    normal = [unicodedata.normalize(form, one) for one in forms for form in ("NFC", "NFD")]
    return list(dict.fromkeys(normal))
