"""Drops the index of a foreign key with which a longer index begins: that one serves as well."""

from typing import Any

from django.db.migrations.operations.base import Operation
from django.db.models import Index


class DropCoveredIndex(Operation):
    """A foreign key loses its own index.

    Unlike AlterField, it does not make SQLite copy the table, which would lose its triggers.
    """

    reversible = False

    def __init__(self, model_name: str, name: str) -> None:
        self.model_name, self.name = model_name.lower(), name

    def state_forwards(self, app_label: str, state: Any) -> None:
        field = state.models[app_label, self.model_name].fields[self.name].clone()
        field.db_index = False
        state.alter_field(app_label, self.model_name, self.name, field, preserve_default=True)

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        model = from_state.apps.get_model(app_label, self.model_name)
        column = model._meta.get_field(self.name).column
        declared = {index.name for index in model._meta.indexes}
        # Of its column may also be a unique one, as a constraint with a condition has.
        kind = {"index": True, "unique": False, "type_": Index.suffix}
        for index in schema_editor._constraint_names(model, [column], exclude=declared, **kind):
            schema_editor.execute(schema_editor._delete_index_sql(model, index))

    def describe(self) -> str:
        return f"Drop the index that {self.model_name}.{self.name} brings along"
