import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from review.models.append_only import AppendOnly
from review.models.full_text import FullText


class Migration(migrations.Migration):

    dependencies = [
        ('evaluation', '0005_imports_and_filling'),
        ('generation', '0005_releases'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Publication',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('published_at', models.DateTimeField()),
                ('withdrawn_at', models.DateTimeField(blank=True, null=True)),
                ('published_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('release', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='publications', to='generation.release')),
                ('withdrawn_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(condition=models.Q(('withdrawn_at__isnull', True)), fields=('release',), name='publication_once_at_a_time'),
                    models.CheckConstraint(condition=models.Q(('withdrawn_at__isnull', True), ('withdrawn_at__gte', models.F('published_at')), _connector='OR'), name='publication_withdrawn_later'),
                ],
            },
        ),
        AppendOnly('Publication', ('release_id', 'published_by_id', 'published_at')),
        migrations.AddIndex(
            model_name='judgment',
            index=models.Index(fields=['run', 'rubric', 'response'], name='evaluation__run_id_6ef34d_idx'),
        ),
        migrations.AddIndex(
            model_name='judgment',
            index=models.Index(fields=['run', 'verdict', 'rubric', 'response'], name='evaluation__run_id_8b1a4d_idx'),
        ),
        migrations.AddIndex(
            model_name='response',
            index=models.Index(fields=['run', 'outcome', 'endpoint'], name='evaluation__run_id_ec58b3_idx'),
        ),
        FullText('Response', 'text'),
        FullText('Judgment', 'explanation'),
    ]
