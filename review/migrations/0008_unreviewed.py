"""A case that nobody was to review ends on a ground of its own."""

from django.db import migrations, models

GROUNDS = [
    "",
    "consensus",
    "primary-alone",
    "unreviewed",
    "rubric-inadequate",
    "adjudicated",
    "undecided",
    "withdrawn",
]


class Migration(migrations.Migration):
    dependencies = [("review", "0007_second_factor_taken_away")]

    operations = [
        migrations.RemoveConstraint("case", "case_ground_known"),
        migrations.AddConstraint(
            "case", models.CheckConstraint(condition=models.Q(("ground__in", GROUNDS)), name="case_ground_known")
        ),
    ]
