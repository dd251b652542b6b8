"""Conditions of runs that need more than their own row: words of their messages, failed tools, what
they cost with the runs below them.

Each is a condition of one query, so that a list with filters stays one query. A user's runs are read
in the order of their ids; every subquery reads the rows of one run through an index.
"""

import json
from datetime import timedelta
from typing import Any

from django.db.models import Case, DecimalField, Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, TextField, Value, When
from django.db.models.functions import Cast, Coalesce

from agents.http.filters import match_word
from agents.models import Agent
from devices.client.folding import list_spellings
from runs.models import Message, Run, ToolCallRecord

# Words that are looked for; each is a condition of its own.
WORDS = 6
SAID = (Message.Role.USER, Message.Role.ASSISTANT)
NAMES = ("session__title", "agent__name", "chain_version__chain__name")


def filter_by_words(runs: QuerySet[Run], text: str) -> QuerySet[Run]:
    """Each word is in a message of the run, in its error, or in the name of its session, agent or chain."""
    runs = runs.annotate(error_text=cast_to_text("error"))
    for word in text.split()[:WORDS]:
        is_in_name = match_word(word, *NAMES)
        is_in_error = match_text("error_text", word)
        is_in_message = Q(Exists(find_messages_by_word(word)))
        runs = runs.filter(is_in_name | is_in_error | is_in_message)
    return runs


def find_messages_by_word(word: str) -> QuerySet[Message]:
    """Messages of the outer run with this word."""
    messages = Message.objects.filter(run=OuterRef("pk"), role__in=SAID).order_by()
    messages = messages.annotate(words_text=cast_to_text("content"))
    return messages.filter(match_text("words_text", word))


def cast_to_text(column: str) -> Cast:
    return Cast(column, TextField())


def match_text(column: str, word: str) -> Q:
    """As it is, or as JSON escapes it: SQLite keeps JSON as it was written."""
    is_written = Q()
    for spelling in list_spellings(word):
        # Without the quotation marks around it.
        escaped = json.dumps(spelling)[1:-1]
        is_written |= Q(**{f"{column}__icontains": spelling})
        is_written |= Q(**{f"{column}__icontains": escaped})
    return is_written


def with_failed_tool(runs: QuerySet[Run], is_failed: bool = True) -> QuerySet[Run]:
    failed = ToolCallRecord.objects.filter(run=OuterRef("pk"), outcome=ToolCallRecord.Outcome.FAILED)
    has_failed = Exists(failed.order_by())
    if is_failed:
        return runs.filter(has_failed)
    return runs.filter(~has_failed)


def filter_by_agent_name(runs: QuerySet[Run], name: str) -> QuerySet[Run]:
    """A join would read every run of the user; a name belongs to few agents."""
    ids = Agent.objects.filter(name=name).values_list("pk", flat=True)[:200]
    return runs.filter(agent__in=list(ids))


def with_total(runs: QuerySet[Run], name: str) -> QuerySet[Run]:
    """Annotates `total_cost` or `total_tokens`: of the run, and of all runs below one at the top of its tree."""
    if name == "cost":
        own: Any = F("cost")
        zero: Any = Value(0, output_field=DecimalField())
    else:
        own = F("input_tokens") + F("output_tokens")
        zero = Value(0)
    runs_below = Run.objects.filter(root=OuterRef("pk")).order_by()
    sum_below = Subquery(runs_below.values("root").annotate(sum=Sum(own)).values("sum"))
    # A run without runs below has no sum.
    whole = own + Coalesce(sum_below, zero)
    total = Case(When(root=None, then=whole), default=own)
    return runs.annotate(**{f"total_{name}": total})


def took(runs: QuerySet[Run], *, at_least: float | None = None, at_most: float | None = None) -> QuerySet[Run]:
    """Seconds from when a run was accepted until it ended."""
    if at_least is not None:
        runs = runs.filter(finished_at__gte=F("created_at") + timedelta(seconds=at_least))
    if at_most is not None:
        runs = runs.filter(finished_at__lte=F("created_at") + timedelta(seconds=at_most))
    return runs
