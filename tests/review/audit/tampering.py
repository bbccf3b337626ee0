"""Change protected rows as somebody with the database password could: without the triggers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


def sql(statement: str, *values: Any) -> list[Any]:
    """Execute a statement and return its rows, if it has any."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def unprotected(*tables: str) -> Iterator[None]:
    """Lift the triggers and immediate unique constraints of the tables within the block."""
    if connection.vendor == "postgresql":
        sql("SET CONSTRAINTS ALL IMMEDIATE")  # pending deferred checks would block ALTER TABLE
        for table in tables:
            sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield
        for table in tables:
            sql(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        sql("SET CONSTRAINTS ALL DEFERRED")
        return
    triggers = sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    for name, _sql in triggers:
        sql(f"DROP TRIGGER {name}")
    yield
    for _name, create in triggers:
        sql(create)
