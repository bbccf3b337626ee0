"""A release says how many reviewed its samples, and how many of them were simulated."""

from django.db import migrations, models

from review.models.append_only import AppendOnly
from review.models.append_only import Changeable


def count_the_simulated(apps, schema_editor):
    """For releases from before, where simulated reviewers had a part; the others keep their data card as it was."""
    Release, ReleasedSample = (apps.get_model("generation", name) for name in ("Release", "ReleasedSample"))
    for release in Release.objects.all():
        rows = ReleasedSample.objects.filter(release=release, version__case__reviews__retraction__isnull=True)
        who = rows.values_list("version__case__reviews__physician", "version__case__reviews__physician__simulated")
        physicians = {key: simulated for key, simulated in who.distinct().order_by() if key}
        if simulated := sum(physicians.values()):
            samples = rows.filter(version__case__reviews__physician__simulated=True).values("pk").distinct().count()
            reviewers = {"physicians": len(physicians), "simulated": simulated, "simulated_samples": samples}
            Release.objects.filter(pk=release.pk).update(reviewers=reviewers)


class Migration(migrations.Migration):
    dependencies = [("generation", "0017_uploads"), ("review", "0011_workbench")]

    operations = [
        Changeable("Release"),
        migrations.AddField("Release", "reviewers", models.JSONField(default=dict)),
        migrations.RunPython(count_the_simulated, migrations.RunPython.noop),
        AppendOnly("Release"),
    ]
