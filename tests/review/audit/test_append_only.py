"""Events and reviews are append-only: the database itself refuses to change or delete them."""

from collections.abc import Callable

import pytest
from django.db import IntegrityError, connection, models, transaction

from review.models import Event, Review, User
from tests.review.factories import case_in_secondary

pytestmark = pytest.mark.both

TABLES: list[type[models.Model]] = [Event, Review]
CHANGES: dict[type[models.Model], tuple[str, str]] = {Event: ("kind", "opened"), Review: ("verdict", "reject")}


def sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def by_queryset_update(model: type[models.Model]) -> None:
    field, value = CHANGES[model]
    model._default_manager.all().update(**{field: value})


def by_save(model: type[models.Model]) -> None:
    model._default_manager.all()[:1].get().save()


def by_queryset_delete(model: type[models.Model]) -> None:
    model._default_manager.all().delete()


def by_delete(model: type[models.Model]) -> None:
    model._default_manager.all()[:1].get().delete()


def by_sql_update(model: type[models.Model]) -> None:
    field, value = CHANGES[model]
    sql(f"UPDATE {model._meta.db_table} SET {field} = '{value}'")


def by_sql_update_without_a_change(model: type[models.Model]) -> None:
    sql(f"UPDATE {model._meta.db_table} SET id = id")


def by_sql_delete(model: type[models.Model]) -> None:
    sql(f"DELETE FROM {model._meta.db_table}")


OPERATIONS = [
    by_queryset_update,
    by_save,
    by_queryset_delete,
    by_delete,
    by_sql_update,
    by_sql_update_without_a_change,
    by_sql_delete,
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("model", TABLES)
def test_no_operation_changes_or_deletes_a_row(
    ana: User, model: type[models.Model], operation: Callable[[type[models.Model]], None]
) -> None:
    case_in_secondary(ana)
    before = list(model._default_manager.order_by("pk").values())
    assert before
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        operation(model)
    assert list(model._default_manager.order_by("pk").values()) == before


def test_an_account_with_reviews_cannot_be_deleted(ana: User) -> None:
    case_in_secondary(ana)
    with pytest.raises(models.ProtectedError):
        ana.delete()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("time", ["first", "after a flush"])
def test_flushing_the_test_database_leaves_the_triggers_in_place(ana: User, time: str) -> None:
    """The second case runs on a database that was flushed after the first."""
    assert not Event.objects.exists()
    case_in_secondary(ana)
    for model in TABLES:
        with pytest.raises(IntegrityError, match="append-only"):
            by_sql_delete(model)
