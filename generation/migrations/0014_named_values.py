"""Values that other records can draw: some dozens a row, not one."""

from itertools import groupby
from typing import Any

import django.db.models.deletion
from django.db import migrations, models

TOGETHER = 64  # values of a row


def gather(apps: Any, schema_editor: Any) -> None:
    """Number what there is by source and name, in the order in which it was imported."""
    database = schema_editor.connection.alias
    new = apps.get_model('generation', 'NamedValues').objects.using(database)
    old = apps.get_model('generation', 'RecordValue').objects.using(database)
    by_name = old.order_by('source_id', 'name', 'record_id', 'pk').values_list('source_id', 'name', 'record_id', 'text')
    for (source, name), values in groupby(by_name.iterator(chunk_size=2000), key=lambda row: row[:2]):
        first, part = 0, []
        for *_under, record, text in values:
            part += [record, text]
            if len(part) == 2 * TOGETHER:
                new.create(source_id=source, name=name, first=first, end=first + TOGETHER, values=part)
                first, part = first + TOGETHER, []
        if part:
            new.create(source_id=source, name=name, first=first, end=first + len(part) // 2, values=part)


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0013_near_matches'),
    ]

    operations = [
        migrations.CreateModel(
            name='NamedValues',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64)),
                ('first', models.PositiveIntegerField()),
                ('end', models.PositiveIntegerField()),
                ('values', models.JSONField()),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.source')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('source', 'name', 'first'), name='named_values_place')],
            },
        ),
        migrations.RunPython(gather),
        migrations.DeleteModel(name='RecordValue'),
    ]
