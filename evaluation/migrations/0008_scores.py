import django.db.models.deletion
from django.db import migrations, models

from review.models.append_only import AppendOnly


class Migration(migrations.Migration):

    dependencies = [
        ('evaluation', '0006_reading_and_publishing'),
        ('generation', '0007_model_families'),
    ]

    operations = [
        migrations.CreateModel(
            name='ResponseScore',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('names', models.CharField(max_length=200)),
                ('numbers', models.CharField(max_length=200)),
                ('response', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='scores', to='evaluation.response')),
                ('rubric', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.releasedrubric')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='scores', to='evaluation.run')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('response', 'rubric'), name='score_once')],
            },
        ),
        AppendOnly('ResponseScore'),
    ]
