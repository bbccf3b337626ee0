"""Migrate a database of the first version, with rows in every table, to the newest version.

No row may be lost, and no append-only table may lose its protection. `FIRST` and the rows never
change. A migration that drops a table, or changes values on purpose, gets an exception in `_lost`.
"""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, IntegrityError, connection, connections, migrations, models, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from pytest_django import DjangoDbBlocker

from generation.models import Call
from review.audit import verification
from review.models import Audit
from review.models.append_only import AppendOnly, Changeable

pytestmark = pytest.mark.django_db

# The last migration of each app in version 0.1.0, the first to upgrade from.
FIRST = {"review": "0001_initial", "generation": "0001_initial", "evaluation": "0001_initial", "mhb_site": "0001_cache"}

NOON = datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=UTC)
KEY = "00" * 32
# Hashes that the code of the first version wrote: later versions must still find them correct.
OPENED = "1a5561bcd4ecd422d7f19e671b556f327a8686b6c22e1d6a008d62ff28558fec"
SUBMITTED = "60627ce1f4bc92aadd0e30fde07b68b257e3790f0b6796a9de408f2ab2fc2f6f"
UNSEALED = "3533d375da99952e4196048e1af58454cb6a5a165bd9b47401e12a79b6afeff9"
ACCOUNT_MADE = "d075caa55eb4df9202379b791962793f1ec5223d5320ec4b9bf3d7513382a35f"
DIGEST = "5547e2fcae339c718973131d19473c3328c5cf78f4afa7eae334ec4aa3b47c09"

UNCLAIMED: dict[str, Any] = {"token": None, "lease_until": None}
ROWS: dict[str, list[dict[str, Any]]] = {  # model -> its rows, where a row of `_value`s will not do
    "review.Case": [{"item": None, "repeats": None, "ground": "", "closed_at": None}],
    "review.User": [{"is_superuser": False, "is_staff": False, "is_active": True}],
    "review.Assignment": [{"hold": "held"}],
    "review.Review": [{"attempt": 1}, {"attempt": 2}],
    "review.ChainHead": [
        {"name": "event", "sequence": 3, "hash": UNSEALED, "key": KEY},
        {"name": "personevent", "sequence": 1, "hash": ACCOUNT_MADE, "key": KEY},
    ],
    "review.Event": [
        {"sequence": 1, "number": 1, "kind": "opened", "previous": "0" * 64, "hash": OPENED, "data": {}},
        {"sequence": 2, "number": 2, "kind": "submitted", "previous": OPENED, "hash": SUBMITTED,
         "data": {"role": "primary", "phase": "commit", "review": 1, "digest": DIGEST}},
        {"sequence": 3, "number": 3, "kind": "submitted", "previous": SUBMITTED, "hash": UNSEALED,
         "data": {"role": "primary", "phase": "commit", "review": 2}},
    ],
    "review.PersonEvent": [
        {"sequence": 1, "kind": "made", "previous": "0" * 64, "hash": ACCOUNT_MADE, "data": {"role": "physician"}},
    ],
    "generation.Batch": [{"paused_because": "", "arm": "A"}],
    "generation.Import": [UNCLAIMED],
    "generation.ProviderBatch": [UNCLAIMED],
    "generation.Draft": [{**UNCLAIMED, "gate": ""}],
    "evaluation.Run": [{"paused_because": "", "launch_key": "another"}],
    "evaluation.Response": [UNCLAIMED],
    "evaluation.Judgment": [{**UNCLAIMED, "verdict": ""}],
}  # fmt: skip
VALUES: dict[type[models.Field[Any, Any]], Any] = {
    models.BooleanField: True,
    models.DateTimeField: NOON,
    models.DateField: date(2026, 3, 1),
    models.JSONField: {"key": ["value"]},
    models.BinaryField: b"value",
    models.IntegerField: 1,
    models.FloatField: 0.5,
    models.DecimalField: 1,
}

Table = dict[Any, dict[str, Any]]  # primary key -> column -> value


# --------------------------------------------------------------------------- the first version


@pytest.fixture(scope="module")
def first_version(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Make a database of the first version, and return its name. No connection to it stays open."""
    with django_db_blocker.unblock(), _database(tmp_path_factory.mktemp("first")) as name:
        with _connected(name):
            executor = MigrationExecutor(connection)
            # One by one, as they were then: new installations run the squashed ones.
            executor.loader = MigrationLoader(connection, replace_migrations=False)
            third_party = [node for node in executor.loader.graph.leaf_nodes() if node[0] not in FIRST]
            executor.migrate(targets := [*FIRST.items(), *third_party])
            _fill(executor.loader.project_state(targets))
        yield name


@pytest.fixture(scope="module")
def upgraded(
    first_version: str, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, list[str]]]:
    """Upgrade a copy of that database. Returns its name, and a list of what went wrong."""
    with django_db_blocker.unblock(), _database(tmp_path_factory.mktemp("newest"), first_version) as name:
        with _connected(name):
            faults = upgrade()
        yield name, faults


@pytest.fixture
def newest_site(upgraded: tuple[str, list[str]], db: None, tmp_path: Path) -> Iterator[None]:
    """Connect the site to a copy of the upgraded database during a test."""
    with _database(tmp_path, upgraded[0]) as name, _connected(name):
        yield


@contextmanager
def _database(folder: Path, like: str | None = None) -> Iterator[str]:
    """Provide the name of an empty database, or of a copy of another.

    It is a SQLite file in `folder`, or a database on PostgreSQL's server.
    """
    if connection.vendor == "sqlite":
        name = str(folder / "old.sqlite3")
        if like:
            shutil.copy(like, name)
        yield name
        return
    name = f"old_{uuid.uuid4().hex}"
    _on_server(f"CREATE DATABASE {name}" + (f" TEMPLATE {like}" if like else ""))
    yield name
    _on_server(f"DROP DATABASE {name}")


@contextmanager
def _connected(name: str) -> Iterator[None]:
    """Make the default connection one to this database."""
    original = connections[DEFAULT_DB_ALIAS]
    other = original.copy()
    other.settings_dict["NAME"] = name
    other.settings_dict["OPTIONS"].pop("pool", None)  # its connections lead to the original database
    connections[DEFAULT_DB_ALIAS] = other
    ContentType.objects.clear_cache()
    try:
        yield
    finally:
        other.close()
        connections[DEFAULT_DB_ALIAS] = original
        ContentType.objects.clear_cache()


def _on_server(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)


def _fill(state: ProjectState) -> None:
    """Insert rows into all our tables with the models of that state, referenced models first."""
    django_models = [
        state.apps.get_model(label) for label in ("contenttypes.ContentType", "auth.Permission", "auth.Group")
    ]
    our_models = [state.apps.get_model(*key) for key in state.models if key[0] in FIRST]
    through = [field.remote_field.through for model in our_models for field in model._meta.local_many_to_many]
    our_models += [model for model in through if model._meta.auto_created]
    # Saving a child row inserts its parent's row, too.
    parents = {parent for model in our_models for parent in model._meta.parents}
    for model in [*django_models, *(model for model in our_models if model not in parents)]:
        for row in ROWS.get(model._meta.label, [{}]):
            values = {field.name: _value(field) for field in model._meta.concrete_fields if not _is_automatic(field)}
            model(**values | row).save()
    empty = [name for name, rows in _tables().items() if not rows]
    assert not empty, f"no row was made in {empty}"


def _is_automatic(field: models.Field[Any, Any]) -> bool:
    return isinstance(field, models.AutoField) or bool(field.remote_field and field.remote_field.parent_link)


def _value(field: models.Field[Any, Any]) -> Any:
    """Return a value for a column, not its default if possible, so that a loss is noticed."""
    if isinstance(field, models.ForeignKey):
        return field.related_model._default_manager.first()
    if field.choices:
        return field.choices[0][0]
    if isinstance(field, models.UUIDField):
        return uuid.uuid4()
    for kind, value in VALUES.items():
        if isinstance(field, kind):
            return value
    return "text"[: field.max_length]


# --------------------------------------------------------------------------------- the upgrade


def upgrade() -> list[str]:
    """Migrate the database to the newest version. Returns what is wrong afterwards."""
    before = _tables()
    call_command("migrate", verbosity=0)
    faults = list(_lost(before, _tables())) + list(_unprotected())
    counts = Audit()
    # Rows made for a table of its own have no events, and the rows of a case would need them.
    of_the_chain = [fault.what for fault in verification.check(counts) if not fault.what.startswith("case-")]
    faults += [f"audit: {what}" for what in of_the_chain if what != "account-paused"]
    checked = (counts.checked, counts.reviews, counts.unsealed)
    if checked != (4, 2, 1):
        faults.append(f"audit: {checked}")
    try:
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    except SystemExit:
        faults.append("the models differ from the migrations")
    return faults


def _tables() -> dict[str, Table]:
    """Return all rows of our tables as they are stored."""
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        return {name: _rows(cursor, name) for name in names if name.startswith(tuple(f"{app}_" for app in FIRST))}


def _rows(cursor: Any, table: str) -> Table:
    key = connection.introspection.get_primary_key_column(cursor, table)
    cursor.execute(f"SELECT * FROM {table}")
    columns = [column[0] for column in cursor.description]
    rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    return {row[key]: row for row in rows}


def _lost(before: dict[str, Table], after: dict[str, Table]) -> Iterator[str]:
    """Yield rows that are gone, and values that have changed in columns that still exist."""
    for table, rows in before.items():
        if table == "generation_lane":  # holds of workers that have stopped; the next ones open their own
            continue
        for key, row in rows.items():
            now = after.get(table, {}).get(key)
            if now is None:
                yield f"{table} {key}: lost"
                continue
            for column in row.keys() & now.keys():
                if row[column] != now[column]:
                    yield f"{table} {key}: {column} was {row[column]!r}, is {now[column]!r}"


def _unprotected() -> Iterator[str]:
    """Yield statements that succeed in changing tables that were append-only from the start."""
    loader = MigrationLoader(connection)
    for node in FIRST.items():
        for operation in loader.disk_migrations[node].operations:
            if isinstance(operation, AppendOnly):
                yield from _successful_changes(
                    f"{node[0]}_{operation.model_name}".lower(), *(operation.columns or ["id"])
                )


def _successful_changes(table: str, column: str) -> Iterator[str]:
    statements = [f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"]
    if connection.vendor == "postgresql":
        statements.append(f"TRUNCATE {table} CASCADE")
    for statement in statements:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement)
                transaction.set_rollback(True)
        except IntegrityError as error:
            if "append-only" in str(error):
                continue
        yield f"{statement}: done"


@pytest.mark.both
def test_requests_to_models_read_as_before(newest_site: None) -> None:
    calls = Call.objects.all()
    assert calls
    assert [call.sent for call in calls] == [VALUES[models.JSONField]] * len(calls)


def test_an_upgrade_from_the_first_version_loses_nothing(upgraded: tuple[str, list[str]]) -> None:
    _name, faults = upgraded
    assert faults == []


@pytest.mark.both
@pytest.mark.django_db
def test_a_new_database_has_the_tables_of_an_upgraded_one(upgraded: tuple[str, list[str]]) -> None:
    """New databases are made by squashed migrations."""
    new = _schema()
    with _connected(upgraded[0]):
        old = _schema()
    assert sorted(old) == sorted(new)
    for table, described in old.items():
        assert described == new[table], table


def _schema() -> dict[str, list[str]]:
    """Columns, constraints, indexes and triggers of each table, in alphabetical order."""
    described: dict[str, list[str]] = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            lines = [f"trigger {name}" for name in _triggers(cursor, table)]
            columns = connection.introspection.get_table_description(cursor, table)
            lines += [f"column {column.name} {column.type_code} {column.null_ok}" for column in columns]
            for name, constraint in connection.introspection.get_constraints(cursor, table).items():
                # Those that Django names are numbered, or bear the first name of a renamed column.
                own = name if not (constraint["foreign_key"] or name.endswith(("_check", "__"))) else ""
                kinds = [kind for kind in ("primary_key", "unique", "index", "check") if constraint[kind]]
                lines.append(f"{own} {kinds} {constraint['columns']} {constraint['foreign_key']}")
            described[table] = sorted(lines)
    return described


def _triggers(cursor: Any, table: str) -> list[str]:
    if connection.vendor == "sqlite":
        cursor.execute("SELECT name || sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [table])
    else:
        cursor.execute(
            "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = %s::regclass", [table]
        )
    return [definition for (definition,) in cursor.fetchall()]


# ------------------------------------------------------------------- the test itself can fail


def add_migration(monkeypatch: pytest.MonkeyPatch, *operations: Operation) -> None:
    """Add a migration after the newest one of review."""
    [newest] = MigrationLoader(None).graph.leaf_nodes("review")
    planted = type("Planted", (Migration,), {"dependencies": [newest], "operations": list(operations)})
    load_disk = MigrationLoader.load_disk

    def load_with_planted(self: MigrationLoader) -> None:
        load_disk(self)
        self.disk_migrations["review", "9999_planted"] = planted("9999_planted", "review")

    monkeypatch.setattr(MigrationLoader, "load_disk", load_with_planted)


@pytest.mark.plain  # about the test above
@pytest.mark.usefixtures("newest_site")
def test_a_migration_that_keeps_everything_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite rebuilds an altered table without its triggers, and `AppendOnly` restores them."""
    longer, shorter = models.CharField(max_length=65), models.CharField(max_length=64)
    add_migration(
        monkeypatch,
        Changeable("Event"),
        migrations.AlterField("event", "hash", longer),
        migrations.AlterField("event", "hash", shorter),
        AppendOnly("Event"),
    )
    assert upgrade() == []


@pytest.mark.plain  # about the test above
@pytest.mark.usefixtures("newest_site")
def test_losses_in_a_migration_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    add_migration(
        monkeypatch,
        migrations.RunSQL("DELETE FROM review_notice"),
        migrations.RunSQL("UPDATE review_case SET title = ''"),
        Changeable("Review"),
        migrations.RunSQL("UPDATE review_review SET verdict = 'reject' WHERE id = 1"),
        AppendOnly("Review"),
        Changeable("FirstLook"),
        migrations.AddField("case", "planted", models.BooleanField(default=False)),
        migrations.DeleteModel("Declined"),
    )
    faults = upgrade()
    expected = [
        "review_case 1: title was 'text', is ''",
        "review_declined 1: lost",
        "review_notice 1: lost",
        "review_review 1: verdict was 'approve', is 'reject'",
        "UPDATE review_firstlook SET id = id: done",
        "DELETE FROM review_firstlook: done",
        "audit: review-altered",
        "the models differ from the migrations",
    ]
    if connection.vendor == "postgresql":
        expected.append("TRUNCATE review_firstlook CASCADE: done")
    assert sorted(faults) == sorted(expected)
