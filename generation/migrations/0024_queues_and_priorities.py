"""Priorities of jobs, and at most one lane of a job in a process."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0023_words_of_the_engine'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='most_lanes',
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='priority',
            field=models.CharField(choices=[('high', 'high: before the others'), ('normal', 'normal'), ('low', 'low: after the others')], db_default='normal', default='normal', max_length=8),
        ),
        migrations.AddField(
            model_name='workerbeat',
            name='runs_lanes',
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddField(
            model_name='workerbeat',
            name='runs_tasks',
            field=models.BooleanField(db_default=True, default=True),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('priority__in', ['high', 'normal', 'low'])), name='job_priority_known'),
        ),
        migrations.RunSQL('DELETE FROM generation_lane', migrations.RunSQL.noop),  # a worker opens it again
        migrations.AddConstraint(
            model_name='lane',
            constraint=models.UniqueConstraint(models.F('job'), models.F('worker'), name='lane_once_per_process'),
        ),
    ]
