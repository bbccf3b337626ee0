import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evaluation', '0005_launch_key'),
    ]

    operations = [
        migrations.AddField(
            model_name='response',
            name='about',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='run',
            name='seed',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='run',
            name='variants',
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AlterField(
            model_name='run',
            name='judge',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='judged_runs', to='generation.endpoint'),
        ),
    ]
