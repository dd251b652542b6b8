"""How much the database reads for some work: rows of a table on PostgreSQL, hundreds of instructions on SQLite."""

from django.db import connection, transaction

STEP = 100  # instructions of SQLite's virtual machine


def nodes_of(plan):
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes_of(below)


def rows_read(node):
    seen = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return seen * node["Actual Loops"]


def amount_read(work, table="runs_run"):
    """What `work` read of this table, and its result; what it wrote is undone."""
    with transaction.atomic():
        found = read_by_sqlite(work) if connection.vendor == "sqlite" else read_by_postgres(work, table)
        transaction.set_rollback(True)
    return found


def read_by_sqlite(work):
    steps = 0

    def count():
        nonlocal steps
        steps += 1

    connection.connection.set_progress_handler(count, STEP)
    try:
        result = work()
    finally:
        connection.connection.set_progress_handler(None, STEP)
    return steps, result


def read_by_postgres(work, table):
    """Each statement is executed once more, with EXPLAIN, before it is executed."""
    rows = 0

    def explain(execute, statement, values, many, context):
        nonlocal rows
        if table in statement:
            with connection.connection.cursor() as cursor:
                cursor.execute("SAVEPOINT explained")
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", values)
                plan = cursor.fetchone()[0][0]["Plan"]
                cursor.execute("ROLLBACK TO SAVEPOINT explained")
            rows += sum(rows_read(node) for node in nodes_of(plan) if node.get("Relation Name") == table)
        return execute(statement, values, many, context)

    with connection.execute_wrapper(explain):
        result = work()
    return rows, result
