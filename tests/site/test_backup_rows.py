"""Rows of a backup are stored as they were written, and one that does not fit is named."""

import base64
import json
import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from generation.models import Call, Endpoint, SentImage
from mhb_site.backup.rows import BackupTable, InUse, RowError, emptied, lock_tables, tables

pytestmark = [pytest.mark.django_db, pytest.mark.both]
# What the text form of COPY has signs for, beside null of JSON and of SQL.
HARD = ("\t\\N\n", "\\.", "\\\\t", "药 \u2028 é", "", "NULL")


def test_hard_texts_come_back_as_they_were() -> None:
    for number, text in enumerate(HARD):
        Endpoint.objects.create(name=f"e{number}", url="http://127.0.0.1:9/v1", model=text, extra_body={"text": text})
    SentImage.objects.create(digest="d" * 64, media_type="image/png", data=b"\x00\xff\\x\n")
    for table in (BackupTable(Endpoint), BackupTable(SentImage)):
        lines = list(table.rows())
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {table.name}")
        assert table.insert(lines) == len(lines)
        table.compare(lines)
    assert tuple(Endpoint.objects.order_by("pk").values_list("model", flat=True)) == HARD
    assert bytes(SentImage.objects.get().data) == b"\x00\xff\\x\n"


def test_values_are_written_alike_by_both_databases_and_compared_by_what_they_mean() -> None:
    at = datetime(2026, 11, 29, 12, tzinfo=UTC)
    endpoint = Endpoint.objects.create(name="e", url="http://127.0.0.1:9/v1", model="m")
    Call.objects.create(endpoint=endpoint, cost=Decimal(0), seconds=0.5, attempt=1, request=b"a" * 99, started_at=at)
    table = BackupTable(Call)
    [line] = table.rows()
    row = dict(zip(table.columns, json.loads(line), strict=True))
    assert (row["cost"], row["started_at"]) == ("0.00000000", "2026-11-29T12:00:00.000000+00:00")
    assert (row["request"], row["job_id"], row["simulated"]) == (base64.b64encode(b"a" * 99).decode(), None, False)
    as_older_backups_have_it = row | {"cost": "0E-8", "started_at": "2026-11-29T12:00:00+00:00"}
    table.compare([json.dumps([*as_older_backups_have_it.values()])])
    with pytest.raises(RowError, match="row 1 of the backup differs"):
        table.compare([json.dumps([*(row | {"cost": "0.00000001"}).values()])])


def test_a_row_that_does_not_fit_is_named() -> None:
    for number in range(3):
        Endpoint.objects.create(name=f"e{number}", url="http://127.0.0.1:9/v1", model="m")
    table = BackupTable(Endpoint)
    lines = list(table.rows())
    Endpoint.objects.all().delete()
    broken = json.loads(lines[1])
    broken[table.columns.index("name")] = None
    pk = broken[table.columns.index("id")]
    with pytest.raises(RowError, match=rf"generation_endpoint, row {pk} does not fit into this database: "):
        table.insert([lines[0], json.dumps(broken), lines[2]])


@pytest.mark.parametrize("line", ["null", '"x"', "5", "{}", "[1, 2]", "", "NaN"])
def test_a_line_that_is_no_row_is_quoted(line: str) -> None:
    with pytest.raises(RowError, match=re.escape(f"row {line!r} does not fit into this database: ")):
        BackupTable(Endpoint).insert([line])


OTHER_VALUES: dict[str, list[object]] = {
    "started_at": [10**30, "once", [], {"a": 1}],
    "tokens_in": [10**30, "many", 2.5, []],
    "simulated": ["maybe", 7, []],
}


@pytest.mark.parametrize(("column", "value"), [(name, value) for name in OTHER_VALUES for value in OTHER_VALUES[name]])
def test_a_value_of_another_type_is_refused_with_its_row(column: str, value: object) -> None:
    Endpoint.objects.create(name="e", url="http://127.0.0.1:9/v1", model="m")
    Call.objects.create(endpoint=Endpoint.objects.get(), seconds=0.5, attempt=1, started_at=timezone.now())
    table = BackupTable(Call)
    [line] = table.rows()
    Call.objects.all().delete()
    row = dict(zip(table.columns, json.loads(line), strict=True))
    with pytest.raises(RowError, match=rf"generation_call, row {row['id']} does not fit"):
        table.insert([json.dumps([*(row | {column: value}).values()])])


def test_a_restore_is_refused_while_another_process_uses_a_table(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that one waits for another table meanwhile, which would be a deadlock."""
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL only")
    monkeypatch.setattr("mhb_site.backup.rows.LOCK_SECONDS", 0.3)
    other = connection.copy()
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            lock_tables()
            cursor.execute("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted")
            assert cursor.fetchone()[0] >= len(tables())
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM generation_endpoint")
        with pytest.raises(InUse), transaction.atomic():
            lock_tables()
        with other.cursor() as cursor:  # none of the locks is left
            cursor.execute("UPDATE generation_call SET attempt = attempt")
        other.rollback()
        with transaction.atomic():
            lock_tables()
    finally:
        other.close()


def schema() -> list[tuple[str, ...]]:
    """All indexes and constraints of the database, as it describes them."""
    # PostgreSQL writes a condition in other words once it has read its own.
    statement = """
        SELECT indexname, split_part(indexdef, ' WHERE ', 1), (indexdef LIKE '% WHERE %')::text FROM pg_indexes
        WHERE schemaname = current_schema()
        UNION ALL
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        ORDER BY 1, 2, 3
    """
    if connection.vendor == "sqlite":
        statement = "SELECT name, sql FROM sqlite_master ORDER BY 1"
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def test_indexes_and_references_are_those_of_before() -> None:
    before = schema()
    with emptied():
        pass
    assert schema() == before


def test_rows_that_do_not_fit_together_are_refused() -> None:
    endpoint = Endpoint.objects.create(name="e", url="http://127.0.0.1:9/v1", model="m")
    Call.objects.create(endpoint=endpoint, seconds=1, attempt=1, started_at=timezone.now())
    endpoints, calls = BackupTable(Endpoint), BackupTable(Call)
    [first], call = endpoints.rows(), list(calls.rows())
    Call.objects.all().delete()
    Endpoint.objects.all().delete()
    connection.check_constraints()  # of the rows that were here
    with pytest.raises(IntegrityError, match="foreign key"), transaction.atomic(), emptied():
        calls.insert(call)
    second = json.loads(first)
    second[endpoints.columns.index("id")] += 1
    with pytest.raises((IntegrityError, RowError), match="name"), transaction.atomic(), emptied():
        endpoints.insert([first, json.dumps(second)])
