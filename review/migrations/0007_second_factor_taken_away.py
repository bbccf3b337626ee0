"""One more kind of event. Choices are no matter of the database: no table is altered, and the triggers stay as they are."""

from django.db import migrations, models

PERSON_EVENTS = [
    ("made", "account made"),
    ("edited", "account changed"),
    ("paused", "paused"),
    ("resumed", "takes cases again"),
    ("closed", "account closed"),
    ("opened", "account opened again"),
    ("password", "new password"),
    ("second-factor", "second factor taken away"),
    ("calibration", "calibration given again"),
    ("item-made", "made a calibration case"),
    ("item-changed", "changed a calibration case"),
]


class Migration(migrations.Migration):
    dependencies = [("review", "0006_more_events")]

    operations = [
        migrations.AlterField("personevent", "kind", models.CharField(max_length=16, choices=PERSON_EVENTS)),
    ]
