"""A release knows where the trail ended when it was frozen. What is written once is protected from TRUNCATE too."""

from django.db import migrations, models

from review.models.append_only import AppendOnly
from review.models.append_only import Changeable

WRITTEN_ONCE = ("Release", "ReleasedSample", "ReleasedRubric", "Facet")


def end_of_the_trail(apps, schema_editor):
    """For releases from before: the last event that had happened by then."""
    Release, Event = apps.get_model("generation", "Release"), apps.get_model("review", "Event")
    for release in Release.objects.all():
        happened = Event.objects.filter(at__lte=release.created_at).aggregate(end=models.Max("sequence"))
        Release.objects.filter(pk=release.pk).update(trail_end=happened["end"] or 0)


class Migration(migrations.Migration):
    dependencies = [("generation", "0003_severity"), ("review", "0005_audit_chain")]

    operations = [
        *map(Changeable, WRITTEN_ONCE),
        migrations.AddField("Release", "trail_end", models.PositiveBigIntegerField(default=0)),
        migrations.RunPython(end_of_the_trail, migrations.RunPython.noop),
        *map(AppendOnly, WRITTEN_ONCE),
    ]
