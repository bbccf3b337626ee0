"""Whose sampling settings the models under test are asked with."""

from django.db import migrations, models

SAMPLINGS = [
    ("protocol", "as the benchmark has it; the endpoints' own where it says nothing"),
    ("endpoint", "the endpoints' own settings alone"),
]


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0006_read")]

    operations = [
        migrations.AddField(
            "run", "sampling", models.CharField(choices=SAMPLINGS, default="protocol", max_length=8)
        ),
        migrations.AddConstraint(
            "run",
            models.CheckConstraint(
                condition=models.Q(("sampling__in", ["protocol", "endpoint"])), name="run_sampling_known"
            ),
        ),
    ]
