import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from review.models.append_only import AppendOnly


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0009_values_and_bounds'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='BarrierRound',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('done', 'done'), ('dropped', 'dropped'), ('failed', 'failed')], default='queued', max_length=8)),
                ('token', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, max_length=64)),
                ('detail', models.TextField(blank=True)),
                ('step', models.PositiveSmallIntegerField()),
                ('number', models.PositiveIntegerField()),
                ('created_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('batch', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='rounds', to='generation.batch')),
            ],
            options={
                'indexes': [models.Index(fields=['status', 'lease_until'], name='generation__status_64146b_idx')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['queued', 'running', 'done', 'dropped', 'failed'])), name='barrier_round_status_known'), models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'running'), ('token__isnull', False)), models.Q(models.Q(('status', 'running'), _negated=True), ('lease_until__isnull', True), ('token__isnull', True)), _connector='OR'), name='barrier_round_leased_iff_running'), models.UniqueConstraint(fields=('batch', 'step', 'number'), name='barrier_round_once')],
            },
        ),
        migrations.RemoveConstraint(
            model_name='batchrole',
            name='batch_role_bound_once',
        ),
        migrations.AddConstraint(
            model_name='batchrole',
            constraint=models.UniqueConstraint(fields=('batch', 'role', 'endpoint'), name='batch_role_bound_once'),
        ),
        migrations.RemoveConstraint(
            model_name='draft',
            name='draft_one_per_record',
        ),
        migrations.AddField(
            model_name='draft',
            name='at_barrier',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='draft',
            name='endpoint',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.endpoint'),
        ),
        migrations.AddField(
            model_name='draft',
            name='onward',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='arrivals', to='generation.draft'),
        ),
        migrations.AddField(
            model_name='draft',
            name='round',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='drafts', to='generation.barrierround'),
        ),
        migrations.AddConstraint(
            model_name='draft',
            constraint=models.UniqueConstraint(condition=models.Q(('endpoint__isnull', True), ('parent__isnull', True), ('sample__isnull', True)), fields=('batch', 'record'), name='draft_one_per_record'),
        ),
        migrations.AddConstraint(
            model_name='draft',
            constraint=models.UniqueConstraint(condition=models.Q(('endpoint__isnull', False), ('parent__isnull', True), ('sample__isnull', True)), fields=('batch', 'record', 'endpoint'), name='draft_one_per_endpoint'),
        ),
        migrations.CreateModel(
            name='MergeEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('merged', 'merged'), ('undone', 'merge undone')], max_length=6)),
                ('distance', models.FloatField(blank=True, null=True)),
                ('reason', models.TextField()),
                ('withdrawn', models.CharField(blank=True, max_length=120)),
                ('at', models.DateTimeField()),
                ('actor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('draft', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='merge_events', to='generation.draft')),
                ('into', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.draft')),
            ],
            options={
                'indexes': [models.Index(fields=['draft', 'id'], name='generation__draft_i_c3e496_idx')],
                'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['merged', 'undone'])), name='merge_event_kind_known')],
            },
        ),
        AppendOnly('MergeEvent'),
    ]
