import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('generation', '0012_launch_key'),
    ]

    operations = [
        migrations.CreateModel(
            name='Reference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('format', models.CharField(max_length=40)),
                ('digest', models.CharField(max_length=64)),
            ],
        ),
        migrations.AddField(
            model_name='import',
            name='facets',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='import',
            name='joined',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='sourcerecord',
            name='match',
            field=models.CharField(blank=True, default='', max_length=64),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name='sourcerecord',
            index=models.Index(fields=['match'], name='record_match'),
        ),
        migrations.AddField(
            model_name='reference',
            name='record',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='refers', to='generation.sourcerecord'),
        ),
        migrations.AddIndex(
            model_name='reference',
            index=models.Index(fields=['digest', 'format', 'record'], name='reference_digest'),
        ),
        migrations.AddConstraint(
            model_name='reference',
            constraint=models.UniqueConstraint(fields=('record', 'format', 'digest'), name='reference_once'),
        ),
    ]
