"""Append-only tables: database triggers refuse UPDATE and DELETE on SQLite and PostgreSQL.

PostgreSQL's TRUNCATE is refused as well. SQLite's INSERT OR REPLACE deletes the old row without
firing triggers, unless the connection sets `PRAGMA recursive_triggers=ON`; ours do
(`mhb_site.env`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


def create_sql(vendor: str, table: str, columns: tuple[str, ...] = ()) -> list[str]:
    """Statements that protect `table`; with `columns`, only those are protected from UPDATE."""
    message = f"{table} is append-only"
    if vendor == "sqlite":
        of = ""
        if columns:
            of = f" OF {', '.join(columns)}"
        return [
            f"CREATE TRIGGER {table}_no_update BEFORE UPDATE{of} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{message}'); END",
            f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, '{message}'); END",
        ]
    of = ""
    if columns:
        of = f" OF {', '.join(columns)}"
    return [
        f"CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{message}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE{of} ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_refuse()",
        f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_refuse()",
        f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()",
    ]


def drop_sql(vendor: str, table: str) -> list[str]:
    """Statements that undo `create_sql`."""
    if vendor == "sqlite":
        return [f"DROP TRIGGER IF EXISTS {table}_no_update", f"DROP TRIGGER IF EXISTS {table}_no_delete"]
    return [
        f"DROP TRIGGER IF EXISTS {table}_no_update ON {table}",
        f"DROP TRIGGER IF EXISTS {table}_no_delete ON {table}",
        f"DROP TRIGGER IF EXISTS {table}_no_truncate ON {table}",
        f"DROP FUNCTION IF EXISTS {table}_refuse()",
    ]


@contextmanager
def changeable(*protected: type[models.Model]) -> Iterator[None]:
    """Lift the protection of these tables inside, within the surrounding transaction.

    Only the owner of the tables can: with a second database role (docs/operations.md) not the site.
    Raises ProgrammingError (PostgreSQL) for any other role.
    """
    tables = [model._meta.db_table for model in protected]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            marks = ", ".join("%s" for _table in tables)
            triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN"
            cursor.execute(f"{triggers} ({marks})", tables)
            stored = cursor.fetchall()
            lift = [f"DROP TRIGGER {name}" for name, _sql in stored]
            restore = [sql for _name, sql in stored]
        else:
            # What waits for the commit must be checked before a table can be altered.
            check = "SET CONSTRAINTS ALL IMMEDIATE"
            lift = [check, *(f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in tables)]
            restore = [check, *(f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in tables)]
        for statement in lift:
            cursor.execute(statement)
    yield
    with connection.cursor() as cursor:  # not after an error: the transaction then undoes it
        for statement in restore:
            cursor.execute(statement)


class AppendOnly(Operation):
    """Migration operation: make a table refuse UPDATE (of `columns`, if given) and DELETE."""

    reversible = True

    def __init__(self, model_name: str, columns: tuple[str, ...] = ()) -> None:
        self.model_name = model_name
        self.columns = columns

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """The models do not change."""

    def _run(self, schema_editor: BaseDatabaseSchemaEditor, statements: list[str]) -> None:
        for statement in statements:
            schema_editor.execute(statement, params=None)

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        model: type[models.Model] = to_state.apps.get_model(app_label, self.model_name)
        vendor = schema_editor.connection.vendor
        self._run(schema_editor, create_sql(vendor, model._meta.db_table, self.columns))

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        model: type[models.Model] = from_state.apps.get_model(app_label, self.model_name)
        self._run(schema_editor, drop_sql(schema_editor.connection.vendor, model._meta.db_table))

    def describe(self) -> str:
        return f"Refuse UPDATE and DELETE on {self.model_name}"

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        options: dict[str, Any] = {}
        if self.columns:
            options = {"columns": self.columns}
        return (self.__class__.__qualname__, [self.model_name], options)


class Changeable(AppendOnly):
    """Migration operation: remove the protection so that the table can be altered.

    `AppendOnly` restores it. SQLite alters a table by recreating it without its triggers, so an
    alteration that is not enclosed by these two operations would silently leave it unprotected.
    """

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        super().database_backwards(app_label, schema_editor, to_state, from_state)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        super().database_forwards(app_label, schema_editor, to_state, from_state)

    def describe(self) -> str:
        return f"Let {self.model_name} be altered"
