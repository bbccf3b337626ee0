import django.db.models.deletion
import review.models.append_only
import review.models.full_text
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('evaluation', '0001_initial'), ('evaluation', '0002_outcomes_and_repeats'), ('evaluation', '0003_plans_and_outcomes'), ('evaluation', '0004_judges'), ('evaluation', '0005_imports_and_filling'), ('evaluation', '0006_reading_and_publishing'), ('evaluation', '0007_chains'), ('evaluation', '0008_scores'), ('evaluation', '0010_tallies'), ('evaluation', '0012_results_imports'), ('evaluation', '0013_left_out'), ('evaluation', '0014_results_model_names'), ('evaluation', '0015_unknown_endings'), ('evaluation', '0016_judges_left_out')]

    initial = True

    dependencies = [
        ('generation', '0028_provenance'),
        ('review', '0018_site_language'),
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
                ('plan', models.JSONField(blank=True, default=dict)),
                ('answers_each', models.PositiveSmallIntegerField(default=1)),
                ('judgments_each', models.PositiveSmallIntegerField(default=1)),
                ('panel', models.CharField(blank=True, choices=[('majority', 'majority of the judges'), ('unanimity', 'unanimous judges only'), ('escalation', 'two judges; a third of another model family where they differ')], max_length=10)),
                ('origin', models.CharField(choices=[('launched', 'launched here'), ('imported', 'imported')], default='launched', max_length=8)),
                ('responses_total', models.PositiveIntegerField(default=0)),
                ('study', models.CharField(blank=True, default='', max_length=100)),
                ('judgments_done', models.PositiveIntegerField(default=0, editable=False)),
                ('judgments_done_to', models.PositiveBigIntegerField(default=0, editable=False)),
                ('responses_done', models.PositiveIntegerField(default=0, editable=False)),
                ('responses_done_to', models.PositiveBigIntegerField(default=0, editable=False)),
                ('votes_done', models.PositiveIntegerField(default=0, editable=False)),
                ('votes_done_to', models.PositiveBigIntegerField(default=0, editable=False)),
                ('judges_left_out', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'), descending=True)],
                'constraints': [models.CheckConstraint(condition=models.Q(('judging__in', ['per-rubric', 'per-sample'])), name='run_judging_known'), models.CheckConstraint(condition=models.Q(('transport__in', ['live', 'batch'])), name='run_transport_known'), models.CheckConstraint(condition=models.Q(('sampling__in', ['protocol', 'endpoint'])), name='run_sampling_known'), models.CheckConstraint(condition=models.Q(('panel__in', ['', 'majority', 'unanimity', 'escalation'])), name='run_panel_known'), models.CheckConstraint(condition=models.Q(('answers_each__gte', 1), ('judgments_each__gte', 1), models.Q(('judgments_each', 1), models.Q(('panel', ''), _negated=True), _connector='OR'), models.Q(('panel', ''), ('judge__isnull', False), _connector='OR')), name='run_repeats_and_panel'), models.CheckConstraint(condition=models.Q(('origin', 'launched'), models.Q(('origin', 'imported'), models.Q(('study', ''), _negated=True)), _connector='OR'), name='run_origin_known'), models.UniqueConstraint(condition=models.Q(('origin', 'imported')), fields=('release', 'study'), name='run_imported_named_once')],
            },
            bases=('generation.job',),
        ),
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
                'constraints': [models.UniqueConstraint(condition=models.Q(('withdrawn_at__isnull', True)), fields=('release',), name='publication_once_at_a_time'), models.CheckConstraint(condition=models.Q(('withdrawn_at__isnull', True), ('withdrawn_at__gte', models.F('published_at')), _connector='OR'), name='publication_withdrawn_later')],
            },
        ),
        migrations.CreateModel(
            name='RunEndpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tested', to='evaluation.run')),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.endpoint')),
                ('filled_to', models.PositiveIntegerField(blank=True, null=True)),
                ('left_out_at', models.DateTimeField(blank=True, null=True)),
                ('left_out_because', models.TextField(blank=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'endpoint'), name='run_endpoint_once')],
            },
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
                ('outcome', models.CharField(blank=True, choices=[('answered', 'answered'), ('refused', 'refused'), ('empty', 'empty'), ('filtered', 'filtered by the provider'), ('cut_off', 'cut off'), ('failed', 'failed'), ('unknown', 'ended in an unknown way'), ('unasked', 'not asked: no usable earlier answer')], max_length=8)),
                ('repeat', models.PositiveSmallIntegerField(default=0)),
                ('after', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='followers', to='evaluation.response')),
                ('like_reasoning', models.BooleanField(db_default=False, default=False)),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'status', 'id'], name='evaluation__run_id_ba85fc_idx'), models.Index(fields=['status', 'lease_until'], name='evaluation__status_bb9c51_idx'), models.Index(fields=['run', 'outcome', 'endpoint'], name='evaluation__run_id_ec58b3_idx'), models.Index(condition=models.Q(('like_reasoning', True)), fields=['run', 'endpoint'], name='response_like_reasoning')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'dropped', 'failed'])), name='response_status_known'), models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='response_leased_iff_running'), models.UniqueConstraint(fields=('run', 'endpoint', 'sample', 'variant', 'repeat'), name='response_once'), models.CheckConstraint(condition=models.Q(models.Q(('status__in', ['done', 'failed']), models.Q(('outcome', ''), _negated=True)), models.Q(models.Q(('status__in', ['done', 'failed']), _negated=True), ('outcome', '')), _connector='OR'), name='response_outcome_iff_ended')],
            },
        ),
        migrations.CreateModel(
            name='RunJudge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.endpoint')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='further_judges', to='evaluation.run')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'endpoint'), name='run_judge_once')],
            },
        ),
        migrations.CreateModel(
            name='Validation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seed', models.PositiveIntegerField(default=0)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='validation', to='evaluation.run')),
            ],
        ),
        migrations.CreateModel(
            name='ResultsImport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('done', 'done'), ('dropped', 'dropped'), ('failed', 'failed')], default='queued', max_length=8)),
                ('token', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('study', models.CharField(max_length=100)),
                ('sha256', models.CharField(blank=True, max_length=64)),
                ('file_name', models.CharField(max_length=300)),
                ('path', models.CharField(max_length=1000)),
                ('rows', models.PositiveIntegerField(default=0)),
                ('added', models.PositiveIntegerField(default=0)),
                ('known', models.PositiveIntegerField(default=0)),
                ('refused', models.PositiveIntegerField(default=0)),
                ('without_verdict', models.PositiveIntegerField(default=0)),
                ('created_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('release', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.release')),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='evaluation.run')),
                ('model_names', models.JSONField(default=dict)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'dropped', 'failed'])), name='results_import_status_known'), models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='results_import_leased_iff_running')],
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
                'indexes': [models.Index(fields=['run', 'status', 'id'], name='evaluation__run_id_e3d178_idx'), models.Index(fields=['status', 'lease_until'], name='evaluation__status_b2a4c6_idx'), models.Index(fields=['run', 'rubric', 'response'], name='evaluation__run_id_6ef34d_idx'), models.Index(fields=['run', 'verdict', 'rubric', 'response'], name='evaluation__run_id_8b1a4d_idx')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'dropped', 'failed'])), name='judgment_status_known'), models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='judgment_leased_iff_running'), models.UniqueConstraint(fields=('response', 'rubric'), name='judgment_once'), models.CheckConstraint(condition=models.Q(models.Q(('status', 'done'), models.Q(('verdict', ''), _negated=True)), models.Q(models.Q(('status', 'done'), _negated=True), ('verdict', '')), _connector='OR'), name='judgment_verdict_iff_done')],
            },
        ),
        migrations.CreateModel(
            name='ValidationItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('weight', models.FloatField()),
                ('case', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='review.case')),
                ('response', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='evaluation.response')),
                ('validation', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='items', to='evaluation.validation')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('validation', 'response'), name='validation_item_once'), models.CheckConstraint(condition=models.Q(('weight__gte', 1)), name='validation_item_weight')],
            },
        ),
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
        migrations.CreateModel(
            name='ResultsRefusal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('where', models.CharField(max_length=400)),
                ('reason', models.TextField()),
                ('of', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='refusals', to='evaluation.resultsimport')),
            ],
        ),
        migrations.CreateModel(
            name='Vote',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('done', 'done'), ('dropped', 'dropped'), ('failed', 'failed')], default='queued', max_length=8)),
                ('token', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('repeat', models.PositiveSmallIntegerField(default=0)),
                ('verdict', models.CharField(blank=True, max_length=20)),
                ('explanation', models.TextField(blank=True)),
                ('judge', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.endpoint')),
                ('judgment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='votes', to='evaluation.judgment')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='votes', to='evaluation.run')),
            ],
            options={
                'indexes': [models.Index(fields=['run', 'status', 'id'], name='evaluation__run_id_f8449c_idx'), models.Index(fields=['status', 'lease_until'], name='evaluation__status_135d97_idx')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'dropped', 'failed'])), name='vote_status_known'), models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='vote_leased_iff_running'), models.UniqueConstraint(fields=('judgment', 'judge', 'repeat'), name='vote_once'), models.CheckConstraint(condition=models.Q(models.Q(('status', 'done'), models.Q(('verdict', ''), _negated=True)), models.Q(models.Q(('status', 'done'), _negated=True), ('verdict', '')), _connector='OR'), name='vote_verdict_iff_done')],
            },
        ),
        migrations.AddField(
            model_name='Run',
            name='endpoints',
            field=models.ManyToManyField(related_name='runs', through='evaluation.RunEndpoint', to='generation.endpoint'),
        ),
        review.models.append_only.AppendOnly(
            model_name='Validation',
        ),
        review.models.append_only.AppendOnly(
            model_name='ValidationItem',
        ),
        review.models.append_only.AppendOnly(
            model_name='Publication',
            columns=('release_id', 'published_by_id', 'published_at'),
        ),
        review.models.append_only.AppendOnly(
            model_name='ResponseScore',
        ),
        review.models.full_text.FullText(
            model_name='Response',
            column='text',
        ),
        review.models.full_text.FullText(
            model_name='Judgment',
            column='explanation',
        ),
    ]
