"""Database statements that are compiled once and then only bound to values. See docs/statements.md.

Django needs ten times as long to compile a query as the database needs to run it by key. The
statements that every message needs are compiled at first use and kept; everything else uses the
ORM. The private parts of Django used here are checked by tests/plumbing/test_statements.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.models.query import get_related_populators  # type: ignore[attr-defined]
from django.db.models.sql import UpdateQuery

Row = Sequence[Any]
Question = tuple[str, list[Any]]  # a condition inside another statement, and its parameters
Made = TypeVar("Made")
REMEMBERED = 50  # values up to which psycopg keeps a statement that it has parsed
PARAMETERS = 30_000  # values in one statement: SQLite allows 32,766, PostgreSQL 65,535


def database() -> Any:
    """This thread's connection itself: `django.db.connection` looks it up for each attribute
    access, sixty times for a row with fifteen fields.
    """
    return connections[DEFAULT_DB_ALIAS]


def cursor_of_kept(db: Any) -> Any:
    """A cursor for repeated statements: PostgreSQL parses and plans each once per connection."""
    if db.vendor != "postgresql":
        return db.cursor()
    from django.db.backends.postgresql.base import ServerBindingCursor  # needs psycopg, which is not used with SQLite

    db.ensure_connection()
    with db.wrap_database_errors:
        made: Any = ServerBindingCursor(db.connection)  # type: ignore[call-arg]
        return db._prepare_cursor(made)


# -- queries and updates of one shape ----------------------------------------------------------------------------------


class Slot(models.Value):
    """A placeholder in a statement; its field says how a value is written for the database."""

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]

    def bind(self, values: dict[str, Any], db: Any) -> Any:
        return self.output_field.get_db_prep_value(values[self.value], db)


@dataclass(frozen=True, slots=True)
class Compiled:
    """SQL and its parameters, some of which are slots."""

    sql: str
    parameters: tuple[Any, ...]

    def bind(self, values: dict[str, Any], db: Any) -> list[Any]:
        return [one.bind(values, db) if isinstance(one, Slot) else one for one in self.parameters]


@dataclass(frozen=True, slots=True)
class Bound:
    """A value that the database computes, with its parameters (`plumbing/computed.py`); the field of
    a row may hold one until it is stored.
    """

    sql: str
    parameters: tuple[Any, ...]

    def as_sql(self, *_: Any) -> tuple[str, tuple[Any, ...]]:
        return self.sql, self.parameters


class Statement(Generic[Made]):
    """The base of all kinds: `make(slots)` describes the statement, `slots.<name>` is a placeholder
    of that field.
    """

    def __init__(self, make: Callable[[Any], Any], **slots: models.Field) -> None:
        self.make = make
        self.slots = SimpleNamespace(**{name: Slot(name, field) for name, field in slots.items()})
        self.kept: dict[str, Made] = {}  # by kind of database, since their SQL differs

    def compiled(self, db: Any) -> Made:
        if (kept := self.kept.get(db.vendor)) is None:
            kept = self.kept[db.vendor] = self.compile(db)
        return kept

    def compile(self, db: Any) -> Made:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Reader:
    """A compiled query, and how its rows become the results of its QuerySet."""

    query: Compiled
    converters: tuple[tuple[int, tuple[Callable, ...], Any], ...]
    build: Callable[[Row], Any]

    def read(self, row: Row, db: Any) -> Any:
        values = list(row)
        for place, steps, expression in self.converters:
            for step in steps:
                values[place] = step(values[place], expression, db)
        return self.build(values)


class Select(Statement[Reader]):
    """A query of one shape; `make(slots)` returns its QuerySet: of models with their joins, or a
    values_list.
    """

    def all(self, **values: Any) -> list[Any]:
        db = database()
        reader = self.compiled(db)
        with cursor_of_kept(db) as cursor:
            cursor.execute(reader.query.sql, reader.query.bind(values, db))
            rows = cursor.fetchall()
        return [reader.read(row, db) for row in rows]

    def first(self, **values: Any) -> Any | None:
        """The first row, or None. The query itself limits the number of rows."""
        return next(iter(self.all(**values)), None)

    def any(self, **values: Any) -> Question:
        """Whether there is such a row, for use inside another statement."""
        db = database()
        query = self.compiled(db).query
        return f"EXISTS ({query.sql})", query.bind(values, db)

    def compile(self, db: Any) -> Reader:
        queryset: Any = self.make(self.slots)
        compiler = queryset.query.get_compiler(using=db.alias)
        sql, parameters = compiler.as_sql()
        expressions = [column[0] for column in compiler.select[: compiler.col_count]]
        converters = compiler.get_converters(expressions).items()
        return Reader(
            Compiled(sql, tuple(parameters)),
            tuple((place, tuple(steps), expression) for place, (steps, expression) in converters),
            tuple if queryset._fields is not None else builder(compiler),
        )


def builder(compiler: Any) -> Callable[[Row], models.Model]:
    """Makes a model of a row as Django does, including `select_related` and `annotate`."""
    places = compiler.klass_info["select_fields"]
    first, last = places[0], places[-1] + 1
    names = [column[0].target.attname for column in compiler.select[first:last]]
    model, alias = compiler.klass_info["model"], compiler.using
    populators = get_related_populators(compiler.klass_info, compiler.select, alias)  # type: ignore[call-arg]
    annotations = tuple((compiler.annotation_col_map or {}).items())

    def build(row: Row) -> models.Model:
        made = model.from_db(alias, names, row[first:last])
        for populator in populators:
            populator.populate(row, made)
        for name, place in annotations:
            setattr(made, name, row[place])
        return made

    return build


class Update(Statement[Compiled]):
    """A change of one shape; `make(slots)` returns the QuerySet to change and the values to set."""

    def run(self, **values: Any) -> int:
        """Returns the number of changed rows."""
        db = database()
        compiled = self.compiled(db)
        with cursor_of_kept(db) as cursor:
            cursor.execute(compiled.sql, compiled.bind(values, db))
            return cursor.rowcount

    def keys(self, **values: Any) -> list[Any]:
        """Change rows; returns their keys as the database writes them."""
        db = database()
        compiled = self.compiled(db)
        with cursor_of_kept(db) as cursor:
            cursor.execute(f"{compiled.sql} RETURNING {db.ops.quote_name('id')}", compiled.bind(values, db))
            return [key for (key,) in cursor.fetchall()]

    def compile(self, db: Any) -> Compiled:
        queryset, changes = self.make(self.slots)
        query = queryset.query.chain(UpdateQuery)
        query.add_update_values(changes)
        sql, parameters = query.get_compiler(using=db.alias).as_sql()
        return Compiled(sql, tuple(parameters))


# -- rows --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Insert:
    """The parts of an INSERT: up to VALUES, the placeholders of a row of plain values, the returned
    columns, and the fields in order.
    """

    head: str
    places: str
    tail: str
    fields: tuple[models.Field, ...]


def insert(*rows: models.Model) -> None:
    """Insert new rows of one model as `bulk_create` does, in one statement or a few for very many
    rows. Keys made by the database are set. Raises IntegrityError.
    """
    if not rows:
        return
    db = database()
    made = insert_of(type(rows[0]), db.vendor)
    at_once = max(1, PARAMETERS // len(made.fields))
    for start in range(0, len(rows), at_once):
        insert_few(made, rows[start : start + at_once], db)


def insert_few(made: Insert, rows: Sequence[models.Model], db: Any) -> None:
    is_wide = len(made.fields) > REMEMBERED
    placed = [placed_values(values_of(made.fields, row, db, add=True), names_null=is_wide) for row in rows]
    with cursor_of_kept(db) as cursor:
        places = ", ".join(one for one, _ in placed)
        cursor.execute(f"{made.head} {places}{made.tail}", [value for _, values in placed for value in values])
        keys = cursor.fetchall() if made.tail else ()
    for row, (key,) in zip(rows, keys, strict=False):
        row.pk = key
    mark_stored(rows, db)


def insert_each(rows: Sequence[models.Model], *, varying: Sequence[str] | None = None) -> None:
    """Insert any number of rows with keys of their own. If only the fields `varying` differ, the
    other values are taken from the first row.
    """
    if not rows:
        return
    db = database()
    made = insert_of(type(rows[0]), db.vendor)
    places = [(place, field) for place, field in enumerate(made.fields) if varying is None or field.name in varying]
    common = values_of(made.fields, rows[0], db, add=True)
    values = [common]
    for row in rows[1:]:
        mine = common.copy()
        for place, field in places:
            [mine[place]] = values_of((field,), row, db, add=True)
        values.append(mine)
    placed = [placed_values(one) for one in values]  # the shape is the same for all
    with cursor_of_kept(db) as cursor:
        cursor.executemany(f"{made.head} {placed[0][0]}", [one for _, one in placed])
    mark_stored(rows, db)


def placed_values(values: list[Any], *, names_null: bool = False) -> tuple[str, list[Any]]:
    """The placeholders of a row, and its values; a value may be computed. `names_null`: None is part of the SQL."""
    places: list[str] = []
    flat: list[Any] = []
    for value in values:
        if isinstance(value, Bound):
            places.append(value.sql)
            flat.extend(value.parameters)
        elif value is None and names_null:
            places.append("NULL")
        else:
            places.append("%s")
            flat.append(value)
    return f"({', '.join(places)})", flat


def insert_plain(model: type[models.Model], rows: Sequence[Any]) -> None:
    """Insert dataclasses with slots named like the model's columns: creating a model costs a fifth
    of the insert.
    """
    db = database()
    made = insert_of(model, db.vendor, tuple(type(rows[0]).__slots__))
    with cursor_of_kept(db) as cursor:
        cursor.executemany(f"{made.head} {made.places}", [values_of(made.fields, row, db, add=False) for row in rows])


def write(row: models.Model, names: tuple[str, ...]) -> None:
    """Like `row.save(update_fields=names)` for an existing row."""
    update_each([row], names)


def update_each(
    rows: Sequence[Any],
    names: Sequence[str],
    *,
    where: dict[str, Any] | None = None,
    model: type[models.Model] | None = None,
) -> int:
    """Write these fields of existing rows, each only while `where` (one value per field) holds.
    Returns how many.

    With `model` the rows may be any objects with these fields and the key.
    """
    if not rows:
        return 0
    db, where = database(), where or {}
    kind: Any = model or type(rows[0])
    sql, changed, tested = update_of(kind, tuple(names), tuple(where), db.vendor)
    conditions = [field.get_db_prep_save(value, db) for field, value in zip(tested, where.values(), strict=True)]
    values = [[*values_of(changed, row, db, add=False), *conditions] for row in rows]
    with cursor_of_kept(db) as cursor:
        if len(values) == 1:
            cursor.execute(sql, values[0])
        else:
            cursor.executemany(sql, values)
        return cursor.rowcount


@cache
def insert_of(model: type[models.Model], vendor: str, names: tuple[str, ...] = ()) -> Insert:
    """`names`: the columns; by default all except a key made by the database."""
    quote, meta = database().ops.quote_name, model._meta
    is_made_there = isinstance(meta.pk, models.AutoField)
    fields = tuple(field for field in meta.concrete_fields if not (is_made_there and field.primary_key))
    if names:
        fields = tuple(field for field in fields if field.attname in names)
    return Insert(
        head=f"INSERT INTO {quote(meta.db_table)} ({', '.join(quote(field.column) for field in fields)}) VALUES",
        places=f"({', '.join(['%s'] * len(fields))})",
        tail=f" RETURNING {quote(meta.pk.column)}" if is_made_there else "",
        fields=fields,
    )


@cache
def update_of(
    model: type[models.Model], names: tuple[str, ...], tested: tuple[str, ...], vendor: str
) -> tuple[str, tuple[Any, ...], tuple[Any, ...]]:
    """The statement, the fields it sets followed by the key, and the fields it tests."""
    quote, meta = database().ops.quote_name, model._meta
    changed: tuple[Any, ...] = tuple(meta.get_field(name) for name in names)
    conditions: tuple[Any, ...] = tuple(meta.get_field(name) for name in tested)
    sets = ", ".join(f"{quote(field.column)} = %s" for field in changed)
    tests = " AND ".join(f"{quote(field.column)} = %s" for field in (meta.pk, *conditions))
    sql = f"UPDATE {quote(meta.db_table)} SET {sets} WHERE {tests}"  # noqa: S608 (names come from the model)
    return sql, (*changed, meta.pk), conditions


def values_of(fields: Sequence[models.Field], row: Any, db: Any, *, add: bool) -> list[Any]:
    return [field.get_db_prep_save(field.pre_save(row, add), db) for field in fields]


def mark_stored(rows: Sequence[models.Model], db: Any) -> None:
    for row in rows:
        row._state.adding, row._state.db = False, db.alias


# -- one row, conditionally --------------------------------------------------------------------------------------------


def take_numbers(
    model: type[models.Model],
    pk: Any,
    column: str,
    count: int = 1,
    *,
    where: dict[str, Any] | None = None,
    values: dict[str, Any] | None = None,
    asking: Sequence[Question] = (),
) -> tuple[int, ...] | None:
    """Add `count` to an integer column; returns the last number taken, then 1 or 0 for each
    question. None: no row matched.

    `where` holds further conditions (a tuple means “one of”), `values` further columns to set, in
    the same statement.
    """
    db = database()
    quote = db.ops.quote_name
    key = model._meta.pk
    assert key is not None and key.column is not None
    sets, set_parameters = [f"{quote(column)} = {quote(column)} + %s"], [count]
    for name, value in (values or {}).items():
        field: Any = model._meta.get_field(name)
        computed = value if isinstance(value, Bound) else Bound("%s", (field.get_db_prep_save(value, db),))
        sets.append(f"{quote(field.column)} = {computed.sql}")
        set_parameters.extend(computed.parameters)
    tests, test_parameters = [f"{quote(key.column)} = %s"], [key.get_db_prep_value(pk, db)]
    for name, value in (where or {}).items():
        field = model._meta.get_field(name)
        options = [field.get_db_prep_value(one, db) for one in (value if isinstance(value, tuple) else (value,))]
        if value is None:
            tests.append(f"{quote(field.column)} IS NULL")
        else:
            tests.append(f"{quote(field.column)} IN ({', '.join(['%s'] * len(options))})")
            test_parameters.extend(options)
    told = [quote(column), *(question for question, _ in asking)]
    told_parameters = [parameter for _, parameters in asking for parameter in parameters]
    sql = (  # names come from the models, values are parameters
        f"UPDATE {quote(model._meta.db_table)} SET {', '.join(sets)} "  # noqa: S608
        f"WHERE {' AND '.join(tests)} RETURNING {', '.join(told)}"
    )
    with cursor_of_kept(db) as cursor:
        cursor.execute(sql, [*set_parameters, *test_parameters, *told_parameters])
        return cursor.fetchone()
