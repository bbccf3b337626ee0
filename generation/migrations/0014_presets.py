"""Presets of a recipe and how samples were made, kept with what was made; releases say why samples were approved."""

from django.db import migrations, models

from review.models.append_only import AppendOnly
from review.models.append_only import Changeable


class Migration(migrations.Migration):
    dependencies = [("generation", "0013_joins")]

    operations = [
        migrations.AddField("batch", "preset", models.CharField(blank=True, default="", max_length=64), preserve_default=False),
        migrations.AddField("batch", "settings", models.JSONField(blank=True, default=dict)),
        migrations.AddField("sampleversion", "made", models.JSONField(blank=True, default=dict)),
        Changeable("Release"),
        migrations.AddField("release", "made", models.JSONField(default=dict)),
        migrations.AddField("release", "grounds", models.JSONField(default=dict)),
        AppendOnly("Release"),
    ]
