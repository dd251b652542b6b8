"""Addresses in a text that a person or a program could follow, in any spelling."""

import re
import unicodedata
from collections.abc import Iterator

# Each pattern starts at the beginning of a run of its characters and is possessive: the time is linear in the length.
HANDLE = re.compile(
    r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)*"  # an e-mail address
    r"|(?<![\w.+-])[a-z][a-z0-9+.-]*+://[^\s\"'<>]+"  # a URL
    r"|(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?:[/:][^\s\"'<>]*)?"  # an IP address
    r"|(?<![\w.-])(?:[\w-]++\.)++[^\W\d_][\w-]{1,62}(?:[/:?#][^\s\"'<>]*)?"  # a host name, with what follows it
    r"|(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?!\w)",  # an IBAN
    re.IGNORECASE,
)
# Dots of East Asian scripts, which browsers accept in host names.
DOTS = str.maketrans("。｡．", "...")


def find_handles(text: str) -> Iterator[str]:
    """The addresses in their plain spelling, without the punctuation that follows them in a sentence."""
    # Normalising can bring forth other dots, so they are replaced before and after it.
    normalized = unicodedata.normalize("NFKC", text.translate(DOTS)).translate(DOTS)
    # Characters that do not show (category Cf) could tear an address apart.
    visible_text = "".join(letter for letter in normalized if unicodedata.category(letter) != "Cf")
    for match in HANDLE.finditer(visible_text):
        yield match.group().rstrip(".,;:!?)]}»”’'\"")
