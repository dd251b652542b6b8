"""Fair shares: the site's queues work for many people, and nobody delays the others with much or slow work.

One rule for all of them: a person who has a share of the work under way is passed over until some of it is
done. Where several things are done at the same time, the share is a number of threads (`FairQueue`); where
one thing is done after the other, it is a turn of some seconds (`Turns`). docs/howto/queue.md lists the queues.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from plumbing import threads

# The key of a user; None for the site itself.
Person = Any


def of_others(rows: Any, column: str, people: Collection[Person]) -> Any:
    """The rows of a queue that belong to nobody of these people; `column` names whose they are."""
    named = [person for person in people if person is not None]
    if named:
        rows = rows.exclude(**{f"{column}__in": named})
    if None in people:
        rows = rows.exclude(**{column: None})
    return rows


class Shares:
    """How much each person has under way, of a kind of work."""

    def __init__(self, each: int, people: Iterable[Person] = ()) -> None:
        self.each = each
        self.counts: Counter[Person] = Counter(people)

    def has_room(self, person: Person) -> bool:
        return self.counts[person] < self.each

    def add(self, person: Person) -> None:
        self.counts[person] += 1

    def find_full(self) -> list[Person]:
        """Those whose work must wait."""
        return [person for person, number in self.counts.items() if number >= self.each]


class FairQueue:
    """Threads for work of many people. Only one thread may start work; each piece of it has a key of its own."""

    def __init__(self, name: str, at_once: int, each: int) -> None:
        self.at_once = at_once
        self.each = each
        # The pool makes its threads when they are needed.
        self.threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self.under_way: dict[Future, tuple[Person, Any]] = {}

    def forget_ended(self) -> None:
        self.under_way = {one: entry for one, entry in self.under_way.items() if not one.done()}

    def count_room(self) -> int:
        return self.at_once - len(self.under_way)

    def find_keys(self) -> list[Any]:
        """What is under way."""
        return [key for _, key in self.under_way.values()]

    def count_shares(self) -> Shares:
        people = [person for person, _ in self.under_way.values()]
        return Shares(self.each, people)

    def start(self, person: Person, key: Any, work: Callable[..., Any], *arguments: Any) -> None:
        future = self.threads.submit(threads.run_with_connection, work, *arguments)
        self.under_way[future] = person, key

    def fill(self, claim: Callable[[list[Person]], Any], whose: Callable[[Any], Person], work: Any) -> int:
        """Start what `claim` finds, one by one, while there is room. It gets the people who must wait, and returns
        None if there is nothing else. Returns how many were started.
        """
        self.forget_ended()
        started = 0
        while self.count_room() > 0:
            people_who_wait = self.count_shares().find_full()
            claimed = claim(people_who_wait)
            if claimed is None:
                break
            self.start(whose(claimed), claimed.pk, work, claimed)
            started += 1
        return started


class Turns:
    """Seconds that each person has used of the present turn. When nobody else waits, a new turn begins for all."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.used: dict[Person, float] = {}

    def add(self, person: Person, seconds: float) -> None:
        before = self.used.get(person, 0.0)
        self.used[person] = before + seconds

    def is_over(self, person: Person) -> bool:
        return self.used.get(person, 0.0) >= self.seconds

    def find_over(self) -> list[Person]:
        """Those whose work must wait."""
        return [person for person in self.used if self.is_over(person)]

    def begin_anew(self) -> None:
        self.used.clear()
