"""Values that the database computes while it inserts or updates a row, compiled once."""

from collections.abc import Callable
from typing import Any

from django.db import models
from django.db.models.sql import Query

from plumbing.statements import Bound, database
from plumbing.statements.queries import Compiled, Statement


class Computed(Statement[Compiled]):
    """An expression of one shape over rows of `model`; `make(slots)` returns it."""

    def __init__(self, model: type[models.Model], make: Callable[[Any], Any], **slots: models.Field) -> None:
        super().__init__(make, **slots)
        self.model = model

    def of(self, **values: Any) -> Bound:
        db = database()
        compiled = self.compiled(db)
        return Bound(compiled.sql, tuple(compiled.bind(values, db)))

    def compile(self, db: Any) -> Compiled:
        query = Query(self.model)
        compiler = query.get_compiler(using=db.alias)
        sql, parameters = compiler.compile(self.make(self.slots).resolve_expression(query))
        return Compiled(sql, tuple(parameters))
