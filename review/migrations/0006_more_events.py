"""More kinds of events. Choices are no matter of the database: no table is altered, and the triggers stay as they are."""

from django.db import migrations, models

EVENTS = [
    ("opened", "opened"),
    ("claimed", "claimed"),
    ("taken-over", "taken over after the lease ran out"),
    ("released", "given back"),
    ("expired", "lease ran out"),
    ("submitted", "submitted"),
    ("moved", "moved on"),
    ("closed", "closed"),
    ("withdrawn", "withdrawn"),
    ("prioritised", "priority changed"),
    ("specialty", "specialty changed"),
    ("revealed", "traps revealed"),
    ("retracted", "review taken back"),
    ("declined", "declined"),
    ("problem", "problem reported"),
    ("reassigned", "reassigned"),
    ("remarked", "remarked"),
]
PERSON_EVENTS = [
    ("made", "account made"),
    ("edited", "account changed"),
    ("paused", "paused"),
    ("resumed", "takes cases again"),
    ("closed", "account closed"),
    ("opened", "account opened again"),
    ("password", "new password"),
    ("calibration", "calibration given again"),
    ("item-made", "made a calibration case"),
    ("item-changed", "changed a calibration case"),
]


class Migration(migrations.Migration):
    dependencies = [("review", "0005_audit_chain")]

    operations = [
        migrations.AlterField("event", "kind", models.CharField(max_length=16, choices=EVENTS)),
        migrations.AlterField("personevent", "kind", models.CharField(max_length=16, choices=PERSON_EVENTS)),
    ]
