import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('generation', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Run',
            fields=[
                ('job_ptr', models.OneToOneField(auto_created=True, on_delete=django.db.models.deletion.CASCADE, parent_link=True, primary_key=True, serialize=False, to='generation.job')),
                ('release', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='generation.release')),
                ('judge', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='judged_runs', to='generation.endpoint')),
                ('judge_temperature', models.FloatField(blank=True, null=True)),
                ('judging', models.CharField(choices=[('per-rubric', 'one call per rubric'), ('per-sample', 'one call per sample with all its rubrics')], default='per-rubric', max_length=10)),
                ('transport', models.CharField(choices=[('live', 'live, one request at a time'), ('batch', 'provider batches where the endpoint supports them, each answered within a day')], default='live', max_length=5)),
                ('sampling', models.CharField(choices=[('protocol', 'benchmark settings; endpoint settings where the benchmark has none'), ('endpoint', 'endpoint settings only')], default='protocol', max_length=8)),
                ('seed', models.PositiveIntegerField(default=0)),
                ('variants', models.JSONField(blank=True, default=list)),
                ('endpoint_settings', models.JSONField(blank=True, default=dict)),
                ('rubrics_total', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'), descending=True)],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('judging__in', ['per-rubric', 'per-sample'])), name='run_judging_known'),
                    models.CheckConstraint(condition=models.Q(('transport__in', ['live', 'batch'])), name='run_transport_known'),
                    models.CheckConstraint(condition=models.Q(('sampling__in', ['protocol', 'endpoint'])), name='run_sampling_known'),
                ],
            },
            bases=('generation.job',),
        ),
        migrations.CreateModel(
            name='RunEndpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tested', to='evaluation.run')),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.endpoint')),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('run', 'endpoint'), name='run_endpoint_once'),
                ],
            },
        ),
        migrations.AddField(
            model_name='run',
            name='endpoints',
            field=models.ManyToManyField(related_name='runs', through='evaluation.RunEndpoint', to='generation.endpoint'),
        ),
        migrations.CreateModel(
            name='Response',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('done', 'done'), ('dropped', 'dropped'), ('failed', 'failed')], default='queued', max_length=8)),
                ('token', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('via', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.providerbatch')),
                ('live', models.BooleanField(default=False)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='responses', to='evaluation.run')),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.endpoint')),
                ('sample', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='responses', to='generation.releasedsample')),
                ('variant', models.CharField(blank=True, max_length=40)),
                ('about', models.JSONField(blank=True, default=dict)),
                ('text', models.TextField(blank=True)),
                ('reasoning', models.TextField(blank=True)),
                ('call', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.call')),
            ],
            options={
                'indexes': [
                    models.Index(fields=['run', 'status', 'id'], name='evaluation__run_id_ba85fc_idx'),
                    models.Index(fields=['status', 'lease_until'], name='evaluation__status_bb9c51_idx'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'dropped', 'failed'])), name='response_status_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='response_leased_iff_running'),
                    models.UniqueConstraint(fields=('run', 'endpoint', 'sample', 'variant'), name='response_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Judgment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('done', 'done'), ('dropped', 'dropped'), ('failed', 'failed')], default='queued', max_length=8)),
                ('token', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('via', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.providerbatch')),
                ('live', models.BooleanField(default=False)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='judgments', to='evaluation.run')),
                ('response', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='judgments', to='evaluation.response')),
                ('rubric', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='judgments', to='generation.releasedrubric')),
                ('verdict', models.CharField(blank=True, max_length=20)),
                ('explanation', models.TextField(blank=True)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['run', 'status', 'id'], name='evaluation__run_id_e3d178_idx'),
                    models.Index(fields=['status', 'lease_until'], name='evaluation__status_b2a4c6_idx'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'dropped', 'failed'])), name='judgment_status_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='judgment_leased_iff_running'),
                    models.UniqueConstraint(fields=('response', 'rubric'), name='judgment_once'),
                    models.CheckConstraint(condition=models.Q(models.Q(('status', 'done'), models.Q(('verdict', ''), _negated=True)), models.Q(models.Q(('status', 'done'), _negated=True), ('verdict', '')), _connector='OR'), name='judgment_verdict_iff_done'),
                ],
            },
        ),
    ]
