"""Which settings of its preset a launch changed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("generation", "0014_presets")]

    operations = [migrations.AddField("batch", "changed", models.JSONField(blank=True, default=list))]
