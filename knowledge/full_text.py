"""The full-text index of texts in the two databases: FTS5 in SQLite, a `tsvector` with a GIN index in PostgreSQL.

All SQL that differs is here; docs/adr/0099 gives the reasons. Each token begins with the number of its
collection, so the index of one collection is never read, counted or ranked together with another's.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db import models, transaction
from django.db.backends.ddl_references import Statement, Table

from plumbing.statements import database

from .words import list_search_stems

# The last position that a tsvector can hold.
POSITIONS = 16_383
# Texts: words that are in more are used to rank, not to find.
COMMON = 2000
# Texts: as many are found by common words alone.
FOUND = 2000
# Texts whose words are read to rank them; more than results are ever asked for.
SCORED = 200
# Stems of a question.
ASKED = 24
# In FTS5 these are part of a token, as in numbers, dates and our prefix.
TOKENIZER = "unicode61 remove_diacritics 0 tokenchars ''_.,:/-''"


def build_index_tokens(collection: int, text: str) -> list[str]:
    prefix = f"{collection:x}_"
    return [prefix + stem for stem in list_search_stems(text)]


class WordsField(models.TextField):
    """The tokens of a text, in order. Written as a list; only the database reads it."""

    def db_type(self, connection: Any) -> str:
        return "tsvector" if connection.vendor == "postgresql" else "text"

    def get_placeholder(self, value: Any, compiler: Any, connection: Any) -> str:
        return "%s::tsvector" if connection.vendor == "postgresql" else "%s"

    def get_prep_value(self, value: Any) -> Any:
        # A TextField would make a text of the list; `get_db_prep_value` needs the tokens.
        return value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> str:
        if isinstance(value, str):
            return value
        if connection.vendor == "postgresql":
            return render_text_vector(value)
        return " ".join(value)


def render_text_vector(tokens: Sequence[str]) -> str:
    """The literal of a tsvector with positions."""
    places: dict[str, list[int]] = defaultdict(list)
    for position, token in enumerate(tokens, 1):
        places[token].append(min(position, POSITIONS))
    lexemes = []
    for token, positions in places.items():
        # PostgreSQL keeps no more positions of a lexeme.
        numbers = ",".join(map(str, positions[:255]))
        lexemes.append(f"{quote_vector_token(token)}:{numbers}")
    return " ".join(lexemes)


def quote_vector_token(token: str) -> str:
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
        [name] = self.fields
        column = model._meta.get_field(name).column
        parts = {
            "table": Table(model._meta.db_table, schema_editor.quote_name),
            "index": f'"{self.name}"',
            "column": f'"{column}"',
            "name": self.name,
            "tokenizer": TOKENIZER,
        }
        # Triggers need both tables, so they are made after them.
        for sql in (*TRIGGERS, TERMS):
            schema_editor.deferred_sql.append(Statement(sql, **parts))
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


def search_full_text(collection: int, version: int, text: str, limit: int) -> list[tuple[int, float]]:
    """(id of the chunk, score) of those of this version of the collection that share words with the text, best first.

    Rare words find chunks, and common ones are looked for in those. Without rare words, those chunks are found that
    have all words; if they are too few, those that have the rarer half. However many chunks share words with the
    text, no more than COMMON or FOUND are found at once, and the words of no more than SCORED are read.
    """
    each_once = dict.fromkeys(build_index_tokens(collection, text))
    tokens = list(each_once)[:ASKED]
    if not tokens:
        return []
    dialect: Any = Postgres if database().vendor == "postgresql" else Sqlite
    total, counts = dialect.counts(collection, tokens)
    weights = {token: measure_word_weight(count, total) for token, count in counts.items()}
    rare = choose_rare_tokens(counts)
    if not rare:
        return search_common_words(dialect, collection, version, weights, limit)
    return dialect.search(collection, version, weights, rare, limit)


def search_common_words(
    dialect: Any, collection: int, version: int, weights: dict[str, float], limit: int
) -> list[tuple[int, float]]:
    """What has all of these common words, then the rarer half of them, until there are enough."""
    tokens = sorted(weights, key=weights.__getitem__, reverse=True)
    scores: dict[int, float] = {}
    while tokens and len(scores) < limit:
        hits = dialect.having(collection, version, weights, tokens, limit)
        scores.update(hits)
        tokens = tokens[: len(tokens) // 2]
    # Of equal scores the older chunk comes first, so that a search gives the same order each time.
    best_first = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))
    return best_first[:limit]


def choose_rare_tokens(counts: dict[str, int]) -> list[str]:
    """The rarest tokens, as long as they are in few texts together. Empty if all are common."""
    rare = []
    total = 0
    for token in sorted(counts, key=counts.__getitem__):
        total += counts[token]
        if total > COMMON:
            break
        rare.append(token)
    # Tokens that no text has are in no count at all: `filter_present_tokens` has left them out.
    return rare


def measure_word_weight(count: int, total: int) -> float:
    """Of a word that is in so many of the chunks of the collection: its inverse document frequency, as in BM25. Numbers
    above COMMON are not counted to the end, and a collection that is larger is taken for ten times as large.
    """
    chunks = total
    if total > COMMON:
        chunks = 10 * COMMON
    without_word = max(chunks - count, 0)
    return math.log(1 + (without_word + 0.5) / (count + 0.5))


def filter_present_tokens(tokens: Sequence[str], counts: Sequence[int]) -> dict[str, int]:
    """Those that are there."""
    pairs = zip(tokens, counts, strict=True)
    return {token: count for token, count in pairs if count}


# The names of tables and columns are our own; tokens are parameters.
TOTAL = f"""(SELECT count(*) FROM (SELECT 1 FROM knowledge_document d JOIN knowledge_chunk c ON c.document_id = d.id
    WHERE d.collection_id = %s LIMIT {COMMON + 1}) few)"""  # noqa: S608
OF_VERSION = "d.collection_id = %s AND d.from_version <= %s AND (d.until_version IS NULL OR d.until_version > %s)"


class Sqlite:
    """Not `bm25`, which counts the chunks of all collections: its scores would tell what others store. The weight of
    a word in a chunk grows with how often it is there and with how rare it is in this collection.
    """

    COUNT = f"(SELECT count(*) FROM (SELECT 1 FROM chunk_words WHERE chunk_words MATCH %s LIMIT {COMMON + 1}))"  # noqa: S608
    OFTEN = "SELECT doc, %s * count(*) / (count(*) + 1.2) FROM chunk_words_terms WHERE term = %s GROUP BY doc"
    THERE = "SELECT rowid, %s / 2.2 FROM chunk_words WHERE chunk_words MATCH %s"
    SEARCH = """
        WITH hit(id, weight) AS ({hits}), hits(id, weight) AS (SELECT id, sum(weight) FROM hit GROUP BY id)
        SELECT c.id, hits.weight / (1 + ln(1 + length(c.text))) AS score FROM hits
        CROSS JOIN knowledge_chunk c ON c.id = hits.id
        CROSS JOIN knowledge_document d ON d.id = c.document_id
        WHERE {of_version} ORDER BY score DESC, c.id LIMIT %s
    """
    # How often a token is in a text whose tokens have two spaces around them is what is left out without it.
    TIMES = "%s * (1 - 1.2 / ((length(words) - length(replace(words, %s, ''))) / {length}.0 + 1.2))"
    HAVING = """
        WITH few(id, size) AS (
            SELECT c.id, length(c.text) FROM chunk_words
            CROSS JOIN knowledge_chunk c ON c.id = chunk_words.rowid
            CROSS JOIN knowledge_document d ON d.id = c.document_id
            WHERE chunk_words MATCH %s AND {of_version} LIMIT {found}),
        best(id, size, words) AS MATERIALIZED (
            SELECT c.id, few.size, '  ' || replace(c.words, ' ', '  ') || '  '
            FROM (SELECT id, size FROM few ORDER BY size, id LIMIT {scored}) few
            CROSS JOIN knowledge_chunk c ON c.id = few.id)
        SELECT id, ({times}) / (1 + ln(1 + size)) AS score FROM best ORDER BY score DESC, id LIMIT %s
    """

    @classmethod
    def counts(cls, collection: int, tokens: Sequence[str]) -> tuple[int, dict[str, int]]:
        columns = [TOTAL, *[cls.COUNT] * len(tokens)]
        values = [collection, *map(cls.term, tokens)]
        [row] = load_sql_rows(f"SELECT {', '.join(columns)}", values)
        total, *counts = row
        return total, filter_present_tokens(tokens, counts)

    @classmethod
    def search(
        cls, collection: int, version: int, weights: dict[str, float], rare: list[str], limit: int
    ) -> list[tuple[int, float]]:
        # Rare words find chunks, and how often they are there counts.
        parts = [cls.OFTEN] * len(rare)
        values: list[Any] = []
        for token in rare:
            values += [weights[token], token]
        # Common words are looked for only in those chunks.
        among = " OR ".join(map(cls.term, rare))
        for token, weight in weights.items():
            if token not in rare:
                parts.append(cls.THERE)
                values += [weight, f"({among}) AND {cls.term(token)}"]
        sql = cls.SEARCH.format(hits=" UNION ALL ".join(parts), of_version=OF_VERSION)
        return load_sql_rows(sql, [*values, collection, version, version, limit])

    @classmethod
    def having(
        cls, collection: int, version: int, weights: dict[str, float], tokens: list[str], limit: int
    ) -> list[tuple[int, float]]:
        match = " AND ".join(map(cls.term, tokens))
        times: list[str] = []
        values: list[Any] = [match, collection, version, version]
        for token, weight in weights.items():
            # The token with one of the two spaces on either side.
            times.append(cls.TIMES.format(length=len(token) + 2))
            values += [weight, f" {token} "]
        sql = cls.HAVING.format(of_version=OF_VERSION, times=" + ".join(times), found=FOUND, scored=SCORED)
        return load_sql_rows(sql, [*values, limit])

    @staticmethod
    def term(token: str) -> str:
        escaped = token.replace('"', '""')
        return f'"{escaped}"'


class Postgres:
    """The words of a chunk are stored apart from its row, and reading them takes longer than all else. So the index
    finds the chunks that have the words, and how often a word is there is only read for the best of them.
    """

    COUNT = f"(SELECT count(*) FROM (SELECT 1 FROM knowledge_chunk WHERE words @@ %s::tsquery LIMIT {COMMON + 1}) few)"  # noqa: S608
    HIT = """
        SELECT id, document_id, octet_length(text) AS size, %s::float8 AS weight
        FROM knowledge_chunk WHERE words @@ %s::tsquery
    """
    # Knows nothing of rare words, so each is ranked alone and weighed.
    RANK = "ts_rank(c.words, %s::tsquery, 1) * %s"
    # The documents are looked up one by one, so that only those of the best chunks are read.
    SEARCH = """
        WITH hit AS ({hits}), best AS MATERIALIZED (
            SELECT id FROM (
                SELECT id, document_id FROM hit GROUP BY id, document_id, size
                ORDER BY sum(weight) / (1 + ln(1 + size)) DESC, id OFFSET 0) h
            WHERE (SELECT {of_version} FROM knowledge_document d WHERE d.id = h.document_id) LIMIT {scored})
        SELECT c.id, ({ranks})::float8 AS score FROM best JOIN knowledge_chunk c ON c.id = best.id
        ORDER BY score DESC, c.id LIMIT %s
    """
    HAVING = """
        SELECT c.id, c.document_id, octet_length(c.text) AS size, 1 AS weight
        FROM knowledge_chunk c JOIN knowledge_document d ON d.id = c.document_id
        WHERE c.words @@ %s::tsquery AND {of_version} LIMIT {found}
    """

    @classmethod
    def counts(cls, collection: int, tokens: Sequence[str]) -> tuple[int, dict[str, int]]:
        """To count a common word takes long, so the planner is asked first which words are common."""
        estimates = zip(tokens, cls.estimates(tokens), strict=True)
        few = [token for token, count in estimates if count <= 2 * COMMON]
        columns = [TOTAL, *[cls.COUNT] * len(few)]
        values = [collection, *map(quote_vector_token, few)]
        [row] = load_sql_rows(f"SELECT {', '.join(columns)}", values)
        total, *counts = row
        common = set(tokens).difference(few)
        return total, dict.fromkeys(common, COMMON + 1) | filter_present_tokens(few, counts)

    @classmethod
    def estimates(cls, tokens: Sequence[str]) -> list[int]:
        """In how many rows each is, by the statistics of the table. A word without statistics counts as rare."""
        queries = ["SELECT 1 FROM knowledge_chunk WHERE words @@ %s::tsquery"] * len(tokens)
        values = list(map(quote_vector_token, tokens))
        [(explained,)] = load_sql_rows(f"EXPLAIN (FORMAT JSON) {' UNION ALL '.join(queries)}", values)
        plan = explained[0]["Plan"]
        # A single query has no plan around it.
        plans = plan["Plans"] if len(tokens) > 1 else [plan]
        return [one["Plan Rows"] for one in plans]

    @classmethod
    def search(
        cls, collection: int, version: int, weights: dict[str, float], rare: list[str], limit: int
    ) -> list[tuple[int, float]]:
        among = " | ".join(map(quote_vector_token, rare))
        values: list[Any] = []
        for token, weight in weights.items():
            match = quote_vector_token(token)
            if token not in rare:
                match = f"({among}) & {match}"
            values += [weight, match]
        hits = " UNION ALL ".join([cls.HIT] * len(weights))
        return cls.ranked(hits, [*values, collection, version, version], weights, limit)

    @classmethod
    def having(
        cls, collection: int, version: int, weights: dict[str, float], tokens: list[str], limit: int
    ) -> list[tuple[int, float]]:
        """The index finds these too: reading the table until enough are found would read the words of each row."""
        hits = cls.HAVING.format(of_version=OF_VERSION, found=FOUND)
        match = " & ".join(map(quote_vector_token, tokens))
        of_version = (collection, version, version)
        with transaction.atomic():
            load_sql_rows("SELECT set_config('enable_seqscan', 'off', true)", [])
            scores = cls.ranked(hits, [match, *of_version, *of_version], weights, limit)
            load_sql_rows("SELECT set_config('enable_seqscan', 'on', true)", [])
        return scores

    @classmethod
    def ranked(cls, hits: str, values: list[Any], weights: dict[str, float], limit: int) -> list[tuple[int, float]]:
        ranks = " + ".join([cls.RANK] * len(weights))
        sql = cls.SEARCH.format(hits=hits, of_version=OF_VERSION, scored=SCORED, ranks=ranks)
        weighed: list[Any] = []
        for token, weight in weights.items():
            weighed += [quote_vector_token(token), weight]
        return load_sql_rows(sql, [*values, *weighed, limit])


def load_sql_rows(sql: str, parameters: Sequence[Any]) -> list[Any]:
    with database().cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def scrub() -> None:
    """SQLite: rewrite the index and empty the log, so that no erased word is left in the database's files.

    The connection overwrites what it deletes (`secure_delete`, config/settings/database.py). Must not be called in a
    transaction. PostgreSQL's VACUUM removes what was deleted by itself.
    """
    if database().vendor != "sqlite":
        return
    with database().cursor() as cursor:
        cursor.execute("INSERT INTO chunk_words(chunk_words) VALUES ('optimize')")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
