from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("generation", "0017_one_first")]

    operations = [
        migrations.AddField("sourcerecord", "revision", models.PositiveIntegerField(default=1)),
        migrations.AddField("sourcerecord", "latest", models.BooleanField(default=True)),
        migrations.RemoveConstraint("sourcerecord", "record_once_per_source"),
        migrations.AddConstraint(
            "sourcerecord",
            models.UniqueConstraint(fields=["source", "external_id", "revision"], name="record_once_per_source"),
        ),
        migrations.AddConstraint(
            "sourcerecord",
            models.UniqueConstraint(
                condition=models.Q(("latest", True)), fields=["source", "external_id"], name="record_latest_once"
            ),
        ),
        migrations.RenameField("import", "known", "same"),
        migrations.AddField("import", "differs", models.PositiveIntegerField(default=0)),
        migrations.AddField("import", "updates", models.BooleanField(default=False)),
        migrations.AddField("importrefusal", "differs", models.BooleanField(default=False)),
    ]
