"""Changing what the database refuses to change, as somebody with its password could: the triggers are taken down first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


def sql(statement: str, *values: Any) -> list[Any]:
    """Rows of a statement in plain SQL."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def unprotected(*tables: str) -> Iterator[None]:
    """The tables without their triggers and, for what is moved about, without their unique constraints."""
    if connection.vendor == "postgresql":
        sql("SET CONSTRAINTS ALL IMMEDIATE")  # what is still to be checked would be in the way of ALTER TABLE
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
