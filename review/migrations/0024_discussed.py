from django.db import migrations, models


def mark_discussed(apps, schema_editor):
    """The cases on which somebody has commented before this migration."""
    commented = apps.get_model('review', 'Remark').objects.order_by().values('case')
    apps.get_model('review', 'Case').objects.filter(pk__in=commented).update(discussed=True)


class Migration(migrations.Migration):

    dependencies = [
        ('review', '0023_covered_indexes'),
    ]

    operations = [
        migrations.AddField(
            model_name='case',
            name='discussed',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RunPython(mark_discussed, migrations.RunPython.noop),
    ]
