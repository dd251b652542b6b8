"""The full-text index of texts in the two databases: FTS5 in SQLite, a `tsvector` with a GIN index in PostgreSQL.

All SQL that differs is here; docs/adr/0099 gives the reasons. Each token begins with the number of its
collection, so the index of one collection is never read, counted or ranked together with another's.
"""

import math
from collections.abc import Sequence
from typing import Any

from django.db import models
from django.db.backends.ddl_references import Statement, Table

from plumbing.statements import database

from .words import stems_of

POSITIONS = 16_383  # the last position that a tsvector can hold
COMMON = 2000  # texts: words that are in more are used to rank, not to find
ASKED = 24  # stems of a question
# In FTS5 these are part of a token, as in numbers, dates and our prefix.
TOKENIZER = "unicode61 remove_diacritics 0 tokenchars ''_.,:/-''"


def tokens_of(collection: int, text: str) -> list[str]:
    return [f"{collection:x}_{stem}" for stem in stems_of(text)]


class WordsField(models.TextField):
    """The tokens of a text, in order. Written as a list; only the database reads it."""

    def db_type(self, connection: Any) -> str:
        return "tsvector" if connection.vendor == "postgresql" else "text"

    def get_placeholder(self, value: Any, compiler: Any, connection: Any) -> str:
        return "%s::tsvector" if connection.vendor == "postgresql" else "%s"

    def get_prep_value(self, value: Any) -> Any:
        return value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> str:
        if isinstance(value, str):
            return value
        return vector_of(value) if connection.vendor == "postgresql" else " ".join(value)


def vector_of(tokens: Sequence[str]) -> str:
    """The literal of a tsvector with positions."""
    places: dict[str, list[int]] = {}
    for position, token in enumerate(tokens, 1):
        places.setdefault(token, []).append(min(position, POSITIONS))
    return " ".join(f"{quoted(token)}:{','.join(map(str, found[:255]))}" for token, found in places.items())


def quoted(token: str) -> str:
    escaped = token.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


class WordsIndex(models.Index):
    """The index of a `WordsField`. In SQLite it is an FTS5 table beside the model's, which triggers keep equal to it,
    so that rows deleted by a cascade leave the index as well.
    """

    suffix = "words"

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        if schema_editor.connection.vendor == "postgresql":
            statement: Any = super().create_sql(model, schema_editor, using=" USING gin", **kwargs)
            # Each search reads the entries that are not sorted in yet. With the usual 4 MB of them PostgreSQL prefers
            # to read the whole table (188 ms in place of 22); without any, indexing takes twice the time.
            statement.parts["extra"] = f" WITH (gin_pending_list_limit = 1024){statement.parts['extra']}"
            return statement
        [column] = (model._meta.get_field(name).column for name in self.fields)
        parts = {"table": Table(model._meta.db_table, schema_editor.quote_name), "index": f'"{self.name}"',
                 "column": f'"{column}"', "name": self.name, "tokenizer": TOKENIZER}  # fmt: skip
        schema_editor.deferred_sql.extend(Statement(sql, **parts) for sql in (*TRIGGERS, TERMS))
        return Statement(VIRTUAL_TABLE, **parts)

    def remove_sql(self, model: Any, schema_editor: Any, **kwargs: Any) -> Any:
        if schema_editor.connection.vendor == "postgresql":
            return super().remove_sql(model, schema_editor, **kwargs)
        schema_editor.execute(f'DROP TABLE IF EXISTS "{self.name}_terms"')
        for trigger in ("added", "removed", "changed"):
            schema_editor.execute(f'DROP TRIGGER IF EXISTS "{self.name}_{trigger}"')
        return f'DROP TABLE IF EXISTS "{self.name}"'


VIRTUAL_TABLE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS %(index)s USING fts5"
    "(%(column)s, content=%(table)s, content_rowid='id', tokenize='%(tokenizer)s')"
)
ADD = "INSERT INTO %(index)s(rowid, %(column)s) VALUES (new.id, new.%(column)s);"
REMOVE = "INSERT INTO %(index)s(%(index)s, rowid, %(column)s) VALUES ('delete', old.id, old.%(column)s);"
TRIGGERS = (
    f'CREATE TRIGGER IF NOT EXISTS "%(name)s_added" AFTER INSERT ON %(table)s BEGIN {ADD} END',
    f'CREATE TRIGGER IF NOT EXISTS "%(name)s_removed" AFTER DELETE ON %(table)s BEGIN {REMOVE} END',
    f'CREATE TRIGGER IF NOT EXISTS "%(name)s_changed" AFTER UPDATE OF %(column)s ON %(table)s BEGIN {REMOVE} {ADD} END',
)
# Where each word stands, read from the index itself: it stores nothing.
TERMS = "CREATE VIRTUAL TABLE IF NOT EXISTS \"%(name)s_terms\" USING fts5vocab('%(name)s', 'instance')"


# -- searching ---------------------------------------------------------------------------------------------------------


def search(collection: int, version: int, text: str, limit: int) -> list[tuple[int, float]]:
    """(id of the chunk, score) of those of this version of the collection that share words with the text, best first.

    Two statements: how many chunks there are and have each word, then the chunks. Those that share only common words
    with the text are left out unless they share all of them.
    """
    tokens = list(dict.fromkeys(tokens_of(collection, text)))[:ASKED]
    if not tokens:
        return []
    dialect: Any = Postgres if database().vendor == "postgresql" else Sqlite
    total, *having = dialect.counts(collection, tokens)
    counts = {token: count for token, count in zip(tokens, having, strict=True) if count}
    if not counts:
        return []
    weights = {token: weight_of(count, total) for token, count in counts.items()}
    return dialect.search(collection, version, weights, rarest(counts), limit)


def rarest(counts: dict[str, int]) -> list[str]:
    """The rarest tokens, as long as they are in few texts together. Empty if all are common."""
    kept, total = [], 0
    for token, count in sorted(counts.items(), key=lambda item: item[1]):
        total += count
        if total > COMMON:
            break
        kept.append(token)
    return kept


def weight_of(count: int, total: int) -> float:
    """Of a word that is in so many of the chunks of the collection: its inverse document frequency, as in BM25. Numbers
    above COMMON are not counted to the end, and a collection that is larger is taken for ten times as large.
    """
    chunks = total if total <= COMMON else 10 * COMMON
    return math.log(1 + (max(chunks - count, 0) + 0.5) / (count + 0.5))


# The names of tables and columns are our own; tokens are parameters.
TOTAL = f"""(SELECT count(*) FROM (SELECT 1 FROM knowledge_document d JOIN knowledge_chunk c ON c.document_id = d.id
    WHERE d.collection_id = %s LIMIT {COMMON + 1}) few)"""  # noqa: S608
OF_VERSION = "d.collection_id = %s AND d.from_version <= %s AND (d.until_version IS NULL OR d.until_version > %s)"


class Sqlite:
    """Not `bm25`, which counts the chunks of all collections: its scores would tell what others store. The weight of
    a word in a chunk grows with how often it is there and with how rare it is in this collection.
    """

    COUNT = "(SELECT count(*) FROM (SELECT 1 FROM chunk_words WHERE chunk_words MATCH %s LIMIT 2001))"
    OFTEN = "SELECT doc, %s * count(*) / (count(*) + 1.2) FROM chunk_words_terms WHERE term = %s GROUP BY doc"
    THERE = "SELECT rowid, %s / 2.2 FROM chunk_words WHERE chunk_words MATCH %s"
    SEARCH = """
        WITH hit(id, weight) AS ({hits}), hits(id, weight, words) AS (
            SELECT id, sum(weight), count(*) FROM hit GROUP BY id)
        SELECT c.id, hits.weight / (1 + ln(1 + length(c.text))) AS score FROM hits
        CROSS JOIN knowledge_chunk c ON c.id = hits.id
        CROSS JOIN knowledge_document d ON d.id = c.document_id
        WHERE hits.words >= %s AND {of_version}
        ORDER BY score DESC, c.id LIMIT %s
    """

    @classmethod
    def counts(cls, collection: int, tokens: Sequence[str]) -> Sequence[int]:
        values = [collection, *map(cls.term, tokens)]
        return rows(f"SELECT {', '.join([TOTAL, *[cls.COUNT] * len(tokens)])}", values)[0]

    @classmethod
    def search(
        cls, collection: int, version: int, weights: dict[str, float], rare: list[str], limit: int
    ) -> list[tuple[int, float]]:
        """Rare words find chunks, and common ones are looked for in those. Without rare words, all must be there."""
        finding = rare or list(weights)
        common = [token for token in weights if token not in finding]
        among = " OR ".join(map(cls.term, finding))
        hits = " UNION ALL ".join([cls.OFTEN] * len(finding) + [cls.THERE] * len(common))
        values: list[Any] = [value for token in finding for value in (weights[token], token)]
        for token in common:
            values += [weights[token], f"({among}) AND {cls.term(token)}"]
        sql = cls.SEARCH.format(hits=hits, of_version=OF_VERSION)
        return rows(sql, [*values, 1 if rare else len(weights), collection, version, version, limit])

    @staticmethod
    def term(token: str) -> str:
        return '"' + token.replace('"', '""') + '"'


class Postgres:
    COUNT = "(SELECT count(*) FROM (SELECT 1 FROM knowledge_chunk WHERE words @@ %s::tsquery LIMIT 2001) few)"
    RANK = "ts_rank(c.words, %s::tsquery, 1) * %s"

    @classmethod
    def counts(cls, collection: int, tokens: Sequence[str]) -> Sequence[int]:
        values = [collection, *map(quoted, tokens)]
        return rows(f"SELECT {', '.join([TOTAL, *[cls.COUNT] * len(tokens)])}", values)[0]

    @classmethod
    def search(
        cls, collection: int, version: int, weights: dict[str, float], rare: list[str], limit: int
    ) -> list[tuple[int, float]]:
        """`ts_rank` knows nothing of rare words, so each word is ranked alone and weighed."""
        match = " & ".join(map(quoted, weights))
        if rare:
            match = f"({match}) | {' | '.join(map(quoted, rare))}"
        ranks = " + ".join([cls.RANK] * len(weights))
        ranked = [value for token, weight in weights.items() for value in (quoted(token), weight)]
        sql = f"""
            SELECT c.id, ({ranks})::float8 AS score FROM knowledge_chunk c
            JOIN knowledge_document d ON d.id = c.document_id
            WHERE c.words @@ %s::tsquery AND {OF_VERSION} ORDER BY score DESC, c.id LIMIT %s
        """  # noqa: S608
        return rows(sql, [*ranked, match, collection, version, version, limit])


def rows(sql: str, parameters: Sequence[Any]) -> list[Any]:
    with database().cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def scrub() -> None:
    """SQLite: rewrite the index and the free pages, so that no erased word is left in the database file or its log.

    Must not be called in a transaction. PostgreSQL's VACUUM removes what was deleted by itself.
    """
    if database().vendor != "sqlite":
        return
    with database().cursor() as cursor:
        cursor.execute("PRAGMA secure_delete = ON")
        cursor.execute("INSERT INTO chunk_words(chunk_words) VALUES ('optimize')")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
