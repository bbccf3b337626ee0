import django.core.validators
import django.db.models.deletion
import generation.models.jobs
import uuid
from decimal import Decimal
from django.conf import settings
from django.db import migrations, models

from review.models.append_only import AppendOnly


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('review', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=100, unique=True)),
                ('url', models.CharField(max_length=500, validators=[django.core.validators.RegexValidator('^https?://[^\\s/@]+(/\\S*)?$')])),
                ('model', models.CharField(max_length=200)),
                ('key_env', models.CharField(blank=True, max_length=100)),
                ('temperature', models.FloatField(blank=True, null=True)),
                ('max_tokens', models.PositiveIntegerField(blank=True, null=True)),
                ('price_in', models.DecimalField(decimal_places=6, default=0, max_digits=12)),
                ('price_out', models.DecimalField(decimal_places=6, default=0, max_digits=12)),
                ('concurrency', models.PositiveSmallIntegerField(default=8)),
                ('timeout', models.FloatField(default=120)),
                ('rpm', models.PositiveIntegerField(blank=True, null=True)),
                ('tpm', models.PositiveIntegerField(blank=True, null=True)),
                ('batches', models.BooleanField(default=False)),
                ('batch_discount', models.DecimalField(decimal_places=3, default=Decimal('0.5'), max_digits=4)),
                ('simulated', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['name'],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('concurrency__gte', 1)), name='endpoint_concurrency_positive'),
                    models.CheckConstraint(condition=models.Q(('price_in__gte', 0), ('price_out__gte', 0)), name='endpoint_prices_not_negative'),
                    models.CheckConstraint(condition=models.Q(('timeout__gt', 0)), name='endpoint_timeout_positive'),
                    models.CheckConstraint(condition=models.Q(models.Q(('rpm__isnull', True), ('rpm__gte', 1), _connector='OR'), models.Q(('tpm__isnull', True), ('tpm__gte', 1), _connector='OR')), name='endpoint_rates_positive'),
                    models.CheckConstraint(condition=models.Q(('batch_discount__gte', 0), ('batch_discount__lte', 1)), name='endpoint_batch_discount_is_share'),
                ],
            },
        ),
        migrations.CreateModel(
            name='EndpointState',
            fields=[
                ('endpoint', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='state', serialize=False, to='generation.endpoint')),
                ('blocked_until', models.DateTimeField(blank=True, null=True)),
                ('because', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('openings', models.PositiveSmallIntegerField(default=0)),
                ('down_since', models.DateTimeField(blank=True, null=True)),
                ('bears', models.FloatField(default=1.0)),
            ],
        ),
        migrations.CreateModel(
            name='EndpointDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='days', to='generation.endpoint')),
                ('day', models.DateField()),
                ('calls', models.PositiveIntegerField(default=0)),
                ('hits', models.PositiveIntegerField(default=0)),
                ('failed', models.PositiveIntegerField(default=0)),
                ('tokens_in', models.PositiveBigIntegerField(default=0)),
                ('tokens_out', models.PositiveBigIntegerField(default=0)),
                ('tokens_cached', models.PositiveBigIntegerField(default=0)),
                ('tokens_reasoning', models.PositiveBigIntegerField(default=0)),
                ('cost', models.DecimalField(decimal_places=8, default=0, max_digits=18)),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('endpoint', 'day'), name='endpoint_day_once'),
                    models.CheckConstraint(condition=models.Q(('failed__lte', models.F('calls'))), name='endpoint_day_failed_are_calls'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', generation.models.jobs.KindField(editable=False, max_length=40)),
                ('status', models.CharField(choices=[('running', 'running'), ('paused', 'paused'), ('finished', 'finished'), ('cancelled', 'cancelled')], default='running', max_length=10)),
                ('paused_because', models.CharField(blank=True, default='', max_length=64)),
                ('paused_detail', models.TextField(blank=True, default='')),
                ('rests_until', models.DateTimeField(blank=True, null=True)),
                ('budget_money', models.DecimalField(blank=True, decimal_places=4, max_digits=14, null=True)),
                ('budget_calls', models.PositiveIntegerField(blank=True, null=True)),
                ('fresh', models.BooleanField(default=False)),
                ('calls', models.PositiveIntegerField(default=0)),
                ('hits', models.PositiveIntegerField(default=0)),
                ('failed', models.PositiveIntegerField(default=0)),
                ('tokens_in', models.PositiveBigIntegerField(default=0)),
                ('tokens_out', models.PositiveBigIntegerField(default=0)),
                ('tokens_cached', models.PositiveBigIntegerField(default=0)),
                ('tokens_reasoning', models.PositiveBigIntegerField(default=0)),
                ('cost', models.DecimalField(decimal_places=8, default=0, max_digits=18)),
                ('since_at', models.DateTimeField(blank=True, null=True)),
                ('since_calls', models.PositiveIntegerField(default=0)),
                ('since_hits', models.PositiveIntegerField(default=0)),
                ('then_at', models.DateTimeField(blank=True, null=True)),
                ('then_calls', models.PositiveIntegerField(default=0)),
                ('then_hits', models.PositiveIntegerField(default=0)),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('launch_key', models.CharField(blank=True, max_length=64, null=True, unique=True)),
                ('launch_digest', models.CharField(blank=True, default='', max_length=64)),
            ],
            options={
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('status__in', ['running', 'paused', 'finished', 'cancelled'])), name='job_status_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('budget_money__isnull', True), ('budget_money__gte', 0), _connector='OR'), models.Q(('budget_calls__isnull', True), ('budget_calls__gte', 0), _connector='OR')), name='job_budget_not_negative'),
                    models.CheckConstraint(condition=models.Q(('status', 'paused'), ('paused_because', ''), _connector='OR'), name='job_paused_because'),
                    models.CheckConstraint(condition=models.Q(('failed__lte', models.F('calls'))), name='job_failed_are_calls'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Source',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=100, unique=True)),
                ('format', models.CharField(max_length=40)),
                ('label', models.CharField(max_length=200)),
                ('licence', models.CharField(max_length=200)),
                ('citation', models.TextField()),
                ('restrictions', models.TextField(blank=True)),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='SourceRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='records', to='generation.source')),
                ('external_id', models.CharField(max_length=200)),
                ('title', models.CharField(max_length=300)),
                ('language', models.CharField(blank=True, max_length=16)),
                ('content', models.JSONField()),
                ('private', models.JSONField(blank=True, default=dict)),
                ('match', models.CharField(blank=True, max_length=64)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['match'], name='record_match'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('source', 'external_id'), name='record_once_per_source'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Reference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('record', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='refers', to='generation.sourcerecord')),
                ('format', models.CharField(max_length=40)),
                ('digest', models.CharField(max_length=64)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['digest', 'format', 'record'], name='reference_digest'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('record', 'format', 'digest'), name='reference_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Import',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('token', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('status', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('done', 'done'), ('failed', 'failed'), ('cancelled', 'cancelled')], default='queued', max_length=10)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='imports', to='generation.source')),
                ('file_name', models.CharField(max_length=300)),
                ('path', models.CharField(max_length=1000)),
                ('uploaded', models.BooleanField(default=False)),
                ('layout', models.CharField(blank=True, max_length=40)),
                ('rows', models.PositiveIntegerField(default=0)),
                ('added', models.PositiveIntegerField(default=0)),
                ('known', models.PositiveIntegerField(default=0)),
                ('refused', models.PositiveIntegerField(default=0)),
                ('facets', models.JSONField(default=dict)),
                ('joined', models.JSONField(default=dict)),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'failed', 'cancelled'])), name='import_status_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='import_leased_iff_running'),
                ],
            },
        ),
        migrations.CreateModel(
            name='ImportRefusal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='refusals', to='generation.import')),
                ('where', models.CharField(max_length=100)),
                ('reason', models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name='Comparison',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=64)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='comparisons', to='generation.source')),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'), descending=True)],
            },
        ),
        migrations.CreateModel(
            name='Batch',
            fields=[
                ('job_ptr', models.OneToOneField(auto_created=True, on_delete=django.db.models.deletion.CASCADE, parent_link=True, primary_key=True, serialize=False, to='generation.job')),
                ('benchmark', models.CharField(max_length=64)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='batches', to='generation.source')),
                ('plan', models.JSONField(blank=True, default=dict)),
                ('checks', models.JSONField(blank=True, default=list)),
                ('prompts', models.CharField(blank=True, max_length=64)),
                ('preset', models.CharField(blank=True, max_length=64)),
                ('settings', models.JSONField(blank=True, default=dict)),
                ('changed', models.JSONField(blank=True, default=list)),
                ('comparison', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='batches', to='generation.comparison')),
                ('arm', models.CharField(blank=True, max_length=1)),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'), descending=True)],
                'constraints': [
                    models.UniqueConstraint(fields=('comparison', 'arm'), name='batch_arm_once'),
                    models.CheckConstraint(condition=models.Q(models.Q(('arm', ''), ('comparison__isnull', True)), models.Q(('arm__in', ['A', 'B']), ('comparison__isnull', False)), _connector='OR'), name='batch_arm_of_a_comparison'),
                ],
            },
            bases=('generation.job',),
        ),
        migrations.CreateModel(
            name='BatchRole',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('batch', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='roles', to='generation.batch')),
                ('role', models.CharField(max_length=40)),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.endpoint')),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('batch', 'role'), name='batch_role_bound_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Lane',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='generation.job')),
                ('worker', models.CharField(blank=True, max_length=200)),
                ('until', models.DateTimeField()),
                ('flying', models.PositiveIntegerField(default=0)),
                ('holds', models.JSONField(default=dict)),
                ('started_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Call',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.job')),
                ('subject', models.CharField(max_length=40)),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='calls', to='generation.endpoint')),
                ('model', models.CharField(max_length=200)),
                ('prompt', models.CharField(blank=True, max_length=100)),
                ('sent', models.JSONField()),
                ('text', models.TextField(blank=True)),
                ('reasoning', models.TextField(blank=True)),
                ('finish_reason', models.CharField(blank=True, max_length=40)),
                ('tokens_in', models.PositiveIntegerField(default=0)),
                ('tokens_out', models.PositiveIntegerField(default=0)),
                ('tokens_cached', models.PositiveIntegerField(default=0)),
                ('tokens_reasoning', models.PositiveIntegerField(default=0)),
                ('cost', models.DecimalField(decimal_places=8, default=0, max_digits=18)),
                ('seconds', models.FloatField()),
                ('attempt', models.PositiveSmallIntegerField()),
                ('error', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('http_status', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('simulated', models.BooleanField(default=False)),
                ('identity', models.CharField(blank=True, max_length=64)),
                ('hit_of', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='hits', to='generation.call')),
                ('repeated', models.BooleanField(default=False)),
                ('attempt_id', models.UUIDField(blank=True, null=True, unique=True)),
                ('started_at', models.DateTimeField()),
            ],
            options={
                'indexes': [
                    models.Index(fields=['job', 'id'], name='generation__job_id_a567bd_idx'),
                    models.Index(fields=['subject', 'id'], name='generation__subject_e92ad9_idx'),
                    models.Index(condition=models.Q(('error', ''), ('hit_of__isnull', True)), fields=['identity', 'id'], name='call_identity'),
                    models.Index(condition=models.Q(('error', ''), _negated=True), fields=['job', 'id'], name='call_failed'),
                    models.Index(condition=models.Q(('hit_of__isnull', True)), fields=['endpoint', 'prompt', 'started_at'], name='call_prompt'),
                ],
            },
        ),
        migrations.CreateModel(
            name='JobError',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='generation.job')),
                ('error', models.CharField(max_length=64)),
                ('calls', models.PositiveIntegerField(default=0)),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('job', 'error'), name='job_error_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='SentImage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('media_type', models.CharField(max_length=40)),
                ('data', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='ProviderBatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('done', 'done'), ('dropped', 'dropped'), ('failed', 'failed')], default='queued', max_length=8)),
                ('token', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.job')),
                ('endpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.endpoint')),
                ('state', models.CharField(choices=[('prepared', 'prepared'), ('submitted', 'submitted'), ('collected', 'collected'), ('dropped', 'dropped')], default='prepared', max_length=9)),
                ('mark', models.UUIDField(default=uuid.uuid4, unique=True)),
                ('file', models.CharField(blank=True, max_length=200)),
                ('batch', models.CharField(blank=True, max_length=200)),
                ('said', models.CharField(blank=True, max_length=40)),
                ('asked_at', models.DateTimeField(blank=True, null=True)),
                ('submitted_at', models.DateTimeField(blank=True, null=True)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('next_at', models.DateTimeField()),
                ('lines_count', models.PositiveIntegerField()),
                ('answered', models.PositiveIntegerField(default=0)),
                ('refused', models.PositiveIntegerField(default=0)),
                ('missing', models.PositiveIntegerField(default=0)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'indexes': [
                    models.Index(fields=['status', 'next_at'], name='generation__status_7f4316_idx'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'dropped', 'failed'])), name='provider_batch_status_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='provider_batch_leased_iff_running'),
                    models.CheckConstraint(condition=models.Q(('state__in', ['prepared', 'submitted', 'collected', 'dropped'])), name='provider_batch_state_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('state__in', ['submitted', 'collected']), _negated=True), models.Q(models.Q(('batch', ''), _negated=True), ('asked_at__isnull', False)), _connector='OR'), name='provider_batch_submitted_has_id'),
                    models.CheckConstraint(condition=models.Q(models.Q(('state__in', ['prepared', 'submitted']), ('status__in', ['queued', 'running'])), models.Q(('state__in', ['collected', 'dropped']), ('status', 'done')), _connector='OR'), name='provider_batch_open_iff_work'),
                ],
            },
        ),
        migrations.CreateModel(
            name='ProviderLine',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('batch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='lines', to='generation.providerbatch')),
                ('custom_id', models.UUIDField(default=uuid.uuid4, unique=True)),
                ('subject', models.CharField(max_length=40)),
                ('identity', models.CharField(db_index=True, max_length=64)),
                ('prompt', models.CharField(blank=True, max_length=100)),
                ('sent', models.JSONField()),
                ('estimate', models.DecimalField(decimal_places=8, default=0, max_digits=18)),
                ('call', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='provider_line', to='generation.call')),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('batch', 'subject'), name='provider_line_once_per_row'),
                ],
            },
        ),
        migrations.CreateModel(
            name='WorkerBeat',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True)),
                ('seen_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Sample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=64)),
                ('task', models.CharField(max_length=40)),
                ('batch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='samples', to='generation.batch')),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='samples', to='generation.sourcerecord')),
                ('status', models.CharField(choices=[('in-review', 'in review'), ('regenerating', 'being regenerated'), ('approved', 'approved'), ('discarded', 'discarded'), ('withdrawn', 'withdrawn')], default='in-review', max_length=12)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'indexes': [
                    models.Index(fields=['benchmark', 'status'], name='generation__benchma_452044_idx'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('status__in', ['in-review', 'regenerating', 'approved', 'discarded', 'withdrawn'])), name='sample_status_known'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('done', 'done'), ('dropped', 'dropped'), ('failed', 'failed')], default='queued', max_length=8)),
                ('token', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('batch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='drafts', to='generation.batch')),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='drafts', to='generation.sourcerecord')),
                ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='children', to='generation.draft')),
                ('sample', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='drafts', to='generation.sample')),
                ('version', models.PositiveSmallIntegerField(default=1)),
                ('step', models.PositiveSmallIntegerField(default=0)),
                ('data', models.JSONField(default=dict)),
                ('preferred', models.JSONField(blank=True, default=list)),
                ('gate', models.CharField(blank=True, choices=[('stopped', 'stopped by a check'), ('let-through', 'sent to review'), ('discarded', 'discarded')], max_length=11)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['batch', 'status', 'id'], name='generation__batch_i_3481f5_idx'),
                    models.Index(fields=['status', 'lease_until'], name='generation__status_fb4391_idx'),
                    models.Index(condition=models.Q(('gate', ''), _negated=True), fields=['batch', 'gate', 'id'], name='draft_gated'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'dropped', 'failed'])), name='draft_status_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='draft_leased_iff_running'),
                    models.CheckConstraint(condition=models.Q(('gate', ''), models.Q(('gate__in', ['stopped', 'discarded']), ('status', 'dropped')), models.Q(('gate', 'let-through'), ('status', 'done')), _connector='OR'), name='draft_gate_fits_status'),
                    models.UniqueConstraint(condition=models.Q(('parent__isnull', True), ('sample__isnull', True)), fields=('batch', 'record'), name='draft_one_per_record'),
                    models.UniqueConstraint(condition=models.Q(('parent__isnull', True), ('sample__isnull', False)), fields=('sample', 'version'), name='draft_one_per_version'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Finding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('draft', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='findings', to='generation.draft')),
                ('check_name', models.CharField(max_length=40)),
                ('stops', models.BooleanField()),
                ('detail', models.TextField()),
                ('other', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.sample')),
                ('likeness', models.FloatField(blank=True, null=True)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'indexes': [
                    models.Index(fields=['check_name', 'stops'], name='generation__check_n_21fc0f_idx'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('draft', 'check_name'), name='finding_once_per_check'),
                ],
            },
        ),
        migrations.CreateModel(
            name='GateEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('draft', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='gate_events', to='generation.draft')),
                ('kind', models.CharField(choices=[('stopped', 'stopped by a check'), ('let-through', 'sent to review'), ('discarded', 'discarded')], max_length=11)),
                ('actor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('reason', models.TextField()),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='SampleVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sample', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='versions', to='generation.sample')),
                ('number', models.PositiveSmallIntegerField()),
                ('draft', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='version_made', to='generation.draft')),
                ('case', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='review.case')),
                ('title', models.CharField(max_length=300)),
                ('content', models.JSONField()),
                ('status', models.CharField(choices=[('in-review', 'in review'), ('approved', 'approved'), ('rejected', 'rejected'), ('withdrawn', 'withdrawn')], default='in-review', max_length=10)),
                ('reasons', models.JSONField(default=list)),
                ('citations', models.JSONField(default=list)),
                ('simulated', models.BooleanField(default=False)),
                ('prompt', models.CharField(blank=True, max_length=100)),
                ('generator', models.CharField(blank=True, max_length=100)),
                ('traps', models.JSONField(blank=True, default=list)),
                ('made', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'indexes': [
                    models.Index(fields=['status', 'id'], name='generation__status_2ceb80_idx'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('sample', 'number'), name='version_numbered_once'),
                    models.UniqueConstraint(condition=models.Q(('status__in', ['in-review', 'approved'])), fields=('sample',), name='version_one_alive'),
                    models.CheckConstraint(condition=models.Q(('status__in', ['in-review', 'approved', 'rejected', 'withdrawn'])), name='version_status_known'),
                ],
            },
        ),
        migrations.CreateModel(
            name='TextIndex',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=64, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name='Fingerprint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('index', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='fingerprints', to='generation.textindex')),
                ('version', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='fingerprint', to='generation.sampleversion')),
                ('digest', models.CharField(max_length=64)),
                ('signature', models.BinaryField()),
            ],
            options={
                'indexes': [
                    models.Index(fields=['index', 'digest'], name='generation__index_i_5c932b_idx'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Band',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('fingerprint', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='bands', to='generation.fingerprint')),
                ('value', models.BigIntegerField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name='Rubric',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='rubrics', to='generation.sampleversion')),
                ('key', models.CharField(max_length=16)),
                ('criterion', models.TextField()),
                ('traps', models.JSONField(default=list)),
                ('approved', models.TextField(blank=True)),
                ('severity', models.CharField(blank=True, max_length=40)),
                ('removed', models.BooleanField(default=False)),
                ('added', models.BooleanField(default=False)),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('version', 'key'), name='rubric_keyed_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='TaxonomyTerm',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=64)),
                ('code', models.CharField(max_length=16)),
                ('parent', models.CharField(blank=True, max_length=16)),
                ('label', models.CharField(max_length=100)),
                ('definition', models.TextField()),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('benchmark', 'code'), name='term_once_per_benchmark'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Release',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.SlugField(max_length=100)),
                ('version', models.PositiveIntegerField()),
                ('benchmark', models.CharField(max_length=64)),
                ('samples_count', models.PositiveIntegerField()),
                ('rubrics_count', models.PositiveIntegerField()),
                ('counts', models.JSONField()),
                ('generators', models.JSONField()),
                ('made', models.JSONField(default=dict)),
                ('grounds', models.JSONField(default=dict)),
                ('reviewers', models.JSONField(default=dict)),
                ('sources', models.JSONField()),
                ('simulated', models.BooleanField()),
                ('sha256', models.CharField(max_length=64)),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('created_at', models.DateTimeField()),
                ('trail_end', models.PositiveBigIntegerField(default=0)),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'), descending=True)],
                'constraints': [
                    models.UniqueConstraint(fields=('name', 'version'), name='release_versioned_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='ReleasedSample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('release', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='samples', to='generation.release')),
                ('position', models.PositiveIntegerField()),
                ('version', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='released', to='generation.sampleversion')),
                ('key', models.CharField(max_length=100)),
                ('task', models.CharField(max_length=40)),
                ('exported', models.JSONField()),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('release', 'position'), name='released_sample_positioned_once'),
                    models.UniqueConstraint(fields=('release', 'key'), name='released_sample_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='ReleasedRubric',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('sample', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='rubrics', to='generation.releasedsample')),
                ('key', models.CharField(max_length=16)),
                ('criterion', models.TextField()),
                ('traps', models.JSONField(default=list)),
                ('severity', models.CharField(blank=True, max_length=40)),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('sample', 'key'), name='released_rubric_keyed_once'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Facet',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rubric', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='facets', to='generation.releasedrubric')),
                ('name', models.CharField(max_length=40)),
                ('value', models.CharField(max_length=100)),
            ],
            options={
                'indexes': [
                    models.Index(fields=['name', 'value'], name='generation__name_68f6ad_idx'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('rubric', 'name', 'value'), name='facet_once_per_rubric'),
                ],
            },
        ),
        *map(AppendOnly, ['Release', 'ReleasedSample', 'ReleasedRubric', 'Facet', 'GateEvent']),
    ]
