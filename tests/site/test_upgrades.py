"""A database of the first version, with rows in every table, is migrated to the newest: nothing is lost or unprotected.

`FIRST` and the rows never change. A migration that drops a table, or changes values on purpose, is named in `_lost`.
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

from review.audit import verification
from review.models.append_only import AppendOnly, Changeable

pytestmark = pytest.mark.django_db

# The last migration of each app in version 0.1.0, the first that upgrades are tested from (tag `v0.1.0`).
FIRST = {"review": "0001_initial", "generation": "0001_initial", "evaluation": "0001_initial", "mhb_site": "0001_cache"}

NOON = datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=UTC)
KEY = "00" * 32
# What the first version's own code wrote: a later one must still find it right.
OPENED = "1a5561bcd4ecd422d7f19e671b556f327a8686b6c22e1d6a008d62ff28558fec"
SUBMITTED = "60627ce1f4bc92aadd0e30fde07b68b257e3790f0b6796a9de408f2ab2fc2f6f"
UNSEALED = "3533d375da99952e4196048e1af58454cb6a5a165bd9b47401e12a79b6afeff9"
MADE = "d075caa55eb4df9202379b791962793f1ec5223d5320ec4b9bf3d7513382a35f"
DIGEST = "5547e2fcae339c718973131d19473c3328c5cf78f4afa7eae334ec4aa3b47c09"

IDLE: dict[str, Any] = {"token": None, "lease_until": None}
ROWS: dict[str, list[dict[str, Any]]] = {  # model -> its rows, where one of nothing but `_value`s would not do
    "review.Case": [{"item": None, "repeats": None, "ground": "", "closed_at": None}],
    "review.User": [{"is_superuser": False, "is_staff": False, "is_active": True}],
    "review.Assignment": [{"hold": "held"}],
    "review.Review": [{"attempt": 1}, {"attempt": 2}],
    "review.ChainHead": [
        {"name": "event", "sequence": 3, "hash": UNSEALED, "key": KEY},
        {"name": "personevent", "sequence": 1, "hash": MADE, "key": KEY},
    ],
    "review.Event": [
        {"sequence": 1, "number": 1, "kind": "opened", "previous": "0" * 64, "hash": OPENED, "data": {}},
        {"sequence": 2, "number": 2, "kind": "submitted", "previous": OPENED, "hash": SUBMITTED,
         "data": {"role": "primary", "phase": "commit", "review": 1, "digest": DIGEST}},
        {"sequence": 3, "number": 3, "kind": "submitted", "previous": SUBMITTED, "hash": UNSEALED,
         "data": {"role": "primary", "phase": "commit", "review": 2}},
    ],
    "review.PersonEvent": [
        {"sequence": 1, "kind": "made", "previous": "0" * 64, "hash": MADE, "data": {"role": "physician"}},
    ],
    "generation.Batch": [{"paused_because": "", "arm": "A"}],
    "generation.Import": [IDLE],
    "generation.ProviderBatch": [IDLE],
    "generation.Draft": [{**IDLE, "gate": ""}],
    "evaluation.Run": [{"paused_because": "", "launch_key": "another"}],
    "evaluation.Response": [IDLE],
    "evaluation.Judgment": [{**IDLE, "verdict": ""}],
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


# ------------------------------------------------------------------------------------------------- the first version


@pytest.fixture(scope="module")
def first_version(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The name of a database of the first version; nobody is connected to it."""
    with django_db_blocker.unblock(), _database(tmp_path_factory.mktemp("first")) as name:
        with _connected(name):
            executor = MigrationExecutor(connection)
            others = [node for node in executor.loader.graph.leaf_nodes() if node[0] not in FIRST]
            executor.migrate(first := [*FIRST.items(), *others])
            _fill(executor.loader.project_state(first))
        yield name


@pytest.fixture(scope="module")
def upgraded(
    first_version: str, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, list[str]]]:
    """The name of a copy of that database in the newest version, and what is wrong with it."""
    with django_db_blocker.unblock(), _database(tmp_path_factory.mktemp("newest"), first_version) as name:
        with _connected(name):
            wrong = upgrade()
        yield name, wrong


@pytest.fixture
def newest_site(upgraded: tuple[str, list[str]], db: None, tmp_path: Path) -> Iterator[None]:
    """A copy of the upgraded database, which is the site's meanwhile."""
    with _database(tmp_path, upgraded[0]) as name, _connected(name):
        yield


@contextmanager
def _database(folder: Path, like: str | None = None) -> Iterator[str]:
    """The name of an empty database, or of a copy: a file of SQLite's in `folder`, or one on PostgreSQL's server."""
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
    """The default connection is one to this database."""
    own = connections[DEFAULT_DB_ALIAS]
    other = own.copy()
    other.settings_dict["NAME"] = name
    other.settings_dict["OPTIONS"].pop("pool", None)  # its connections are to the other database
    connections[DEFAULT_DB_ALIAS] = other
    ContentType.objects.clear_cache()
    try:
        yield
    finally:
        other.close()
        connections[DEFAULT_DB_ALIAS] = own
        ContentType.objects.clear_cache()


def _on_server(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)


def _fill(state: ProjectState) -> None:
    """A row in every table of ours, by the models as they were; what others refer to comes first."""
    theirs = [state.apps.get_model(label) for label in ("contenttypes.ContentType", "auth.Permission", "auth.Group")]
    ours = [state.apps.get_model(*key) for key in state.models if key[0] in FIRST]
    through = [field.remote_field.through for model in ours for field in model._meta.local_many_to_many]
    ours += [model for model in through if model._meta.auto_created]
    parents = {parent for model in ours for parent in model._meta.parents}  # their rows come with those of the children
    for model in [*theirs, *(model for model in ours if model not in parents)]:
        for row in ROWS.get(model._meta.label, [{}]):
            values = {field.name: _value(field) for field in model._meta.concrete_fields if not _given(field)}
            model(**values | row).save()
    empty = [name for name, rows in _tables().items() if not rows]
    assert not empty, f"no row was made in {empty}"


def _given(field: models.Field[Any, Any]) -> bool:
    return isinstance(field, models.AutoField) or bool(field.remote_field and field.remote_field.parent_link)


def _value(field: models.Field[Any, Any]) -> Any:
    """What stands in a column: wherever possible no default, so that one that is lost is noticed."""
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


# ------------------------------------------------------------------------------------------------------- the upgrade


def upgrade() -> list[str]:
    """Migrate the database to the newest version; what is wrong afterwards."""
    before = _tables()
    call_command("migrate", verbosity=0)
    found = list(_lost(before, _tables())) + list(_unprotected())
    counts = verification.CheckProgress()
    found += [f"audit: {fault.what}" for fault in verification.check(counts)]
    if (counts.checked, counts.reviews, counts.unsealed) != (4, 2, 1):
        found.append(f"audit: {counts}")
    try:
        call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    except SystemExit:
        found.append("the models differ from the migrations")
    return found


def _tables() -> dict[str, Table]:
    """All rows of our tables, as the database has them."""
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
    """Rows that are gone, and values that have changed in columns that there still are."""
    for table, rows in before.items():
        for key, row in rows.items():
            now = after.get(table, {}).get(key)
            if now is None:
                yield f"{table} {key}: lost"
                continue
            for column in row.keys() & now.keys():
                if row[column] != now[column]:
                    yield f"{table} {key}: {column} was {row[column]!r}, is {now[column]!r}"


def _unprotected() -> Iterator[str]:
    """Tables that have been append-only since the first version, and let a row be changed or deleted."""
    loader = MigrationLoader(connection)
    for node in FIRST.items():
        for operation in loader.disk_migrations[node].operations:
            if isinstance(operation, AppendOnly):
                yield from _changed(f"{node[0]}_{operation.model_name}".lower(), *(operation.columns or ["id"]))


def _changed(table: str, column: str) -> Iterator[str]:
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
def test_from_the_first_version(upgraded: tuple[str, list[str]]) -> None:
    _name, wrong = upgraded
    assert wrong == []


# ---------------------------------------------------------------------------------------- that the test can be failed


def plant(monkeypatch: pytest.MonkeyPatch, *operations: Operation) -> None:
    """One migration more, after the newest of review."""
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
    """SQLite makes an altered table anew, without its triggers: `AppendOnly` puts them back."""
    longer, shorter = models.CharField(max_length=65), models.CharField(max_length=64)
    plant(
        monkeypatch,
        Changeable("Event"),
        migrations.AlterField("event", "hash", longer),
        migrations.AlterField("event", "hash", shorter),
        AppendOnly("Event"),
    )
    assert upgrade() == []


@pytest.mark.plain  # about the test above
@pytest.mark.usefixtures("newest_site")
def test_what_a_migration_loses_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(
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
    found = upgrade()
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
    assert sorted(found) == sorted(expected)
