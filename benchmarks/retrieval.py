"""How well searches find: texts in which each subject has several words, and questions that use another than the text.

`measure(find)` is the mean reciprocal rank and the recall among the first five. The vectors are scripted: words of one
subject point the same way, as an embedding model has learned of a language. So the figures compare ways of searching,
not models. Tests and `benchmarks/knowledge.py` print them.
"""

import random
import re
from array import array
from collections.abc import Callable, Sequence
from hashlib import sha256

SUBJECTS, SYNONYMS = 60, 3
DOCUMENTS = 120
FILLERS = 40
DIMENSIONS = 256
FIRST = 5


class Corpus:
    """`texts` by name, and `questions` with the name of the text that answers."""

    def __init__(self, seed: int = 11) -> None:
        chance = random.Random(seed)  # noqa: S311
        syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
        texts: set[str] = set()
        while len(texts) < SUBJECTS * SYNONYMS + FILLERS:
            texts.add("".join(chance.choices(syllables, k=4)))
        words = sorted(texts)
        chance.shuffle(words)
        fillers = words[:FILLERS]
        rest = words[FILLERS:]
        self.synonyms = [rest[start : start + SYNONYMS] for start in range(0, len(rest), SYNONYMS)]
        self.subject_of = {word: number for number, group in enumerate(self.synonyms) for word in group}
        self.texts: dict[str, str] = {}
        self.questions: list[tuple[str, str]] = []
        for number in range(DOCUMENTS):
            subjects = chance.sample(range(SUBJECTS), 3)
            picked = [chance.choice(self.synonyms[one]) for one in subjects]
            content = [*(picked * 2), *chance.choices(fillers, k=30)]
            chance.shuffle(content)
            self.texts[f"text-{number}"] = " ".join(content)
            terms = [picked[0], *(chance.choice(self.synonyms[one]) for one in subjects[1:])]
            self.questions.append((" ".join([*terms, *chance.sample(fillers, 3)]), f"text-{number}"))

    def vector(self, text: str) -> array:
        """Of length one. Words that are in no subject count little, as usual words do."""
        places = [0.0] * DIMENSIONS
        for word in re.findall(r"[a-z]+", text.lower()):
            subject = self.subject_of.get(word)
            key = word if subject is None else f"subject {subject}"
            digest = sha256(key.encode()).digest()
            places[int.from_bytes(digest[:4], "big") % DIMENSIONS] += 0.1 if subject is None else 1.0
        length = sum(value * value for value in places) ** 0.5 or 1.0
        return array("f", (value / length for value in places))

    def naive(self, question: str) -> list[str]:
        """The baseline: how many words of the question a text has, equal ones by name."""
        words = set(question.split())
        return sorted(self.texts, key=lambda name: (-len(words & set(self.texts[name].split())), name))

    def measure(self, find: Callable[[str], Sequence[str]]) -> tuple[float, float]:
        """(mean reciprocal rank, recall among the first five)."""
        ranks = []
        for question, answer in self.questions:
            names = list(find(question))
            ranks.append(names.index(answer) + 1 if answer in names else 0)
        reciprocal = sum(1 / rank for rank in ranks if rank) / len(ranks)
        return reciprocal, sum(1 for rank in ranks if 1 <= rank <= FIRST) / len(ranks)
