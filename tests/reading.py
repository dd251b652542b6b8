"""How much the database reads for some work: rows of a table on PostgreSQL, hundreds of instructions on SQLite."""

from django.db import connection, transaction

STEP = 100  # instructions of SQLite's virtual machine


def iterate_nodes(plan):
    """A node of a plan of PostgreSQL, and all below it."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from iterate_nodes(below)


def count_rows(node):
    """The rows that a node has read, also those that it has dropped."""
    rows = node["Actual Rows"]
    rows += node.get("Rows Removed by Filter", 0)
    rows += node.get("Rows Removed by Index Recheck", 0)
    return rows * node["Actual Loops"]


def amount_read(work, table="runs_run"):
    """What `work` read of this table, and its result; what it wrote is undone."""
    with transaction.atomic():
        if connection.vendor == "sqlite":
            amount, result = read_by_sqlite(work)
        else:
            amount, result = read_by_postgres(work, table)
        transaction.set_rollback(True)
    return amount, result


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
            nodes = [node for node in iterate_nodes(plan) if node.get("Relation Name") == table]
            rows += sum(map(count_rows, nodes))
        return execute(statement, values, many, context)

    with connection.execute_wrapper(explain):
        result = work()
    return rows, result
