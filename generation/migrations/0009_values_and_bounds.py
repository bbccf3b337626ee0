

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0008_images'),
    ]

    operations = [
        migrations.AddField(
            model_name='sample',
            name='bound',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.CreateModel(
            name='RecordValue',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=64)),
                ('place', models.BigIntegerField()),
                ('digest', models.CharField(max_length=64)),
                ('text', models.TextField()),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='values', to='generation.sourcerecord')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.source')),
            ],
            options={
                'indexes': [models.Index(fields=['source', 'name', 'place'], name='value_place')],
                'constraints': [models.UniqueConstraint(fields=('record', 'name', 'digest'), name='value_once_per_record')],
            },
        ),
    ]
