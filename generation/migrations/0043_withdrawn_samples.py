from django.db import migrations, models

from review.models.append_only import AppendOnly, Changeable


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0042_archives'),
    ]

    operations = [
        Changeable('MergeEvent'),
        migrations.AlterField(
            model_name='mergeevent',
            name='withdrawn',
            field=models.TextField(blank=True),
        ),
        AppendOnly('MergeEvent'),
    ]
