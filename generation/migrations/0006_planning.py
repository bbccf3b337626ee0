"""Trap plans, checks before review, sets of prompts. What made a version stands on the version."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from review.models.append_only import AppendOnly


def what_made_it(apps, schema_editor):
    """For versions from before: their traps, the endpoint of the recipe's first role, the prompt of the last good call."""
    Version, Role = apps.get_model("generation", "SampleVersion"), apps.get_model("generation", "BatchRole")
    Call, Rubric = apps.get_model("generation", "Call"), apps.get_model("generation", "Rubric")
    makers = {}
    for batch, name in Role.objects.order_by("pk").values_list("batch", "endpoint__name"):
        makers.setdefault(batch, name)
    for version in Version.objects.select_related("sample").only("pk", "draft_id", "sample__batch_id").iterator():
        traps = {}
        for some in Rubric.objects.filter(version=version, added=False).order_by("pk").values_list("traps", flat=True):
            traps.update(dict.fromkeys(some))
        call = Call.objects.filter(subject=f"draft:{version.draft_id}", error="").order_by("-pk").first()
        Version.objects.filter(pk=version.pk).update(
            traps=list(traps), generator=makers.get(version.sample.batch_id, ""), prompt=call.prompt if call else ""
        )


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0005_engine'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Band',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('value', models.BigIntegerField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name='Comparison',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField()),
            ],
            options={
                'ordering': [models.OrderBy(models.F('id'), descending=True)],
            },
        ),
        migrations.CreateModel(
            name='Finding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('check_name', models.CharField(max_length=40)),
                ('stops', models.BooleanField()),
                ('detail', models.TextField()),
                ('likeness', models.FloatField(blank=True, null=True)),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Fingerprint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(max_length=64)),
                ('signature', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='GateEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('stopped', 'stopped by a check'), ('let-through', 'let through'), ('discarded', 'discarded')], max_length=11)),
                ('reason', models.TextField()),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='TextIndex',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('benchmark', models.CharField(max_length=64, unique=True)),
            ],
        ),
        migrations.AddField(
            model_name='batch',
            name='arm',
            field=models.CharField(blank=True, max_length=1),
        ),
        migrations.AddField(
            model_name='batch',
            name='checks',
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name='batch',
            name='plan',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='batch',
            name='prompts',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name='draft',
            name='gate',
            field=models.CharField(blank=True, choices=[('stopped', 'stopped by a check'), ('let-through', 'let through'), ('discarded', 'discarded')], max_length=11),
        ),
        migrations.AddField(
            model_name='draft',
            name='preferred',
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name='sampleversion',
            name='generator',
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AddField(
            model_name='sampleversion',
            name='prompt',
            field=models.CharField(blank=True, max_length=100),
        ),
        migrations.AddField(
            model_name='sampleversion',
            name='traps',
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddIndex(
            model_name='draft',
            index=models.Index(condition=models.Q(('gate', ''), _negated=True), fields=['batch', 'gate', 'id'], name='draft_gated'),
        ),
        migrations.AddConstraint(
            model_name='draft',
            constraint=models.CheckConstraint(condition=models.Q(('gate', ''), models.Q(('gate__in', ['stopped', 'discarded']), ('status', 'dropped')), models.Q(('gate', 'let-through'), ('status', 'done')), _connector='OR'), name='draft_gate_fits_status'),
        ),
        migrations.AddField(
            model_name='comparison',
            name='created_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='comparison',
            name='source',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='comparisons', to='generation.source'),
        ),
        migrations.AddField(
            model_name='batch',
            name='comparison',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='batches', to='generation.comparison'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.UniqueConstraint(fields=('comparison', 'arm'), name='batch_arm_once'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('arm', ''), ('comparison__isnull', True)), models.Q(('arm__in', ['A', 'B']), ('comparison__isnull', False)), _connector='OR'), name='batch_arm_of_a_comparison'),
        ),
        migrations.AddField(
            model_name='finding',
            name='draft',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='findings', to='generation.draft'),
        ),
        migrations.AddField(
            model_name='finding',
            name='other',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='generation.sample'),
        ),
        migrations.AddField(
            model_name='fingerprint',
            name='version',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='fingerprint', to='generation.sampleversion'),
        ),
        migrations.AddField(
            model_name='band',
            name='fingerprint',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='bands', to='generation.fingerprint'),
        ),
        migrations.AddField(
            model_name='gateevent',
            name='actor',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='gateevent',
            name='draft',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='gate_events', to='generation.draft'),
        ),
        migrations.AddField(
            model_name='fingerprint',
            name='index',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='fingerprints', to='generation.textindex'),
        ),
        migrations.AddIndex(
            model_name='finding',
            index=models.Index(fields=['check_name', 'stops'], name='generation__check_n_21fc0f_idx'),
        ),
        migrations.AddConstraint(
            model_name='finding',
            constraint=models.UniqueConstraint(fields=('draft', 'check_name'), name='finding_once_per_check'),
        ),
        migrations.AddIndex(
            model_name='fingerprint',
            index=models.Index(fields=['index', 'digest'], name='generation__index_i_5c932b_idx'),
        ),
        AppendOnly("GateEvent"),
        migrations.RunPython(what_made_it, migrations.RunPython.noop),
    ]
