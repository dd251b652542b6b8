"""Queries and updates of one shape, compiled at first use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from django.db import models
from django.db.models.query import get_related_populators  # type: ignore[attr-defined]
from django.db.models.sql import UpdateQuery

from .binding import Question, cursor_of_kept, database

Row = Sequence[Any]
# What a kind of statement is compiled to.
Made = TypeVar("Made")


class Slot(models.Value):
    """A placeholder in a statement; its field says how a value is written for the database."""

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        # The slot stands for its parameter until values are bound.
        return "%s", [self]

    def bind(self, values: dict[str, Any], db: Any) -> Any:
        return self.output_field.get_db_prep_value(values[self.value], db)


@dataclass(frozen=True, slots=True)
class Compiled:
    """SQL and its parameters, some of which are slots."""

    sql: str
    parameters: tuple[Any, ...]

    def bind(self, values: dict[str, Any], db: Any) -> list[Any]:
        return [
            parameter.bind(values, db) if isinstance(parameter, Slot) else parameter for parameter in self.parameters
        ]


class Statement(Generic[Made]):
    """The base of all kinds of statements.

    `make(slots)` describes the statement, where `slots.<name>` stands for a value that each use binds.
    """

    def __init__(self, make: Callable[[Any], Any], **slots: models.Field) -> None:
        self.make = make
        self.slots = SimpleNamespace(**{name: Slot(name, field) for name, field in slots.items()})
        # What was compiled, by kind of database, since their SQL differs.
        self.kept: dict[str, Made] = {}

    def compiled(self, db: Any) -> Made:
        """The statement for this database, compiled at first use."""
        if db.vendor not in self.kept:
            self.kept[db.vendor] = self.compile(db)
        return self.kept[db.vendor]

    def compile(self, db: Any) -> Made:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Reader:
    """A compiled query, and how its rows become the results of its QuerySet.

    `converters` has (position of a column, what converts its value step by step, its expression).
    """

    query: Compiled
    converters: tuple[tuple[int, tuple[Callable, ...], Any], ...]
    build: Callable[[Row], Any]

    def read(self, row: Row, db: Any) -> Any:
        values = list(row)
        for position, steps, expression in self.converters:
            for step in steps:
                values[position] = step(values[position], expression, db)
        return self.build(values)


class Select(Statement[Reader]):
    """A query of one shape; `make(slots)` returns its QuerySet, of models with their joins or a values_list."""

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
            tuple((position, tuple(steps), expression) for position, (steps, expression) in converters),
            # `_fields` are those of a values_list; None for models.
            tuple if queryset._fields is not None else build_model_converter(compiler),
        )


def build_model_converter(compiler: Any) -> Callable[[Row], models.Model]:
    """What makes a model of a row as Django does, including `select_related` and `annotate`."""
    # The model's own columns stand together.
    positions = compiler.klass_info["select_fields"]
    start, end = positions[0], positions[-1] + 1
    names = [column[0].target.attname for column in compiler.select[start:end]]
    model, alias = compiler.klass_info["model"], compiler.using
    populators = get_related_populators(compiler.klass_info, compiler.select, alias)  # type: ignore[call-arg]
    annotations = tuple((compiler.annotation_col_map or {}).items())

    def build(row: Row) -> models.Model:
        instance = model.from_db(alias, names, row[start:end])
        for populator in populators:
            populator.populate(row, instance)
        for name, position in annotations:
            setattr(instance, name, row[position])
        return instance

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
