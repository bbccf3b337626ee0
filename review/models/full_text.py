"""Full-text search in text columns: PostgreSQL's tsvector, SQLite's FTS5.

No PostgreSQL extension is needed, as the database role may not be allowed to create one. Chinese
has no spaces, so a parser takes a whole clause for one word. On PostgreSQL we therefore index each
pair of neighbouring characters as a word; on SQLite the trigram tokenizer indexes every three
letters of any script. Both find a term anywhere in a clause, and answer from the index alone.
"""

from typing import Any

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

# Chinese characters and Japanese syllables: a regex character class for both PostgreSQL and Python.
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
MAX_CHARACTERS = 50_000  # indexed characters of a text: a tsvector must be smaller than 1 MB

# COST is so high that the planner always uses the index and never scans the texts.
FUNCTION = f"""
CREATE OR REPLACE FUNCTION mhb_words(text) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 100000 AS $$
DECLARE body text := left($1, {MAX_CHARACTERS});
BEGIN
  IF octet_length(body) > length(body) AND body ~ '[{CJK}]' THEN
    body := regexp_replace(body, '([{CJK}])([{CJK}])', ' \\1\\2 ', 'g') || ' ' || regexp_replace(
      regexp_replace(body, '(^|[^{CJK}])[{CJK}]', '\\1 ', 'g'), '([{CJK}])([{CJK}])', ' \\1\\2 ', 'g');
  END IF;
  RETURN to_tsvector('simple', body);
END $$
"""


def index_name(table: str, column: str) -> str:
    """The name of the index (PostgreSQL) or of the FTS5 table (SQLite)."""
    return f"words_{table}_{column}"


def create_sql(vendor: str, table: str, column: str) -> list[str]:
    """Statements that index the existing rows and keep the index up to date."""
    index = index_name(table, column)
    if vendor != "sqlite":
        return [
            FUNCTION,
            f"CREATE INDEX {index} ON {table} USING gin (mhb_words({column})) WHERE {column} <> ''",
        ]
    # FTS5 keeps row statistics, so exactly the values that were inserted must be deleted again.
    delete = f"INSERT INTO {index} ({index}, rowid, {column}) SELECT 'delete', old.id, old.{column} WHERE old.{column} <> '';"
    insert = f"INSERT INTO {index} (rowid, {column}) SELECT new.id, new.{column} WHERE new.{column} <> '';"
    trigger = f"CREATE TRIGGER {index}"
    return [
        f"CREATE VIRTUAL TABLE {index} USING fts5({column}, content='{table}', content_rowid='id', tokenize='trigram')",
        f"INSERT INTO {index} (rowid, {column}) SELECT id, {column} FROM {table} WHERE {column} <> ''",  # noqa: S608
        f"{trigger}_insert AFTER INSERT ON {table} WHEN new.{column} <> '' BEGIN {insert} END",
        f"{trigger}_delete AFTER DELETE ON {table} WHEN old.{column} <> '' BEGIN {delete} END",
        f"{trigger}_update AFTER UPDATE OF {column} ON {table} WHEN old.{column} <> new.{column} "
        f"BEGIN {delete} {insert} END",
    ]


def drop_sql(vendor: str, table: str, column: str) -> list[str]:
    """Statements that undo `create_sql`; the function remains, as other columns may use it."""
    index = index_name(table, column)
    if vendor != "sqlite":
        return [f"DROP INDEX IF EXISTS {index}"]
    triggers = [f"DROP TRIGGER IF EXISTS {index}_{when}" for when in ("insert", "delete", "update")]
    return [*triggers, f"DROP TABLE IF EXISTS {index}"]


class FullText(Operation):
    """Migration operation: create a full-text index on a column.

    SQLite alters a table by recreating it without its triggers, so a later migration that alters
    the table must repeat this operation, which recreates the index.
    """

    reversible = True

    def __init__(self, model_name: str, column: str) -> None:
        self.model_name = model_name
        self.column = column

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """The models do not change."""

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        self.database_backwards(app_label, schema_editor, to_state, from_state)
        self._run(schema_editor, to_state.apps.get_model(app_label, self.model_name), create_sql)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        self._run(schema_editor, from_state.apps.get_model(app_label, self.model_name), drop_sql)

    def _run(self, schema_editor: BaseDatabaseSchemaEditor, model: type[models.Model], build_statements: Any) -> None:
        for statement in build_statements(schema_editor.connection.vendor, model._meta.db_table, self.column):
            schema_editor.execute(statement, params=None)

    def describe(self) -> str:
        return f"Index the words of {self.model_name}.{self.column}"

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return (self.__class__.__qualname__, [self.model_name, self.column], {})
