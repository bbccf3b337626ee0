"""Every index costs room and time with each row, so none repeats another."""

import pytest
from django.apps import apps
from django.db import connection, models

OWN = ("review", "generation", "evaluation", "mhb_site")
# SQLite reads a run's rows in the order of their ids from these.
KEPT = {"evaluation.Response.run", "evaluation.Judgment.run"}


def first_fields(model: type[models.Model]) -> set[str]:
    """The fields with which an index of several fields and all rows begins."""
    first = set()
    for index in model._meta.indexes:
        if type(index) is models.Index and index.fields and index.condition is None:
            first.add(index.fields[0].removeprefix("-"))
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint) and constraint.fields and constraint.condition is None:
            first.add(constraint.fields[0])
    return first


@pytest.mark.plain
def test_no_foreign_key_is_indexed_twice() -> None:
    covered = set()
    for model in apps.get_models():
        if model._meta.app_label not in OWN:
            continue
        first = first_fields(model)
        for field in model._meta.local_fields:
            has_own = getattr(field, "db_index", False) and not field.unique
            if has_own and isinstance(field, models.ForeignKey) and field.name in first:
                covered.add(f"{model._meta.label}.{field.name}")
    assert covered == KEPT


@pytest.mark.both
@pytest.mark.django_db
def test_the_database_has_the_indexes_and_constraints_of_the_models() -> None:
    missing = []
    with connection.cursor() as cursor:
        for model in apps.get_models():
            declared = {each.name for each in (*model._meta.indexes, *model._meta.constraints)}
            stored = connection.introspection.get_constraints(cursor, model._meta.db_table)
            missing += sorted(declared - stored.keys())
    assert missing == []
